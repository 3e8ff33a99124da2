"""The form of the answer."""

import pytest

from dragoman.hub.request import OutputFormat, Request
from tests.fit.building import fitted, request, shape, turn

SCHEMA: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}}


def wanting(output: OutputFormat, dialect: str = "elsewhere") -> Request:
    return request(turn("system", "Be brief."), turn("user", "Hi"), output=output, dialect=dialect)


@pytest.mark.rule("H57")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_a_schema_is_native_everywhere_and_has_a_name(dialect: str) -> None:
    after, losses = fitted(wanting(OutputFormat(kind="json_schema", schema=SCHEMA)), dialect)
    assert after.output == OutputFormat(kind="json_schema", schema=SCHEMA, name="answer")
    assert losses == []


@pytest.mark.rule("H57")
def test_any_json_is_an_instruction_to_anthropic() -> None:
    after, losses = fitted(wanting(OutputFormat(kind="json_object")), "anthropic")
    assert after.output is None
    first, asked, user = shape(after.turns)
    assert (first, user) == (["system", "Be brief."], ["user", "Hi"])
    assert asked[0] == "system"
    assert "JSON object" in asked[1]
    assert losses == ["output: the target cannot be held to JSON and was asked for it instead"]
    assert fitted(wanting(OutputFormat(kind="json_object")), "gemini")[1] == []


@pytest.mark.rule("H57")
def test_a_schema_that_cannot_be_enforced_is_told() -> None:
    after, losses = fitted(
        wanting(OutputFormat(kind="json_schema", schema=SCHEMA)), "openai_chat", outputs=frozenset({"text"})
    )
    assert after.output is None
    assert '{"type":"object","properties":{"a":{"type":"string"}}}' in str(shape(after.turns))
    assert len(losses) == 1


def test_plain_text_needs_no_words() -> None:
    after, losses = fitted(wanting(OutputFormat(kind="text")), "openai_chat", outputs=frozenset())
    assert (after.output, len(after.turns), losses) == (None, 2, [])


@pytest.mark.rule("H57")
def test_at_home_a_format_is_left_alone() -> None:
    asked = wanting(OutputFormat(kind="json_schema", schema=SCHEMA), "gemini")
    assert fitted(asked, "gemini")[0] is asked
