"""Accumulates the deltas of a choice: strings are appended, indexed lists merged, other values replaced.

Clients of this API do the same with a stream. The work is linear, and bounded in size and depth.
"""

from dragoman.dialects.base import Json
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import encode

DEPTH = 8
LIMIT = 256 * 1024 * 1024

#: Fields whose later value replaces the earlier one although it is a string.
SET_KEYS = frozenset(("index", "type", "role", "id", "name"))


class TextPieces(list[str]):
    """A string in pieces, joined at the end."""


class IndexedList(dict[int, dict[str, object]]):
    """A list whose entries arrive in fragments with an index."""


class ChoiceAccumulator:
    """Builds one choice of a whole reply from its chunks."""

    def __init__(self, blame: type[DragomanError]) -> None:
        self._blame = blame
        self._choice: dict[str, object] = {}
        self._message: dict[str, object] = {}
        self._logprobs: dict[str, object] | None = None
        self._size = 0

    def feed(self, choice: Json) -> None:
        """Add one entry of the `choices` of a chunk."""
        for key, value in choice.items():
            if key == "delta":
                if isinstance(value, dict):
                    self._merge(self._message, value, 0)
            elif key == "logprobs" and isinstance(value, dict):
                if self._logprobs is None:
                    self._logprobs = {}
                self._merge(self._logprobs, value, 0)
            elif value is not None or key not in self._choice:
                self._choice[key] = value

    def result(self) -> Json:
        """The choice in the form of a whole reply."""
        message = to_json(self._message)
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    call.pop("index", None)
        if "refusal" in message:
            # OpenAI sends both fields or neither, but a stream omits the empty list.
            message.setdefault("annotations", [])
        whole: Json = {"index": 0, **self._choice, "message": message}
        if self._logprobs is not None:
            whole["logprobs"] = to_json(self._logprobs)
        return whole

    def _merge(self, known: dict[str, object], delta: Json, depth: int) -> None:
        for key, value in delta.items():
            old = known.get(key)
            if isinstance(value, str) and key not in SET_KEYS:
                self._grow(len(value))
                if isinstance(old, TextPieces):
                    old.append(value)
                else:
                    known[key] = TextPieces((value,))
            elif isinstance(value, list):
                known[key] = self._merge_list(old, value, depth)
            elif isinstance(value, dict) and depth < DEPTH:
                inner = old if type(old) is dict else {}
                self._merge(inner, value, depth + 1)
                known[key] = inner
            elif value is not None or key not in known:
                known[key] = value

    def _merge_list(self, old: object, value: list[object], depth: int) -> object:
        if (
            depth < DEPTH
            and value
            and all(isinstance(v, dict) and type(v.get("index")) is int for v in value)
        ):
            entries = old if isinstance(old, IndexedList) else IndexedList()
            for entry in value:
                if isinstance(entry, dict):
                    self._merge(entries.setdefault(entry["index"], {}), entry, depth + 1)
            return entries
        self._grow(len(encode(value, blame=self._blame)))
        if isinstance(old, list) and not isinstance(old, TextPieces):
            old.extend(value)
            return old
        return list(value)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > LIMIT:
            raise self._blame(f"more than {LIMIT} characters in one choice")


def to_json(value: dict[str, object]) -> Json:
    """An accumulated object as plain JSON."""
    return {key: _to_json(inner) for key, inner in value.items()}


def _to_json(value: object) -> object:
    if isinstance(value, TextPieces):
        return "".join(value)
    if isinstance(value, IndexedList):
        return [to_json(value[index]) for index in sorted(value)]
    return to_json(value) if type(value) is dict else value
