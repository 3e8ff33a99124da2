"""Reads untrusted JSON: decodes it within limits, then takes fields out of its objects one by one.

Fields that a reader does not take remain (`Fields.rest`) and can be kept, so unknown fields are not lost.
Errors name the path, the expected type and the actual JSON type, never the value.
"""

import re
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

import msgspec

from dragoman.hub.errors import ClientProtocolError, DragomanError, RequestTooLarge

#: Any decoded JSON value. An alias, because the method `Fields.object` hides the builtin.
Json: TypeAlias = object

LIMIT = 32 * 1024 * 1024
DEPTH = 200

#: Larger integers may be inexact in a float.
EXACT_FLOAT = 2**53

JSON_TYPES: dict[type, str] = {
    msgspec.UnsetType: "nothing",
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}

MAX_SHOWN_NAME = 64
#: The message of msgspec for malformed JSON: a fixed reason and an offset, without the text itself.
MALFORMED = re.compile(r"JSON is malformed: (.*)")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines

#: What the encoder raises for a value that is no JSON.
_UNWRITABLE = (RecursionError, TypeError, ValueError, OverflowError)


def json_type(value: Json) -> str:
    """The JSON type of a decoded value with its article, such as `an array`."""
    return JSON_TYPES.get(type(value), "something that is not JSON")


def decode(
    data: bytes | str,
    *,
    limit: int = LIMIT,
    depth: int = DEPTH,
    error_class: type[DragomanError] = ClientProtocolError,
) -> Json:
    """The value of a JSON text; an error of the class `error_class` with the position if the text is invalid.

    With `depth` 0 only the interpreter's stack bounds the nesting, and code that walks the value must expect
    a `RecursionError`. Counting the levels takes as long as decoding.
    """
    if isinstance(data, str):
        try:
            data = data.encode()
        except UnicodeEncodeError as error:
            raise error_class(f"invalid JSON: lone surrogate (character {error.start})") from None
    if len(data) > limit:
        raise _choose_too_large(error_class)(f"JSON is longer than {limit} bytes")
    try:
        value = _decode(data)
    except RecursionError:
        reason = f"nested deeper than {depth} levels" if depth else "nested too deeply"
        raise _choose_too_large(error_class)(f"JSON is {reason}") from None
    except ValueError as error:
        raise error_class(f"invalid JSON: {_describe_flaw(data, error)}") from None
    # Each level needs two brackets, so a short text cannot be too deep.
    if depth and len(data) > 2 * depth and is_deeper_than(depth, value):
        raise _choose_too_large(error_class)(f"JSON is nested deeper than {depth} levels")
    return value


def _choose_too_large(error_class: type[DragomanError]) -> type[DragomanError]:
    """The error class for input beyond a limit: clients have one of their own."""
    return RequestTooLarge if error_class is ClientProtocolError else error_class


def encode(value: Json, *, error_class: type[DragomanError] = DragomanError) -> bytes:
    """A value as JSON text."""
    try:
        return _encode(value)
    except _UNWRITABLE as error:
        raise error_class(_describe_unwritable(error)) from None


def encode_lines(values: Sequence[Json], *, error_class: type[DragomanError] = DragomanError) -> bytes:
    """Values as JSON text, each on a line of its own. No text of a value contains a line break."""
    try:
        return _encode_lines(values)
    except _UNWRITABLE as error:
        raise error_class(_describe_unwritable(error)) from None


def _describe_unwritable(error: Exception) -> str:
    reason = "nested too deeply" if isinstance(error, RecursionError) else type(error).__name__
    return f"cannot be written as JSON: {reason}"


