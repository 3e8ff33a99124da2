"""Token probabilities: the setting and the data reach every dialect that has them, streamed and whole."""

import msgspec
import pytest
from google.genai import types as genai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from dragoman import StreamTranslator, translate_reply, translate_request
from dragoman.dialects.registry import dialect_named
from dragoman.hub.ids import IdSource
from tests.sse import collect_sse

Json = dict[str, object]

#: The dialects whose replies have token probabilities.
DIALECTS = ("openai_chat", "openai_responses", "gemini")

#: A token, its probability, and the most likely tokens at its place.
TOKENS = [
    ("größ", -0.25, [("größ", -0.25), ("klein", -1.5)]),
    ("er", 0.0, [("er", 0.0), ("e", -7.5)]),
]
TEXT = "".join(token for token, _, _ in TOKENS)

LOGPROBS_INCLUDE = "message.output_text.logprobs"
REQUESTS: dict[str, Json] = {
    "openai_chat": {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "logprobs": True,
        "top_logprobs": 2,
    },
    "openai_responses": {"model": "m", "input": "Hi", "include": [LOGPROBS_INCLUDE], "top_logprobs": 2},
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {"responseLogprobs": True, "logprobs": 2},
    },
}
#: The same requests without the setting.
PLAIN_REQUESTS: dict[str, Json] = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "openai_responses": {"model": "m", "input": "Hi"},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}


def openai_token(token: str, logprob: float) -> Json:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


OPENAI_TOKENS: list[Json] = [
    {**openai_token(token, logprob), "top_logprobs": [openai_token(*each) for each in top]}
    for token, logprob, top in TOKENS
]
CHOSEN = [{"token": token, "logProbability": logprob, "tokenId": 7} for token, logprob, _ in TOKENS]
LIKELY = [
    {"candidates": [{"token": token, "logProbability": logprob} for token, logprob in top]}
    for _, _, top in TOKENS
]


def frame(payload: Json) -> bytes:
    name = payload.get("type")
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + msgspec.json.encode(payload) + b"\n\n"


CALLS: list[Json] = [
    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
]
CHAT_HEAD: Json = {"id": "chatcmpl-12345678", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def chat_chunk(delta: Json, reason: str | None = None, tokens: list[Json] | None = None) -> bytes:
    logprobs = {"content": tokens, "refusal": None} if tokens else None
    choice: Json = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
    return frame({**CHAT_HEAD, "choices": [choice]})


PART: Json = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": OPENAI_TOKENS}
ITEM: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [PART]}
CALL_ITEM: Json = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "ls",
    "arguments": "{}",
    "status": "completed",
}
RESPONSE: Json = {
    "id": "resp_12345678",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [ITEM, CALL_ITEM],
}
PLACE: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
GEMINI_CALL: Json = {"functionCall": {"id": "call_1", "name": "ls", "args": {}}}


def candidate(*parts: Json, first: int = 0, last: int = 2, **fields: object) -> Json:
    result = {"chosenCandidates": CHOSEN[first:last], "topCandidates": LIKELY[first:last]}
    content: Json = {"role": "model", "parts": list(parts)}
    return {"content": content, "index": 0, "logprobsResult": result, **fields}


