"""The guard: holds each guarded call until it is whole, and lets out what its rules let pass.

A denied call becomes a text for the client that says what was denied and why; or it waits in `denied`, for
whoever can tell the model in another round (`rounds`). If other calls of the same reply go to the client,
there is no other round, and the client is told. Tools that no rule names pass without waiting.
"""

from collections.abc import Sequence

import msgspec

from dragoman.governance.call_queue import CallQueueStage, HeldCall, Outcome, replace, said
from dragoman.governance.guard.rules import GuardRule
from dragoman.governance.guard.verdicts import GuardRules, Verdict
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import OnDenied
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.content import ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    SealAttached,
)

TOO_LONG = Verdict(kind="deny", rules=("too-long",), reason="its arguments are too long to be judged")


class DeniedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that its rules did not let pass, whole and in the upstream's words."""

    call: ToolCall
    rule: str
    reason: str


def denial(denied: DeniedCall) -> str:
    """What to say about a denied call, to a model or a client."""
    return f"The call of `{denied.call.name}` was denied: {denied.reason or denied.rule}."


def question(denied: DeniedCall) -> str:
    """What to ask the user about a call that needs consent."""
    why = denied.reason or denied.rule
    return f"The call of `{denied.call.name}` was held back: {why}. Should it go ahead?"


class GuardStage(CallQueueStage):
    """`denied` are calls that nobody has been told of yet."""

    def __init__(
        self,
        rules: Sequence[GuardRule],
        tools: Sequence[DeclaredTool],
        report: Report,
        *,
        on_denied: OnDenied,
        limit: int,
    ) -> None:
        self._verdicts = _Verdicts(rules, tools, report, on_denied)
        super().__init__(self._verdicts, limit)

    @property
    def denied(self) -> tuple[DeniedCall, ...]:
        return tuple(self._verdicts.denied)

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        out = super().feed(event)
        if type(event) is not ReplyFinished or not self._verdicts.denied:
            return out
        if event.cause == "tool_calls" and not self.calls:
            return out
        untold, self._verdicts.denied = self._verdicts.denied, []
        return [*(told for denied in untold for told in self.appended(denial(denied))), *out]


class _Verdicts:
    wants: frozenset[type] = frozenset()

    def __init__(
        self, rules: Sequence[GuardRule], tools: Sequence[DeclaredTool], report: Report, on_denied: OnDenied
    ) -> None:
        self._judgement = GuardRules(rules)
        self._schemas = {tool.name: tool.schema for tool in tools}
        self._report = report
        self._on_denied = on_denied
        self.denied: list[DeniedCall] = []

    def waits(self, call: ToolCall) -> bool:
        return self._judgement.guards(call.name)

    def passed(self, event: ReplyEvent) -> None:
        """What is out is out."""

    def outcome(self, held: HeldCall, *, is_full: bool) -> Outcome | None:
        if not self._judgement.guards(held.call.name):
            return held.events
        if held.is_closed:
            schema = self._schemas.get(held.call.name)
            verdict = self._judgement.verdict(held.call, held.arguments, schema)
        elif is_full:
            verdict = TOO_LONG
        else:
            return None
        return held.events if verdict is None else self._carried_out(held, verdict)

    def _carried_out(self, held: HeldCall, verdict: Verdict) -> Outcome:
        if verdict.kind == "allow" and verdict.arguments == held.arguments:
            self._tell(held, verdict, held.size)
            return held.events
        if verdict.passes:
            self._tell(held, verdict, len(verdict.arguments))
            return _rewritten(held, verdict.arguments)
        self._tell(held, verdict, 0)
        call = held.whole
        denied = DeniedCall(call=call, rule=verdict.rules[-1], reason=verdict.reason)
        if verdict.kind == "ask":
            return said(held.index, question(denied))
        if self._on_denied == "client":
            return said(held.index, denial(denied))
        self.denied.append(denied)
        return []

    def _tell(self, held: HeldCall, verdict: Verdict, after: int) -> None:
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


def _rewritten(held: HeldCall, arguments: str) -> Outcome:
    """The call with other arguments; what its dialect said of the old ones no longer holds."""
    seals = [event for event in held.events if type(event) is SealAttached]
    opened = BlockOpened(held.index, replace(held.call, arguments="", form="", extras={}))
    more: list[ReplyEvent] = [ArgumentsDelta(held.index, arguments)] if arguments else []
    return [opened, *seals, *more, BlockClosed(held.index)]
