"""The security page claims nothing that no test holds."""

import re
from pathlib import Path

import pytest

from dragoman.governance.guard.verdicts import MAX_COMMANDS, MAX_SCRIPT
from dragoman.server.connection import MAX_HEAD
from dragoman.server.request import MAX_ENCODINGS
from dragoman.wire.json_values import MAX_VALUES
from tests.test_rules import covered

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
DEFENCES = [line for line in PAGE.split("## What is defended")[1].splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", DEFENCES, ids=lambda row: row.split("|")[1].strip())
def test_every_defence_names_tests_that_exist(row: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", row)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_there_are_defences() -> None:
    assert len(DEFENCES) > 15


@pytest.mark.rule("S14")
@pytest.mark.parametrize("number", [f"S{number}" for number in range(1, 14)])
def test_every_fault_has_a_test_that_the_page_names(number: str) -> None:
    named = set(re.findall(r"`tests/([\w/]+\.py)`", PAGE))
    assert named & set(covered()[number])


@pytest.mark.rule("S14")
def test_the_pages_name_the_limits_that_hold() -> None:
    guard = " ".join((ROOT / "docs" / "guard.md").read_text("utf-8").split())
    assert f"at most {MAX_SCRIPT // 1024} KiB of command lines" in guard
    assert f"at most {MAX_COMMANDS:,} commands" in guard
    assert f"at most {MAX_HEAD // 1024} KiB beside its body" in PAGE
    assert f"the number of values ({MAX_VALUES:,})" in PAGE
    assert (MAX_ENCODINGS, "at most three encodings" in PAGE) == (3, True)
