"""Tables for the terminal: columns of plain text, the last as long as it likes."""

from collections.abc import Sequence

import msgspec


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines, two blanks between columns. All rows have the same number of cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def shown_value(value: object) -> str:
    """A fact's value as TOML would have it, and large numbers as people read them."""
    if type(value) is int:
        return f"{value:_}"
    return msgspec.json.encode(value).decode()
