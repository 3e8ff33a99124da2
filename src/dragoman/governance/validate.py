"""`validate`: checks the arguments of every call against its tool's schema, reports, and changes nothing."""

from collections.abc import Sequence
from io import StringIO

from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.schema_check import check_schema
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import DELTAS, ArgumentsDelta, BlockClosed, BlockOpened, ReplyEvent
from dragoman.wire.partial_json import parse_object

TOO_LONG = "longer than is looked at"
NO_OBJECT = "the arguments are no JSON object"
INCOMPLETE = "too much to look at all of it"


class _CollectedCall:
    """The name and arguments of an open call; arguments beyond the limit are counted, not kept."""

    __slots__ = ("arguments", "name", "size")

    def __init__(self, call: ToolCall) -> None:
        self.name = call.name
        self.arguments = StringIO()
        self.size = self.arguments.write(call.arguments)

    def add(self, text: str, limit: int) -> None:
        self.size += len(text)
        if self.size <= limit:
            self.arguments.write(text)


class ValidateStage:
    """Checks the arguments of calls against the schemas of their tools. Reports one intervention per call."""

    __slots__ = ("_calls", "_limit", "_report", "_schemas")

    unchanged_kinds = DELTAS - {ArgumentsDelta}

    def __init__(self, tools: Sequence[DeclaredTool], report: Report, *, limit: int) -> None:
        self._schemas = {tool.name: tool.schema for tool in tools if tool.schema is not None}
        self._report = report
        self._limit = limit
        self._calls: dict[int, _CollectedCall] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is ArgumentsDelta:
            if (call := self._calls.get(event.index)) is not None:
                call.add(event.text, self._limit)
        elif type(event) is BlockOpened:
            block = event.block
            if type(block) is ToolCall and block.kind == "function" and block.name in self._schemas:
                self._calls[event.index] = _CollectedCall(block)
        elif type(event) is BlockClosed and event.index in self._calls:
            self._report(self._check(self._calls.pop(event.index)))
        return [event]

    def _check(self, call: _CollectedCall) -> Intervention:
        violations: tuple[str, ...] = ()
        if call.size > self._limit:
            is_valid, reason = True, TOO_LONG
        elif (value := parse_object(call.arguments.getvalue())) is None:
            is_valid, reason = False, NO_OBJECT
        else:
            check = check_schema(value, self._schemas[call.name])
            violations = tuple(map(str, check.violations))
            is_valid = not violations
            reason = violations[0] if violations else "" if check.is_complete else INCOMPLETE
        return Intervention(
            kind="validate",
            tool=call.name,
            detail=violations,
            before=call.size,
            after=call.size,
            ok=is_valid,
            reason=reason,
        )
