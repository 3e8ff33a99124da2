"""Builds the stages for one reply, in the order that the package docstring explains."""

from collections.abc import Callable

import msgspec

from dragoman.governance.dedupe import DedupeStage
from dragoman.governance.guard.stage import GuardStage
from dragoman.governance.harvest import AUTO, EchoStage, HarvestStage, RequestText, WholeHarvestStage
from dragoman.governance.hold import HoldStage
from dragoman.governance.interventions import Report
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
    can_retry: bool = False,
    clock: Callable[[], float] | None = None,
    asked: RequestText | None = None,
    is_hidden: Callable[[str], bool] | None = None,
) -> list[Stage]:
    """Build the stages for one reply, directly after the upstream's reader; none if everything is off.

    `exit_name`: the exit tool that `apply_tool_choice` added. `streams`: the client gets the reply in
    pieces; if not, holding calls costs nothing. `can_retry`: the caller can ask the model again; if not, the
    client gets the denials. `clock`: seconds, for `hold_seconds` and the reports. `asked`: the texts of the
    request; what repeats them is not harvested. `is_hidden`: whether a gateway tool has this name.
    """
    stages: list[Stage] = []
    if governance.family != OFF:
        stages += _build_harvest(governance, tools, ids, report, clock, asked, streams=streams)
    if governance.rename:
        stages.append(ToolNameStage(tools, report))
    if exit_name:
        stages.append(ExitToolStage(exit_name, report))
    if governance.tools != "live":
        held = governance if streams else msgspec.structs.replace(governance, tools="hold")
        stages.append(HoldStage(held, tools, report=report, clock=clock))
    if governance.dedupe:
        stages.append(DedupeStage(report, limit=governance.hold_bytes))
    if governance.guard:
        on_denied = governance.on_denied if can_retry else "client"
        limit = governance.hold_bytes
        stages.append(
            GuardStage(governance.guard, tools, report, on_denied=on_denied, limit=limit, is_hidden=is_hidden)
        )
    if governance.validate:
        stages.append(ValidateStage(tools, report, limit=governance.hold_bytes))
    return stages


def _build_harvest(
    governance: Governance,
    tools: tuple[DeclaredTool, ...],
    ids: IdSource,
    report: Report,
    clock: Callable[[], float] | None,
    asked: RequestText | None,
    *,
    streams: bool,
) -> list[Stage]:
    # A server that parses its model's calls leaves none in the text: what looks like one is a quotation.
    is_parsed = governance.family == AUTO and asked is not None and asked.has_server_calls

    def make(calls: bool) -> HarvestStage:
        return HarvestStage(
            tools if calls and not is_parsed else (),
            family=governance.family,
            ids=ids,
            report=report,
            limit=governance.hold_bytes,
            seconds=governance.hold_seconds,
            clock=clock or _no_clock,
            folds_case=governance.rename,
            is_repeated=asked.contains if asked is not None else None,
        )

    if not streams:
        return [WholeHarvestStage(make)]
    harvest = make(True)
    return [harvest, EchoStage(harvest, report, limit=governance.hold_bytes)]


def _no_clock() -> float:
    return 0.0
