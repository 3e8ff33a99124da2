"""What a family of models writes: markers with a reader for what follows them, and reasoning tags.

The safety class of a marker states how much it proves. `A`: a special token that no text contains by
accident. `B`: ordinary markup, which counts only with a well-formed body. `C`: no marker; it counts only if
the whole visible answer is calls.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Literal

import msgspec
from msgspec.structs import replace

from dragoman.governance.harvest.cursor import CursorReading, TextCall, TextCursor
from dragoman.governance.harvest.parts import UNDECLARED
from dragoman.governance.tool_names import DeclaredTool

Safety = Literal["A", "B", "C"]


class MarkerPlace(Enum):
    """Where a marker counts: anywhere, before any visible text, or before anything else."""

    ANYWHERE = auto()
    OPENING = auto()
    FIRST = auto()


class ReasoningSection(msgspec.Struct, frozen=True, kw_only=True):
    """A section of reasoning: what closes it, its opening tag, which may repeat, and a label behind that."""

    closers: tuple[str, ...]
    opens: str = ""
    label: str = ""


class FoundCalls(msgspec.Struct, frozen=True):
    """Calls that count together. The reader may have yielded others before."""

    calls: tuple[TextCall, ...]


class ReasoningStart(msgspec.Struct, frozen=True):
    """Reasoning begins here."""

    section: ReasoningSection


class Framing(msgspec.Struct, frozen=True):
    """The text was framing without content; from here on these literals are framing too."""

    literals: tuple[str, ...] = ()


ReaderOutcome = FoundCalls | ReasoningStart | Framing


class ReaderContext(msgspec.Struct, frozen=True, kw_only=True):
    """The declared tools and the length of their longest name. `strict`: accept no mistake in a body.

    `by_folded_name`: the tools by their names in lower case, where these are unique; empty if case counts.
    """

    tools: Mapping[str, DeclaredTool]
    longest: int = 0
    strict: bool = False
    by_folded_name: Mapping[str, DeclaredTool] = {}

    def find(self, name: str, cursor: TextCursor) -> DeclaredTool | None:
        """The declared tool with this name, also in other case; None notes the reason at the cursor."""
        tool = self.tools.get(name)
        if tool is None and (folded := self.by_folded_name.get(name.casefold())) is not None:
            return replace(folded, name=name)
        if tool is None and name:
            cursor.refusal = UNDECLARED
        return tool


Reading = CursorReading[ReaderOutcome | None]
FormatReader = Callable[[TextCursor, ReaderContext], Reading]


class Opener(msgspec.Struct, frozen=True):
    """A marker and the reader of what follows it.

    `inline`: text may stand before it on its line, as in the family's chat template. `text_behind`: text may
    stand behind its calls on their line; then none may stand before.
    `inside`: how many characters after the beginning of the marker the reader begins; None: after all of it.
    `auto`: `auto` looks for it too. `frames`: it opens other things besides calls, so that it counts even
    without declared tools.
    """

    marker: str
    read: FormatReader
    safety: Safety
    place: MarkerPlace = MarkerPlace.ANYWHERE
    inside: int | None = None
    auto: bool = True
    frames: bool = False
    inline: bool = False
    text_behind: bool = False


class ReasoningTags(msgspec.Struct, frozen=True):
    """How a family marks its reasoning. Blanks next to the tags are layout.

    `in_prompt`: the prompt ends with the opening tag, so that the reply begins inside. `repeats`: later tags
    open it again; without it a tag counts only before everything else. `answer_tags`: tags around the visible
    answer. `lone_close`: a closing tag may begin an answer without reasoning. `is_distinct`: no answer begins
    like that. `also_closes`: the closing tags of other builds of the model.
    """

    opens: str
    closes: str
    in_prompt: bool = False
    repeats: bool = False
    answer_tags: tuple[tuple[str, str], ...] = ()
    lone_close: bool = False
    label: str = ""
    is_distinct: bool = True
    also_closes: tuple[str, ...] = ()

    @property
    def section(self) -> ReasoningSection:
        closers = (self.closes, *self.also_closes)
        return ReasoningSection(closers=closers, opens=self.opens, label=self.label)

    @property
    def openers(self) -> tuple[Opener, ...]:
        """The markers to look for in a family that marks its reasoning in this way."""
        place = MarkerPlace.ANYWHERE if self.repeats else MarkerPlace.FIRST
        answer_place = MarkerPlace.ANYWHERE if self.repeats else MarkerPlace.OPENING
        openers = [Opener(self.opens, constant_reader(ReasoningStart(self.section)), "A", place)]
        openers += [
            Opener(opens, constant_reader(Framing((closes,))), "A", answer_place)
            for opens, closes in self.answer_tags
        ]
        if self.lone_close:
            openers.append(Opener(self.closes, constant_reader(Framing()), "A", MarkerPlace.FIRST))
        return tuple(openers)


def constant_reader(outcome: ReaderOutcome) -> FormatReader:
    """A reader that reads nothing: the marker alone has this outcome."""

    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        yield from ()
        return outcome

    return read


def framing_openers(*tokens: str) -> tuple[Opener, ...]:
    """Openers of tokens that only enclose a message of a named family: they are removed from its text."""
    return tuple(Opener(token, constant_reader(Framing()), "A", auto=False, frames=True) for token in tokens)


THINK = ReasoningTags("<think>", "</think>")
THINK_IN_PROMPT = ReasoningTags("<think>", "</think>", in_prompt=True)


class FamilyFormat(msgspec.Struct, frozen=True):
    """What one family of models writes. `models` names some of them for the documentation."""

    name: str
    models: str
    openers: tuple[Opener, ...] = ()
    reasoning: tuple[ReasoningTags, ...] = ()

    @property
    def safety(self) -> str:
        return "/".join(sorted({opener.safety for opener in self.openers}))

    def variant(self, name: str, models: str, *reasoning: ReasoningTags) -> "FamilyFormat":
        """A format with these openers, another name and other reasoning tags."""
        return FamilyFormat(name, models, self.openers, reasoning)
