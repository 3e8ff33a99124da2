"""What a text consists of: text, reasoning and calls, in their order."""

import msgspec

from dragoman.governance.harvest.cursor import TextCall


class TextPart(msgspec.Struct, frozen=True):
    """Visible text."""

    text: str


class ReasoningPart(msgspec.Struct, frozen=True):
    """A piece of reasoning."""

    text: str


class ReasoningEnd(msgspec.Struct, frozen=True):
    """The section of reasoning is over; later reasoning belongs to another section."""


class CallPart(msgspec.Struct, frozen=True):
    """A complete call, the family whose format it has, and its length in the text."""

    call: TextCall
    family: str
    length: int


class UnfinishedPart(msgspec.Struct, frozen=True):
    """The text before began like calls of this family, had no end, and stays text."""

    family: str
    length: int


ScannedPart = TextPart | ReasoningPart | ReasoningEnd | CallPart | UnfinishedPart


class PartList:
    """Collects parts; adjacent texts of the same kind become one part."""

    __slots__ = ("_kind", "_parts", "_texts")

    def __init__(self) -> None:
        self._parts: list[ScannedPart] = []
        self._kind: type[TextPart] | type[ReasoningPart] = TextPart
        self._texts: list[str] = []

    def add_text(self, kind: type[TextPart] | type[ReasoningPart], text: str) -> None:
        if not text:
            return
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        self._texts.append(text)

    def add(self, part: ScannedPart) -> None:
        self._flush()
        self._parts.append(part)

    def take(self) -> list[ScannedPart]:
        """The parts so far; the list starts anew."""
        self._flush()
        parts, self._parts = self._parts, []
        return parts

    def _flush(self) -> None:
        if self._texts:
            self._parts.append(self._kind("".join(self._texts)))
            self._texts = []
