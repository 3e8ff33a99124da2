"""Arguments arrive as the model wrote them, in every family and in any pieces."""

import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.hub.blocks import ToolCall
from tests.dialects.strategies import json_values
from tests.governance.harvest.running import cuts_of, harvested

TEMPLATES = tomllib.loads((Path(__file__).resolve().parent / "templates.toml").read_text(encoding="utf-8"))

texts = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            ["</tool_call>", "<tool_call>", "```", '"', "\\", "'", "}", "]}", "<|end|>", "\n", "<", " "]
        ),
    ),
    max_size=6,
).map("".join)
objects = st.dictionaries(texts, texts | json_values, max_size=3)


def arguments_of(family: str, template: str, value: str, data: st.DataObject) -> str:
    (call,) = harvested(family, data.draw(cuts_of(template.replace("%s", value)))).blocks
    assert isinstance(call, ToolCall)
    return call.arguments


@pytest.mark.rule("R83")
@pytest.mark.parametrize(("family", "template"), TEMPLATES["json"].items(), ids=TEMPLATES["json"])
@given(arguments=objects, indent=st.sampled_from([0, 2]), data=st.data())
@settings(max_examples=40)
def test_arguments_that_are_json_stay_what_they_are(
    family: str, template: str, arguments: dict[str, object], indent: int, data: st.DataObject
) -> None:
    written = msgspec.json.format(msgspec.json.encode(arguments), indent=indent).decode()
    assert arguments_of(family, template, written, data) == written


@pytest.mark.rule("R83")
@pytest.mark.parametrize(("family", "template"), TEMPLATES["raw"].items(), ids=TEMPLATES["raw"])
@given(value=texts, data=st.data())
@settings(max_examples=40)
def test_raw_text_arrives_to_the_last_blank(
    family: str, template: str, value: str, data: st.DataObject
) -> None:
    assert msgspec.json.decode(arguments_of(family, template, value, data)) == {"query": value}


@pytest.mark.rule("R83")
@pytest.mark.parametrize(("family", "template"), TEMPLATES["python"].items(), ids=TEMPLATES["python"])
@given(value=texts | json_values, data=st.data())
@settings(max_examples=40)
def test_python_values_arrive_as_what_they_state(
    family: str, template: str, value: object, data: st.DataObject
) -> None:
    assert msgspec.json.decode(arguments_of(family, template, repr(value), data)) == {"query": value}
