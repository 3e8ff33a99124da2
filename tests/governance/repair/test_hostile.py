"""Texts that are built to be expensive are processed in bounded time."""

import pytest

from dragoman.governance.repair import repair

SIZE = 1_000_000
BEGINNINGS = ("", "{", '{"a":', '{"a":"', "{'a':'", '{"a":[')
SINGLE = "\"'`“\\[{]},:a<\n"
LONGER = ("//\n", "/*", "</s>", "{}", '{"a":1}', '{"a":', '\\"', '"\\', 'x"y', '"a" ', '", "a": ', '"}', '"]')
OF_OTHERS = ("a:1\n", "a=1\n", "'a':1,", "[[1]],", "True,", "0x1,")
SCHEMA: dict[str, object] = {
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "string"}}},
    "required": ["b"],
}


@pytest.mark.parametrize("unit", [*SINGLE, *LONGER, *OF_OTHERS])
def test_a_megabyte_of_anything_comes_to_an_end(unit: str) -> None:
    for beginning in BEGINNINGS:
        text = beginning + unit * (SIZE // len(unit) // len(BEGINNINGS))
        assert repair(text, SCHEMA).text.startswith("{")
