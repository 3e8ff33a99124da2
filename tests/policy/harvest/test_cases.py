"""Every format: what is harvested, what only looks alike, and that no cut makes a difference."""

import pytest

from tests.policy.harvest.case_file import Case, cases, told
from tests.policy.harvest.running import TOOLS, cut, harvested

CASES = cases()


def outcome(case: Case, pieces: list[str]) -> tuple[str, ...]:
    return told(harvested(case.family, pieces, case.cause, TOOLS if case.with_tools else ()))


@pytest.mark.rule("R73", "R75", "C20", "H36")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_text_in_one_piece_becomes_what_its_case_says(case: Case) -> None:
    assert outcome(case, [case.text]) == case.expected


@pytest.mark.rule("R90")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_text_in_single_characters_becomes_the_same(case: Case) -> None:
    assert outcome(case, list(case.text)) == case.expected


@pytest.mark.rule("R90")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_text_cut_once_anywhere_becomes_the_same(case: Case) -> None:
    different = [
        place for place in range(len(case.text)) if outcome(case, cut(case.text, place)) != case.expected
    ]
    assert different == []