#: The same reply of each upstream: the whole body, and a stream.
REPLIES: dict[str, tuple[Json, bytes]] = {
    "openai_chat": (
        {
            "id": "chatcmpl-12345678",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": TEXT, "tool_calls": CALLS},
                    "logprobs": {"content": OPENAI_TOKENS, "refusal": None},
                    "finish_reason": "tool_calls",
                }
            ],
        },
        chat_chunk({"role": "assistant", "content": ""})
        + chat_chunk({"content": "größ"}, tokens=OPENAI_TOKENS[:1])
        + chat_chunk({"content": "er"}, tokens=OPENAI_TOKENS[1:])
        + chat_chunk({"tool_calls": CALLS})
        + chat_chunk({}, "tool_calls")
        + b"data: [DONE]\n\n",
    ),
    "openai_responses": (
        RESPONSE,
        frame({"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}})
        + frame({"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}})
        + frame({"type": "response.output_text.delta", **PLACE, "delta": TEXT, "logprobs": OPENAI_TOKENS})
        + frame({"type": "response.output_text.done", **PLACE, "text": TEXT, "logprobs": OPENAI_TOKENS})
        + frame({"type": "response.content_part.done", **PLACE, "part": PART})
        + frame({"type": "response.output_item.done", "output_index": 0, "item": ITEM})
        + frame({"type": "response.output_item.done", "output_index": 1, "item": CALL_ITEM})
        + frame({"type": "response.completed", "response": RESPONSE}),
    ),
    "gemini": (
        {
            "candidates": [candidate({"text": TEXT}, finishReason="STOP")],
            "modelVersion": "m",
            "responseId": "12345678",
        },
        frame(
            {
                "candidates": [candidate({"text": "größ"}, last=1)],
                "modelVersion": "m",
                "responseId": "12345678",
            }
        )
        + frame(
            {"candidates": [candidate({"text": "er"}, first=1, finishReason="STOP")], "modelVersion": "m"}
        ),
    ),
}


def read_tokens(client: str, body: Json) -> list[tuple[str, float, list[tuple[str, float]]]]:
    """The tokens of a whole reply, read by the types of the vendor's SDK."""
    if client == "openai_chat":
        logprobs = ChatCompletion.model_validate(body).choices[0].logprobs
        assert logprobs is not None
        return [
            (each.token, each.logprob, [(top.token, top.logprob) for top in each.top_logprobs])
            for each in logprobs.content or []
        ]
    if client == "openai_responses":
        texts = [
            part for item in Response.model_validate(body).output for part in getattr(item, "content", ())
        ]
        return [
            (each.token, each.logprob, [(top.token, top.logprob) for top in each.top_logprobs])
            for part in texts
            for each in part.logprobs or []
        ]
    candidates = genai.GenerateContentResponse.model_validate(body).candidates
    result = candidates[0].logprobs_result if candidates else None
    assert result is not None
    places = zip(result.chosen_candidates or [], result.top_candidates or [], strict=True)
    return [
        (
            chosen.token or "",
            chosen.log_probability or 0.0,
            [(top.token or "", top.log_probability or 0.0) for top in place.candidates or []],
        )
        for chosen, place in places
    ]


def translate_stream(source: str, client: str, request: Json) -> Json:
    translator = StreamTranslator(source=source, target=client, request=request, ids=IdSource("s"), model="m")
    stream = translator.feed(REPLIES[source][1]) + translator.close()
    assert dialect_named(client).check_stream(stream) == []
    return collect_sse(dialect_named(client), stream)


@pytest.mark.rule("F22", "H52")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_the_setting_reaches_the_target_without_a_loss(client: str, target: str) -> None:
    translated = translate_request(REQUESTS[client], source=client, target=target, model="m")
    assert translated.losses == ()
    body, wanted = translated.body, REQUESTS[target]
    config, expected = body.get("generationConfig"), wanted.get("generationConfig")
    if isinstance(config, dict) and isinstance(expected, dict):
        assert {name: config.get(name) for name in expected} == expected
    for name in ("logprobs", "top_logprobs", "include"):
        assert body.get(name) == wanted.get(name)


@pytest.mark.rule("F22", "H52")
@pytest.mark.parametrize("client", DIALECTS)
def test_a_target_without_probabilities_is_a_loss_and_no_setting(client: str) -> None:
    translated = translate_request(REQUESTS[client], source=client, target="anthropic", model="m")
    assert translated.losses
    assert b"logprobs" not in msgspec.json.encode(translated.body)


@pytest.mark.rule("F22")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_the_tokens_of_a_reply_reach_the_client_streamed_and_whole(source: str, client: str) -> None:
    whole = translate_reply(
        REPLIES[source][0],
        source=source,
        target=client,
        request=REQUESTS[client],
        ids=IdSource("s"),
        model="m",
    ).body
    streamed = translate_stream(source, client, REQUESTS[client])
    assert read_tokens(client, whole) == TOKENS
    assert read_tokens(client, streamed) == TOKENS
    assert TEXT.encode() in msgspec.json.encode(whole)


@pytest.mark.rule("F22")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_a_client_that_did_not_ask_gets_no_tokens_of_another_dialect(source: str, client: str) -> None:
    if source != client:
        body = translate_stream(source, client, PLAIN_REQUESTS[client])
        assert b"klein" not in msgspec.json.encode(body)


@pytest.mark.rule("F22")
@pytest.mark.parametrize("source", DIALECTS)
def test_an_anthropic_client_is_not_disturbed_by_tokens(source: str) -> None:
    request: Json = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    body = translate_stream(source, "anthropic", request)
    assert b"klein" not in msgspec.json.encode(body)
    assert TEXT.encode() in msgspec.json.encode(body)
