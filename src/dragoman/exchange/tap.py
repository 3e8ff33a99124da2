"""The port of a recorder: what it sees of an exchange while that runs.

The gateway has at most one `ExchangeRecorder`. It decides at the beginning of each exchange whether it needs
a tap. Without one, nothing is called and no byte is looked at.
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Protocol

from dragoman.agents import ClientIdentity
from dragoman.config.config import Route
from dragoman.config.provider import TargetName
from dragoman.exchange.client import Client
from dragoman.pipeline.plan import RequestPlan
from dragoman.upstream.port import UpstreamReply
from dragoman.wire.sse import Output

if TYPE_CHECKING:
    from dragoman.exchange.record import ExchangeRecord


class ExchangeTap(Protocol):
    """Sees the bytes of one exchange. None of its methods waits or raises."""

    @property
    def identity(self) -> ClientIdentity: ...

    def wrap_client(self, client: Client) -> Client:
        """A client that passes everything on to this one and records it. Called before anything is sent."""
        ...

    def keep_turn(
        self, output: Output | bytes, headers: Mapping[str, str] | None = None
    ) -> Awaitable[None] | None:
        """Keep the exchange, whose record is complete. The end of the reply waits for the result, if any.

        Called before that end is sent, with the last output; a whole reply also has `headers`.
        """
        ...

    def note_request(self, target: TargetName, dialect: str, body: bytes) -> int:
        """Called before each request to an upstream, with its body and its dialect. Returns its number."""
        ...

    def wrap_reply(self, number: int, reply: UpstreamReply) -> UpstreamReply:
        """A reply with the same content that is also recorded, as the reply to this request."""
        ...

    def mark_answer(self, number: int) -> None:
        """The client gets the reply to this request, of two that ran at once: it counts as the last one."""
        ...


class ExchangeRecorder(Protocol):
    """Builds the taps."""

    def start(self, record: "ExchangeRecord", plan: RequestPlan, route: Route | None) -> ExchangeTap | None:
        """The tap of an exchange whose route is known now; None if nothing of it is recorded.

        Without a route: the exchange is refused before one was chosen.
        """
        ...


class TappedSender(Protocol):
    """What sends the reply. `exchange.sender.ResponseSender` implements it."""

    def tap_client(self, tap: ExchangeTap) -> None: ...


def start_tap(
    recorder: ExchangeRecorder | None,
    record: "ExchangeRecord",
    plan: RequestPlan,
    route: Route | None,
    sender: TappedSender,
) -> None:
    """Let the recorder see an exchange from now on, unless it does already."""
    if recorder is not None and record.tap is None:
        record.tap = recorder.start(record, plan, route)
        if record.tap is not None:
            sender.tap_client(record.tap)
