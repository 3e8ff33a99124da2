"""The gate: lets a call's arguments out once they are whole JSON, mended if they must be.

The call itself opens at once, and nothing but arguments is ever delayed. Arguments that are no JSON wait
until it is known whether the model was done with them: what was merely cut off goes out as it is, because
completing it could make half a command run. A reply that fails leaves its calls unfinished.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from dragoman.governance.call_queue import replace
from dragoman.governance.continuation import continuation
from dragoman.governance.held_arguments import HeldArguments, StreamedArguments
from dragoman.governance.interventions import Intervention, InterventionKind, Report
from dragoman.governance.settings import Governance
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.content import ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    DELTAS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    StopCause,
)
from dragoman.schema import properties_of
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import JsonPrefix, parse_object

#: The endings that say the model had said all it wanted to say. With any other a call may be half a call.
DONE: frozenset[StopCause] = frozenset({"tool_calls", "end", "malformed_call"})

_NO_ARGUMENTS: frozenset[type] = DELTAS - {ArgumentsDelta}
_NOTHING: frozenset[type] = frozenset()

TRUNCATED = "the reply was cut off"
#: The beginning of arguments that never came.
UNFINISHED = "{"
TOO_MUCH = "more than may be held"
TOO_LONG = "held for as long as allowed"
REPLY_FAILED = "the reply failed"
UNREPAIRABLE = Failure(
    kind="server",
    status=502,
    code="malformed_arguments",
    message="the model's arguments for a tool are not JSON and could not be mended",
)


class Mended(Protocol):
    """What `policy.repair` gives."""

    @property
    def text(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def steps(self) -> tuple[str, ...]: ...
    @property
    def reason(self) -> str: ...


class Mend(Protocol):
    def __call__(self, arguments: str, schema: dict[str, object] | None, *, truncated: bool) -> Mended: ...


class _Call:
    __slots__ = ("arguments", "closed", "has_begun", "since", "size", "tool")

    def __init__(self, tool: str, arguments: HeldArguments, since: float) -> None:
        self.tool = tool
        self.arguments = arguments
        self.since = since
        self.size = 0
        self.closed: BlockClosed | None = None
        #: Whether others know that arguments have come.
        self.has_begun = False


class HoldStage:
    """For the modes `hold` and `auto`; in `live` there is no gate."""

    def __init__(
        self,
        governance: Governance,
        tools: Sequence[DeclaredTool],
        *,
        mend: Mend,
        report: Report,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.passes = _NO_ARGUMENTS
        self._governance = governance
        self._limit = governance.hold_bytes
        self._patience = governance.hold_seconds
        self._arguments_kind = HeldArguments if governance.tools == "hold" else StreamedArguments
        self._schemas = {tool.name: tool.schema for tool in tools}
        self._mend = mend
        self._report = report
        self._clock = clock or _no_clock
        self._calls: dict[int, _Call] = {}
        #: Bytes of all calls under way, sent or not: they are all needed for mending.
        self._size = 0
        self._has_failed = False
        #: Whether a call went out that had been cut off.
        self._has_half = False

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if self._has_failed:
            return []
        if type(event) is ArgumentsDelta:
            return self._more(event)
        if type(event) is BlockOpened:
            return self._decided(event, is_done=True) or [*self._opened(event)]
        if type(event) is BlockClosed:
            return self._closed(event)
        if type(event) is ReplyFinished:
            is_done = event.cause in DONE and not event.implied
            return self._decided(event, is_done=is_done) or [event]
        if type(event) is ReplyFailed:
            self._abandon()
        return [event]

    def _opened(self, event: BlockOpened) -> list[ReplyEvent]:
        block = event.block
        if type(block) is not ToolCall or block.kind == "custom":
            return [event]
        call = self._calls[event.index] = _Call(block.name, self._arguments_kind(), self._clock())
        if not block.arguments:
            return [event]
        opened = BlockOpened(event.index, replace(block, arguments=""))
        return [opened, *self._added(event.index, call, block.arguments)]

    def _more(self, event: ArgumentsDelta) -> list[ReplyEvent]:
        call = self._calls.get(event.index)
        if call is None:
            return [event]
        text = event.text
        ready = call.arguments.add(text)
        if self._is_too_much(call, text):
            return self._let_go(event.index, call, ready)
        if ready == text:
            call.has_begun = True
            # The same object again, so that nothing downstream has to look twice.
            return [event]
        return self._ready(event.index, call, ready)

    def _added(self, index: int, call: _Call, text: str) -> list[ReplyEvent]:
        ready = call.arguments.add(text)
        is_too_much = self._is_too_much(call, text)
        return self._let_go(index, call, ready) if is_too_much else self._ready(index, call, ready)

    def _ready(self, index: int, call: _Call, text: str) -> list[ReplyEvent]:
        if call.has_begun:
            return _delta(index, text)
        call.has_begun = True
        # Whoever keeps a call back until its first arguments need not keep it any longer.
        return [ArgumentsDelta(index, text)]

    def _is_too_much(self, call: _Call, text: str) -> bool:
        """Count a further piece: whether it is one too many, or comes too late."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        call.size += size
        self._size += size
        return self._size > self._limit or self._is_late(call)

    def overdue(self) -> list[ReplyEvent]:
        """What has been held for as long as it may."""
        out: list[ReplyEvent] = []
        for index, call in list(self._calls.items()):
            if self._is_late(call):
                out += self._let_go(index, call, "")
                out += [call.closed] if call.closed is not None else []
        return out

    def _is_late(self, call: _Call) -> bool:
        has_limit = self._patience > 0
        return has_limit and call.arguments.is_held and self._clock() - call.since > self._patience

    def _let_go(self, index: int, call: _Call, ready: str) -> list[ReplyEvent]:
        """From here on the call goes out as it comes."""
        reason = TOO_MUCH if self._size > self._limit else TOO_LONG
        self._forget(index)
        raw = call.arguments.raw
        if call.arguments.is_held:
            self._tell("hold", call, len(raw), ok=False, reason=reason)
        return _delta(index, ready + call.arguments.rest)

    def _closed(self, event: BlockClosed) -> list[ReplyEvent]:
        call = self._calls.get(event.index)
        if call is None:
            return [event]
        arguments = call.arguments
        if self._governance.repair and not (arguments.is_sound and self._is_whole(call)):
            call.closed = event
            return []
        self._forget(event.index)
        if arguments.is_held:
            self._tell("hold", call, len(arguments.raw))
        return [*_delta(event.index, arguments.rest), event]

    def _is_whole(self, call: _Call) -> bool:
        """No arguments at all mean a whole call only to a tool that takes none; else they may be to come."""
        return not call.arguments.is_empty or not properties_of(self._schemas.get(call.tool))

    def _decided(self, event: ReplyEvent, *, is_done: bool) -> list[ReplyEvent]:
        """The calls that waited to hear whether they were cut off, then the event that told."""
        waiting = [index for index, call in self._calls.items() if call.closed is not None]
        if not waiting:
            return []
        out: list[ReplyEvent] = []
        for index in waiting:
            call = self._forget(index)
            rest = self._mended(call) if is_done else self._cut_off(call)
            if rest is None:
                self._has_failed = True
                self.passes = _NOTHING
                return [*out, ReplyFailed("failed", UNREPAIRABLE)]
            out += _delta(index, rest)
            if call.closed is not None:
                out.append(call.closed)
        return [*out, *(self._opened(event) if type(event) is BlockOpened else [self._ended(event)])]

    def _ended(self, event: ReplyEvent) -> ReplyEvent:
        """The end as it is to be told: with half a call nobody may take it for the end of a good reply."""
        if type(event) is ReplyFinished and event.cause in DONE and self._has_half:
            return replace(event, cause="length", raw_cause="")
        return event

    def _cut_off(self, call: _Call) -> str:
        """A call that may be half a call: whole only if its schema proves it, else no JSON at all."""
        raw = call.arguments.raw
        mended = self._mend(raw, self._schemas.get(call.tool), truncated=True)
        if mended.ok and raw.strip():
            rest = mended.text[call.arguments.sent :]
            self._tell("repair", call, len(mended.text), detail=mended.steps)
            return rest
        self._has_half = True
        self._tell("unrepairable", call, len(raw), ok=False, reason=TRUNCATED)
        # Nothing would mean no arguments, and that is a whole call.
        return call.arguments.rest if raw.strip() else UNFINISHED

    def _mended(self, call: _Call) -> str | None:
        """What is still to go out of a call that the model was done with; None: the reply must fail."""
        raw = call.arguments.raw
        if call.arguments.is_empty:
            if call.arguments.is_held:
                self._tell("hold", call, len(raw))
            return raw
        schema = self._schemas.get(call.tool)
        mended = self._mend(raw, schema, truncated=False)
        rest = self._rest_of(mended.text, raw[: call.arguments.sent]) if mended.ok else None
        if rest is None:
            return self._unrepairable(call, raw, mended.reason)
        after = call.arguments.sent + len(rest)
        self._tell("hold", call, after)
        self._tell("repair", call, after, detail=mended.steps)
        return rest

    def _rest_of(self, text: str, sent: str) -> str | None:
        if text.startswith(sent):
            return text[len(sent) :]
        wanted = parse_object(text)
        return None if wanted is None else continuation(sent, wanted)

    def _unrepairable(self, call: _Call, raw: str, reason: str) -> str | None:
        rest = self._fallback(call, raw)
        after = 0 if rest is None else call.arguments.sent + len(rest)
        self._tell("unrepairable", call, after, ok=False, reason=reason or "parse_failed")
        return rest

    def _fallback(self, call: _Call, raw: str) -> str | None:
        if self._governance.on_unrepairable == "raw":
            return call.arguments.rest
        if self._governance.on_unrepairable == "error":
            return None
        prefix = JsonPrefix()
        prefix.feed(raw[: call.arguments.sent])
        if prefix.closing().startswith('"') and not prefix.closing().startswith('":'):
            # Half a value went out. Closing it would make it a whole one, and it might be a command.
            return None
        return prefix.closing_with(self._raw_key(call), encode(_sound(raw)).decode())

    def _raw_key(self, call: _Call) -> str:
        """A member that the tool does not have, so that nobody takes it for an argument."""
        properties = (self._schemas.get(call.tool) or {}).get("properties")
        key = self._governance.raw_key
        while isinstance(properties, dict) and key in properties:
            key = f"raw_{key}"
        return key

    def _abandon(self) -> None:
        for index, call in list(self._calls.items()):
            self._forget(index)
            if call.arguments.is_held and call.arguments.rest:
                self._tell("hold", call, call.arguments.sent, ok=False, reason=REPLY_FAILED)

    def _forget(self, index: int) -> _Call:
        call = self._calls.pop(index)
        self._size -= call.size
        return call

    def _tell(
        self,
        kind: InterventionKind,
        call: _Call,
        after: int,
        *,
        detail: tuple[str, ...] = (),
        ok: bool = True,
        reason: str = "",
    ) -> None:
        self._report(
            Intervention(
                kind=kind,
                tool=call.tool,
                detail=detail,
                before=len(call.arguments.raw),
                after=after,
                ok=ok,
                reason=reason,
                held=self._clock() - call.since,
            )
        )


def _no_clock() -> float:
    return 0.0


def _sound(text: str) -> str:
    """The text without halves of characters, which JSON cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _delta(index: int, text: str) -> list[ReplyEvent]:
    return [ArgumentsDelta(index, text)] if text else []
