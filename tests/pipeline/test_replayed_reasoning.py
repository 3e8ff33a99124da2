"""Servers that require the reasoning of earlier messages get it, whatever dialect the client uses."""

from typing import Any

import msgspec
import pytest

from dragoman.pipeline import Translation, translate_request
from dragoman.providers.profile import Profile
from tests.exchange.clock import run
from tests.healing.vendor import Bench, RefusingUpstream, ask, provider, write_error
from tests.pipeline.asking import asking, declared

Json = dict[str, object]

CALL: Json = {"name": "Read", "arguments": '{"path":"a"}'}

#: A call with its reasoning, its result, an answer with its reasoning, and the next question.
HISTORIES: dict[str, Json] = {
    "anthropic": {
        "messages": [
            {"role": "user", "content": "Go"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I look.", "signature": "c2ln"},
                    {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "That is it.", "signature": "c2ln"},
                    {"type": "text", "text": "Done."},
                ],
            },
            {"role": "user", "content": "Thanks"},
        ]
    },
    "openai_responses": {
        "input": [
            {"role": "user", "content": "Go"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", **CALL},
            {"type": "function_call_output", "call_id": "c1", "output": "x"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "That is it."}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
            {"role": "user", "content": "Thanks"},
        ]
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Go"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I look.", "thought": True},
                    {"functionCall": {"id": "c1", "name": "Read", "args": {"path": "a"}}},
                ],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "c1", "name": "Read", "response": {"output": "x"}}}],
            },
            {"role": "model", "parts": [{"text": "That is it.", "thought": True}, {"text": "Done."}]},
            {"role": "user", "parts": [{"text": "Thanks"}]},
        ]
    },
    "openai_chat": {
        "messages": [
            {"role": "user", "content": "Go"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "I look.",
                "tool_calls": [{"id": "c1", "type": "function", "function": CALL}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "x"},
            {"role": "assistant", "content": "Done.", "reasoning_content": "That is it."},
            {"role": "user", "content": "Thanks"},
        ]
    },
}


def translated(source: str, target: str, body: Json, *, tools: bool = True) -> Translation:
    added = {"tools": declared(source, ["Read"])} if tools else {}
    return translate_request(
        asking(source) | body | added,
        source=source,
        target=target,
        profile=Profile(dialect=target, replay_reasoning=True),
        model="m",
    )


def list_of(value: object) -> list[Json]:
    assert isinstance(value, list)
    return value


@pytest.mark.rule("F5", "H7")
@pytest.mark.parametrize("source", HISTORIES)
def test_a_chat_server_gets_the_reasoning_of_every_message(source: str) -> None:
    found = translated(source, "openai_chat", HISTORIES[source])
    answers = [each for each in list_of(found.body["messages"]) if each["role"] == "assistant"]
    assert [each.get("reasoning_content") for each in answers] == ["I look.", "That is it."]
    assert [each.get("content") for each in answers] == [None, "Done."]
    assert found.losses == ()


@pytest.mark.rule("F5")
@pytest.mark.parametrize("source", ["openai_chat", "openai_responses", "gemini"])
def test_a_messages_server_gets_thinking_blocks_without_a_signature(source: str) -> None:
    found = translated(source, "anthropic", HISTORIES[source])
    answers = [each for each in list_of(found.body["messages"]) if each["role"] == "assistant"]
    first = [list_of(each["content"])[0] for each in answers]
    assert first == [
        {"type": "thinking", "thinking": "I look.", "signature": ""},
        {"type": "thinking", "thinking": "That is it.", "signature": ""},
    ]
    assert found.losses == ()


@pytest.mark.rule("F5")
@pytest.mark.parametrize("source", ["anthropic", "openai_chat", "gemini"])
def test_a_responses_server_gets_reasoning_items_without_encrypted_content(source: str) -> None:
    found = translated(source, "openai_responses", HISTORIES[source])
    items = [each for each in list_of(found.body["input"]) if each["type"] == "reasoning"]
    assert [each["summary"] for each in items] == [
        [{"type": "summary_text", "text": "I look."}],
        [{"type": "summary_text", "text": "That is it."}],
    ]
    assert all("encrypted_content" not in each for each in items)
    assert found.losses == ()


