"""docs/repair.md lists every step, and each of its examples has the documented result."""

import ast
import re
from pathlib import Path

import msgspec
import pytest

from dragoman.governance.repair import STEPS, repair

PAGE = (Path(__file__).parents[3] / "docs" / "repair.md").read_text(encoding="utf-8")
CELL = r"`((?:[^`]|``)+)`"
STEP_ROW = re.compile(rf"^\| `(\w+)` \| {CELL} \| {CELL} \|$", re.MULTILINE)
RAW_ROW = re.compile(rf"^\| {CELL} \| {CELL} \|$", re.MULTILINE)
SCHEMA = re.compile(r"```json\n(.*?)```", re.DOTALL)

before_the_schema, after_the_schema = SCHEMA.split(PAGE)[0], SCHEMA.split(PAGE)[2]


def schema() -> dict[str, object]:
    found = SCHEMA.search(PAGE)
    assert found is not None
    return msgspec.json.decode(found[1], type=dict[str, object])


def same(text: str) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(text), order="deterministic")


def test_every_step_is_on_the_page_in_its_order() -> None:
    assert [step for step, _, _ in STEP_ROW.findall(PAGE)] == list(STEPS)


@pytest.mark.parametrize(("step", "before", "after"), STEP_ROW.findall(before_the_schema))
def test_an_example_comes_out_as_the_page_states(step: str, before: str, after: str) -> None:
    repaired = repair(before.replace("⏎", "\n"))
    assert step in repaired.steps
    assert same(repaired.text) == same(after)


@pytest.mark.parametrize(("step", "before", "after"), STEP_ROW.findall(after_the_schema))
def test_an_example_with_the_schema_comes_out_as_the_page_states(step: str, before: str, after: str) -> None:
    repaired = repair(before, schema())
    assert step in repaired.steps
    assert same(repaired.text) == same(after)


@pytest.mark.parametrize(("before", "after"), RAW_ROW.findall(after_the_schema))
def test_an_example_of_what_is_not_repaired_is_none(before: str, after: str) -> None:
    repaired = repair(before)
    assert not repaired.ok
    assert same(repaired.text) == same(after)


def test_the_first_example_is_literally_true() -> None:
    found = re.search(r"^repair\((.*)\)\n# (RepairResult\(.*)\)$", PAGE, re.MULTILINE)
    assert found is not None
    assert repr(repair(ast.literal_eval(found[1]))).startswith(found[2])
