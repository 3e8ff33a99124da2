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


class RefusedPart(msgspec.Struct, frozen=True):
    """The `length` characters before this part look like calls of `family` but are kept as text."""

    family: str
    length: int
    reason: str


ScannedPart = TextPart | ReasoningPart | ReasoningEnd | CallPart | RefusedPart

# Why a text that looks like a call is left as text.
UNFINISHED = "unfinished"
MALFORMED = "malformed"
UNDECLARED = "no such tool is declared"
UNFIT = "the arguments do not fit the tool's schema"
TEXT_BEFORE = "text before it on its line"
TEXT_BEHIND = "text behind it on its line"
REPEATED = "repeats the request"


TextKind = type[TextPart] | type[ReasoningPart]


class PartList:
    """Collects parts; adjacent texts of the same kind become one part.

    Blanks around calls and reasoning are layout. `layout` holds blanks until it is known what follows them.
    `skips_blanks`: the next blanks are layout. Text on both sides of a call stays on separate lines.
    """

    __slots__ = ("_kind", "_line_break", "_parts", "_texts", "layout", "skips_blanks")

    def __init__(self) -> None:
        self._parts: list[ScannedPart] = []
        self._kind: TextKind = TextPart
        self._texts: list[str] = []
        self.layout: list[str] = []
        self.skips_blanks = False
        #: The line break between text and a call behind it, for text that may follow the call.
        self._line_break = ""

    @property
    def passes_text(self) -> bool:
        """Whether text is added as it is, behind the layout."""
        return not (self.skips_blanks or self._line_break)

    def add_text(self, text: str, *, keeps_breaks: bool) -> None:
        """Add text. Line breaks at its end are held back, unless `keeps_breaks`."""
        text = self._strip(text)
        self._add_stripped(TextPart, text if keeps_breaks else text.rstrip("\r\n"), text)

    def add_reasoning(self, text: str) -> None:
        """Add reasoning. Blanks at its end are held back."""
        text = self._strip(text)
        self._add_stripped(ReasoningPart, text.rstrip(), text)

    def add_layout(self, kind: TextKind, *texts: str) -> None:
        """Append the blanks held back so far, then `texts` unchanged, as parts of `kind`."""
        for text in (*self.layout, *texts):
            self._add(kind, text)
        self.layout = []

    def interrupt(self) -> None:
        """Drop the blanks around a call or framing, but keep a line break for later text."""
        self._line_break = "".join(self.layout) or self._line_break
        self.layout = []
        self.skips_blanks = True

    def add(self, part: ScannedPart) -> None:
        self._flush()
        self._parts.append(part)

    def take(self) -> list[ScannedPart]:
        """Return the parts so far and clear the list."""
        self._flush()
        parts, self._parts = self._parts, []
        return parts

    def _strip(self, text: str) -> str:
        if self.skips_blanks:
            text = text.lstrip()
            self.skips_blanks = not text
        return text

    def _add_stripped(self, kind: TextKind, kept: str, text: str) -> None:
        if kept:
            if self._line_break and kind is TextPart:
                self._add(kind, self._line_break)
                self._line_break = ""
            self.add_layout(kind, kept)
        if len(kept) < len(text):
            self.layout.append(text[len(kept) :])

    def _add(self, kind: TextKind, text: str) -> None:
        if not text:
            return
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        self._texts.append(text)

    def _flush(self) -> None:
        if self._texts:
            self._parts.append(self._kind("".join(self._texts)))
            self._texts = []
