"""The line of each key in a TOML text, for error messages. `tomllib` does not report lines.

The text is valid: `tomllib` has parsed it before. If the scanner meets something unexpected it stops, and the
lines after that place stay unknown.
"""

import re
import tomllib
from bisect import bisect_left
from contextlib import suppress

#: Names of tables and keys, and indexes of array items.
KeyPath = tuple[str | int, ...]

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


def find_lines(text: str) -> dict[KeyPath, int]:
    """The line of every table, key and array item, by path."""
    scanner = _LineScanner(text)
    with suppress(_ScanError):
        scanner.read_document()
    return scanner.lines


class _ScanError(Exception):
    """The text has a form that the scanner does not know."""


class _LineScanner:
    """Reads the text once, from start to end. `lines` is the result; `_at` is the current position."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._ends = [found.start() for found in re.finditer("\n", text)]
        # The index of the last table of each array of tables so far.
        self._counts: dict[KeyPath, int] = {}

    def read_document(self) -> None:
        table: KeyPath = ()
        while True:
            self._take(_GAP)
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "[":
                table = self._read_heading()
            else:
                self._read_pair(table)

    def _read_heading(self) -> KeyPath:
        start = self._at
        repeated = self._text.startswith("[[", start)
        self._at += 2 if repeated else 1
        *parents, last = self._read_names()
        self._take(_TO_LINE_END)
        path = (*self._resolve(parents), last)
        # A misspelt table has a line although only the tables below it have headings.
        for length in range(1, len(path)):
            self._record(path[:length], start)
        if repeated:
            number = self._counts[path] = self._counts.get(path, -1) + 1
            self._record(path, start)
            path = (*path, number)
        self._record(path, start)
        return path

    def _resolve(self, names: list[str]) -> KeyPath:
        """The path of these names. The name of an array of tables means its last table."""
        path: KeyPath = ()
        for name in names:
            path = (*path, name)
            if path in self._counts:
                path = (*path, self._counts[path])
        return path

    def _read_pair(self, table: KeyPath) -> None:
        start = self._at
        path = table
        for name in self._read_names():
            path = (*path, name)
            self._record(path, start)
        self._take(_BLANK)
        self._skip("=")
        self._read_value(path)

    def _read_names(self) -> list[str]:
        names = []
        while True:
            self._take(_BLANK)
            name = self._take(_NAME)
            if not name:
                raise _ScanError
            names.append(str(tomllib.loads(f"name = {name}")["name"]) if name[0] in "\"'" else name)
            if not self._take(_DOT):
                return names

    def _read_value(self, path: KeyPath) -> None:
        """Skip a value; record the lines of its items and members."""
        self._take(_GAP)
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._read_items(path)
        elif opening == "{":
            self._read_members(path)
        elif not self._take(_SCALAR):
            raise _ScanError

    def _read_items(self, path: KeyPath) -> None:
        self._skip("[")
        number = 0
        while not self._skip_to_item("]"):
            self._record((*path, number), self._at)
            self._read_value((*path, number))
            number += 1

    def _read_members(self, path: KeyPath) -> None:
        self._skip("{")
        while not self._skip_to_item("}"):
            self._read_pair(path)

    def _skip_to_item(self, bracket: str) -> bool:
        """Skip white space, comments and a comma, and the closing bracket. Returns whether it was there."""
        self._take(_GAP)
        if self._text.startswith(",", self._at):
            self._at += 1
            self._take(_GAP)
        if self._text.startswith(bracket, self._at):
            self._at += 1
            return True
        return False

    def _skip(self, character: str) -> None:
        if not self._text.startswith(character, self._at):
            raise _ScanError
        self._at += 1

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _record(self, path: KeyPath, position: int) -> None:
        self.lines.setdefault(path, bisect_left(self._ends, position) + 1)
