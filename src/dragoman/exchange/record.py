"""`ExchangeRecord`: what happened in one exchange, for logs, metrics, traces and headers.

It holds no content of requests or replies, except in `reply_snapshots`, which the configuration must enable.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import NamedTuple

from dragoman.accounts.estimates import ExchangeOutcome, OtherCall
from dragoman.accounts.keys import Caller
from dragoman.config.provider import TargetName
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.interventions import InterventionLog
from dragoman.exchange.kind import MAX_SHORT, MAX_SHOWN, ExchangeKind
from dragoman.exchange.tap import ExchangeTap
from dragoman.gateway_tools.target_tools import RunRecord
from dragoman.governance.reply_snapshots import SnapshotPair
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed, ReplyFinished
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.tally import Tally
from dragoman.hub.usage import Usage
from dragoman.pipeline.plan import RequestMetadata
from dragoman.telemetry.log import make_printable
from dragoman.telemetry.redaction import Redactor

#: Characters of the losses in a header, and of the cause of an ending.
MAX_LISTED = 880
MAX_CAUSE = 40

#: Seconds of one step of uvloop's clock. A reply that begins sooner counts as one step: 0 means no content.
CLOCK_STEP = 0.001

#: In a response: the session of the provider that answered. In a request: the session to continue.
SESSION_HEADER = "x-session-id"


#: What belongs to one call, of the fields of a record.
_CALL_FIELDS = (
    *("target", "redactor", "lane", "losses", "reply_losses", "tally", "reply_snapshots"),
    *("upstream_id", "session", "upstream_limits"),
)


class AttemptRecord(NamedTuple):
    """One call of one target. Seconds are since the exchange began."""

    target: TargetName
    began: float
    ended: float
    #: Why the call failed, if it did.
    failure: Failure | None
    #: Whether the target is not used for a while because of it.
    cools: bool


class ExchangeRecord:
    """What happened in one exchange. Filled in while it runs; observers see it when it has ended."""

    #: The rule that chose the targets, and its route.
    rule = ""
    route = ""
    stream = False
    #: What rules had to find out about the request: its class, its roles and its project.
    traits: Mapping[str, str] = MappingProxyType({})
    target: TargetName | None = None
    #: Knows the secrets of the last call, which its reply may repeat; None before the first call.
    redactor: Redactor | None = None
    #: There are other targets that can take over before the first content.
    has_alternatives = False
    lane = ""
    tries = 0
    losses: Sequence[Loss] = ()
    reply_losses: Sequence[Loss] | Losses = ()
    #: The reply before and after governance, if the settings ask for it.
    reply_snapshots: SnapshotPair | None = None
    #: The runs of the gateway's own tools.
    tool_runs: Sequence[RunRecord] = ()
    tally: Tally | None = None
    #: Records the exchange, if the settings ask for it.
    tap: ExchangeTap | None = None
    #: The HTTP status that was sent to the client; 0 if none was.
    status = 0
    #: Seconds from the beginning of the exchange to the first content; 0 if there was none.
    first_token_seconds = 0.0
    seconds = 0.0
    #: The client closed the connection, or accepted nothing for too long, before the reply had ended.
    is_cancelled = False
    #: Why no target could answer, or why a reply that had begun failed.
    refused: Failure | None = None
    broken: Failure | None = None
    #: The upstream's id of the request.
    upstream_id = ""
    #: The upstream's session that answered, if it keeps any.
    session = ""
    #: Its rate-limit headers, in the client's dialect.
    upstream_limits: Mapping[str, str] = MappingProxyType({})
    #: The tokens used, reported or estimated.
    used = Usage()
    #: In micro-dollars; None if the price is unknown.
    cost: int | None = None
    #: What the prompt cache saved, in the same way.
    saved: int | None = None
    _kind: ExchangeKind | None = None
    #: What the rounds generated before the last one.
    _generated: OtherCall | None = None

    def __init__(self, metadata: RequestMetadata, caller: Caller) -> None:
        self.dialect = metadata.dialect
        self.request_id = metadata.request_id
        #: The `user-agent` of the client; and its name, its session and its sub-agent.
        self.agent = metadata.agent
        self.identity = metadata.identity
        self.caller = caller
        self.model = metadata.model
        #: Those of the client's request.
        self._headers = metadata.headers
        #: The calls that have ended.
        self.attempts: list[AttemptRecord] = []
        #: The calls that upstreams answered besides the last one: earlier rounds, and slow calls.
        self.other_calls: list[OtherCall] = []
        #: What governance changed.
        self.interventions = InterventionLog()

    @property
    def traceparent(self) -> str:
        """The client's own trace; empty if it has none."""
        return self._headers.get("traceparent", "")

    @property
    def tracestate(self) -> str:
        return self._headers.get("tracestate", "")

    @property
    def failure(self) -> Failure | None:
        return self.refused or self.broken

    @property
    def spent_tokens(self) -> int:
        """The tokens of all calls so far."""
        return sum(call.usage.total for call in self.list_calls())

    def end_round(self) -> None:
        """Keep the usage of the prompt of a round, which the next round's replaces."""
        usage = self.tally.usage if self.tally else None
        if self.tally is not None:
            self.tally.has_round_content = False
        if usage is not None and self.target is not None:
            self.other_calls.append(OtherCall(self.target, usage.select_prompt()))
            self._generated = OtherCall(self.target, usage.select_generated())

    def list_other_calls(self) -> list[OtherCall]:
        """The calls to charge besides the last one, whose usage counts only if it was accepted."""
        if self._generated is None or _is_accepted(self, self.ending):
            return self.other_calls
        return [*self.other_calls, self._generated]

    def drop_rounds(self) -> None:
        """Charge what the rounds of a reply that is given up generated. Their prompts are kept already."""
        usage = self.tally.usage if self.tally else None
        if usage is not None and self.target is not None:
            self.other_calls.append(OtherCall(self.target, usage.select_generated()))
        self.tally = self._generated = None

    def list_calls(self) -> list[OtherCall]:
        """The calls that upstreams answered so far, also the last one."""
        usage = self.tally.usage if self.tally else None
        if usage is None or self.target is None:
            return self.other_calls
        return [*self.other_calls, OtherCall(self.target, usage)]

    def fork(self) -> "ExchangeRecord":
        """A record for one of two calls that run at once, until it is known which of them answers."""
        forked = copy(self)
        forked.other_calls, forked.tally = [], None
        return forked

    def adopt(self, forked: "ExchangeRecord") -> None:
        """Take over what is known of the call that answers, or of the last one that failed."""
        for name in _CALL_FIELDS:
            setattr(self, name, getattr(forked, name))

    def add_slow_call(self, forked: "ExchangeRecord", received_bytes: int) -> None:
        """Charge a call that is cancelled because another one answers, or because the client is gone."""
        usage = forked.tally.usage if forked.tally else None
        if forked.target is not None:
            self.other_calls.append(
                OtherCall(forked.target, usage or Usage(), is_cancelled=True, received_bytes=received_bytes)
            )

    @property
    def role(self) -> str:
        """The roles that rules found in the system text, else `main` or `sub-agent`."""
        return self.traits.get("role") or self.identity.part

    @property
    def retries(self) -> int:
        return max(0, self.tries - 1)

    def mark_first_token(self, seconds: float) -> None:
        """Record that the first content came after `seconds`. A second call changes nothing."""
        self.first_token_seconds = self.first_token_seconds or max(seconds, CLOCK_STEP)

    def list_failed_attempts(self) -> str:
        """The targets whose calls failed before the last one, each with the reasons and their number."""
        if not self.retries:
            return ""
        failed = Counter(
            f"{attempt.target} ({attempt.failure.kind} {attempt.failure.http_status}"
            for attempt in self.attempts[: self.retries]
            if attempt.failure is not None
        )
        return ", ".join(
            f"{each}, {count} times)" if count > 1 else f"{each})" for each, count in failed.items()
        )

    @property
    def ending(self) -> str:
        """How the exchange ended: finished, failed, truncated or cancelled."""
        if self.is_cancelled:
            return "cancelled"
        if self.refused is not None:
            return "failed"
        ending = self.tally.ending if self.tally else None
        if isinstance(ending, ReplyFailed):
            return ending.ending
        return "failed" if ending is None else "finished"

    def headers(self, *, is_waiting: bool = False) -> dict[str, str]:
        """The response headers about the exchange: request id, target, retries, losses, repairs.

        `is_waiting`: no target has answered yet, so only what holds for every target is included.
        """
        headers = {dialect_named(self.dialect).http_api.request_id_header: self.request_id}
        if self.rule:
            headers["x-dragoman-rule"] = make_printable(self.rule)
        if is_waiting and self.has_alternatives:
            return headers
        if self.target is not None:
            headers["x-dragoman-target"] = make_printable(str(self.target))
        if self.session:
            headers[SESSION_HEADER] = make_printable(self.session)
        if self.tries > 1 and not is_waiting:
            headers["x-dragoman-retries"] = str(self.retries)
            headers["x-dragoman-failed"] = make_printable(self.list_failed_attempts())
        if self.losses:
            headers["x-dragoman-losses"] = make_printable(f"{len(self.losses)}: {_list_losses(self.losses)}")
        if self.interventions.is_governed and self.interventions:
            headers["x-dragoman-repairs"] = make_printable(str(self.interventions))
        return headers

    @property
    def kind(self) -> ExchangeKind:
        """What the exchange has in common with others. Called when it has ended."""
        if self._kind is None:
            self._kind = ExchangeKind(
                client=self.dialect,
                agent=self.agent[:MAX_SHOWN],
                sub_agent=self.identity.sub_agent,
                traits=tuple(self.traits.items()),
                key=self.caller.name,
                model=self.model[:MAX_SHOWN],
                rule=self.rule,
                route=self.route,
                target=str(self.target)[:MAX_SHOWN] if self.target else "",
                session=self.session,
                lane=self.lane,
                stream=self.stream,
                ending=self.ending,
                cause=self.cause[:MAX_CAUSE],
                status=self.status,
            )
        return self._kind

    @property
    def cause(self) -> str:
        """Why a finished reply ended, in the upstream's words; empty if it has not finished."""
        ending = self.tally.ending if self.tally else None
        return self.redact(ending.raw_cause or ending.cause) if isinstance(ending, ReplyFinished) else ""

    def redact(self, text: str) -> str:
        """The text without the secrets of the last call: the provider's, and what it got of the client."""
        return self.redactor.redact(text) if self.redactor else text

    def line(self) -> Mapping[str, object]:
        """The fields of the exchange's log line, without empty ones."""
        return {
            "request": self.request_id,
            **self.kind.list_fields(),
            **self.list_numbers(),
            **self.list_texts(),
        }

    def list_numbers(self) -> dict[str, float]:
        """The numbers in the log line, without unknown ones."""
        tally, interventions = self.tally, self.interventions
        numbers: dict[str, float] = {}
        if tally is not None:
            usage = tally.usage
            if usage is not None:
                if usage.input is not None:
                    numbers["input"] = usage.input
                if usage.cache_read is not None:
                    numbers["cached"] = usage.cache_read
                if usage.output is not None:
                    numbers["output"] = usage.output
            if tally.calls:
                numbers["tools"] = tally.calls
        if self.cost is not None:
            numbers["cost"] = self.cost / 1e6
        if self.first_token_seconds:
            numbers["first_token"] = round(self.first_token_seconds, 4)
        numbers["seconds"] = round(self.seconds, 4)
        numbers["retries"] = self.tries - 1 if self.tries else 0
        numbers["losses"] = len(self.losses) + len(self.reply_losses)
        if interventions.is_governed:
            numbers["interventions"] = len(interventions)
            if changes := interventions.changes:
                numbers["changes"] = changes
        return numbers

    def list_texts(self) -> dict[str, str]:
        """The texts in the log line that differ from exchange to exchange, without empty ones."""
        failure = self.refused or self.broken
        texts: dict[str, str] = {}
        if failure is not None:
            texts["error"] = f"{failure.kind}: {failure.message}"[:MAX_SHOWN]
        if self.upstream_id:
            texts["upstream_request"] = make_printable(self.upstream_id)[:MAX_SHORT]
        if self.tries > 1 and (failed := self.list_failed_attempts()):
            texts["failed"] = make_printable(failed)[:MAX_SHOWN]
        if self.tool_runs:
            runs = (f"{run.function}{' failed' * run.is_error}" for run in self.tool_runs)
            texts["runs"] = ", ".join(runs)[:MAX_SHOWN]
        if self.losses or self.reply_losses:
            texts["lost"] = _list_losses((*self.losses, *self.reply_losses), MAX_SHOWN)
        return texts

    def governance_lines(self) -> Iterator[Mapping[str, object]]:
        """The fields of one log line for each change that governance made."""
        for intervention in self.interventions:
            yield {
                "request": self.request_id,
                "client": self.dialect,
                "model": self.model[:MAX_SHOWN],
                "stream": self.stream,
                "calls": self.tally.calls if self.tally else 0,
                **intervention.line(self.redact),
            }


