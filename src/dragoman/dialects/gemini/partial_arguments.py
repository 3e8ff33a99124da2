"""Collects arguments that arrive value by value, each with its path.

Values of the same path are appended if they are texts, and replaced otherwise. A list grows only at its end,
so a path cannot use more memory than its own length.
"""

import re
from itertools import pairwise
from typing import Final

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.spelling import to_camel

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPED = re.compile(r"\\(.)")

DEPTH: Final = 100


class _TextPieces:
    """A text in pieces, joined at the end: joining them one by one takes quadratic time."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []


def _parse_path(path: str) -> list[str | int] | None:
    """The names and indexes of a path such as `$.a.b[0]`, or None if it is no such path."""
    steps: list[str | int] = []
    position = 1
    while position < len(path) and len(steps) <= DEPTH:
        found = _STEP.match(path, position)
        if found is None:
            return None
        name, index, single, double = found.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name if name is not None else _ESCAPED.sub(r"\1", single or double or ""))
        position = found.end()
    return steps if path[:1] == "$" and 0 < len(steps) <= DEPTH else None


class PartialArguments:
    """The arguments of one call so far."""

    def __init__(self, start: object = None) -> None:
        self._root: Json = dict(start) if isinstance(start, dict) else {}

    def add(self, item: object) -> bool:
        """Add one item of `partialArgs`; False if its path is invalid."""
        if not isinstance(item, dict):
            return False
        item = to_camel(item)
        path = item.get("jsonPath")
        steps = _parse_path(path) if isinstance(path, str) else None
        if steps is None:
            return False
        for name in ("stringValue", "numberValue", "boolValue"):
            if item.get(name) is not None:
                return self._store(steps, item[name])
        # An item that will continue and has no value is an empty text; any other is null.
        return self._store(steps, None if "nullValue" in item or not item.get("willContinue") else "")

    def _store(self, steps: list[str | int], value: object) -> bool:
        place: object = self._root
        for step, following in pairwise(steps):
            inner = _get(place, step)
            if not isinstance(inner, dict | list):
                inner = [] if isinstance(following, int) else {}
                if not _set(place, step, inner):
                    return False
            place = inner
        if not isinstance(value, str):
            return _set(place, steps[-1], value)
        growing = _get(place, steps[-1])
        if not isinstance(growing, _TextPieces):
            growing = _TextPieces()
            if not _set(place, steps[-1], growing):
                return False
        growing.pieces.append(value)
        return True

    def value(self) -> Json:
        """The arguments that have arrived."""
        return {key: _join_pieces(inner) for key, inner in self._root.items()}


def _get(place: object, step: str | int) -> object:
    if isinstance(place, dict):
        return place.get(step)
    if isinstance(place, list) and isinstance(step, int) and step < len(place):
        return place[step]
    return None


def _set(place: object, step: str | int, value: object) -> bool:
    if isinstance(place, dict) and isinstance(step, str):
        place[step] = value
        return True
    if isinstance(place, list) and isinstance(step, int) and step <= len(place):
        place[step : step + 1] = [value]
        return True
    return False


def _join_pieces(value: object) -> object:
    if isinstance(value, _TextPieces):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {key: _join_pieces(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_join_pieces(inner) for inner in value]
    return value
