"""What the doctor finds: one line for each thing that was looked at."""

from typing import Literal

import msgspec

#: `helped`: it works because dragoman sees to it. `lacks`: there is no such thing, and nothing breaks without
#: it. `skipped`: it makes no sense after what failed before. `unclear`: it could not be found out now.
State = Literal["works", "helped", "lacks", "fails", "skipped", "unclear"]

Facts = dict[str, object]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`facts` are what was learned about the model; `advice` says what to do next."""

    name: str
    state: State
    detail: str = ""
    advice: str = ""
    facts: Facts = {}


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """A model, and what was found out about it."""

    target: str
    findings: tuple[Finding, ...]
    #: Tokens that the questions and answers took, as far as that was told, and what they cost if known.
    tokens: int = 0
    micro_dollars: int | None = None
    #: Everything was looked at.
    is_whole: bool = True

    @property
    def facts(self) -> Facts:
        """All that was learned."""
        return {name: value for finding in self.findings for name, value in finding.facts.items()}
