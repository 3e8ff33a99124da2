"""Reads the table of malformed arguments; the head of the table describes its format."""

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

TABLE = Path(__file__).with_name("malformed.txt")

CHARACTER = re.compile(r"<U\+([0-9A-F]{4})>")
FURTHER = re.compile(r"\(with ([\w, ]+)\)")
SCHEMA = re.compile(r"\[(\w+)\]")


class Case(NamedTuple):
    name: str
    group: str
    further: frozenset[str]
    schema: dict[str, object] | None
    text: str
    #: What is meant, as JSON; None if there is no reading.
    expected: str | None


def cases() -> list[Case]:
    _, *sections = TABLE.read_text(encoding="utf-8").split("\n== ")
    (_, schema_lines), *groups = [section.split("\n", 1) for section in sections]
    schemas = dict(line.split(": ", 1) for line in schema_lines.splitlines() if line)
    return [
        case(group, entry, schemas) for group, body in groups for entry in ("\n" + body).split("\n-- ")[1:]
    ]


def case(group: str, entry: str, schemas: dict[str, str]) -> Case:
    title, rest = entry.split("\n", 1)
    text, expected = rest.rstrip().split("\n-> ")
    schema = SCHEMA.search(title)
    further = FURTHER.search(title)
    return Case(
        name=f"{group}: {title}",
        group=group,
        further=frozenset(further[1].split(", ") if further else ()),
        schema=msgspec.json.decode(schemas[schema[1]], type=dict[str, object]) if schema else None,
        text=CHARACTER.sub(lambda found: chr(int(found[1], 16)), text),
        expected=None if expected == "nothing" else expected,
    )
