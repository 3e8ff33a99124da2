"""Checks a stream against the grammar of the toy API."""

from dragoman.dialects.interfaces import Violation
from dragoman.dialects.stream_check_toolkit import FieldRules, StreamChecker, fields, one_of

_PAYLOADS: dict[str, FieldRules] = {
    "begin": {"begin": fields("id model", "name")},
    "text": {"text": "name"},
    "call": {"call": fields("id tool", "name")},
    "input": {"input": "name"},
    "end": {"end": one_of("done calls limit"), "usage": fields("in out", "count")},
    "failed": {"failed": fields("kind message", "name")},
    "ping": {},
}
_PART = {"text": "BODY", "call": "CALL", "end": "DONE", "failed": "DONE"}
_MOVES = {
    "NEW": {"begin": "BODY", "failed": "DONE"},
    "BODY": {**_PART, "ping": "BODY"},
    "CALL": {**_PART, "input": "CALL", "ping": "CALL"},
    "DONE": {},
}


class ToyChecker(StreamChecker):
    def check_frame(self, event: str, data: bytes) -> None:
        payload = self.decode(data)
        if payload is None:
            return
        kind = next(iter(payload), "")
        if self.require(kind in _PAYLOADS, "an unknown payload") and self.move(kind):
            self.check_fields(payload, _PAYLOADS[kind])

    def check_end(self) -> None:
        self.require(self.state == "DONE", "the stream ends before `end` or `failed`")


def check_stream(stream: bytes) -> list[Violation]:
    return ToyChecker(_MOVES).check_sse_stream(stream)
