"""Rules for forwarding a stream of the toy API."""

from typing import TYPE_CHECKING

from dragoman.dialects.forwarded_ending import ForwardedEnding
from dragoman.dialects.forwarding import Forwarding

if TYPE_CHECKING:
    from dragoman.dialects.dialect import Dialect


class ToyEnding(ForwardedEnding):
    def is_failure(self, payload: dict[str, object]) -> bool:
        return "failed" in payload


class ToyForwarding(Forwarding):
    reply_path = "begin"
    reply_mark = b'"begin"'

    def is_delta_run(self, events: bytes) -> bool:
        deltas = events.count(b'data: {"text":')
        return deltas > 0 and events.count(b"\n\n") == deltas

    def build_ending(self, dialect: "Dialect") -> ForwardedEnding:
        return ToyEnding(dialect)


FORWARDING = ToyForwarding()