@pytest.mark.rule("F5")
@pytest.mark.parametrize("source", ["anthropic", "openai_chat", "openai_responses"])
def test_a_gemini_server_gets_thoughts(source: str) -> None:
    found = translated(source, "gemini", HISTORIES[source])
    answers = [each for each in list_of(found.body["contents"]) if each["role"] == "model"]
    assert [list_of(each["parts"])[0] for each in answers] == [
        {"text": "I look.", "thought": True},
        {"text": "That is it.", "thought": True},
    ]


@pytest.mark.rule("F5")
@pytest.mark.parametrize("tools", [True, False])
def test_a_message_of_another_model_has_reasoning_that_moonshot_accepts(tools: bool) -> None:
    """With tools, DeepSeek and Moonshot refuse a message without reasoning; Moonshot also an empty text."""
    body: Json = {
        "messages": [
            {"role": "user", "content": "Go"},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Thanks"},
        ]
    }
    found = translated("anthropic", "openai_chat", body, tools=tools)
    answer = list_of(found.body["messages"])[1]
    assert answer == {"role": "assistant", "content": "Done."} | ({"reasoning_content": " "} if tools else {})


@pytest.mark.rule("F5")
def test_reasoning_without_an_answer_is_no_message() -> None:
    body: Json = {
        "input": [
            {"role": "user", "content": "Go"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look."}]},
            {"role": "user", "content": "And?"},
        ]
    }
    found = translated("openai_responses", "openai_chat", body)
    assert [each["role"] for each in list_of(found.body["messages"])] == ["user", "user"]
    assert [loss.path for loss in found.losses] == ["input[1]"]


def remove_reasoning(body: Json) -> Json:
    """The history of a client that did not keep the reasoning."""
    copy: Json = msgspec.json.decode(msgspec.json.encode(body))
    for message in list_of(next(iter(copy.values()))):
        message.pop("reasoning_content", None)
        for name in ("content", "parts"):
            if isinstance(message.get(name), list):
                parts = list_of(message[name])
                message[name] = [p for p in parts if p.get("type") != "thinking" and not p.get("thought")]
    if "input" in copy:
        copy["input"] = [item for item in list_of(copy["input"]) if item.get("type") != "reasoning"]
    return copy


@pytest.mark.rule("F5")
@pytest.mark.parametrize("tools", [True, False], ids=["with tools", "without tools"])
@pytest.mark.parametrize("source", HISTORIES)
@pytest.mark.parametrize(
    "message",
    [
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ],
    ids=["Moonshot", "DeepSeek"],
)
def test_a_refusal_of_missing_reasoning_is_healed_for_every_client(
    source: str, tools: bool, message: str
) -> None:
    def lacks_reasoning(body: dict[str, Any]) -> bool:
        return any(
            not each.get("reasoning_content") for each in body["messages"] if each["role"] == "assistant"
        )

    added = {"tools": declared(source, ["Read"])} if tools else {}
    body = {**asking(source), **remove_reasoning(HISTORIES[source]), **added}
    upstream = RefusingUpstream("openai_chat", lacks_reasoning, 400, write_error(message))
    bench = Bench({"up": upstream}, {"up": provider("up", "openai_chat")})
    first = run(bench.run_exchange(ask(source, body)))
    assert (first.client.status, len(upstream.calls)) == (200, 2)
    second = run(bench.run_exchange(ask(source, body)))
    assert (second.client.status, len(upstream.calls)) == (200, 3)
    answers = [each for each in upstream.bodies[-1]["messages"] if each["role"] == "assistant"]
    assert [each["reasoning_content"] for each in answers] == [" ", " "]
    assert [each.get("content") for each in answers] == [None, "Done."]
