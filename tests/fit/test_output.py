"""The form of the answer."""

import pytest

from dragoman.hub.request import OutputFormat, Request
from tests.fit.building import build_message, fitted, request, shape

Schema = dict[str, object]

SCHEMA: Schema = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED: Schema = {**SCHEMA, "additionalProperties": False}


def wanting(output: OutputFormat, dialect: str = "elsewhere") -> Request:
    return request(
        build_message("system", "Be brief."), build_message("user", "Hi"), output=output, dialect=dialect
    )


@pytest.mark.rule("H57")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_a_schema_is_native_everywhere_and_has_a_name(dialect: str) -> None:
    after, losses = fitted(wanting(OutputFormat(kind="json_schema", schema=CLOSED)), dialect)
    assert after.output == OutputFormat(kind="json_schema", schema=CLOSED, name="answer")
    assert losses == []


def at_anthropic(schema: Schema) -> tuple[Schema | None, list[str]]:
    after, losses = fitted(wanting(OutputFormat(kind="json_schema", schema=schema)), "anthropic")
    return after.output.schema if after.output else None, losses


@pytest.mark.rule("H57")
def test_anthropic_gets_every_object_of_a_schema_closed() -> None:
    inner: Schema = {"type": ["object", "null"], "properties": {"b": {"$ref": "#/$defs/c"}}}
    schema: Schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": inner, "minItems": 1}, "d": {"oneOf": [SCHEMA]}},
        "required": ["a"],
        "$defs": {"c": SCHEMA},
    }
    closed = {"additionalProperties": False}
    assert at_anthropic(schema) == (
        {
            "$defs": {"c": {**SCHEMA, **closed}},
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": "array", "items": {**inner, **closed}, "minItems": 1},
                "d": {"anyOf": [{**SCHEMA, **closed}]},
            },
            **closed,
        },
        [],
    )


@pytest.mark.rule("H57")
def test_limits_that_anthropic_does_not_enforce_are_reported_in_words() -> None:
    number: Schema = {"type": "integer", "description": "A score.", "minimum": 1}
    named: Schema = {"type": "string", "format": "uri", "maxLength": 9}
    schema, losses = at_anthropic({"type": "object", "properties": {"n": number, "u": named}})
    assert schema is not None
    assert schema["properties"] == {
        "n": {"type": "integer", "description": "A score. (minimum: 1)"},
        "u": {"type": "string", "format": "uri", "description": "(maxLength: 9)"},
    }
    assert losses == ["output: limits of the schema are written as text, not enforced"]


@pytest.mark.rule("H57")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {**SCHEMA, "properties": {"next": {"$ref": "#/$defs/a"}}}}},
        {"type": "array", "items": True},
        {"$ref": "#/nowhere"},
        {**SCHEMA, "additionalProperties": True},
        {"allOf": [SCHEMA, {"type": "object", "properties": {"b": {"type": "string"}}}]},
    ],
    ids=["any object", "a map", "itself again", "anything", "a lost reference", "open", "two together"],
)
def test_what_cannot_be_closed_is_an_instruction(schema: Schema) -> None:
    written, losses = at_anthropic(schema)
    assert written is None
    assert losses == ["output: the target cannot be held to JSON and was asked for it instead"]


@pytest.mark.rule("H57")
def test_any_json_is_an_instruction_to_anthropic() -> None:
    after, losses = fitted(wanting(OutputFormat(kind="json_object")), "anthropic")
    assert after.output is None
    (role, first, asked), user = shape(after.messages)
    assert (role, first, user) == ("system", "Be brief.", ["user", "Hi"])
    assert "JSON object" in asked
    assert losses == ["output: the target cannot be held to JSON and was asked for it instead"]
    assert fitted(wanting(OutputFormat(kind="json_object")), "gemini")[1] == []


@pytest.mark.rule("H57")
def test_a_schema_that_cannot_be_enforced_is_reported() -> None:
    after, losses = fitted(
        wanting(OutputFormat(kind="json_schema", schema=SCHEMA)), "openai_chat", outputs=frozenset({"text"})
    )
    assert after.output is None
    assert '{"type":"object","properties":{"a":{"type":"string"}}}' in str(shape(after.messages))
    assert len(losses) == 1


def test_plain_text_needs_no_words() -> None:
    after, losses = fitted(wanting(OutputFormat(kind="text")), "openai_chat", outputs=frozenset())
    assert (after.output, len(after.messages), losses) == (None, 2, [])


@pytest.mark.rule("H57")
def test_at_home_a_format_is_left_alone() -> None:
    asked = wanting(OutputFormat(kind="json_schema", schema=SCHEMA), "gemini")
    assert fitted(asked, "gemini")[0] is asked
