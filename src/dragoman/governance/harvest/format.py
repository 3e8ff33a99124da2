"""What a format is: the markers that open something, and readers that know what may follow them.

Safety says how much a marker proves. `A`: a special token that nobody types by accident. `B`: ordinary
markup, believed only with a well-formed body. `C`: no marker at all, believed only if the whole visible
answer is calls.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Literal

import msgspec

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.tool_names import DeclaredTool

Safety = Literal["A", "B", "C"]


class Place(Enum):
    """Where a marker counts: anywhere, before any visible text, or before anything at all."""

    ANYWHERE = auto()
    OPENING = auto()
    FIRST = auto()


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of reasoning: what ends it, a tag that may be repeated in it, a label it may begin with."""

    closers: tuple[str, ...]
    opens: str = ""
    label: str = ""


class Calls(msgspec.Struct, frozen=True):
    """Calls that stand or fall together; empty if the reader has handed over its calls one by one."""

    calls: tuple[Call, ...] = ()


class Begins(msgspec.Struct, frozen=True):
    """Reasoning begins here."""

    section: Section


class Layout(msgspec.Struct, frozen=True):
    """What was read is mere framing; from here on so are these literals."""

    literals: tuple[str, ...] = ()


Outcome = Calls | Begins | Layout


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What readers know. `strict`: believe only what is well-formed to the last bracket.

    `longest`: no declared name is longer.
    """

    tools: Mapping[str, DeclaredTool]
    longest: int = 0
    strict: bool = False

    def knows(self, name: str) -> bool:
        return name in self.tools


Reading = Step[Outcome | None]
Reader = Callable[[Cursor, Context], Reading]


class Opener(msgspec.Struct, frozen=True, kw_only=True):
    """A marker and what reads on behind it, or `inside` it, so many characters after its beginning.

    `auto`: fit for being looked for where the family is unknown. `frames`: it opens other things too, so that
    it counts even where no tools were declared.
    """

    marker: str
    read: Reader
    safety: Safety
    place: Place = Place.ANYWHERE
    inside: int | None = None
    auto: bool = True
    frames: bool = False


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """How a family marks its reasoning.

    `implied`: the prompt ends with the tag, so that the reply begins inside. `again`: later tags open it
    again. `wraps`: tags around the visible answer. `stray`: a lone closing tag may lead an answer without
    reasoning. `certain`: the tags are no words that an answer may begin with.
    """

    opens: str
    closes: str
    implied: bool = False
    again: bool = False
    wraps: tuple[tuple[str, str], ...] = ()
    stray: bool = False
    label: str = ""
    certain: bool = True


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """What one family of models writes. `models` names some for the documentation."""

    name: str
    models: str
    openers: tuple[Opener, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()

    @property
    def safety(self) -> str:
        return "/".join(sorted({opener.safety for opener in self.openers}))
