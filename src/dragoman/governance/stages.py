"""Which steps a reply takes under a given governance, and in which order.

Calls are found before they are named, named before they are mended, whole before they are compared, and
compared before they are judged; what is checked last is what goes out. With everything off there is no step.
"""

from collections.abc import Callable

import msgspec

from dragoman.governance.choose import ExitStage
from dragoman.governance.declared import DeclaredStage
from dragoman.governance.dedupe import DedupeStage
from dragoman.governance.gate import GateStage
from dragoman.governance.guard import GuardStage
from dragoman.governance.harvest import EchoStage, HarvestStage, WholeHarvestStage
from dragoman.governance.records import DeclaredTool, Report
from dragoman.governance.repair import repair
from dragoman.governance.rounds import Rounds
from dragoman.governance.settings import OFF, Governance
from dragoman.governance.validate import ValidateStage
from dragoman.hub.ids import IdSource
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage

_DECLARABLE = frozenset({"function", "custom"})


def told_tools(request: Request) -> tuple[DeclaredTool, ...]:
    """The tools that the upstream was told of, by their names there; none if it may not call any."""
    if request.tool_choice is not None and request.tool_choice.mode == "none":
        return ()
    return tuple(
        DeclaredTool(tool.name, tool.schema if tool.kind == "function" else None)
        for tool in request.tools
        if tool.kind in _DECLARABLE and not tool.namespace
    )


def governing_stages(
    governance: Governance,
    tools: tuple[DeclaredTool, ...],
    *,
    ids: IdSource,
    report: Report,
    exit_name: str = "",
    streams: bool = True,
    rounds: Rounds | None = None,
    clock: Callable[[], float] | None = None,
) -> list[Stage]:
    """The stages for one reply, right behind the upstream's reader. `exit_name` is what `choose` gave.

    `streams`: somebody is waiting for pieces; if not, calls can be held at no cost. `rounds`: whoever runs
    the reply can ask again; without it denied calls are told to the client.
    """
    stages: list[Stage] = []
    if governance.family != OFF:
        stages += _harvesting(governance, tools, ids, report, clock, streams=streams)
    if governance.rename:
        stages.append(DeclaredStage(tools, report))
    if exit_name:
        stages.append(ExitStage(exit_name, report))
    if governance.tools != "live":
        settled = governance if streams else msgspec.structs.replace(governance, tools="hold")
        stages.append(GateStage(settled, tools, mend=repair, report=report, clock=clock))
    if governance.dedupe:
        stages.append(DedupeStage(report, limit=governance.hold_bytes))
    if governance.guard:
        stages += _guarding(governance, tools, report, rounds)
    if governance.validate:
        stages.append(ValidateStage(tools, report, limit=governance.hold_bytes))
    return stages


def _harvesting(
    governance: Governance,
    tools: tuple[DeclaredTool, ...],
    ids: IdSource,
    report: Report,
    clock: Callable[[], float] | None,
    *,
    streams: bool,
) -> list[Stage]:
    def make(calls: bool) -> HarvestStage:
        return HarvestStage(
            tools if calls else (),
            family=governance.family,
            ids=ids,
            report=report,
            limit=governance.hold_bytes,
            seconds=governance.hold_seconds,
            clock=clock or _no_clock,
        )

    if not streams:
        return [WholeHarvestStage(make)]
    harvest = make(True)
    return [harvest, EchoStage(harvest, report, limit=governance.hold_bytes)]


def _no_clock() -> float:
    return 0.0


def _guarding(
    governance: Governance, tools: tuple[DeclaredTool, ...], report: Report, rounds: Rounds | None
) -> list[Stage]:
    on_denied = governance.on_denied if rounds is not None else "client"
    guard = GuardStage(governance.guard, tools, report, on_denied=on_denied, limit=governance.hold_bytes)
    if rounds is None or on_denied == "client":
        return [guard]
    rounds.begin(guard)
    return [guard, rounds]
