"""Rules for forwarding a stream of the Responses API."""

from typing import TYPE_CHECKING

from dragoman.dialects.forwarding import Forwarding, compile_delta_pattern
from dragoman.dialects.openai_responses.forwarded_ending import ResponsesEnding

if TYPE_CHECKING:
    from dragoman.dialects.dialect import Dialect


class ResponsesForwarding(Forwarding):
    reply_path = "response"
    reply_mark = b'"response"'
    special_mark = b'"configuration_update"'
    deltas = compile_delta_pattern(rb"[^\n]*\.delta")

    def is_delta_run(self, events: bytes) -> bool:
        deltas = events.count(b".delta\ndata: ")
        return deltas > 0 and events.count(b"\n\n") == deltas

    def may_answer(self, events: bytes) -> bool:
        return events.count(b"event: response.reasoning") != events.count(b"\n\n")

    def build_ending(self, dialect: "Dialect") -> ResponsesEnding:
        return ResponsesEnding(dialect)


FORWARDING = ResponsesForwarding()
