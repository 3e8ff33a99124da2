"""The page of features of similar gateways names tests that exist, and commands that exist."""

import re
from pathlib import Path

from dragoman.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scope.md").read_text("utf-8")
SHOWN, DECLINED = PAGE.split("## What is not here, and why")


def list_rows(text: str) -> list[list[str]]:
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if row[0].strip() != "feature"]


def test_each_feature_is_shown_by_tests_that_exist() -> None:
    rows = list_rows(SHOWN)
    assert len(rows) > 40
    for row in rows:
        tests = re.findall(r"`(tests/[^`]+)`", row[-1])
        assert tests, row
        assert [test for test in tests if not (ROOT / test).is_file()] == []


def test_each_declined_feature_has_a_reason() -> None:
    rows = list_rows(DECLINED)
    assert rows
    assert [row for row in rows if len(row) != 2 or len(row[1]) < 10] == []


def test_the_commands_of_the_page_exist() -> None:
    named = set(re.findall(r"`dragoman ([a-z]+)", PAGE))
    assert named
    assert named - set(COMMANDS) == set()
