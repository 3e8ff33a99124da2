"""The results of the doctor: one finding for each thing that was checked."""

from typing import Literal

import msgspec

#: `helped`: works because dragoman adapts requests or replies. `lacks`: not available, but nothing depends on
#: it. `skipped`: not tried because an earlier check failed. `unclear`: cannot be decided now.
State = Literal["works", "helped", "lacks", "fails", "skipped", "unclear"]

#: Facts about a model, by the names that the configuration uses.
Facts = dict[str, object]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check. `advice` is the next step for the user, `facts` what was learned."""

    name: str
    state: State
    detail: str = ""
    advice: str = ""
    facts: Facts = {}


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """All findings about one model."""

    target: str
    findings: tuple[Finding, ...]
    #: Tokens of all questions and answers. Estimated where the server does not report them.
    tokens: int = 0
    #: Cost of those tokens; None if the prices of the model are unknown.
    micro_dollars: int | None = None
    #: False if a probe stayed unclear, so facts from an earlier examination must be kept.
    is_whole: bool = True

    @property
    def facts(self) -> Facts:
        """The facts of all findings."""
        return {name: value for finding in self.findings for name, value in finding.facts.items()}
