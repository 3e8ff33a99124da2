"""`dragoman status --tools`: which model gets its tool calls wrong, and how often."""

from collections.abc import Iterator
from typing import Any

from dragoman.cli.tables import table

#: The columns, and what each shows the count of; a column that is empty for every model is left out.
COLUMNS: dict[str, str] = {
    "REPLIES": "replies",
    "CALLS": "calls",
    "REPAIRED": "repaired",
    "UNREPAIRABLE": "unrepairable",
    "HARVESTED": "harvested",
    "UNFINISHED": "unfinished",
    "REASONING": "reasoning",
    "RENAMED": "renamed",
    "UNDECLARED": "undeclared",
    "DOUBLED": "doubled",
    "INVALID": "invalid",
    "DENIED": "denied",
    "REWRITTEN": "rewritten",
    "LET GO": "let_go",
    "ANSWERS": "answers",
}
ALWAYS = ("REPLIES", "CALLS", "REPAIRED", "HARVESTED")
NONE = "no reply has been governed yet; a route asks for it with [routes.governance]: see docs/governance.md"


def shown_tools(told: list[dict[str, Any]]) -> Iterator[str]:
    """The counts as lines for a person, the model that needed the most help first."""
    if not told:
        yield NONE
        return
    targets = sorted(told, key=lambda each: (-_troubles(each["counts"]), each["target"]))
    rows = [[each["counts"].get(name, 0) for name in COLUMNS.values()] for each in targets]
    kept = [
        number
        for number, heading in enumerate(COLUMNS)
        if heading in ALWAYS or any(row[number] for row in rows)
    ]
    headings = list(COLUMNS)
    yield from table(
        [
            ("TARGET", *(headings[number] for number in kept)),
            *(
                (each["target"], *(str(row[number]) for number in kept))
                for each, row in zip(targets, rows, strict=True)
            ),
        ]
    )


def _troubles(counts: dict[str, int]) -> int:
    """How often something had to be done, or could not be."""
    quiet = ("replies", "calls", "held", "valid", "allowed", "raised", "contracts", "reasoning", "answers")
    return sum(count for name, count in counts.items() if name not in quiet)
