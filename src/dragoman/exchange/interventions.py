"""What governance did during one exchange, and how often it did what since the process started.

An `InterventionLog` belongs to one exchange and feeds its log lines, headers and metrics.
`InterventionCounts` belongs to the gateway and is bounded. Neither holds text of a model or a user.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from dragoman.config.provider import TargetName
from dragoman.governance.interventions import REQUEST_KINDS, Intervention, InterventionKind, Report

if TYPE_CHECKING:
    from dragoman.exchange.record import ExchangeRecord

#: Interventions that are kept for one exchange: a reply can hold any number of calls.
MAX_KEPT = 200
#: Interventions that the header `x-dragoman-repairs` names.
MAX_LISTED = 20
MAX_DETAIL = 200
#: Targets with counts of their own; further ones share one entry.
MAX_TARGETS = 500
OTHERS = "(others)"

#: The counter of each kind of intervention: where `ok` is true, and where it is false.
COUNTED_AS: dict[InterventionKind, tuple[str, str]] = {
    "prompt": ("prompts", "prompts"),
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
#: A harvest of reasoning, which is no call.
REASONING = "reasoning"
#: A call that passed the guard with other arguments.
REWRITTEN = "rewritten"


class LoggedIntervention(msgspec.Struct, frozen=True, kw_only=True):
    """One intervention, with the target whose request or reply it changed."""

    intervention: Intervention
    target: TargetName
    #: The target's dialect.
    upstream: str

    @property
    def phase(self) -> str:
        return "request" if self.intervention.kind in REQUEST_KINDS else "response"

    @property
    def counter_name(self) -> str:
        return find_counter_name(self.intervention)

    def __str__(self) -> str:
        """For example `repair shell (quotes, commas)`; with the reason if `ok` is false."""
        done = self.intervention
        what = f"{done.kind} {done.tool}".strip() + (f" ({', '.join(done.detail)})" if done.detail else "")
        return what[:MAX_DETAIL] if done.ok else f"{what}: {done.reason or 'failed'}"[:MAX_DETAIL]

    def line(self, redact: Callable[[str], str]) -> Mapping[str, object]:
        """The fields of a log line, without empty ones.

        `redact` removes known secrets: a model may call a tool by any name.
        """
        done = self.intervention
        fields = {
            "phase": self.phase,
            "upstream": self.upstream,
            "target": str(self.target)[:MAX_DETAIL],
            "kind": done.kind,
            "tool": redact(done.tool)[:MAX_DETAIL],
            "detail": ", ".join(done.detail)[:MAX_DETAIL],
            "ok": done.ok,
            "reason": done.reason[:MAX_DETAIL],
            "before": done.before,
            "after": done.after,
            "held_ms": round(done.held * 1000),
        }
        return {name: value for name, value in fields.items() if value != ""}


class InterventionLog:
    """The interventions of one exchange in order of time; `left_out` counts those beyond `MAX_KEPT`."""

    __slots__ = ("_kept", "is_governed", "left_out")

    def __init__(self) -> None:
        self._kept: list[LoggedIntervention] = []
        self.left_out = 0
        #: Whether any target of this exchange has governance.
        self.is_governed = False

    def copy(self) -> "InterventionLog":
        copied = InterventionLog()
        copied._kept, copied.left_out, copied.is_governed = [*self._kept], self.left_out, self.is_governed
        return copied

    def __iter__(self) -> Iterator[LoggedIntervention]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept) + self.left_out

    @property
    def changes(self) -> int:
        """The interventions that changed something: a call that was only held until it was whole is none."""
        held = sum(each.intervention.kind == "hold" and each.intervention.ok for each in self._kept)
        return len(self) - held

    def __str__(self) -> str:
        listed = "; ".join(str(logged) for logged in self._kept[:MAX_LISTED])
        return f"{len(self)}: {listed}"

    def reporter(self, target: TargetName, upstream: str) -> Report:
        """Build the report function for one target, whose dialect is `upstream`."""
        self.is_governed = True

        def report(intervention: Intervention) -> None:
            if len(self._kept) < MAX_KEPT:
                logged = LoggedIntervention(intervention=intervention, target=target, upstream=upstream)
                self._kept.append(logged)
            else:
                self.left_out += 1

        return report


class InterventionCounts:
    """Counts per target since the process started: replies, calls and interventions."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def add(self, record: "ExchangeRecord") -> None:
        """Count an exchange that has ended, if a target of it has governance."""
        if record.target is not None and record.tally is not None:
            counter = self._find_counter(str(record.target))
            counter["replies"] += 1
            counter["calls"] += record.tally.calls
        for logged in record.interventions:
            self._find_counter(str(logged.target))[logged.counter_name] += 1

    def copy_counts(self) -> dict[str, dict[str, int]]:
        """The counts by target (`provider/model`), without zeros."""
        return {target: dict(+counter) for target, counter in self._counts.items()}

    def _find_counter(self, target: str) -> Counter[str]:
        if target not in self._counts and len(self._counts) >= MAX_TARGETS:
            target = OTHERS
        return self._counts.setdefault(target, Counter())


def find_counter_name(intervention: Intervention) -> str:
    """The name under which status and metrics count an intervention."""
    if intervention.kind == "harvest" and REASONING in intervention.detail:
        return REASONING
    if intervention.kind == "guard" and intervention.ok and "rewrite" in intervention.detail:
        return REWRITTEN
    good, bad = COUNTED_AS[intervention.kind]
    return good if intervention.ok else bad
