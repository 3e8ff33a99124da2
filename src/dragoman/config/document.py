"""A TOML file as tables that can check themselves. Errors name the file, the line and the path of keys."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from dragoman.config.key_kinds import ConfigKey, describe_type, quote_choices
from dragoman.config.lines import KeyPath, find_lines
from dragoman.config.model import list_tables
from dragoman.hub.errors import ConfigError, suggest_spelling

S = TypeVar("S", bound=msgspec.Struct)

_BARE_NAME = re.compile(r"[A-Za-z0-9_-]+")
_TOMLLIB_MESSAGE = re.compile(r"(.*) \(at (line \d+), column \d+\)")
#: Values of these keys may be secrets, so no message repeats them.
_PRIVATE_KEYS = frozenset({"api_key", "keys", "metrics_key", "headers", "proxy", "base_url"})


class TomlDocument:
    """The text of one file, parsed, with the line of each key."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        try:
            self._values = tomllib.loads(text)
            self._lines = find_lines(text)
        except ValueError as error:
            found = _TOMLLIB_MESSAGE.fullmatch(str(error))
            where, what = (f"{path}, {found[2]}", found[1]) if found else (path, str(error))
            raise ConfigError(
                f"{where}: not TOML: {what[:1].lower()}{what[1:]}",
                hint='the file holds [table] headings and lines such as key = "value"',
            ) from None
        except RecursionError:
            raise ConfigError(f"{path}: nested too deeply") from None

    def root(self) -> "TomlTable":
        """The table of the keys above the first heading."""
        return TomlTable(self, (), self._values)

    def find_line(self, path: KeyPath) -> int:
        """Line of the path, or of its nearest known parent; 0 if unknown."""
        while path:
            if path in self._lines:
                return self._lines[path]
            path = path[:-1]
        return 0


class TomlTable:
    """One table of a document. Call `check` first: the other methods rely on the checked types."""

    def __init__(self, document: TomlDocument, path: KeyPath, values: dict[str, object]) -> None:
        self._document = document
        self._path = path
        self.values = values

    def check(self, keys: Mapping[str, ConfigKey]) -> None:
        """Raise `ConfigError` for an unknown key or a value that its key does not accept."""
        for name, value in self.values.items():
            key = keys.get(name)
            if key is None:
                raise self._unknown_key(name, keys)
            if not key.kind.accepts(value):
                raise self._wrong_value(name, value, key)

    def text(self, key: str) -> str:
        """The string of a key; empty if it is not set."""
        value = self.values.get(key, "")
        return value if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings of a key that holds one string or a list of them."""
        value = self.values.get(key, [])
        items = value if isinstance(value, list) else [value]
        return tuple(item for item in items if isinstance(item, str))

    def pick(self, *keys: str) -> dict[str, object]:
        """The values of those keys that are set."""
        return {key: self.values[key] for key in keys if key in self.values}

    def build(self, struct: type[S], **read: object) -> S:
        """The struct of this table: `read` are values by field name, all other keys are converted by type.

        Fields that are in neither keep their defaults, so every key that `check` accepts reaches the struct.
        """
        fields = {
            field.name: msgspec.convert(self.values[field.encode_name], field.type)
            for field in msgspec.structs.fields(struct)
            if field.encode_name in self.values and field.name not in read
        }
        return struct(**fields, **read)

    def table(self, key: str) -> "TomlTable":
        """The table below a key; an empty one if it is not set."""
        value = self.values.get(key, {})
        return TomlTable(self._document, (*self._path, key), value if isinstance(value, dict) else {})

    def tables(self, key: str) -> Iterator["TomlTable"]:
        """The tables of a list, such as `[[routes]]`."""
        value = self.values.get(key, [])
        for number, entry in enumerate(value if isinstance(value, list) else []):
            yield TomlTable(self._document, (*self._path, key, number), entry)

    def named_tables(self) -> Iterator[tuple[str, "TomlTable"]]:
        """The tables directly below this one, by the names that the user chose."""
        for name, value in self.values.items():
            if not isinstance(value, dict):
                heading = write_path((*self._path, "NAME"))
                raise self.error(
                    f"expected a table, got {describe_type(value)}", name, hint=f"write it as [{heading}]"
                )
            yield name, self.table(name)

    def error(self, message: str, *keys: str | int, hint: str = "") -> ConfigError:
        """An error about this table, or about the value that the keys lead to."""
        path = (*self._path, *keys)
        line = self._document.find_line(path)
        place = f"{self._document.path}, line {line}" if line else self._document.path
        where = write_path(path)
        return ConfigError(f"{place}: {where}: {message}" if where else f"{place}: {message}", hint=hint)

    def _unknown_key(self, name: str, keys: Mapping[str, ConfigKey]) -> ConfigError:
        hint = suggest_spelling(name, keys)
        if not hint:
            tables = [table for table in list_tables() if name in table.keys]
            hint = f"known keys: {', '.join(keys)}"
            if tables:
                hint = f"it belongs in {tables[0].heading or 'the file itself, above the first [table]'}"
        return self.error("unknown key", name, hint=hint)

    def _wrong_value(self, name: str, value: object, key: ConfigKey) -> ConfigError:
        shown = describe_type(value)
        if type(value) in (str, int, float) and name not in _PRIVATE_KEYS:
            shown = f'"{value}"' if isinstance(value, str) else str(value)
        hint = suggest_spelling(value, key.kind.choices) if isinstance(value, str) else ""
        return self.error(f"expected {key.kind.expected}, got {shown}", name, hint=hint)


def write_path(path: KeyPath) -> str:
    """A path in TOML notation: `providers."my.server".models`, `routes[1].target`."""
    parts = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        else:
            quoted = part if _BARE_NAME.fullmatch(part) else quote_choices((part,))
            parts.append(f".{quoted}" if parts else quoted)
    return "".join(parts)
