"""Counting endpoints answer in their dialect, near the vendors' counts, or with an error."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.interfaces import Tokenizer
from dragoman.dialects.registry import DIALECTS
from dragoman.hub.errors import ClientProtocolError, DragomanError
from dragoman.tokens.request import estimate_tokens, read_count_request
from dragoman.tokens.tokenizers import find_tokenizer

WEATHER = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
UNIT = {
    "type": "string",
    "description": "The unit of temperature to return",
    "enum": ["celsius", "fahrenheit"],
}
ABOUT = "Get the current weather in a given location"
QUESTION = "What's the weather like in San Francisco?"


def anthropic(**more: object) -> dict[str, object]:
    return {"model": "claude-opus-4-6", "messages": [{"role": "user", "content": QUESTION}], **more}


def gemini(*declarations: object) -> dict[str, object]:
    text = "I have 57 cats, each owns 44 mittens, how many mittens is that in total?"
    contents = [{"role": "user", "parts": [{"text": text}]}]
    return (
        {"contents": contents, "tools": [{"functionDeclarations": list(declarations)}]}
        if declarations
        else {"contents": contents}
    )


def operation(name: str, sign: str) -> dict[str, object]:
    properties = {"a": {"type": "NUMBER"}, "b": {"type": "NUMBER"}}
    parameters = {"type": "OBJECT", "properties": properties, "required": ["a", "b"]}
    return {"name": name, "description": f"returns a {sign} b.", "parameters": parameters}


def count_body(
    dialect: str, body: bytes, model: str = "", *, tokenizer: Tokenizer | None = None
) -> dict[str, object]:
    """The answer of the counting endpoint."""
    request = read_count_request(dialect, body, model)
    tokens = estimate_tokens(request, tokenizer or find_tokenizer(request.model, dialect))
    return DIALECTS[dialect].counting.write_answer(tokens)


def counted(dialect: str, body: object, tokenizer: Tokenizer | None = None) -> object:
    model = "m" if dialect == "gemini" else ""
    answer = count_body(dialect, msgspec.json.encode(body), model, tokenizer=tokenizer)
    return answer["totalTokens"] if dialect == "gemini" else answer["input_tokens"]


@pytest.mark.rule("R113", "H69")
@pytest.mark.parametrize(
    ("dialect", "body", "vendor"),
    [
        (
            "anthropic",
            {
                "model": "claude-opus-4-6",
                "system": "You are a scientist",
                "messages": [{"role": "user", "content": "Hello, Claude"}],
            },
            14,
        ),
        (
            "anthropic",
            anthropic(
                tools=[
                    {
                        "name": "get_weather",
                        "description": ABOUT,
                        "input_schema": {
                            "type": "object",
                            "properties": {"location": WEATHER},
                            "required": ["location"],
                        },
                    }
                ]
            ),
            403,
        ),
        (
            "openai_responses",
            {
                "model": "gpt-4o",
                "instructions": "You are a helpful assistant that can answer to questions about the weather.",
                "input": QUESTION,
                "tools": [
                    {
                        "type": "function",
                        "name": "get_current_weather",
                        "description": ABOUT,
                        "parameters": {
                            "type": "object",
                            "properties": {"location": WEATHER, "unit": UNIT},
                            "required": ["location"],
                        },
                    }
                ],
            },
            101,
        ),
        ("gemini", gemini(), 22),
        (
            "gemini",
            gemini(
                operation("add", "+"),
                operation("subtract", "-"),
                operation("multiply", "*"),
                operation("divide", "/"),
            ),
            206,
        ),
    ],
    ids=["claude", "claude with a tool", "gpt with a tool", "gemini", "gemini with four tools"],
)
def test_the_vendors_own_examples_are_met_within_a_tenth(
    dialect: str, body: dict[str, object], vendor: int
) -> None:
    assert counted(dialect, body) == pytest.approx(vendor, rel=0.1, abs=1)


def test_each_dialect_has_its_shape() -> None:
    assert count_body("anthropic", msgspec.json.encode(anthropic())) == {"input_tokens": 16}
    answer = count_body("openai_responses", b'{"model": "gpt-5", "input": "hello"}')
    assert answer == {"object": "response.input_tokens", "input_tokens": answer["input_tokens"]}
    tokens = counted("gemini", gemini())
    assert count_body("gemini", msgspec.json.encode(gemini()), "m") == {
        "totalTokens": tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}],
    }


def test_a_count_needs_no_limit_on_the_answer_but_may_have_one() -> None:
    assert counted("anthropic", anthropic()) == counted("anthropic", anthropic(max_tokens=100))


@pytest.mark.parametrize("name", ["generateContentRequest", "generate_content_request"])
def test_a_gemini_request_may_be_wrapped(name: str) -> None:
    assert counted("gemini", {name: {"model": "models/m", **gemini()}}) == counted("gemini", gemini())


def test_the_tokenizer_of_the_model_that_answers_decides() -> None:
    body = anthropic(system="A word or two of instruction, repeated. " * 50)
    assert counted("anthropic", body, tokenizer="gpt") != counted("anthropic", body, tokenizer="claude")


def test_a_broken_text_is_reported_with_its_place() -> None:
    with pytest.raises(ClientProtocolError, match=r"invalid JSON: .*byte") as caught:
        count_body("anthropic", b'{"model": ')
    assert caught.value.status == 400


@pytest.mark.rule("R113")
@pytest.mark.parametrize(
    ("dialect", "body", "path"),
    [
        ("anthropic", {"messages": [{"role": "user", "content": "x"}]}, "model"),
        ("anthropic", {"model": "m"}, "messages"),
        ("anthropic", anthropic(tools=[1]), "tools[0]"),
        ("anthropic", {"model": "m", "messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ("openai_responses", {"model": "m", "input": 5}, "input"),
        ("gemini", {"contents": 5}, "contents"),
        ("gemini", {"generateContentRequest": 5}, "generateContentRequest"),
    ],
)
def test_a_wrong_body_is_reported_with_its_place(dialect: str, body: object, path: str) -> None:
    with pytest.raises(ClientProtocolError) as caught:
        counted(dialect, body)
    assert (caught.value.status, caught.value.path) == (400, path)


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b'"x"'])
@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_a_body_that_is_no_object_is_reported(dialect: str, body: bytes) -> None:
    with pytest.raises(ClientProtocolError, match="expected a JSON object"):
        count_body(dialect, body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = {
    "anthropic": ("messages", "system", "tools", "tool_choice", "thinking", "output_config"),
    "openai_responses": ("input", "instructions", "tools", "tool_choice", "reasoning", "text"),
    "openai_chat": ("messages", "tools", "tool_choice", "response_format", "reasoning_effort", "functions"),
    "gemini": (
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "generateContentRequest",
    ),
}


@pytest.mark.parametrize("dialect", list(DIALECTS))
@given(data=st.data())
def test_any_body_is_counted_or_refused(dialect: str, data: st.DataObject) -> None:
    body = data.draw(
        st.fixed_dictionaries({"model": st.just("m")}, optional=dict.fromkeys(KEYS[dialect], json_values))
    )
    try:
        tokens = counted(dialect, body)
    except DragomanError as error:
        status = error.status
        assert 400 <= status < 500
    else:
        assert isinstance(tokens, int)
        assert tokens > 0
