"""The effective configuration: every key with the value that applies, for `dragoman config show`.

Secrets appear as `env:NAME`, or as `(secret)` if the file holds them. Addresses have no password.
"""

from collections.abc import Mapping

import msgspec

from dragoman.config.config import Config
from dragoman.config.document import write_path
from dragoman.config.provider import TargetName
from dragoman.config.secrets import PREFIX, hide_password
from dragoman.config.settings import Secret
from dragoman.config.value_kinds import read_keys

Table = dict[str, object]

_HIDDEN = "(secret)"


def describe_config(config: Config) -> Table:
    """The values of all keys, by table, as TOML has them. Empty values are left out."""
    return _describe_struct(config)


def _describe_struct(value: msgspec.Struct) -> Table:
    keys = read_keys(type(value)) or value.__struct_fields__
    fields = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
    shown = {name: _describe(fields[name]) for name in keys if name in fields}
    return {name: each for name, each in shown.items() if each not in ("", {}, [], None)}


def _describe(value: object) -> object:
    match value:
        case Secret():
            return f"{PREFIX}{value.variable}" if value.variable else _HIDDEN
        case TargetName():
            return str(value)
        case msgspec.Struct():
            return _describe_struct(value)
        case Mapping():
            return {str(name): _describe(each) for name, each in value.items()}
        case str():
            return hide_password(value)
        case frozenset():
            return sorted(map(str, value))
        case list() | tuple():
            return [_describe(each) for each in value]
        case _:
            return value


def write_toml(table: Mapping[str, object], path: tuple[str, ...] = (), heading: str = "") -> list[str]:
    """The lines of a table: its own keys first, then the tables below it."""
    lines = [heading] if heading else []
    below: list[str] = []
    for name, value in table.items():
        inner = (*path, name)
        tables = value if isinstance(value, list) else []
        if isinstance(value, Mapping):
            below += ["", *write_toml(value, inner, f"[{write_path(inner)}]")]
        elif tables and all(isinstance(each, Mapping) for each in tables):
            for each in tables:
                below += ["", *write_toml(each, inner, f"[[{write_path(inner)}]]")]
        else:
            lines.append(f"{write_path((name,))} = {_write_value(value)}")
    # A heading without keys is left out, unless nothing would show that the table exists.
    return below[1:] if below and lines == [heading] else [*lines, *below]


def _write_value(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_write_value, value))}]"
    if isinstance(value, Mapping):
        members = (f"{write_path((name,))} = {_write_value(each)}" for name, each in value.items())
        return f"{{{', '.join(members)}}}"
    # A JSON value of the other types is a valid TOML value.
    return msgspec.json.encode(value).decode()
