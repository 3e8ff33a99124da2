"""Writes the generated tables of the documentation: keys, facts by dialect, imported transformers.

    python -m tools.config_docs [--check]

The tables derive from `config.config.list_tables`, `providers` and `importing.transformers`. With
`--check` nothing is written, and the exit code is 1 if a page is out of date.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from dragoman.config.config import KeyTable, list_tables
from dragoman.importing.transformers import TRANSFORMERS
from dragoman.providers.dialect_facts import DIALECT_FACTS
from dragoman.providers.facts import PERMISSIVE, Facts, list_changes

DOCS = Path(__file__).resolve().parent.parent / "docs"
KEYS_HEAD = "| key | value | default | meaning |\n|---|---|---|---|\n"
FACTS_HEAD = "| fact | otherwise | " + " | ".join(f"`{name}`" for name in DIALECT_FACTS) + " |\n"
TRANSFORMERS_HEAD = "| transformer | dragoman |\n"
_ROWS = r"(?:\|.*\n)*"


def write_keys(page: str) -> str:
    """The page of the configuration with every key table written anew, in the order of `tables`."""
    remaining = iter(list_tables())
    return re.sub(re.escape(KEYS_HEAD) + _ROWS, lambda _: KEYS_HEAD + _key_rows(next(remaining)), page)


def _key_rows(table: KeyTable) -> str:
    rows = []
    for name, key in table.keys.items():
        default = table.default(name)
        shown = "" if default is None else f"`{msgspec.json.encode(default).decode()}`"
        rows.append(f"| `{name}` | {key.kind.expected} | {shown} | {key.about} |\n")
    return "".join(rows)


def write_facts(page: str) -> str:
    """The page about models with the table of facts by dialect written anew."""
    changes = {name: list_changes(facts) for name, facts in DIALECT_FACTS.items()}
    rows = "".join(
        f"| `{fact}` | {_show(getattr(PERMISSIVE, fact))} | "
        + " | ".join(_show(stated[fact]) if fact in stated else "" for stated in changes.values())
        + " |\n"
        for fact in Facts.__struct_fields__
        if any(fact in stated for stated in changes.values())
    )
    lines = FACTS_HEAD + "|---" * (len(changes) + 2) + "|\n"
    return re.sub(re.escape(FACTS_HEAD) + _ROWS, lambda _: lines + rows, page)


def _show(value: object) -> str:
    """A value as a person writes it: no quotes, sets in order, `any` for what is not limited."""
    if value is None:
        return "any"
    if isinstance(value, frozenset | tuple):
        items = sorted(value) if isinstance(value, frozenset) else value
        return ", ".join(map(str, items)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "none"


def write_transformers(page: str) -> str:
    """The page about the import with the table of claude-code-router's transformers written anew."""
    rows = "".join(f"| `{name}` | {row.equivalent} |\n" for name, row in TRANSFORMERS.items())
    return re.sub(
        re.escape(TRANSFORMERS_HEAD) + _ROWS, lambda _: f"{TRANSFORMERS_HEAD}|---|---|\n{rows}", page
    )


PAGES: dict[str, Callable[[str], str]] = {
    "configuration.md": write_keys,
    "models.md": write_facts,
    "import.md": write_transformers,
}


def main(arguments: Sequence[str]) -> int:
    outdated = 0
    for name, write in PAGES.items():
        path = DOCS / name
        page = path.read_text("utf-8")
        if (text := write(page)) != page:
            outdated += 1
            sys.stdout.write(f"docs/{name}\n")
            if "--check" not in arguments:
                path.write_text(text, "utf-8")
    return 1 if outdated and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
