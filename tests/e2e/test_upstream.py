"""The scripted upstream is as strict as the vendors are, no stricter, and its own streams are legal."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from tests.e2e.upstream.checks.rules import Refused
from tests.e2e.upstream.reply_writers.pieces import Reply
from tests.e2e.upstream.reply_writers.registry import DIALECTS, VENDORS
from tests.e2e.upstream.script import Call
from tests.e2e.upstream.vault import Issued, Vault

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
Json = dict[str, Any]


class TrustingVault(Vault):
    """Takes every seal for its own: recorded requests hold seals that another upstream issued."""

    def find(self, dialect: str, value: object) -> Issued | None:
        return Issued(dialect, "", TrustedText()) if value else None


class TrustedText(str):
    """Equal to every text."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def recorded_turns() -> list[Path]:
    return sorted(path for dialect in DIALECTS for path in (RECORDINGS / dialect).glob("request-*-loop.json"))


@pytest.mark.parametrize("path", recorded_turns(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_a_client_sends_to_its_own_vendor_is_accepted(path: Path) -> None:
    recording = msgspec.json.decode(path.read_bytes())
    vendor = VENDORS[path.parent.name]
    assert vendor.check(recording["body"], recording["headers"], TrustingVault()).results


def call_of(dialect: str, identity: str = "call_1") -> list[Json]:
    """An assistant's turn with one call."""
    turns: dict[str, list[Json]] = {
        "anthropic": [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": identity, "name": "f", "input": {}}],
            }
        ],
        "openai_chat": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": identity, "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            }
        ],
        "openai_responses": [{"type": "function_call", "call_id": identity, "name": "f", "arguments": "{}"}],
        "gemini": [
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"name": "f", "args": {}},
                        "thoughtSignature": "skip_thought_signature_validator",
                    }
                ],
            }
        ],
    }
    return turns[dialect]


def result_of(dialect: str, identity: str = "call_1") -> Json:
    part = {"functionResponse": {"name": "f", "response": {"output": "done"}}}
    results: dict[str, Json] = {
        "anthropic": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": identity, "content": "done"}],
        },
        "openai_chat": {"role": "tool", "tool_call_id": identity, "content": "done"},
        "openai_responses": {"type": "function_call_output", "call_id": identity, "output": "done"},
        "gemini": {"role": "user", "parts": [part]},
    }
    return results[dialect]


def user_of(dialect: str) -> Json:
    if dialect == "gemini":
        return {"role": "user", "parts": [{"text": "Go on."}]}
    return {"role": "user", "content": "Go on."}


def tools_of(dialect: str, name: str = "f") -> list[Json]:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools: dict[str, list[Json]] = {
        "anthropic": [{"name": name, "input_schema": schema}],
        "openai_chat": [{"type": "function", "function": {"name": name, "parameters": schema}}],
        "openai_responses": [{"type": "function", "name": name, "parameters": schema, "strict": False}],
        "gemini": [{"functionDeclarations": [{"name": name, "parameters": schema}]}],
    }
    return tools[dialect]


HISTORY = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
}


def body_of(dialect: str, history: list[Json], **more: object) -> Json:
    body: Json = {HISTORY[dialect]: history, "tools": tools_of(dialect)}
    if dialect != "gemini":
        body["model"] = "m"
    if dialect == "anthropic":
        body["max_tokens"] = 100
    return body | more


def refusal(dialect: str, body: Json) -> str:
    with pytest.raises(Refused) as refused:
        VENDORS[dialect].check(body, {"anthropic-version": "2023-06-01"}, Vault())
    return str(refused.value)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_with_its_result_is_accepted(dialect: str) -> None:
    body = body_of(dialect, [user_of(dialect), *call_of(dialect), result_of(dialect)])
    checked = VENDORS[dialect].check(body, {"anthropic-version": "2023-06-01"}, Vault())
    assert [result.name for result in checked.results] == ["f"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_without_its_result_is_refused(dialect: str) -> None:
    assert refusal(dialect, body_of(dialect, [user_of(dialect), *call_of(dialect), user_of(dialect)]))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_result_without_its_call_is_refused(dialect: str) -> None:
    assert refusal(dialect, body_of(dialect, [user_of(dialect), result_of(dialect)]))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_result_that_comes_twice_is_refused(dialect: str) -> None:
    results = [result_of(dialect), result_of(dialect)]
    assert refusal(dialect, body_of(dialect, [user_of(dialect), *call_of(dialect), *results]))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_a_call_id_that_is_too_long_is_refused(dialect: str) -> None:
    long = "c" * 65
    history = [user_of(dialect), *call_of(dialect, long), result_of(dialect, long)]
    assert "too long" in refusal(dialect, body_of(dialect, history))


def test_a_call_id_with_strange_characters_is_refused_by_anthropic() -> None:
    history = [user_of("anthropic"), *call_of("anthropic", "call:1"), result_of("anthropic", "call:1")]
    assert "pattern" in refusal("anthropic", body_of("anthropic", history))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_name_with_strange_characters_is_refused(dialect: str) -> None:
    body = body_of(dialect, [user_of(dialect)], tools=tools_of(dialect, "a b"))
    assert "name" in refusal(dialect, body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_field_of_another_vendor_is_refused(dialect: str) -> None:
    foreign = {"gemini": "messages"}.get(dialect, "contents")
    assert foreign in refusal(dialect, body_of(dialect, [user_of(dialect)]) | {foreign: []})


FOREIGN_SEALS: dict[str, Json] = {
    "anthropic": {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "x", "signature": "Zm9yZWlnbg=="},
            {"type": "text", "text": "y"},
        ],
    },
    "openai_responses": {"type": "reasoning", "summary": [], "encrypted_content": "Zm9yZWlnbg=="},
    "gemini": {"role": "model", "parts": [{"text": "y", "thoughtSignature": "Zm9yZWlnbg=="}]},
}


