"""Tries prompt rules on recorded requests: what they change, and whether prompts keep their beginning."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec

from dragoman.config.config import Config
from dragoman.governance.interventions import Intervention
from dragoman.pipeline.plan import RequestPlan
from dragoman.prompts.rules import apply_prompts, compile_prompts
from dragoman.records.differences import Difference, compare
from dragoman.records.prompts import PromptBreak, PromptPart, find_break, list_parts
from dragoman.records.reading import build_metadata
from dragoman.records.store import Row
from dragoman.routing.traits import RequestTraits


class PromptPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules make of one recorded request.

    `broken`: where the changed prompt leaves that of the turn before, although the client's does not.
    """

    number: int
    rules: list[str]
    differences: list[Difference]
    broken: PromptBreak | None = None


def preview_prompts(
    config: Config, turns: Sequence[tuple[Row, bytes]], clock: Callable[[], float]
) -> list[PromptPreview]:
    """Apply the rules of the configuration to the requests of consecutive turns."""
    prompts = compile_prompts(config.prompts)
    found: list[PromptPreview] = []
    before: tuple[list[PromptPart], list[PromptPart]] | None = None
    for row, body in turns:
        plan = RequestPlan(build_metadata(row), body)
        plan.model = row["model"]
        traits = RequestTraits(
            plan, key=row["key"], roles=config.roles, clock=lambda: datetime.fromtimestamp(clock())
        )
        reports: list[Intervention] = []
        plan.rewrite(partial(apply_prompts, prompts=prompts, traits=traits, report=reports.append))
        original, changed = msgspec.json.decode(body), msgspec.json.decode(plan.body)
        now = (list_parts(original), list_parts(changed))
        broken = None
        if before is not None and find_break(before[0], now[0]) is None:
            broken = find_break(before[1], now[1])
        before = now
        rules = [name for report in reports for name in report.detail]
        differences = compare(original, changed) if rules else []
        found.append(PromptPreview(number=row["number"], rules=rules, differences=differences, broken=broken))
    return found
