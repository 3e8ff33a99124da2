"""What governance did in the course of one exchange, and who it was done to. Never the words themselves."""

from collections.abc import Iterator, Mapping

import msgspec

from dragoman.config.model import TargetName
from dragoman.governance.records import REQUEST_KINDS, Intervention, Report

#: A reply may hold any number of calls; what is kept of them is bounded.
MAX_KEPT = 200
MAX_LISTED = 20
MAX_DETAIL = 200


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """One intervention, and the target whose request or reply it was made in."""

    intervention: Intervention
    target: TargetName
    #: The target's dialect.
    upstream: str

    @property
    def phase(self) -> str:
        return "request" if self.intervention.kind in REQUEST_KINDS else "response"

    def __str__(self) -> str:
        """`repair shell (quotes, commas)`, with why where it did not go well."""
        done = self.intervention
        what = f"{done.kind} {done.tool}".strip() + (f" ({', '.join(done.detail)})" if done.detail else "")
        return what[:MAX_DETAIL] if done.ok else f"{what}: {done.reason or 'failed'}"[:MAX_DETAIL]

    def line(self) -> Mapping[str, object]:
        """The fields of a log line; what was not the case is left out."""
        done = self.intervention
        fields = {
            "phase": self.phase,
            "upstream": self.upstream,
            "target": str(self.target)[:MAX_DETAIL],
            "kind": done.kind,
            "tool": done.tool[:MAX_DETAIL],
            "detail": ", ".join(done.detail)[:MAX_DETAIL],
            "ok": done.ok,
            "reason": done.reason[:MAX_DETAIL],
            "before": done.before,
            "after": done.after,
            "held_ms": round(done.held * 1000),
        }
        return {name: value for name, value in fields.items() if value != ""}


class Interventions:
    """All of one exchange, in the order in which they happened; `left_out` are those beyond the limit."""

    __slots__ = ("_kept", "is_governed", "left_out")

    def __init__(self) -> None:
        self._kept: list[Noted] = []
        self.left_out = 0
        #: Whether governance was asked for at all.
        self.is_governed = False

    def __iter__(self) -> Iterator[Noted]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept) + self.left_out

    def reporter(self, target: TargetName, upstream: str) -> Report:
        """Takes what is done on the way to one target and back."""
        self.is_governed = True

        def report(intervention: Intervention) -> None:
            if len(self._kept) < MAX_KEPT:
                self._kept.append(Noted(intervention=intervention, target=target, upstream=upstream))
            else:
                self.left_out += 1

        return report

    def __str__(self) -> str:
        listed = "; ".join(str(noted) for noted in self._kept[:MAX_LISTED])
        return f"{len(self)}: {listed}"
