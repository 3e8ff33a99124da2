"""Tables for people: aligned, and cut only where the terminal is narrow."""

import pytest

from dragoman.cli.formats import format_table

ROWS = [("NAME", "REASON"), ("a" * 30, "b" * 50), ("c", "d")]


def test_a_file_gets_whole_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert format_table(ROWS)[1] == f"{'a' * 30}  {'b' * 50}"


@pytest.mark.rule("M34")
@pytest.mark.parametrize("columns", [40, 60, 81])
def test_a_narrow_terminal_gets_cut_cells(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = format_table(ROWS)
    assert max(map(len, lines)) <= columns
    assert "…" in lines[1]
    assert lines[2].split() == ["c", "d"]
