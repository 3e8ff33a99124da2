"""Counts of what governance did, by target: which of one's models misbehaves, and how.

They live as long as the process, and their number is bounded.
"""

from collections import Counter

from dragoman.exchange.record import Record
from dragoman.governance.records import Intervention, InterventionKind

#: Targets that are told apart; further ones are counted together.
MAX_TARGETS = 500
OTHERS = "(others)"

#: What each kind of intervention is counted as, where it went well and where it did not.
COUNTED_AS: dict[InterventionKind, tuple[str, str]] = {
    "choice": ("raised", "raised"),
    "contract": ("contracts", "contracts"),
    "repair": ("repaired", "unrepairable"),
    "unrepairable": ("unrepairable", "unrepairable"),
    "harvest": ("harvested", "unfinished"),
    "hold": ("held", "let_go"),
    "guard": ("allowed", "denied"),
    "dedupe": ("doubled", "doubled"),
    "validate": ("valid", "invalid"),
    "rename": ("renamed", "renamed"),
    "undeclared": ("undeclared", "undeclared"),
    "exit": ("answers", "answers"),
}
#: A harvest that is no call.
REASONING = "reasoning"
#: A call that passed, but not as it was.
REWRITTEN = "rewritten"


class ToolCounts:
    """`replies` and `calls` of each target under governance, and what was done to them."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def add(self, record: Record) -> None:
        """Count an exchange that is over."""
        if not record.interventions.is_governed:
            return
        if record.target is not None and record.tally is not None:
            counter = self._of(str(record.target))
            counter["replies"] += 1
            counter["calls"] += record.tally.calls
        for noted in record.interventions:
            self._of(str(noted.target))[counted_as(noted.intervention)] += 1

    def snapshot(self) -> dict[str, dict[str, int]]:
        """The counts by target, `provider/model`; what never happened is left out."""
        return {target: dict(+counter) for target, counter in self._counts.items()}

    def _of(self, target: str) -> Counter[str]:
        if target not in self._counts and len(self._counts) >= MAX_TARGETS:
            target = OTHERS
        return self._counts.setdefault(target, Counter())


def counted_as(intervention: Intervention) -> str:
    """The name under which an intervention is counted."""
    if intervention.kind == "harvest" and REASONING in intervention.detail:
        return REASONING
    if intervention.kind == "guard" and intervention.ok and "rewrite" in intervention.detail:
        return REWRITTEN
    well, badly = COUNTED_AS[intervention.kind]
    return well if intervention.ok else badly
