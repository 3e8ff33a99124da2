"""Which steps a reply takes under a given governance, and in which order.

Calls are found before they are named, named before they are mended, whole before they are compared, and
compared before they are judged; what is checked last is what goes out. With everything off there is no step.
"""

from collections.abc import Callable

import msgspec

from dragoman.governance.dedupe import DedupeStage
from dragoman.governance.guard.retry import DenialRetry
from dragoman.governance.guard.stage import GuardStage
from dragoman.governance.harvest import EchoStage, HarvestStage, WholeHarvestStage
from dragoman.governance.hold import HoldStage
from dragoman.governance.interventions import Report
from dragoman.governance.repair import repair
from dragoman.governance.settings import OFF, Governance
from dragoman.governance.tool_choice import ExitToolStage
from dragoman.governance.tool_names import DeclaredTool, ToolNameStage
from dragoman.governance.validate import ValidateStage
from dragoman.hub.ids import IdSource
from dragoman.hub.stage import Stage


def build_stages(
    governance: Governance,
    tools: tuple[DeclaredTool, ...],
    *,
    ids: IdSource,
    report: Report,
    exit_name: str = "",
    streams: bool = True,
    rounds: DenialRetry | None = None,
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
        stages.append(ToolNameStage(tools, report))
    if exit_name:
        stages.append(ExitToolStage(exit_name, report))
    if governance.tools != "live":
        settled = governance if streams else msgspec.structs.replace(governance, tools="hold")
        stages.append(HoldStage(settled, tools, mend=repair, report=report, clock=clock))
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
    governance: Governance, tools: tuple[DeclaredTool, ...], report: Report, rounds: DenialRetry | None
) -> list[Stage]:
    on_denied = governance.on_denied if rounds is not None else "client"
    guard = GuardStage(governance.guard, tools, report, on_denied=on_denied, limit=governance.hold_bytes)
    if rounds is None or on_denied == "client":
        return [guard]
    rounds.begin(guard)
    return [guard, rounds]