@pytest.mark.parametrize("dialect", list(FOREIGN_SEALS))
def test_a_seal_that_another_issued_is_refused(dialect: str) -> None:
    history = [user_of(dialect), FOREIGN_SEALS[dialect], user_of(dialect)]
    words = ("signature", "encrypted content")
    assert any(word in refusal(dialect, body_of(dialect, history)) for word in words)


@pytest.mark.parametrize(
    ("dialect", "more", "word"),
    [
        ("anthropic", {"max_tokens": None}, "max_tokens"),
        ("anthropic", {"tools": [], "tool_choice": {"type": "auto"}}, "tool_choice"),
        ("anthropic", {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "text"),
        ("anthropic", {"temperature": 0.5, "thinking": {"type": "adaptive"}}, "temperature"),
        ("anthropic", {"context_management": {}}, "context_management"),
        ("openai_chat", {"stream_options": {"include_usage": True}}, "stream_options"),
        ("openai_chat", {"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ("openai_chat", {"tools": []}, "tools"),
        ("openai_responses", {"stream": True, "stream_options": {"include_usage": True}}, "include_usage"),
        ("openai_responses", {"max_output_tokens": 1}, "max_output_tokens"),
        ("gemini", {"generationConfig": {"stopSequences": list("abcdef")}}, "stop_sequences"),
        ("gemini", {"tools": [], "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}, "config"),
    ],
)
def test_a_setting_that_the_vendor_does_not_take_is_refused(dialect: str, more: Json, word: str) -> None:
    assert word in refusal(dialect, body_of(dialect, [user_of(dialect)], **more))


@pytest.mark.parametrize("schema", [{"type": "OBJECT", "properties": {}}, {"type": "STRING", "$ref": "x"}])
def test_a_schema_outside_the_subset_is_refused_by_gemini(schema: Json) -> None:
    tools = [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]
    assert "parameters" in refusal("gemini", body_of("gemini", [user_of("gemini")], tools=tools))


def test_a_call_of_the_current_turn_without_its_signature_is_refused_by_gemini() -> None:
    call = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    history = [user_of("gemini"), call, result_of("gemini")]
    assert "thought_signature" in refusal("gemini", body_of("gemini", history))


def test_an_image_in_a_tool_message_is_refused_by_chat() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    result = result_of("openai_chat") | {"content": [image]}
    body = body_of("openai_chat", [user_of("openai_chat"), *call_of("openai_chat"), result])
    assert "image_url" in refusal("openai_chat", body)


REQUESTS: dict[str, Json] = {
    "anthropic": {"model": "m", "thinking": {"type": "adaptive"}},
    "openai_chat": {"model": "m", "stream": True, "stream_options": {"include_usage": True}},
    "openai_responses": {
        "model": "m",
        "reasoning": {"summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    },
    "gemini": {"model": "m", "generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_scripted_stream_is_a_legal_stream_of_its_dialect(dialect: str, calls: int) -> None:
    reply = Reply(
        number=1,
        text="Some text.",
        reasoning="Some thoughts.",
        calls=tuple(Call(name=f"f{number}", arguments={"a": "b"}) for number in range(calls)),
        stop="end",
        request=REQUESTS[dialect],
        vault=Vault(),
    )
    vendor = VENDORS[dialect]
    frames = vendor.frames(vendor.whole(reply), REQUESTS[dialect])
    stream = b"".join(vendor.framed(frame) for frame in frames) + vendor.last_line
    assert list(dialect_named(dialect).check_stream(stream)) == []
