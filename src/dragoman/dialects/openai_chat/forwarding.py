"""Rules for forwarding a stream of the Chat Completions API. `usage` hides the usage."""

import re
from collections.abc import Mapping
from typing import ClassVar

from dragoman.dialects.event_template import EventTemplate
from dragoman.dialects.forwarding import ContentName, Forwarding, Members, RequestPeek, peek_members
from dragoman.dialects.openai_chat.usage import hide_usage, hides_usage, request_usage

#: Members of a delta that hold an answer, with a value that is not empty.
_ANSWER = re.compile(
    rb'"(?:content|refusal)":(?!null|"")|"(?:tool_calls|function_call|images)":(?!null|\[\])',
)

#: A text of a delta.
_TEXT = re.compile(
    rb'"(?:content|arguments|reasoning|reasoning_content)": ?"([^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+)"'
)


class ChatForwarding(Forwarding):
    """How a Chat stream is forwarded: it may have to lose its usage chunk."""

    closing_mark = b"[DONE]"
    closing_event = b"data: [DONE]\n\n"
    # Deltas hold strings only, and quotes inside them are escaped.
    repeats_model = True
    has_templates = True
    special_mark = b'"thought_signature"'
    content_marks: ClassVar[Mapping[str, bytes]] = {
        "images": b'"image_url"',
        "documents": b'"file"',
        "audio": b'"input_audio"',
        "video": b'"video_url"',
    }
    content_words: ClassVar[Mapping[ContentName, tuple[bytes, ...]]] = {
        "images": (b'"image_url"',),
        "web_search": (b"web_search",),
        "uncounted": (b'"image_url"', b'"file"', b'"input_audio"', b'"video_url"'),
    }

    def peek(self, members: Members) -> RequestPeek | None:
        found = peek_members(members)
        if found is None:
            return None
        model, stream, options = found
        asks_for_usage = isinstance(options, dict) and options.get("include_usage") is True
        return RequestPeek(
            model, stream, hides_usage=hides_usage(stream=stream, asks_for_usage=asks_for_usage)
        )

    def request_usage(self, body: bytes) -> bytes:
        return request_usage(body)

    def is_delta_run(self, events: bytes) -> bool:
        unfinished = events.count(b'"finish_reason":null')
        return (
            unfinished > 0
            # One line and a blank line for each chunk.
            and events.count(b"\n") == 2 * unfinished
            # A chunk with several choices may hide one that ends, or a chunk with other white space.
            and events.count(b'"finish_reason"') == unfinished
            and events.find(b'"error"') < 0
            and events.find(b"[DONE]") < 0
            and (events.find(b'"usage"') < 0 or events.count(b'"usage"') == events.count(b'"usage":null'))
        )

    def find_template(self, event: bytes) -> EventTemplate | None:
        texts = _TEXT.finditer(event)
        longest = max(texts, key=lambda found: len(found[1]), default=None)
        if longest is None or not longest[1] or event[:6] != b"data: " or event[-2:] != b"\n\n":
            return None
        return EventTemplate(event[6 : longest.start(1)], event[longest.end(1) : -2])

    def may_answer(self, events: bytes) -> bool:
        return _ANSWER.search(events) is not None

    def select(self, events: bytes, *, hides_usage: bool) -> bytes:
        return hide_usage(events) if hides_usage else events


FORWARDING = ChatForwarding()
