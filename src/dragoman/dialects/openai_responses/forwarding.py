"""Rules for forwarding a stream of the Responses API."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from dragoman.dialects.forwarding import ContentName, Forwarding, compile_delta_pattern
from dragoman.dialects.openai_responses.forwarded_ending import ResponsesEnding

if TYPE_CHECKING:
    from dragoman.dialects.dialect import Dialect

_IMAGES = (b'"input_image"', b'"image_generation_call"')


class ResponsesForwarding(Forwarding):
    reply_path = "response"
    reply_mark = b'"response"'
    special_mark = b'"configuration_update"'
    deltas = compile_delta_pattern(rb"[^\n]*\.delta")
    content_words: ClassVar[Mapping[ContentName, tuple[bytes, ...]]] = {
        "images": _IMAGES,
        "web_search": (b"web_search",),
        "uncounted": (
            *_IMAGES,
            b'"input_file"',
            b'"input_audio"',
            b'"additional_tools"',
            b'"tool_search_output"',
        ),
    }

    def is_delta_run(self, events: bytes) -> bool:
        deltas = events.count(b".delta\ndata: ")
        return deltas > 0 and events.count(b"\n\n") == deltas

    def may_answer(self, events: bytes) -> bool:
        return events.count(b"event: response.reasoning") != events.count(b"\n\n")

    def build_ending(self, dialect: "Dialect") -> ResponsesEnding:
        return ResponsesEnding(dialect)


FORWARDING = ResponsesForwarding()
