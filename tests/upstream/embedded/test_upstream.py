"""The embedded model answers in OpenAI Chat like a server: whole, streamed, refused and broken off."""

import asyncio

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.upstream.embedded.upstream import EmbeddedReply, EmbeddedUpstream
from dragoman.upstream.port import UpstreamRequest
from tests.sse import collect_sse

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {field: {"type": "string"}}},
        },
    }
    for name, field in (("read", "path"), ("bash", "command"))
]


def answered(text: str, *, stream: bool = False, usage: bool = True) -> tuple[EmbeddedReply, bytes]:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "tools": TOOLS,
        "stream_options": {"include_usage": usage},
    }

    async def asked() -> tuple[EmbeddedReply, bytes]:
        upstream = EmbeddedUpstream(clock=lambda: 12.5)
        answer = await upstream.send(
            UpstreamRequest(body=msgspec.json.encode(body), model="m", stream=stream)
        )
        pieces = [piece async for piece in answer.pieces()]
        await upstream.close()
        return answer, b"".join(pieces)

    return asyncio.run(asked())


def whole(text: str) -> dict[str, object]:
    answer, body = answered(text)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    value = msgspec.json.decode(body)
    assert isinstance(value, dict)
    return value


PROMPTS = ["hello", "think", "read a.txt", "run `ls` and read b.txt", "think, then run `pwd`"]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_stream_keeps_to_the_grammar_and_says_what_the_whole_reply_says(prompt: str) -> None:
    answer, stream = answered(prompt, stream=True)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    chat = dialect_named("openai_chat")
    assert chat.check_stream(stream) == []
    collected = collect_sse(chat, stream)
    reply = whole(prompt)
    assert collected["choices"] == reply["choices"]
    assert collected["usage"] == reply["usage"]
    assert (collected["id"], collected["created"]) == (reply["id"], 12)


def test_a_client_that_does_not_ask_for_usage_gets_none() -> None:
    _, stream = answered("hello", stream=True, usage=False)
    assert dialect_named("openai_chat").check_stream(stream) == []
    assert b'"usage"' not in stream


def test_a_stream_comes_in_small_pieces() -> None:
    _, stream = answered("hello", stream=True)
    assert stream.count(b"data: ") > 10


def test_a_failure_is_a_status_and_an_error_body() -> None:
    answer, body = answered("fail", stream=True)
    assert (answer.status, answer.headers["content-type"]) == (500, "application/json")
    assert msgspec.json.decode(body)["error"]["type"] == "server_error"
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_says_when_to_come_back(status: int) -> None:
    answer, _ = answered(f"fail with {status}")
    assert (answer.status, answer.headers["retry-after"]) == (status, "1")


def test_a_failure_midway_is_an_error_behind_words() -> None:
    _, stream = answered("fail midway", stream=True)
    frames = stream.split(b"\n\n")
    assert b'"content":"I am the model' in stream
    assert b'"error"' in frames[-2]
    assert b"[DONE]" not in stream


def test_breaking_off_is_silence_behind_words() -> None:
    _, stream = answered("break off", stream=True)
    assert b'"content":"I am the model' in stream
    assert b'"error"' not in stream
    assert b'"finish_reason":"stop"' not in stream


@pytest.mark.parametrize("prompt", ["fail midway", "break off"])
def test_a_whole_reply_cannot_break_so_it_fails(prompt: str) -> None:
    assert answered(prompt)[0].status == 500


def test_an_answer_that_is_closed_says_no_more() -> None:
    async def closed() -> list[bytes]:
        answer = await EmbeddedUpstream().send(
            UpstreamRequest(body=b'{"messages":[]}', model="m", stream=True)
        )
        answer.close()
        return [piece async for piece in answer.pieces()]

    assert asyncio.run(closed()) == []
