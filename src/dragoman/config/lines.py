"""Where each key of a TOML text stands.

The text has been read by `tomllib` before, so it is known to be valid: this only has to find its way
through it, and where it loses its way it stops, with fewer lines known.
"""

import re
import tomllib
from bisect import bisect_left
from contextlib import suppress

#: Names of tables and keys, and positions in arrays.
Path = tuple[str | int, ...]

_BLANK = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_NAME = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_TO_LINE_END = re.compile(r"[^\n]*")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_SCALAR = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|[^\s,\]}#][^,\]}#\n]*"
)


def lines_of(text: str) -> dict[Path, int]:
    """The line of every table, key and array item, by its path."""
    scan = _Scan(text)
    with suppress(_LostError):
        scan.document()
    return scan.lines


class _LostError(Exception):
    """The text is not what `tomllib` accepts today."""


class _Scan:
    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._ends = [found.start() for found in re.finditer("\n", text)]
        # How many tables each array of tables has so far.
        self._counts: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        while True:
            self._take(_GAP)
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "[":
                table = self._heading()
            else:
                self._pair(table)

    def _heading(self) -> Path:
        start = self._at
        repeated = self._text.startswith("[[", start)
        self._at += 2 if repeated else 1
        *parents, last = self._names()
        self._take(_TO_LINE_END)
        path = (*self._resolved(parents), last)
        if repeated:
            number = self._counts[path] = self._counts.get(path, -1) + 1
            self._note(path, start)
            path = (*path, number)
        self._note(path, start)
        return path

    def _resolved(self, names: list[str]) -> Path:
        """A name that is an array of tables means its last table."""
        path: Path = ()
        for name in names:
            path = (*path, name)
            if path in self._counts:
                path = (*path, self._counts[path])
        return path

    def _pair(self, table: Path) -> None:
        start = self._at
        path = table
        for name in self._names():
            path = (*path, name)
            self._note(path, start)
        self._take(_BLANK)
        self._expect("=")
        self._value(path)

    def _names(self) -> list[str]:
        names = []
        while True:
            self._take(_BLANK)
            name = self._take(_NAME)
            if not name:
                raise _LostError
            names.append(str(tomllib.loads(f"name = {name}")["name"]) if name[0] in "\"'" else name)
            if not self._take(_DOT):
                return names

    def _value(self, path: Path) -> None:
        """Step over a value, noting what is inside it."""
        self._take(_GAP)
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._items(path)
        elif opening == "{":
            self._members(path)
        elif not self._take(_SCALAR):
            raise _LostError

    def _items(self, path: Path) -> None:
        self._expect("[")
        number = 0
        while not self._closes("]"):
            self._note((*path, number), self._at)
            self._value((*path, number))
            number += 1

    def _members(self, path: Path) -> None:
        self._expect("{")
        while not self._closes("}"):
            self._pair(path)

    def _closes(self, bracket: str) -> bool:
        """Step over what separates items; whether the bracket ended them."""
        self._take(_GAP)
        if self._text.startswith(",", self._at):
            self._at += 1
            self._take(_GAP)
        if self._text.startswith(bracket, self._at):
            self._at += 1
            return True
        return False

    def _expect(self, character: str) -> None:
        if not self._text.startswith(character, self._at):
            raise _LostError
        self._at += 1

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _note(self, path: Path, position: int) -> None:
        self.lines.setdefault(path, bisect_left(self._ends, position) + 1)
