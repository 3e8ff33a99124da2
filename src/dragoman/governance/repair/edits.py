"""Corrections to a text, by place: what they do not touch stays as it was written."""

from operator import itemgetter

#: More corrections than this are not a slip of the pen: the text is something else.
MAX_EDITS = 30_000


class Unreadable(Exception):
    """There is no reading of this text, or more than one."""


class Hopeless(Unreadable):
    """No bolder reading is worth trying."""


class Edits:
    """Replacements for stretches of one text, and the names of the liberties they are."""

    __slots__ = ("_edits", "_text", "steps")

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[tuple[int, int, str]] = []
        self.steps: set[str] = set()

    def replace(self, start: int, end: int, replacement: str, step: str = "") -> None:
        if len(self._edits) == MAX_EDITS:
            raise Hopeless
        self._edits.append((start, end, replacement))
        if step:
            self.steps.add(step)

    def insert(self, position: int, addition: str, step: str) -> None:
        self.replace(position, position, addition, step)

    def take_back(self, start: int) -> None:
        """Forget the corrections from this place on."""
        while self._edits and self._edits[-1][0] >= start:
            self._edits.pop()

    def applied(self, start: int, end: int) -> str:
        """The corrected text between two places."""
        pieces = []
        position = start
        # Stable, so that insertions at one place stay in order. Nearly sorted, so cheap.
        self._edits.sort(key=itemgetter(0))
        for first, last, replacement in self._edits:
            pieces.append(self._text[position:first])
            pieces.append(replacement)
            position = last
        pieces.append(self._text[position:end])
        return "".join(pieces)
