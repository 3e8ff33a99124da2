"""The table of malformed arguments: every case has its expected repair, or none."""

import msgspec
import pytest

from dragoman.governance.repair import RAW_KEY, STEPS, repair
from tests.governance.repair.table import Case, cases

CASES = cases()
REPAIRABLE = [case for case in CASES if case.expected is not None]
UNREPAIRABLE = [case for case in CASES if case.expected is None]


def same(text: str) -> bytes:
    """One spelling for every spelling of a value; 1, 1.0 and true stay apart."""
    return msgspec.json.encode(msgspec.json.decode(text), order="deterministic")


@pytest.mark.rule("R80")
@pytest.mark.parametrize("case", REPAIRABLE, ids=lambda case: case.name)
def test_a_malformed_object_is_repaired_into_the_one_that_was_meant(case: Case) -> None:
    repaired = repair(case.text, case.schema)
    assert repaired.ok
    assert case.expected is not None
    assert same(repaired.text) == same(case.expected)


@pytest.mark.rule("R85")
@pytest.mark.parametrize("case", REPAIRABLE, ids=lambda case: case.name)
def test_a_repair_names_the_liberties_it_took_and_no_others(case: Case) -> None:
    expected = case.further | ({case.group} & set(STEPS))
    assert set(repair(case.text, case.schema).steps) == expected


@pytest.mark.rule("C15", "R80", "R84", "H12")
@pytest.mark.parametrize("case", UNREPAIRABLE, ids=lambda case: case.name)
def test_what_has_no_reading_is_shown_raw(case: Case) -> None:
    repaired = repair(case.text, case.schema)
    assert (repaired.ok, repaired.reason, repaired.steps) == (False, "parse_failed", ())
    assert msgspec.json.decode(repaired.text) == {RAW_KEY: case.text}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_malformed_object_is_repaired_if_the_call_broke_off(case: Case) -> None:
    assert repair(case.text, case.schema, truncated=True).reason == "truncated"


def test_every_step_has_a_case() -> None:
    assert set(STEPS) - {case.group for case in CASES} == set()


def test_the_table_is_large_and_names_every_case_once() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
