"""Places in the configuration file: what may stand there, what does, and on which line it is wrong."""

import re
import tomllib
from collections.abc import Iterator, Mapping

from dragoman.config.keys import Table, tables
from dragoman.config.kinds import Key, listed, toml_type
from dragoman.config.lines import Path, lines_of
from dragoman.hub.errors import ConfigError, suggest_spelling

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_AT_LINE = re.compile(r"(.*) \(at (line \d+), column \d+\)")
#: Values under these keys may be secrets, so no message repeats them.
_PRIVATE = frozenset({"api_key", "keys", "metrics_key", "headers", "proxy", "base_url"})


class Source:
    """The text of one file, read as TOML."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        try:
            self._values = tomllib.loads(text)
            self._lines = lines_of(text)
        except ValueError as error:
            found = _AT_LINE.fullmatch(str(error))
            where, what = (f"{path}, {found[2]}", found[1]) if found else (path, str(error))
            raise ConfigError(
                f"{where}: not TOML: {what[:1].lower()}{what[1:]}",
                hint='the file holds [table] headings and lines such as key = "value"',
            ) from None
        except RecursionError:
            raise ConfigError(f"{path}: nested too deeply") from None

    def root(self) -> "Place":
        return Place(self, (), self._values)

    def line(self, path: Path) -> int:
        """The line of what stands there, or else of what it stands in; 0 if nobody knows."""
        while path:
            if path in self._lines:
                return self._lines[path]
            path = path[:-1]
        return 0


class Place:
    """A table at a path of keys. `check` comes first; the other methods rely on it."""

    def __init__(self, source: Source, path: Path, values: dict[str, object]) -> None:
        self._source = source
        self._path = path
        self.values = values

    def check(self, keys: Mapping[str, Key]) -> None:
        """Refuse keys that are not known and values that are not of their kind."""
        for key, value in self.values.items():
            known = keys.get(key)
            if known is None:
                raise self._unknown(key, keys)
            if not known.kind.accepts(value):
                raise self._mistaken(key, value, known)

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        return value if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        """One text or a list of them."""
        value = self.values.get(key, [])
        items = value if isinstance(value, list) else [value]
        return tuple(item for item in items if isinstance(item, str))

    def some(self, *keys: str) -> dict[str, object]:
        """Those of the keys that are set."""
        return {key: self.values[key] for key in keys if key in self.values}

    def table(self, key: str) -> "Place":
        value = self.values.get(key, {})
        return Place(self._source, (*self._path, key), value if isinstance(value, dict) else {})

    def tables(self, key: str) -> Iterator["Place"]:
        value = self.values.get(key, [])
        for number, entry in enumerate(value if isinstance(value, list) else []):
            yield Place(self._source, (*self._path, key, number), entry)

    def named_tables(self) -> Iterator[tuple[str, "Place"]]:
        """The tables below this one, whose names are the user's."""
        for name, value in self.values.items():
            if not isinstance(value, dict):
                heading = written((*self._path, "NAME"))
                raise self.error(
                    f"expected a table, got {toml_type(value)}", name, hint=f"write it as [{heading}]"
                )
            yield name, self.table(name)

    def error(self, message: str, *keys: str | int, hint: str = "") -> ConfigError:
        """An error about this table, or about what the keys lead to."""
        path = (*self._path, *keys)
        line = self._source.line(path)
        place = f"{self._source.path}, line {line}" if line else self._source.path
        where = written(path)
        return ConfigError(f"{place}: {where}: {message}" if where else f"{place}: {message}", hint=hint)

    def _unknown(self, key: str, keys: Mapping[str, Key]) -> ConfigError:
        hint = suggest_spelling(key, keys)
        if not hint:
            homes = [table.heading or "the file itself, above the first [table]" for table in _homes(key)]
            hint = f"it belongs in {homes[0]}" if homes else f"known keys: {', '.join(keys)}"
        return self.error("unknown key", key, hint=hint)

    def _mistaken(self, key: str, value: object, known: Key) -> ConfigError:
        kind = known.kind
        shown = toml_type(value)
        if type(value) in (str, int, float) and key not in _PRIVATE:
            shown = f'"{value}"' if isinstance(value, str) else str(value)
        hint = suggest_spelling(value, kind.choices) if isinstance(value, str) else ""
        return self.error(f"expected {kind.words}, got {shown}", key, hint=hint)


def _homes(key: str) -> list[Table]:
    return [table for table in tables() if key in table.keys]


def written(path: Path) -> str:
    """A path as TOML and its readers write it: `providers."my.server".models`, `routes[1].target`."""
    parts = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        else:
            quoted = part if _BARE.fullmatch(part) else listed((part,))
            parts.append(f".{quoted}" if parts else quoted)
    return "".join(parts)
