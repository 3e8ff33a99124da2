"""What happened in one exchange, for the log line and the response headers. Never the words themselves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dragoman.config.model import TargetName
from dragoman.exchange.ask import Ask
from dragoman.exchange.interventions import InterventionLog
from dragoman.governance.snapshot import Snapshot
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed, ReplyFinished
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.tally import Tally
from dragoman.hub.usage import Usage
from dragoman.telemetry.log import make_printable

#: A header must stay short, whatever was lost; so must a line of the log.
MAX_HEADER = 900
MAX_SHOWN = 300

REQUEST_ID_HEADER = {"anthropic": "request-id"}
#: Where a provider that keeps sessions says which one answered, and a client says which one to continue.
SESSION_HEADER = "x-session-id"


class Tried(NamedTuple):
    """One try of one target. Seconds are since the exchange began."""

    target: TargetName
    began: float
    ended: float
    #: Why it was not, or not well, answered.
    failure: Failure | None
    #: Whether the target cools down because of it.
    cools: bool


class Record:
    """Filled in as the exchange goes on."""

    def __init__(self, ask: Ask) -> None:
        self.dialect = ask.dialect
        self.request_id = ask.request_id
        self.agent = ask.agent
        self.caller = ask.caller
        #: The client's own trace, if it keeps one.
        self.traceparent = ask.headers.get("traceparent", "")
        self.tracestate = ask.headers.get("tracestate", "")
        self.model = ask.model
        self.stream = False
        self.route = ""
        self.target: TargetName | None = None
        #: Another target may still take over.
        self.has_alternatives = False
        self.lane = ""
        self.tries = 0
        #: The tries that came to an end.
        self.attempts: list[Tried] = []
        self.losses: Sequence[Loss] = ()
        self.reply_losses = Losses()
        #: What governance did.
        self.interventions = InterventionLog()
        #: The reply before and after, where a route asks for that.
        self.snapshot: Snapshot | None = None
        self.tally: Tally | None = None
        #: The HTTP status that the client got; 0 if it got none.
        self.status = 0
        #: Seconds since the exchange began; 0 if it never came to it.
        self.first_token = 0.0
        self.seconds = 0.0
        #: The client left, or was given up, before the reply had ended.
        self.is_cancelled = False
        #: Why no reply could be given, or why the one that began broke off.
        self.refused: Failure | None = None
        self.broken: Failure | None = None
        #: What the upstream calls the exchange.
        self.upstream_id = ""
        #: The upstream's session that answered, if it keeps any.
        self.session = ""
        #: Tokens of the prompts before the last one, where the upstream had to be asked again.
        self.earlier_input = 0
        #: What was used, however the exchange ended.
        self.used = Usage()
        #: In micro-dollars; None if nobody knows the price.
        self.cost: int | None = None

    @property
    def failure(self) -> Failure | None:
        return self.refused or self.broken

    @property
    def retries(self) -> int:
        return max(0, self.tries - 1)

    @property
    def ending(self) -> str:
        """In the hub's words: finished, failed, truncated or cancelled."""
        if self.is_cancelled:
            return "cancelled"
        if self.refused is not None:
            return "failed"
        match self.tally.ending if self.tally else None:
            case ReplyFinished():
                return "finished"
            case ReplyFailed(ending):
                return ending
            case None:
                return "failed"

    def headers(self, *, is_waiting: bool = False) -> dict[str, str]:
        """What the client may know: which request, which target, what was lost, how often it was tried.

        While it is still waiting for an answer, only what will be true whoever gives it.
        """
        headers = {REQUEST_ID_HEADER.get(self.dialect, "x-request-id"): self.request_id}
        if is_waiting and self.has_alternatives:
            return headers
        if self.target is not None:
            headers["x-dragoman-target"] = make_printable(str(self.target))
        if self.session:
            headers[SESSION_HEADER] = make_printable(self.session)
        if self.retries and not is_waiting:
            headers["x-dragoman-retries"] = str(self.retries)
        if self.losses:
            headers["x-dragoman-losses"] = make_printable(f"{len(self.losses)}: {_listed(self.losses)}")
        if self.interventions:
            headers["x-dragoman-repairs"] = make_printable(str(self.interventions))
        return headers

    def line(self) -> Mapping[str, object]:
        """The exchange in one log line; what was not the case is left out."""
        tally, failure = self.tally, self.failure
        usage = tally.usage if tally else None
        ending = tally.ending if tally else None
        losses = (*self.losses, *self.reply_losses)
        line = {
            "request": self.request_id,
            "client": self.dialect,
            "agent": make_printable(self.agent)[:80],
            "key": self.caller.name,
            "model": self.model[:MAX_SHOWN],
            "route": self.route,
            "target": str(self.target)[:MAX_SHOWN] if self.target else "",
            "session": self.session,
            "lane": self.lane,
            "stream": self.stream,
            "ending": self.ending,
            "cause": (ending.raw_cause or ending.cause)[:40] if isinstance(ending, ReplyFinished) else "",
            "status": self.status,
            "error": f"{failure.kind}: {failure.message}"[:MAX_SHOWN] if failure else "",
            "upstream_request": make_printable(self.upstream_id)[:80],
            "input": usage.input if usage else None,
            "cached": usage.cache_read if usage else None,
            "output": usage.output if usage else None,
            "cost": None if self.cost is None else self.cost / 1e6,
            "first_token": round(self.first_token, 4) if self.first_token else None,
            "seconds": round(self.seconds, 4),
            "retries": self.retries,
            "losses": len(losses),
            "lost": _listed(losses)[:MAX_SHOWN],
            "interventions": len(self.interventions) if self.interventions.is_governed else None,
        }
        return {name: value for name, value in line.items() if value not in (None, "")}

    def governance_lines(self) -> Iterator[Mapping[str, object]]:
        """What governance did, one log line each."""
        for noted in self.interventions:
            yield {
                "request": self.request_id,
                "client": self.dialect,
                "model": self.model[:MAX_SHOWN],
                "stream": self.stream,
                "calls": self.tally.calls if self.tally else 0,
                **noted.line(),
            }


def _listed(losses: Sequence[Loss]) -> str:
    return "; ".join(str(loss) for loss in losses[:20])
