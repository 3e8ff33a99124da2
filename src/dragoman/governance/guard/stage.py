"""The guard's stage: holds each guarded call until it is whole, then applies the rules to it.

A denied call becomes a text block for the client. With `on_denied = "model"` it is withheld instead, and the
model is asked again (`hub.rounds`). If the reply has another call for the client, no retry is possible, and
the denial becomes text after all. A denied call of a gateway tool is always withheld, because the client does
not know the tool. Tools that no rule names pass without delay.
"""

from collections.abc import Callable, Sequence

import msgspec

from dragoman.governance.call_queue import CallQueueStage, HeldCall, replace, write_text_block
from dragoman.governance.guard.rules import GuardRule
from dragoman.governance.guard.verdicts import TOO_LONG, GuardRules, Verdict
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import OnDenied
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import Text, ToolCall, ToolResult
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    SealAttached,
)
from dragoman.hub.rounds import WithheldCall

#: For the client, if the model calls a gateway tool again although it is denied.
HIDDEN_DENIAL = "[The gateway stopped here: a call of its own tools was denied.]"


def _is_never_hidden(name: str) -> bool:
    return False


class DeniedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A whole call that the rules denied, as the upstream made it."""

    call: ToolCall
    rule: str
    reason: str


def write_denial(denied: DeniedCall) -> str:
    """The text about a denied call, for a model or a client."""
    return f"The call of `{denied.call.name}` was denied: {denied.reason or denied.rule}."


def _build_result(denied: DeniedCall) -> ToolResult:
    call = denied.call
    content = (Text(text=write_denial(denied)),)
    return ToolResult(call_id=call.id, name=call.name, kind=call.kind, content=content, is_error=True)


def write_question(denied: DeniedCall) -> str:
    """The text that asks the user about a call with the verdict `ask`."""
    why = denied.reason or denied.rule
    return f"The call of `{denied.call.name}` was held back: {why}. Should it go ahead?"


class GuardStage(CallQueueStage):
    """Applies the guard rules to each call. `denied`: denied calls that are not yet reported."""

    #: How often the model is asked again. Then the client gets the denials.
    max_rounds = 3

    def __init__(
        self,
        rules: Sequence[GuardRule],
        tools: Sequence[DeclaredTool],
        report: Report,
        *,
        on_denied: OnDenied,
        limit: int,
        is_hidden: Callable[[str], bool] | None = None,
    ) -> None:
        """`is_hidden`: whether a name is that of a gateway tool, whose calls the client does not get."""
        super().__init__(limit)
        self._is_hidden = is_hidden or _is_never_hidden
        self._has_client_calls = False
        self._rules = GuardRules(rules)
        self._schemas = {tool.name: tool.schema for tool in tools}
        self._report = report
        self._on_denied = on_denied
        self.denied: tuple[DeniedCall, ...] = ()

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        out = super().feed(event)
        if type(event) is not ReplyFinished or not self.denied:
            return out
        if event.cause == "tool_calls" and not self._has_client_calls:
            return out
        shown = [each for each in self.denied if not self._is_hidden(each.call.name)]
        self.denied = tuple(each for each in self.denied if self._is_hidden(each.call.name))
        return [*(text for each in shown for text in self.append_text(write_denial(each))), *out]

    @property
    def withheld(self) -> tuple[WithheldCall, ...]:
        """The denied calls, each with the denial as its result."""
        return tuple(WithheldCall(denied.call, _build_result(denied)) for denied in self.denied)

    def write_stop(self) -> list[str]:
        return [
            HIDDEN_DENIAL if self._is_hidden(denied.call.name) else write_denial(denied)
            for denied in self.denied
        ]

    def note_passed(self, event: ReplyEvent) -> None:
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            self._has_client_calls |= not self._is_hidden(event.block.name)

    def must_wait(self, call: ToolCall) -> bool:
        return self._rules.covers(call.name)

    def decide(self, held: HeldCall, *, is_full: bool) -> list[ReplyEvent] | None:
        if not self._rules.covers(held.call.name):
            return held.events
        if held.is_closed:
            schema = self._schemas.get(held.call.name)
            verdict = self._rules.decide(held.call, held.arguments, schema)
        elif is_full:
            verdict = TOO_LONG
        else:
            return None
        return held.events if verdict is None else self._apply(held, verdict)

    def _apply(self, held: HeldCall, verdict: Verdict) -> list[ReplyEvent]:
        if verdict.kind == "allow" and verdict.arguments == held.arguments:
            self._report_verdict(held, verdict, held.size)
            return held.events
        if verdict.passes:
            self._report_verdict(held, verdict, len(verdict.arguments))
            return _write_rewritten(held, verdict.arguments)
        self._report_verdict(held, verdict, 0)
        denied = DeniedCall(call=held.whole, rule=verdict.rules[-1], reason=verdict.reason)
        if verdict.kind == "ask":
            return write_text_block(held.index, write_question(denied))
        if self._on_denied == "client" and not self._is_hidden(denied.call.name):
            return write_text_block(held.index, write_denial(denied))
        self.denied = (*self.denied, denied)
        return []

    def _report_verdict(self, held: HeldCall, verdict: Verdict, after: int) -> None:
        self._report(
            Intervention(
                kind="guard",
                tool=held.call.name,
                detail=(verdict.kind, *verdict.rules),
                before=held.size,
                after=after,
                ok=verdict.passes,
                reason=verdict.reason,
            )
        )


def _write_rewritten(held: HeldCall, arguments: str) -> list[ReplyEvent]:
    """Write the call with other arguments, without extras that the dialect derived from the old ones."""
    seals = [event for event in held.events if type(event) is SealAttached]
    opened = BlockOpened(held.index, replace(held.call, arguments="", form="", extras={}))
    more: list[ReplyEvent] = [ArgumentsDelta(held.index, arguments)] if arguments else []
    return [opened, *seals, *more, BlockClosed(held.index)]
