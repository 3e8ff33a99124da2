"""A TOML file as tables that can check themselves. Errors name the file, the line and the path of keys."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

import msgspec

from dragoman.config.config import list_tables
from dragoman.config.lines import KeyPath, find_lines
from dragoman.config.mistakes import ConfigWarning, raise_mistakes
from dragoman.config.value_kinds import ConfigKey, describe_type, quote_choices
from dragoman.hub.errors import ConfigError, suggest_spelling

S = TypeVar("S", bound=msgspec.Struct)

_BARE_NAME = re.compile(r"[A-Za-z0-9_-]+")
_TOMLLIB_MESSAGE = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)")
_KEY_OF_LINE = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*=")
_YAML_LINE = re.compile(r"(?m)^(?:model_list|[A-Za-z_]+):(?:[ \t]|$)")
#: What `tomllib` reports, and a message and a hint about the key of that line.
_TOML_MISTAKES = {
    "Invalid value": ("expected a value", 'a text needs quotes: {key} = "…"'),
    "Cannot overwrite a value": ("the key is there twice", "remove one of the two lines"),
}
#: Values of these keys may be secrets, so no message repeats them.
_PRIVATE_KEYS = frozenset({"api_key", "keys", "metrics_key", "headers", "proxy", "base_url"})


class TomlDocument:
    """The text of one file, parsed, with the line of each key."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.warnings: list[ConfigWarning] = []
        # Editors of Windows write a byte order mark.
        text = text.removeprefix("\ufeff")
        try:
            self._values = tomllib.loads(text)
            self._lines = find_lines(text)
        except ValueError as error:
            raise _explain_syntax(text, path, str(error)) from None
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

    @property
    def file(self) -> str:
        """The path of the file."""
        return self._document.path

    def check(self, keys: Mapping[str, ConfigKey]) -> None:
        """Raise `ConfigError` for unknown keys and for values that their keys do not accept."""
        found = []
        for name, value in self.values.items():
            key = keys.get(name)
            if key is None:
                found.append(self._unknown_key(name, keys))
            elif not key.kind.accepts(value):
                found.append(self._wrong_value(name, value, key))
        raise_mistakes(found)

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
        """The tables directly below this one, by the names that the user chose.

        Raises for all other values after the last table.
        """
        heading = write_path((*self._path, "NAME"))
        found = []
        for name, value in self.values.items():
            if isinstance(value, dict):
                yield name, self.table(name)
            else:
                message = f"expected a table, got {describe_type(value)}"
                found.append(self.error(message, name, hint=f"write it as [{heading}]"))
        raise_mistakes(found)

    def error(self, message: str, *keys: str | int, hint: str = "") -> ConfigError:
        """An error about this table, or about the value that the keys lead to."""
        path = (*self._path, *keys)
        line = self._document.find_line(path)
        place = f"{self._document.path}, line {line}" if line else self._document.path
        where = write_path(path)
        text = f"{place}: {where}: {message}" if where else f"{place}: {message}"
        return ConfigError(text, hint=hint, line=line)

    def warn(self, message: str, *keys: str | int, hint: str = "") -> None:
        """Add a warning about this table, or about the value that the keys lead to."""
        error = self.error(message, *keys, hint=hint)
        self._document.warnings.append(ConfigWarning(message=error.message, hint=hint, line=error.line))

    def _unknown_key(self, name: str, keys: Mapping[str, ConfigKey]) -> ConfigError:
        hint = suggest_spelling(name, keys)
        if not hint:
            tables = [table for table in list_tables() if name in table.keys]
            hint = f"known keys: {', '.join(keys)}"
            if tables:
                hint = f"it belongs in {tables[0].heading or 'the file itself, above the first [table]'}"
        return self.error("unknown key", name, hint=hint)

    def _wrong_value(self, name: str, value: object, key: ConfigKey) -> ConfigError:
        shown = "an empty list" if value == [] else describe_type(value)
        if type(value) in (str, int, float) and name not in _PRIVATE_KEYS:
            shown = f'"{value}"' if isinstance(value, str) else str(value)
        hint = suggest_spelling(value, key.kind.choices) if isinstance(value, str) else ""
        hint = hint or _suggest_quotes(name, value, key)
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


def _suggest_quotes(name: str, value: object, key: ConfigKey) -> str:
    """A hint if the value is right but for its quotes."""
    if type(value) in (int, float) and key.kind.accepts(str(value)):
        return f'write it in quotes: {name} = "{value}"'
    if not isinstance(value, str):
        return ""
    with suppress(ValueError):
        unquoted = tomllib.loads(f"value = {value}")["value"]
        if type(unquoted) in (bool, int, float) and key.kind.accepts(unquoted):
            return f"write it without quotes: {name} = {value}"
    return ""


def _explain_syntax(text: str, path: str, message: str) -> ConfigError:
    """The error about a text that is not TOML. It names the format if the text has another one."""
    found = _TOMLLIB_MESSAGE.fullmatch(message)
    lines = text.rstrip().splitlines()
    what, line = (found[1], int(found[2] or len(lines))) if found else (message, 0)
    where = f"{path}, line {line}" if line else path
    if text.lstrip().startswith("{"):
        hint = f"`dragoman import ccr {path}` converts a file of claude-code-router"
        return ConfigError(f"{where}: not TOML: the file looks like JSON", hint=hint, line=line)
    if "=" not in text and _YAML_LINE.search(text):
        hint = f"`dragoman import litellm {path}` converts a file of the LiteLLM proxy"
        return ConfigError(f"{where}: not TOML: the file looks like YAML", hint=hint, line=line)
    key = _KEY_OF_LINE.match(lines[line - 1]) if 0 < line <= len(lines) else None
    if key and what in _TOML_MISTAKES:
        reason, hint = _TOML_MISTAKES[what]
        message = f"{where}: not TOML: {key[1]}: {reason}"
        return ConfigError(message, hint=hint.format(key=key[1]), line=line)
    hint = 'the file holds [table] headings and lines such as key = "value"'
    return ConfigError(f"{where}: not TOML: {what[:1].lower()}{what[1:]}", hint=hint, line=line)
