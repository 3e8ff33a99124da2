"""The security page claims nothing that no test holds."""

import re
from pathlib import Path

import pytest

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
