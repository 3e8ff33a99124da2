"""Checks the arguments of every call against its tool's schema, tells the outcome, and changes nothing."""

from collections.abc import Sequence
from io import StringIO
from typing import NamedTuple

from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.schema_check import check
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.content import ToolCall
from dragoman.hub.events import DELTAS, ArgumentsDelta, BlockClosed, BlockOpened, ReplyEvent
from dragoman.wire.partial_json import parse_object

TOO_LONG = "longer than is looked at"
NO_OBJECT = "the arguments are no JSON object"
INCOMPLETE = "too much to look at all of it"


class _Outcome(NamedTuple):
    ok: bool
    flaws: tuple[str, ...] = ()
    reason: str = ""


class _Call:
    __slots__ = ("arguments", "name", "size")

    def __init__(self, name: str, arguments: str) -> None:
        self.name = name
        self.arguments = StringIO()
        self.size = 0
        self.add(arguments, len(arguments))

    def add(self, text: str, room: int) -> None:
        self.size += len(text)
        if len(text) <= room:
            self.arguments.write(text)


class ValidateStage:
    """Only calls of declared tools that have a schema; free text has none."""

    __slots__ = ("_calls", "_limit", "_report", "_schemas")

    passes = DELTAS - {ArgumentsDelta}

    def __init__(self, tools: Sequence[DeclaredTool], report: Report, *, limit: int) -> None:
        self._schemas = {tool.name: tool.schema for tool in tools if tool.schema is not None}
        self._report = report
        self._limit = limit
        self._calls: dict[int, _Call] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is ArgumentsDelta:
            call = self._calls.get(event.index)
            if call is not None:
                call.add(event.text, self._limit - call.size)
        elif type(event) is BlockOpened:
            block = event.block
            if type(block) is ToolCall and block.kind == "function" and block.name in self._schemas:
                self._calls[event.index] = _Call(block.name, block.arguments)
        elif type(event) is BlockClosed:
            call = self._calls.pop(event.index, None)
            if call is not None:
                self._report(self._judged(call))
        return [event]

    def _judged(self, call: _Call) -> Intervention:
        outcome = _Outcome(True, reason=TOO_LONG)
        if call.size <= self._limit:
            outcome = _outcome(call.arguments.getvalue(), self._schemas[call.name])
        return Intervention(
            kind="validate",
            tool=call.name,
            detail=outcome.flaws,
            before=call.size,
            after=call.size,
            ok=outcome.ok,
            reason=outcome.reason,
        )


def _outcome(arguments: str, schema: object) -> _Outcome:
    value = parse_object(arguments)
    if value is None:
        return _Outcome(False, reason=NO_OBJECT)
    checked = check(value, schema)
    flaws = tuple(map(str, checked.flaws))
    if flaws:
        return _Outcome(False, flaws, flaws[0])
    return _Outcome(True, reason="" if checked.is_complete else INCOMPLETE)
