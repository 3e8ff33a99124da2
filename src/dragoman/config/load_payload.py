"""Reads `[[providers.NAME.payload]]` and `[[routes.payload]]`."""

import math

from dragoman.config.document import TomlTable
from dragoman.config.mistakes import collect_mistakes, raise_mistakes
from dragoman.config.value_kinds import describe_type, read_keys
from dragoman.hub.errors import ConfigError
from dragoman.pipeline.payload import PayloadRule

#: Names and indexes in one path. No API nests that deep, and JSON readers have a limit.
MAX_SEGMENTS = 50

#: The gateway sets these members itself, and they decide how it reads the reply.
_OWN_MEMBERS = {
    "model": "the model is that of the target; use a route or a rule",
    "stream": "the client decides whether its reply is streamed",
}


def read_payload(table: TomlTable) -> tuple[PayloadRule, ...]:
    """The payload rules of a provider or a route, in their order."""
    rules = []
    found: list[ConfigError] = []
    for entry in table.tables("payload"):
        with collect_mistakes(found):
            rules.append(_read_rule(entry))
    raise_mistakes(found)
    return tuple(rules)


def _read_rule(table: TomlTable) -> PayloadRule:
    table.check(read_keys(PayloadRule))
    rule = table.build(PayloadRule)
    edits = tuple(rule.list_edits())
    if not edits:
        raise table.error("expected at least one of `set`, `default` and `remove`")
    if rule.when_present:
        _check_path(table, rule.when_present, "when_present")
    for operation, path, value in edits:
        place = (operation, rule.remove.index(path) if operation == "remove" else path)
        _check_path(table, path, *place)
        if path in _OWN_MEMBERS:
            raise table.error("a payload rule cannot change this member", *place, hint=_OWN_MEMBERS[path])
        unwritable = _find_unwritable(value)
        if unwritable:
            raise table.error(f"expected a value that JSON can express, got {unwritable}", *place)
    return rule


def _check_path(table: TomlTable, path: str, *place: str | int) -> None:
    segments = path.split(".")
    if len(segments) > MAX_SEGMENTS:
        raise table.error(f"expected at most {MAX_SEGMENTS} names and indexes, got {len(segments)}", *place)
    if not all(segments):
        hint = "such as thinking.type or messages.0.name"
        raise table.error("expected a path of names and indexes with dots between them", *place, hint=hint)


def _find_unwritable(value: object) -> str:
    """The first part of a TOML value that JSON has no form for, in words; empty if there is none."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return next(filter(None, map(_find_unwritable, parts)), "")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return "" if value is None or isinstance(value, str | int | float) else describe_type(value)
