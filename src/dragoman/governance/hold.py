"""`tools = "hold"` and `"auto"`: sends a call's arguments when they are whole JSON, repaired if necessary.

With `hold` a call is sent when it is whole, in the order in which the calls opened; other blocks do not wait
for it. With `auto` it opens at once, and only arguments are delayed. Arguments that are not JSON wait until
the reply shows whether the model finished them. Arguments that were cut off go out as they are: completing
them could run half a command. A reply that fails leaves its calls unfinished, or without a beginning.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Protocol

from dragoman.governance.call_queue import replace
from dragoman.governance.held_arguments import HeldArguments, StreamedArguments, find_continuation
from dragoman.governance.interventions import Intervention, InterventionKind, Report
from dragoman.governance.repair import RepairResult, repair
from dragoman.governance.settings import Governance
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    DELTAS,
    REPLY_NOTES,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    DeltaRun,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    SealAttached,
    StopCause,
)
from dragoman.hub.stage import BlockNumbers
from dragoman.schema import properties_of
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import parse_object

#: Stop causes after which the last call is complete. After any other one it may be cut off.
DONE: frozenset[StopCause] = frozenset({"tool_calls", "end", "malformed_call"})

#: What this stage does not change while no block has another number.
_NOT_OF_CALLS: frozenset[type] = (DELTAS | REPLY_NOTES) - {ArgumentsDelta, SealAttached}
_NOTHING: frozenset[type] = frozenset()

TRUNCATED = "the reply was cut off"
#: Sent instead of arguments that never arrived: empty arguments would be a complete call.
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


class RepairFunction(Protocol):
    """The signature of `repair`; tests pass others."""

    def __call__(
        self, arguments: str, schema: dict[str, object] | None, *, truncated: bool
    ) -> RepairResult: ...


class _UnsentCall:
    """A call whose end has not been sent. `closed` is its last event, once that has arrived.

    `unopened`: the call itself, if not even its opening has been sent.
    """

    __slots__ = ("arguments", "closed", "has_begun", "since", "size", "tool", "unopened")

    def __init__(self, tool: str, arguments: HeldArguments, since: float) -> None:
        self.tool = tool
        self.arguments = arguments
        self.unopened: ToolCall | None = None
        self.since = since
        self.size = 0
        self.closed: BlockClosed | None = None
        #: Whether an `ArgumentsDelta` of this call has been sent.
        self.has_begun = False


class HoldStage:
    """Holds and repairs the calls of one reply. With `tools = "live"` it is not used."""

    def __init__(
        self,
        governance: Governance,
        tools: Sequence[DeclaredTool],
        *,
        report: Report,
        clock: Callable[[], float] | None = None,
        repair_arguments: RepairFunction = repair,
    ) -> None:
        self.unchanged_kinds = _NOT_OF_CALLS
        self._governance = governance
        self._limit = governance.hold_bytes
        self._holds_opening = governance.tools == "hold"
        self._arguments_class = HeldArguments if self._holds_opening else StreamedArguments
        self._numbers = BlockNumbers()
        self._schemas = {tool.name: tool.schema for tool in tools}
        self._repair = repair_arguments
        self._report = report
        self._clock = clock or _no_clock
        self._calls: dict[int, _UnsentCall] = {}
        #: Bytes of all open calls. Sent ones count too: a repair needs the whole text.
        self._size = 0
        self._has_failed = False
        #: Whether a call was sent that had been cut off.
        self._has_cut_call = False

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if self._has_failed:
            return []
        out = [self._numbers.renumber(each) for each in self._route(event)]
        if self._numbers.has_moved:
            self.unchanged_kinds = _NOTHING
        return out

    def _route(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is ArgumentsDelta:
            return self._add(event)
        if type(event) is SealAttached:
            return self._attach(event)
        if type(event) is BlockOpened:
            # A block after a call proves that the call was not cut off.
            return self._finish_calls(event, is_done=True) or self._open(event)
        if type(event) is BlockClosed:
            return self._close(event)
        if type(event) is ReplyFinished:
            is_done = event.cause in DONE and not event.implied
            return self._finish_calls(event, is_done=is_done) or [event]
        if type(event) is ReplyFailed:
            self._abandon()
        return [event]

    @property
    def holds_for_a_time(self) -> bool:
        """Whether a call is held back that `take_overdue` returns when its time is over."""
        return self._governance.hold_seconds > 0 and bool(self._calls)

    def take_overdue(self) -> list[ReplyEvent]:
        """Send the calls that have been held for `hold_seconds`. Called while the upstream sends nothing."""
        out: list[ReplyEvent] = []
        for index, call in list(self._calls.items()):
            if self._is_late(call):
                out += self._stop_holding(index, call, "")
                out += [call.closed] if call.closed is not None else []
        return [self._numbers.renumber(event) for event in out]

    def _open(self, event: BlockOpened) -> list[ReplyEvent]:
        block = event.block
        if type(block) is not ToolCall or block.kind == "custom":
            return [event]
        call = self._calls[event.index] = _UnsentCall(block.name, self._arguments_class(), self._clock())
        opened = BlockOpened(event.index, replace(block, arguments="")) if block.arguments else event
        if self._holds_opening:
            call.unopened = block
        out: list[ReplyEvent] = [] if self._holds_opening else [opened]
        return out + (self._add(ArgumentsDelta(event.index, block.arguments)) if block.arguments else [])

    def _attach(self, event: SealAttached) -> list[ReplyEvent]:
        call = self._calls.get(event.index)
        if call is None or call.unopened is None:
            return [event]
        call.unopened = replace(call.unopened, seal=event.seal)
        return []

    def _add(self, event: ArgumentsDelta) -> list[ReplyEvent]:
        index, text = event.index, event.text
        call = self._calls.get(index)
        if call is None:
            return [event]
        ready = call.arguments.add(text)
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        call.size += size
        self._size += size
        if self._size > self._limit or self._is_late(call):
            return self._stop_holding(index, call, ready)
        if call.unopened is not None:
            return []
        if ready == text:
            call.has_begun = True
            # The same object again, which the pipeline forwards at no cost.
            return [event]
        if call.has_begun:
            return _write_delta(index, ready)
        # An empty delta shows the later stages that arguments have arrived.
        call.has_begun = True
        return [ArgumentsDelta(index, ready)]

    def feed_run(self, run: DeltaRun) -> list[str] | None:
        """No text, if the run belongs to a call that stays held; else None, and nothing was taken."""
        call = self._calls.get(run.index)
        if self._has_failed or call is None or call.unopened is None or self._is_late(call):
            return None
        text = "".join(run.texts)
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._size + size > self._limit:
            return None
        call.arguments.add(text)
        call.size += size
        self._size += size
        return []

    def _is_late(self, call: _UnsentCall) -> bool:
        limit = self._governance.hold_seconds
        return limit > 0 and call.arguments.is_held and self._clock() - call.since > limit

    def _stop_holding(self, index: int, call: _UnsentCall, ready: str) -> list[ReplyEvent]:
        """Send the held part of a call. Later pieces of it are sent as they arrive."""
        reason = TOO_MUCH if self._size > self._limit else TOO_LONG
        self._remove(index)
        if call.arguments.is_held:
            self._report_call("hold", call, len(call.arguments.raw), ok=False, reason=reason)
        return _write_rest(index, call, ready + call.arguments.rest)

    def _close(self, event: BlockClosed) -> list[ReplyEvent]:
        call = self._calls.get(event.index)
        if call is None:
            return [event]
        call.closed = event
        out: list[ReplyEvent] = []
        for index, waiting in list(self._calls.items()):
            if waiting.closed is None or not self._is_sound(waiting):
                break
            self._remove(index)
            out += [*_write_rest(index, waiting, self._take_sound(waiting)), waiting.closed]
        return out

    def _is_sound(self, call: _UnsentCall) -> bool:
        """Whether a closed call can be sent unchanged, even if the reply is cut off after it."""
        return not self._governance.repair or (call.arguments.is_valid and self._is_whole(call))

    def _take_sound(self, call: _UnsentCall) -> str:
        if call.arguments.is_held:
            self._report_call("hold", call, len(call.arguments.raw))
        # Arguments of white space alone are no JSON for Chat and Responses clients.
        return "" if call.arguments.is_empty else call.arguments.rest

    def _is_whole(self, call: _UnsentCall) -> bool:
        """Whether the arguments can be complete. Empty ones are only if the tool has no properties."""
        return not call.arguments.is_empty or not properties_of(self._schemas.get(call.tool))

    def _finish_calls(self, event: ReplyEvent, *, is_done: bool) -> list[ReplyEvent]:
        """Write the closed calls that were held until `event`, then the event; nothing if there were none.

        `is_done`: the event proves that the calls were not cut off.
        """
        waiting = list(takewhile(lambda item: item[1].closed is not None, self._calls.items()))
        if not waiting:
            return []
        out: list[ReplyEvent] = []
        for index, call in waiting:
            self._remove(index)
            rest = self._finish_call(call, is_done=is_done)
            if rest is None:
                self._has_failed = True
                self.unchanged_kinds = _NOTHING
                return [*out, ReplyFailed("failed", UNREPAIRABLE)]
            out += _write_rest(index, call, rest)
            if call.closed is not None:
                out.append(call.closed)
        if type(event) is BlockOpened:
            return [*out, *self._open(event)]
        if type(event) is ReplyFinished and event.cause in DONE and self._has_cut_call:
            # A client must not take a reply with half a call for a complete one.
            event = replace(event, cause="length", raw_cause="")
        return [*out, event]

    def _finish_call(self, call: _UnsentCall, *, is_done: bool) -> str | None:
        if self._is_sound(call):
            return self._take_sound(call)
        return self._repair_call(call) if is_done else self._finish_cut_call(call)

    def _finish_cut_call(self, call: _UnsentCall) -> str:
        """The rest of a call that may be cut off: complete only if its schema proves it, else not JSON."""
        raw = call.arguments.raw
        result = self._repair(raw, self._schemas.get(call.tool), truncated=True)
        if result.ok and raw.strip():
            self._report_call("repair", call, len(result.text), detail=result.steps)
            return result.text[call.arguments.sent :]
        self._has_cut_call = True
        self._report_call("unrepairable", call, len(raw), ok=False, reason=TRUNCATED)
        return call.arguments.rest if raw.strip() else UNFINISHED

    def _repair_call(self, call: _UnsentCall) -> str | None:
        """The rest of a call that the model finished; None: the reply must fail."""
        raw, sent = call.arguments.raw, call.arguments.sent
        if call.arguments.is_empty:
            if call.arguments.is_held:
                self._report_call("hold", call, 0)
            return ""
        result = self._repair(raw, self._schemas.get(call.tool), truncated=False)
        rest: str | None = None
        if result.ok and result.text.startswith(raw[:sent]):
            rest = result.text[sent:]
        elif result.ok and (wanted := parse_object(result.text)) is not None:
            rest = find_continuation(raw[:sent], wanted)
        if rest is not None:
            self._report_call("hold", call, sent + len(rest))
            self._report_call("repair", call, sent + len(rest), detail=result.steps)
            return rest
        rest = self._show_raw(call, raw)
        after = 0 if rest is None else sent + len(rest)
        self._report_call("unrepairable", call, after, ok=False, reason=result.reason or "parse_failed")
        return rest

    def _show_raw(self, call: _UnsentCall, raw: str) -> str | None:
        """The rest of a call beyond repair, as `on_unrepairable` asks; None: the reply must fail."""
        if self._governance.on_unrepairable == "raw":
            return call.arguments.rest
        if self._governance.on_unrepairable == "error":
            return None
        if call.arguments.sent:
            # A part of the members is sent. With any end the client would run another call than the model's.
            return None
        return encode({self._find_raw_key(call): raw.encode("utf-8", "replace").decode()}).decode()

    def _find_raw_key(self, call: _UnsentCall) -> str:
        """Choose a member name that the tool does not declare, so that no argument gets the raw text."""
        properties = properties_of(self._schemas.get(call.tool))
        key = self._governance.raw_key
        while key in properties:
            key = f"raw_{key}"
        return key

    def _abandon(self) -> None:
        for index, call in list(self._calls.items()):
            self._remove(index)
            if call.arguments.is_held and call.arguments.rest:
                self._report_call("hold", call, call.arguments.sent, ok=False, reason=REPLY_FAILED)

    def _remove(self, index: int) -> _UnsentCall:
        call = self._calls.pop(index)
        self._size -= call.size
        return call

    def _report_call(
        self,
        kind: InterventionKind,
        call: _UnsentCall,
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


def _write_rest(index: int, call: _UnsentCall, text: str) -> list[ReplyEvent]:
    """Write the rest of a call's arguments, with its opening if that is not sent yet."""
    if call.unopened is None:
        return _write_delta(index, text)
    opened, call.unopened = call.unopened, None
    return [BlockOpened(index, replace(opened, arguments=text))]


def _write_delta(index: int, text: str) -> list[ReplyEvent]:
    return [ArgumentsDelta(index, text)] if text else []
