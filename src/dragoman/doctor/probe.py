"""What a probe is: one question about a model, how its answer is judged, and what may help."""

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from dragoman.doctor.finding import Facts
from dragoman.doctor.heard import Heard
from dragoman.doctor.talk import Talk
from dragoman.hub.errors import Failure

#: In advice, the heading of the model's governance.
GOVERNANCE = "[governance]"

#: `refused`: the server says no. `wrong`: it answers, but not as it was asked. `absent`: it has none.
Did = Literal["works", "refused", "wrong", "absent"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one try went. `helped` names what dragoman did to make it work, `facts` what follows from it."""

    did: Did
    detail: str = ""
    failure: Failure | None = None
    helped: tuple[str, ...] = ()
    facts: Facts = {}
    advice: str = ""


class Remedy(msgspec.Struct, frozen=True):
    """Facts under which dragoman does without, and what it does then.

    `settles`: that the server no longer refuses is enough, though the model cannot do what was asked.
    """

    facts: Facts
    words: str
    settles: bool = False


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is what the report calls it; `needs` are probes that must not have failed before."""

    name: str
    asks: str
    run: Callable[[Talk], Awaitable[Outcome]]
    remedies: tuple[Remedy, ...] = ()
    needs: tuple[str, ...] = ()
    advice: str = ""


def works(heard: Heard, detail: str = "", *helped: str) -> Outcome:
    """It did what was asked; what was lost on the way counts as help too."""
    lost = tuple(f"left out: {loss}" for loss in heard.losses)
    return Outcome(did="works", detail=detail, helped=(*helped, *lost))


def refused(heard: Heard) -> Outcome | None:
    """The outcome of a question that failed; None if it was answered."""
    failure = heard.failure
    if failure is None:
        return None
    return Outcome(did="refused", detail=failure.message, failure=failure)


def wrong(detail: str, *, advice: str = "", facts: Facts | None = None) -> Outcome:
    return Outcome(did="wrong", detail=detail, advice=advice, facts=facts or {})


def absent(detail: str, *, advice: str = "") -> Outcome:
    return Outcome(did="absent", detail=detail, advice=advice)


def quoted(text: str, limit: int = 60) -> str:
    """A little of what a model said."""
    flat = " ".join(text.split())
    return f'"{flat[:limit]}…"' if len(flat) > limit else f'"{flat}"'
