"""A translated request has the client's content and nothing else."""

import msgspec
import pytest

from tests.pipeline.asking import DIALECTS, SCHEMA, asking, body_for

PROMPT = "You are a careful assistant."


def texts_of(value: object) -> list[str]:
    """Every text in a body, wherever it stands."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts_of(inner)]
    return [text for inner in value for text in texts_of(inner)] if isinstance(value, list) else []


@pytest.mark.rule("R18", "R19", "C6")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_no_word_is_added_to_the_prompt_or_the_tools(source: str, target: str) -> None:
    body = body_for(asking(source, system=PROMPT, tools=("Read",)), source, target)
    sentences = [text for text in texts_of(body) if " " in text]
    assert sentences == [PROMPT]


@pytest.mark.rule("R12", "R19", "P34")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_a_schema_arrives_as_it_was_sent(source: str, target: str) -> None:
    body = body_for(asking(source, tools=("Read",)), source, target)
    assert msgspec.json.encode(SCHEMA) in msgspec.json.encode(body)
    assert b'"strict":true' not in msgspec.json.encode(body)


@pytest.mark.rule("R8", "C19")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_an_unknown_tool_is_declared_to_the_model(source: str, target: str) -> None:
    body = body_for(asking(source, tools=("frobnicate_the_widget",)), source, target)
    assert "frobnicate_the_widget" in texts_of(body)


@pytest.mark.rule("C24", "R121")
@pytest.mark.parametrize("source", [dialect for dialect in DIALECTS if dialect != "openai_responses"])
def test_a_system_prompt_becomes_plain_instructions(source: str) -> None:
    assert body_for(asking(source, system=PROMPT), source, "openai_responses")["instructions"] == PROMPT


@pytest.mark.rule("P68")
def test_a_conversation_of_a_system_prompt_alone_has_some_input() -> None:
    request: dict[str, object] = {"model": "m", "messages": [{"role": "system", "content": PROMPT}]}
    assert body_for(request, "openai_chat", "openai_responses")["input"]
