"""The names of the repair steps, and the list of edits to one text that carries them."""

from collections.abc import Iterable
from enum import StrEnum, auto
from operator import itemgetter

#: A text that needs more edits than this is not a JSON object with mistakes, but something else.
MAX_EDITS = 30_000


class RepairStep(StrEnum):
    """The steps of a repair, the most conservative first. Reports contain the names: do not rename them."""

    # Around the object.
    WRAPPING = auto()
    EMPTY = auto()
    DOUBLE_ENCODING = auto()
    # Inside the object: another spelling of the same value.
    CONTROL_CHARACTERS = auto()
    COMMAS = auto()
    COMMENTS = auto()
    QUOTES = auto()
    BARE_KEYS = auto()
    LITERALS = auto()
    NUMBERS = auto()
    SEPARATORS = auto()
    ESCAPES = auto()
    # Inside the object: something is missing or surplus.
    UNFINISHED_STRING = auto()
    BRACKETS = auto()
    SURPLUS_CLOSERS = auto()
    BARE_VALUES = auto()
    INNER_QUOTES = auto()
    REPEATED_OBJECT = auto()
    LIST_OF_ONE = auto()
    SURROUNDING_TEXT = auto()
    # By the tool's schema.
    OMITTED_VALUES = auto()
    LINES = auto()
    LONE_STRING = auto()
    WRAPPER = auto()
    ALIASES = auto()
    TYPES = auto()


STEPS: tuple[str, ...] = tuple(step.value for step in RepairStep)


def sort_steps(steps: Iterable[RepairStep]) -> tuple[str, ...]:
    """The names of the steps, each once, the most conservative first."""
    return tuple(sorted({step.value for step in steps}, key=STEPS.index))


class UnreadableText(Exception):
    """The text has no meaning as JSON, or more than one."""


class UnrepairableText(UnreadableText):
    """The text is unreadable, and no other candidate can be read either."""


class Edits:
    """Replacements in one text, and the steps that they belong to. Text outside the edits stays as it is."""

    __slots__ = ("_edits", "_text", "steps")

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[tuple[int, int, str]] = []
        self.steps: set[RepairStep] = set()

    def replace(self, start: int, end: int, replacement: str, step: RepairStep | None = None) -> None:
        if len(self._edits) == MAX_EDITS:
            raise UnrepairableText
        self._edits.append((start, end, replacement))
        if step:
            self.steps.add(step)

    def insert(self, position: int, addition: str, step: RepairStep) -> None:
        self.replace(position, position, addition, step)

    def drop_from(self, start: int) -> None:
        """Remove the last edits, as long as they begin at `start` or later."""
        while self._edits and self._edits[-1][0] >= start:
            self._edits.pop()

    def apply(self, start: int, end: int) -> str:
        """The edited text between two positions of the original."""
        pieces: list[str] = []
        position = start
        # Stable, so that insertions at one position keep their order. Nearly sorted, so cheap.
        self._edits.sort(key=itemgetter(0))
        for first, last, replacement in self._edits:
            pieces += (self._text[position:first], replacement)
            position = last
        pieces.append(self._text[position:end])
        return "".join(pieces)
