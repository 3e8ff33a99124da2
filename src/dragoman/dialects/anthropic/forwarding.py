"""Rules for forwarding a stream of the Messages API."""

from collections.abc import Mapping
from typing import ClassVar

from dragoman.dialects.forwarding import ContentName, Forwarding, compile_delta_pattern


class AnthropicForwarding(Forwarding):
    closing_mark = b'"message_stop"'
    closing_event = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    reply_path = "message"
    reply_mark = b'"message_start"'
    deltas = compile_delta_pattern(b"content_block_delta")
    content_words: ClassVar[Mapping[ContentName, tuple[bytes, ...]]] = {
        "images": (b'"image"',),
        "web_search": (b"web_search",),
        "uncounted": (b'"image"', b'"document"', b'"tool_addition"'),
    }

    def is_delta_run(self, events: bytes) -> bool:
        deltas = events.count(b"event: content_block_delta\ndata: ")
        return deltas > 0 and events.count(b"\n\n") == deltas

    def may_answer(self, events: bytes) -> bool:
        thoughts = events.count(b'"thinking_delta"') + events.count(b'"signature_delta"')
        return thoughts != events.count(b"\n\n")


FORWARDING = AnthropicForwarding()