def is_deeper_than(depth: int, value: Json) -> bool:
    """Whether arrays and objects nest beyond `depth` levels. Goes level by level, without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(depth):
        if not level:
            return False
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if (kind := type(child)) is dict or kind is list
        ]
    return bool(level)


def _describe_flaw(data: bytes, error: ValueError) -> str:
    """The reason and position of a decoding error, without any of the input."""
    if isinstance(error, UnicodeDecodeError):
        # The error counts from the start of one string; the offset in the whole text is more useful.
        try:
            data.decode()
        except UnicodeDecodeError as whole:
            return f"invalid UTF-8 (byte {whole.start})"
    if isinstance(error, msgspec.ValidationError):
        return "a number is out of range"
    found = MALFORMED.fullmatch(str(error))
    return found[1] if found else f"cut short (byte {len(data)})"


def _mask_name(name: str) -> str:
    """The name of a field for a path; `*` for names that cannot be a field of an API and may be private."""
    return name if name.isascii() and name.isidentifier() and len(name) <= MAX_SHOWN_NAME else "*"


class ArrayTail(list[Json]):
    """The end of an array. `first` is the index of its first item in the whole array, for the paths."""

    __slots__ = ("first",)

    def __init__(self, items: list[Json], first: int) -> None:
        super().__init__(items)
        self.first = first


def find_first_index(items: Json) -> int:
    """The index in the whole array of the list's first item: 0, except for an `ArrayTail`."""
    return items.first if type(items) is ArrayTail else 0


