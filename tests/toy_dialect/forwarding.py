"""Rules for forwarding a stream of the toy API."""

from typing import TYPE_CHECKING

from dragoman.dialects.forwarding import ForwardedEnding, Forwarding, read_payloads

if TYPE_CHECKING:
    from dragoman.dialects.base import Dialect


class ToyEnding(ForwardedEnding):
    def has_failure(self, events: bytes) -> bool:
        return any("failed" in payload for payload in read_payloads(events))


class ToyForwarding(Forwarding):
    reply_path = "begin"
    reply_mark = b'"begin"'

    def is_delta_run(self, events: bytes) -> bool:
        deltas = events.count(b'data: {"text":')
        return deltas > 0 and events.count(b"\n\n") == deltas

    def build_ending(self, dialect: "Dialect") -> ForwardedEnding:
        return ToyEnding(dialect)


FORWARDING = ToyForwarding()
