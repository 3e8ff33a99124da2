"""A client that answers calls and asks again gets through every upstream, message after message."""

from typing import Any

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.hub.ids import IdSource
from dragoman.pipeline import StreamTranslator, translate_request
from tests.pipeline.asking import DIALECTS, asking, chat_reply_with_call
from tests.sse import collect_sse, explode_sse

Json = dict[str, Any]

#: One reply of a model in its own dialect: a call, or the last word.
CALLING: dict[str, Json] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}}],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 5},
    },
    "openai_chat": chat_reply_with_call("Read", '{"path":"a"}'),
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [
            {
                "id": "fc_1",
                "type": "function_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "Read",
                "arguments": '{"path":"a"}',
            }
        ],
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"functionCall": {"name": "Read", "args": {"path": "a"}}}],
                },
                "finishReason": "STOP",
                "index": 0,
            }
        ]
    },
}


def stream_from(upstream: str, client: str, request: Json) -> bytes:
    translator = StreamTranslator(
        source=upstream, target=client, request=request, ids=IdSource(msgspec.json.encode(request)), model="m"
    )
    return translator.feed(explode_sse(dialect_named(upstream), CALLING[upstream])) + translator.close()


def answered(client: str, request: Json, reply: Json) -> Json:
    """The client's next request: its history, the reply as it came, and the results of the calls in it."""
    match client:
        case "anthropic":
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "A"} for call in calls]
            messages = [
                {"role": "assistant", "content": reply["content"]},
                {"role": "user", "content": results},
            ]
            return {**request, "messages": [*request["messages"], *messages]}
        case "openai_chat":
            message = reply["choices"][0]["message"]
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": "A"} for call in message["tool_calls"]
            ]
            return {**request, "messages": [*request["messages"], message, *results]}
        case "openai_responses":
            history = request["input"]
            history = [{"role": "user", "content": history}] if isinstance(history, str) else history
            calls = [item for item in reply["output"] if item["type"] == "function_call"]
            results = [
                {"type": "function_call_output", "call_id": call["call_id"], "output": "A"} for call in calls
            ]
            return {**request, "input": [*history, *reply["output"], *results]}
        case _:
            content = reply["candidates"][0]["content"]
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            results = [
                {"functionResponse": {"name": call["name"], "response": {"output": "A"}, **id_of(call)}}
                for call in calls
            ]
            messages = [content, {"role": "user", "parts": results}]
            return {**request, "contents": [*request["contents"], *messages]}


def id_of(call: Json) -> Json:
    return {"id": call["id"]} if "id" in call else {}


def call_ids(dialect: str, body: Json) -> tuple[list[object], list[object]]:
    """The ids of the calls and of the results in a request, in order."""
    match dialect:
        case "anthropic":
            blocks = [
                b
                for message in body["messages"]
                if isinstance(message["content"], list)
                for b in message["content"]
            ]
            return (
                [block["id"] for block in blocks if block["type"] == "tool_use"],
                [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"],
            )
        case "openai_chat":
            messages = body["messages"]
            return (
                [call["id"] for message in messages for call in message.get("tool_calls", ())],
                [message["tool_call_id"] for message in messages if message["role"] == "tool"],
            )
        case "openai_responses":
            return (
                [item["call_id"] for item in body["input"] if item.get("type") == "function_call"],
                [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"],
            )
        case _:
            parts = [part for message in body["contents"] for part in message["parts"]]
            return (
                [part["functionCall"].get("id") for part in parts if "functionCall" in part],
                [part["functionResponse"].get("id") for part in parts if "functionResponse" in part],
            )


@pytest.mark.rule("R40", "R69", "H17", "R136")
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_loop_of_three_calls_reaches_every_upstream_with_each_result_after_its_call(
    client: str, upstream: str
) -> None:
    request = asking(client, tools=("Read",)) | ({} if client == "gemini" else {"stream": True})
    for _ in range(3):
        stream = stream_from(upstream, client, request)
        assert dialect_named(client).check_stream(stream) == []
        request = answered(client, request, collect_sse(dialect_named(client), stream))
    body = translate_request(request, source=client, target=upstream, model="m").body
    calls, results = call_ids(upstream, body)
    assert len(calls) == 3
    assert calls == results
    if upstream != "gemini" and client != upstream:
        assert len(set(calls)) == 3, "ids must be unique in a conversation"


@pytest.mark.rule("P15")
@pytest.mark.parametrize("client", DIALECTS)
def test_streams_that_run_at_the_same_time_do_not_know_of_each_other(client: str) -> None:
    request = asking(client, tools=("Read",))
    alone = {upstream: stream_from(upstream, client, request) for upstream in DIALECTS}
    streams = {name: explode_sse(dialect_named(name), CALLING[name]) for name in DIALECTS}
    translators = {
        name: StreamTranslator(
            source=name, target=client, request=request, ids=IdSource(msgspec.json.encode(request)), model="m"
        )
        for name in DIALECTS
    }
    together = dict.fromkeys(DIALECTS, b"")
    for place in range(0, max(map(len, streams.values())), 16):
        for name in DIALECTS:
            together[name] += translators[name].feed(streams[name][place : place + 16])
    assert {name: together[name] + translators[name].close() for name in DIALECTS} == alone