class Fields:
    """One JSON object, from which a reader takes the fields that it knows.

    Owns its dict and removes the taken fields from it: pass a copy to keep the original. The methods that
    take a field accept further names, tried in order; the first that holds a value is taken. A field that is
    null counts as absent for the `maybe_` and `_or` methods and stays in `rest`, so that writing the object
    again gives the null back.

    `path` is the path of the object, such as `messages[3].content[1]`; empty for a whole body.
    """

    __slots__ = ("_error_class", "_values", "path")

    def __init__(
        self, value: Json, path: str = "", error_class: type[DragomanError] = ClientProtocolError
    ) -> None:
        self.path = path
        self._error_class = error_class
        if type(value) is not dict:
            self._raise_mistyped(None, "an object", value)
        self._values: dict[str, Json] = value

    def at(self, *keys: str | int) -> str:
        """The path of a value inside this object, by names and indexes."""
        path = self.path
        for key in keys:
            if isinstance(key, int):
                path += f"[{key}]"
            else:
                path = f"{path}.{_mask_name(key)}" if path else _mask_name(key)
        return path

    def error(self, message: str, *keys: str | int) -> DragomanError:
        """An error about this object, or about the value at these keys; its class names the sender."""
        return self._error_class(message, path=self.at(*keys))

    def has(self, name: str, *others: str) -> bool:
        """Whether the field is present and not taken yet; it may be null."""
        return name in self._values or any(other in self._values for other in others)

    def rest(self) -> dict[str, Json]:
        """The fields that were not taken: the dict itself, not a copy."""
        return self._values

    def raw(self, name: str, default: Json = None, *others: str) -> Json:
        """Any value, null included."""
        if others and name not in self._values:
            return self.raw(others[0], default, *others[1:])
        return self._values.pop(name, default)

    def text(self, name: str, *others: str) -> str:
        # The most frequent call by far, so it has a fast path of its own.
        values = self._values
        value = values.get(name)
        if type(value) is str:
            del values[name]
            return value
        found = self.maybe_text(*others) if others and value is None else None
        return self._raise_absent(name, "a string") if found is None else found

    def text_or(self, name: str, default: str, *others: str) -> str:
        value = self.maybe_text(name, *others)
        return default if value is None else value

    def maybe_text(self, name: str, *others: str) -> str | None:
        value = self._values.get(name)
        if value is None:
            return self.maybe_text(*others) if others else None
        if type(value) is not str:
            self._raise_mistyped(name, "a string", value)
        del self._values[name]
        return value

    def integer(self, name: str, *others: str) -> int:
        value = self.maybe_integer(name, *others)
        return self._raise_absent(name, "an integer") if value is None else value

    def maybe_integer(self, name: str, *others: str) -> int | None:
        """Take an optional integer. A float without a fraction counts: some servers send only floats."""
        value = self._values.get(name)
        if value is None:
            return self.maybe_integer(*others) if others else None
        if type(value) is not int:
            if not isinstance(value, float) or not value.is_integer() or abs(value) > EXACT_FLOAT:
                self._raise_mistyped(name, "an integer", value)
            value = int(value)
        del self._values[name]
        return value

    def maybe_number(self, name: str, *others: str) -> int | float | None:
        value = self._values.get(name)
        if value is None:
            return self.maybe_number(*others) if others else None
        if type(value) is not int and type(value) is not float:
            self._raise_mistyped(name, "a number", value)
        del self._values[name]
        return value

    def maybe_flag(self, name: str, *others: str) -> bool | None:
        value = self._values.get(name)
        if value is None:
            return self.maybe_flag(*others) if others else None
        if type(value) is not bool:
            self._raise_mistyped(name, "a boolean", value)
        del self._values[name]
        return value

    def items(self, name: str, *others: str) -> list[Json]:
        value = self.maybe_list(name, *others)
        return self._raise_absent(name, "an array") if value is None else value

    def maybe_list(self, name: str, *others: str) -> list[Json] | None:
        value = self._values.get(name)
        if value is None:
            return self.maybe_list(*others) if others else None
        if not isinstance(value, list):
            self._raise_mistyped(name, "an array", value)
        del self._values[name]
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Take an optional array of strings. An empty array stays in `rest`, as null does."""
        value = self._values.get(name)
        if value is None or value == []:
            return ()
        items = self.items(name)
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) != len(items):
            index, item = next(each for each in enumerate(items) if not isinstance(each[1], str))
            raise self.error(f"expected a string, got {json_type(item)}", name, index)
        return tuple(texts)

    def object(self, name: str, *others: str) -> "Fields":
        value = self.maybe_object(name, *others)
        return self._raise_absent(name, "an object") if value is None else value

    def maybe_object(self, name: str, *others: str) -> "Fields | None":
        value = self._values.get(name)
        if value is None:
            return self.maybe_object(*others) if others else None
        fields = self.child(value, name)
        del self._values[name]
        return fields

    def objects(self, name: str, *others: str) -> "list[Fields]":
        """A required array whose items are all objects."""
        value = self.maybe_objects(name, *others)
        return self._raise_absent(name, "an array") if value is None else value

    def maybe_objects(self, name: str, *others: str) -> "list[Fields] | None":
        value = self._values.get(name)
        if value is None:
            return self.maybe_objects(*others) if others else None
        if not isinstance(value, list):
            self._raise_mistyped(name, "an array", value)
        fields = self.children(value, name)
        del self._values[name]
        return fields

    def child(self, value: Json, name: str, index: int = -1) -> "Fields":
        """`Fields` for an object taken with `raw` or from a list. Its path continues this object's path."""
        path = f"{self.path}.{name}" if self.path else name
        return Fields(value, path if index < 0 else f"{path}[{index}]", self._error_class)

    def children(self, values: list[Json], name: str) -> "list[Fields]":
        """`Fields` for each object of an array taken with `raw`. Their paths continue this object's path."""
        path = f"{self.path}.{name}" if self.path else name
        error_class = self._error_class
        items = enumerate(values, find_first_index(values))
        return [Fields(value, f"{path}[{index}]", error_class) for index, value in items]

    def _raise_mistyped(self, name: str | None, expected: str, value: Json) -> NoReturn:
        path = self.path if name is None else self.at(name)
        raise self._error_class(f"expected {expected}, got {json_type(value)}", path=path)

    def _raise_absent(self, name: str, expected: str) -> NoReturn:
        self._raise_mistyped(name, expected, self._values.get(name, msgspec.UNSET))