def build_outcome(record: ExchangeRecord, received_bytes: int) -> ExchangeOutcome:
    """What the accounts need to know about an exchange that has ended."""
    tally = record.tally
    ending = record.ending
    return ExchangeOutcome(
        target=record.target,
        usage=tally.usage if tally else None,
        was_accepted=_is_accepted(record, ending),
        is_finished=ending == "finished",
        has_failed=ending in ("failed", "truncated"),
        others=tuple(record.list_other_calls()),
        received_bytes=received_bytes,
        is_stream=record.stream,
        agent=record.identity.known_agent,
        role=record.role,
    )


def _is_accepted(record: ExchangeRecord, ending: str) -> bool:
    """Whether the upstream took the last request: it began to answer, or the client did not wait for it."""
    tally = record.tally
    if ending == "finished" or (tally is not None and tally.has_round_content):
        return True
    return record.is_cancelled and record.tries > 0


def _list_losses(losses: Sequence[Loss], limit: int = MAX_LISTED) -> str:
    """As many whole losses as fit into `limit` characters, joined by semicolons, and how many were left out.

    A first loss that is too long is cut.
    """
    text = ""
    for number, loss in enumerate(losses):
        longer = f"{text}; {loss}" if text else str(loss)
        if len(longer) > limit:
            return f"{text}; and {len(losses) - number} more" if text else longer[:limit]
        text = longer
    return text
