"""Every format is documented and has cases of every kind."""

import re
from pathlib import Path

import pytest

from dragoman.governance.harvest import AUTO, families
from dragoman.governance.harvest.format import FamilyFormat
from tests.governance.harvest.case_file import cases

FORMATS = families()

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "harvest.md"
KINDS = {name: {case.kind for case in cases() if case.family == name} for name in (*FORMATS, AUTO)}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_family_has_cases(name: str) -> None:
    assert KINDS[name]
    if FORMATS[name].reasoning:
        shared = [other for other in FORMATS.values() if other.reasoning == FORMATS[name].reasoning]
        assert any("thought" in KINDS[other.name] or "one" in KINDS[other.name] for other in shared)


def is_alike(one: FamilyFormat, other: FamilyFormat) -> bool:
    return {(o.marker, o.read) for o in one.openers} == {(o.marker, o.read) for o in other.openers}


@pytest.mark.parametrize("name", sorted(name for name, each in FORMATS.items() if each.openers))
def test_a_format_has_cases_of_one_call_of_many_and_of_what_looks_alike(name: str) -> None:
    """Families that differ only in how they think share them."""
    kinds = set().union(*(KINDS[each.name] for each in FORMATS.values() if is_alike(each, FORMATS[name])))
    assert {"one", "many", "none"} <= kinds


def test_a_format_without_a_marker_is_believed_only_before_any_words() -> None:
    for each in FORMATS.values():
        for opener in each.openers:
            # `bare_json` compares the arguments with the tool's schema.
            is_first = opener.place.name == "OPENING" or each.name == "bare_json"
            assert is_first or opener.safety != "C"


def test_what_is_safe_without_knowing_the_family_is_documented() -> None:
    assert f"`{AUTO}`" in DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_family_is_documented_with_its_class(name: str) -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    rows = [re.split(r"\s*(?<!\\)\|\s*", line)[1:] for line in lines if line.startswith("| `")]
    ((_, _, documented, *_),) = [row for row in rows if f"`{name}`" in row[0]]
    assert documented.replace(", ", "/") == FORMATS[name].safety
