"""The declared tools of a request, and `rename`: a call gets the declared name that differs only in case.

No other name is guessed. A call of an undeclared tool passes unchanged, with a report.
"""

from collections.abc import Sequence

import msgspec

from dragoman.governance.interventions import Intervention, Report
from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import EVENT_KINDS, BlockOpened, ReplyEvent
from dragoman.hub.request import Request

UNDECLARED = "no such tool was declared"
_DECLARABLE = frozenset({"function", "custom"})


class DeclaredTool(msgspec.Struct, frozen=True):
    """A tool as the upstream knows it; without a schema for free-text tools."""

    name: str
    schema: dict[str, object] | None = None


def find_declared_tools(request: Request) -> tuple[DeclaredTool, ...]:
    """The tools of a fitted request that the model may call, by the names that the upstream knows."""
    if request.tool_choice is not None and request.tool_choice.mode == "none":
        return ()
    return tuple(
        DeclaredTool(tool.name, tool.schema if tool.kind == "function" else None)
        for tool in request.tools
        if tool.kind in _DECLARABLE and not tool.namespace
    )


class ToolNameStage:
    """Corrects the tool names of calls as they open, and reports undeclared tools."""

    __slots__ = ("_names", "_report")

    unchanged_kinds = EVENT_KINDS - {BlockOpened}

    def __init__(self, tools: Sequence[DeclaredTool], report: Report) -> None:
        self._report = report
        self._names = {tool.name for tool in tools}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            name = self._find_name(event.block)
            if name != event.block.name:
                call = msgspec.structs.replace(event.block, name=name, form="", extras={})
                return [BlockOpened(event.index, call)]
        return [event]

    def _find_name(self, call: ToolCall) -> str:
        # Tools in a namespace and tools of a vendor's own kind are not in the list.
        if call.name in self._names or call.namespace or call.kind not in _DECLARABLE:
            return call.name
        folded = call.name.casefold()
        alike = [name for name in self._names if name.casefold() == folded]
        if len(alike) != 1:
            # Whole: secrets are removed before it is cut.
            self._report(Intervention(kind="undeclared", tool=call.name, ok=False, reason=UNDECLARED))
            return call.name
        self._report(Intervention(kind="rename", tool=alike[0], detail=("case",)))
        return alike[0]
