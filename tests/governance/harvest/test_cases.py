"""Every format: what is harvested, what only looks alike, and that no cut changes the result."""

import pytest

from dragoman.hub.blocks import ToolCall
from dragoman.schema import required_of
from dragoman.wire.partial_json import parse_object
from tests.governance.harvest.case_file import Case, cases, describe
from tests.governance.harvest.running import TOOLS, cut, harvested

CASES = cases()
REQUIRED = {tool.name: required_of(tool.schema) for tool in TOOLS}


def outcome(case: Case, pieces: list[str]) -> tuple[str, ...]:
    return describe(harvested(case.family, pieces, case.cause, TOOLS if case.with_tools else ()))


@pytest.mark.rule("R73", "R75", "C20", "H36", "G4", "G5", "G10")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_text_in_one_piece_becomes_what_its_case_states(case: Case) -> None:
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


@pytest.mark.rule("R81", "C20")
@pytest.mark.parametrize("case", [case for case in CASES if case.kind in ("one", "many")], ids=str)
def test_a_text_that_breaks_off_makes_no_call_that_lacks_what_its_tool_requires(case: Case) -> None:
    """Not even if the upstream reports a normal end."""
    whole = _calls(case, case.text)
    for place in range(len(case.text)):
        for name, given in _calls(case, case.text[:place]):
            assert set(REQUIRED[name]) <= set(given or ()) or (name, given) in whole, case.text[:place]


def _calls(case: Case, text: str) -> list[tuple[str, dict[str, object] | None]]:
    reply = harvested(case.family, [text], "end", TOOLS if case.with_tools else ())
    return [
        (block.name, parse_object(block.arguments)) for block in reply.blocks if isinstance(block, ToolCall)
    ]
