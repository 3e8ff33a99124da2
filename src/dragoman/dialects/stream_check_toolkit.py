"""The toolkit of the stream checkers: tables of fields and of transitions, and a class that applies them.

Each dialect's `stream_check.py` is written from the API's documentation with these tools alone. It shares
nothing with our stream reader and stream writer, so that a mistake in them cannot hide in the checker.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from dragoman.dialects.interfaces import Json, Violation
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, json_type
from dragoman.wire.sse import SseReader


class Exactly(msgspec.Struct, frozen=True):
    """A field with one allowed value."""

    value: object


#: A name is a text that is not empty; a count is an integer that is not negative.
TypeName: TypeAlias = Literal["text", "name", "flag", "count", "number", "list", "object", "any"]
_TYPES = {"text": (str,), "flag": (bool,), "number": (int, float), "list": (list,), "object": (dict,)}
#: What a field may hold: a type, one value, one of some texts, a text that matches a pattern, an object with
#: fields of its own; or a value that one of several rules allows (None: null).
FieldRule: TypeAlias = (
    "TypeName | Exactly | frozenset[str] | re.Pattern[str] | FieldRules | tuple[FieldRule | None, ...]"
)
FieldRules: TypeAlias = Mapping[str, FieldRule]


def fields(names: str, rule: FieldRule) -> dict[str, FieldRule]:
    """One rule for several fields. `names` are separated by spaces."""
    return dict.fromkeys(names.split(), rule)


def one_of(values: str) -> frozenset[str]:
    """The rule of a field that holds one of some texts, which are separated by spaces."""
    return frozenset(values.split())


def _allows(rule: FieldRule, value: object) -> bool:
    match rule:
        case Exactly():
            return value == rule.value
        case frozenset():
            return isinstance(value, str) and value in rule
        case re.Pattern():
            return isinstance(value, str) and rule.fullmatch(value) is not None
        case tuple():
            return any(value is None if one is None else _allows(one, value) for one in rule)
        case "name":
            return isinstance(value, str) and value != ""
        case "count":
            return type(value) is int and value >= 0
        case str():
            return rule == "any" or type(value) in _TYPES[rule]
    return isinstance(value, dict)


class StreamChecker(ABC):
    """Collects the violations of one stream and follows its state in a table of transitions.

    A subclass defines `check_frame` and `check_end`, and calls one of the two `check_…_stream` methods once.
    `number` is the number of the current frame, from 1; `kind` is its type, if reports shall name it.
    """

    def __init__(self, moves: Mapping[str, Mapping[str, str]]) -> None:
        self.violations: list[Violation] = []
        self.number = 0
        self.kind = ""
        self.state = "NEW"
        #: For each state the kinds of frame that it allows, and the state after each.
        self._moves = moves

    @abstractmethod
    def check_frame(self, event: str, data: bytes) -> None:
        """Check the next frame."""

    @abstractmethod
    def check_end(self) -> None:
        """Check that the stream may end after the last frame."""

    def check_sse_stream(self, stream: bytes) -> list[Violation]:
        """Check a stream of server-sent events in any legal spelling."""
        reader = SseReader()
        try:
            for frame in [*reader.feed(stream), *reader.close()]:
                self.number += 1
                self.kind = ""
                self.check_frame(frame.event, frame.data)
        except DragomanError as error:
            self.report(error.message)
        self.kind = ""
        self.require(not reader.stray, "bytes that belong to no event")
        self.check_end()
        return self.violations

    def check_line_stream(self, stream: bytes, *, has_comments: bool) -> list[Violation]:
        """Check a stream whose clients read line by line: one line `data: …` and a blank line per frame."""
        *frames, rest = stream.split(b"\n\n")
        for frame in [*frames, rest + b"\n"] if rest else frames:
            if has_comments and (not frame or frame.startswith(b":")):
                continue
            self.number += 1
            is_line = frame.startswith(b"data: ") and b"\n" not in frame and b"\r" not in frame
            if self.require(is_line, "a frame is not one line `data: …` and a blank line"):
                self.check_frame("", frame[6:])
        self.check_end()
        return self.violations

    def report(self, message: str) -> None:
        text = f"{self.kind}: {message}" if self.kind else message
        self.violations.append(Violation(self.number, text))

    def require(self, is_legal: bool, message: str) -> bool:
        """Report the message unless the stream is legal here."""
        if not is_legal:
            self.report(message)
        return is_legal

    def check_fields(self, value: Json, rules: FieldRules, path: str = "", *, required: bool = True) -> bool:
        """Report every field that breaks its rule, and every missing one if all are required."""
        is_legal = True
        for name, rule in rules.items():
            if not required and name not in value:
                continue
            where, inner = f"{path}.{name}" if path else name, value.get(name)
            if name not in value:
                fits = self.require(False, f"{where} is missing")
            elif isinstance(rule, Mapping) and isinstance(inner, dict):
                fits = self.check_fields(inner, rule, where)
            else:
                fits = self.require(_allows(rule, inner), f"{where} has a wrong value ({json_type(inner)})")
            is_legal = is_legal and fits
        return is_legal

    def require_objects(self, value: object, path: str) -> list[Json]:
        """The objects of a list. A list with other items is reported."""
        items = value if isinstance(value, list) else [None]
        self.require(all(isinstance(item, dict) for item in items), f"{path} is not a list of objects")
        return [item for item in items if isinstance(item, dict)]

    def move(self, kind: str) -> bool:
        """Go to the state after a frame of this kind, or report that the state does not allow it."""
        after = self._moves[self.state].get(kind)
        self.state = after or self.state
        return self.require(after is not None, f"{kind} is not allowed in state {self.state}")

    def decode(self, data: bytes) -> Json | None:
        """The JSON object of a frame, or None with a report."""
        try:
            payload = decode(data)
        except DragomanError:
            self.report("the payload is not JSON")
            return None
        self.require(isinstance(payload, dict), f"the payload is {json_type(payload)}, not an object")
        return payload if isinstance(payload, dict) else None
