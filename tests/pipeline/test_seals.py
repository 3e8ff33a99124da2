"""Signatures of a vendor return to it through every client, on the same part, and to no other vendor."""

from typing import Any

import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.hub.ids import IdSource
from dragoman.pipeline import StreamTranslator, translate_request
from tests.pipeline.asking import DIALECTS, asking
from tests.pipeline.test_loops import answered
from tests.sse import collect_sse, explode_sse

Json = dict[str, Any]

SIGNATURE = "c2lnbmF0dXJl"
ENCRYPTED = "Z0FBQUFB"
THOUGHT = "I need the file."

#: Each vendor's reply with a call and whatever it signs.
SIGNED: dict[str, Json] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE},
            {"type": "redacted_thinking", "data": ENCRYPTED},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 5},
    },
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": THOUGHT}],
                "encrypted_content": ENCRYPTED,
            },
            {
                "id": "fc_1",
                "type": "function_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "Read",
                "arguments": '{"path":"a"}',
            },
        ],
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": THOUGHT, "thought": True},
                        {"text": "Let me look."},
                        {
                            "functionCall": {"id": "call-1", "name": "Read", "args": {"path": "a"}},
                            "thoughtSignature": SIGNATURE,
                        },
                        {"functionCall": {"id": "call-2", "name": "Read", "args": {"path": "b"}}},
                    ],
                },
                "finishReason": "STOP",
                "index": 0,
            }
        ]
    },
}

ROUNDS = [(vendor, client) for vendor in SIGNED for client in DIALECTS if client != vendor]


def next_request(vendor: str, client: str) -> Json:
    """What the client asks after a signed reply of the vendor, with the results of its calls."""
    request = asking(client, tools=("Read",))
    if client == "openai_responses":
        request["include"] = ["reasoning.encrypted_content"]
    translator = StreamTranslator(
        source=vendor, target=client, request=request, ids=IdSource("seals"), model="m"
    )
    stream = translator.feed(explode_sse(dialect_named(vendor), SIGNED[vendor])) + translator.close()
    reply: Json = collect_sse(dialect_named(client), stream)
    if client == "gemini":
        # Gemini CLI forgets thoughts and keeps signatures.
        content = reply["candidates"][0]["content"]
        content["parts"] = [part for part in content["parts"] if not part.get("thought")]
    return answered(client, request, reply)


def body_for(vendor: str, request: Json, client: str) -> Json:
    return translate_request(request, source=client, target=vendor, model="m").body


@pytest.mark.rule("H1", "H2", "H3", "H6")
@pytest.mark.parametrize("client", [client for vendor, client in ROUNDS if vendor == "anthropic"])
def test_anthropic_gets_its_thinking_back_before_the_call(client: str) -> None:
    body = body_for("anthropic", next_request("anthropic", client), client)
    [sent] = [message for message in body["messages"] if message["role"] == "assistant"]
    assert sent["content"] == SIGNED["anthropic"]["content"]


@pytest.mark.rule("H4", "H5")
@pytest.mark.parametrize("client", [client for vendor, client in ROUNDS if vendor == "openai_responses"])
def test_openai_gets_its_reasoning_back_before_the_call(client: str) -> None:
    body = body_for("openai_responses", next_request("openai_responses", client), client)
    kinds = [item["type"] for item in body["input"]]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output"]
    assert body["input"][1]["encrypted_content"] == ENCRYPTED
    assert body["input"][1]["summary"] == [{"type": "summary_text", "text": THOUGHT}]


@pytest.mark.rule("H6", "P42", "P43")
@pytest.mark.parametrize("client", [client for vendor, client in ROUNDS if vendor == "gemini"])
def test_gemini_gets_its_signature_back_on_the_call_it_signed(client: str) -> None:
    body = body_for("gemini", next_request("gemini", client), client)
    [message] = [content for content in body["contents"] if content["role"] == "model"]
    signatures = [
        (part["functionCall"]["args"]["path"] if "functionCall" in part else "", part["thoughtSignature"])
        for part in message["parts"]
        if "thoughtSignature" in part
    ]
    assert signatures == [("a", SIGNATURE)]


@pytest.mark.rule("H1", "H3", "H4", "P44", "P46", "P48")
@pytest.mark.parametrize("stranger", DIALECTS)
@pytest.mark.parametrize(("vendor", "client"), ROUNDS)
def test_no_other_vendor_gets_a_seal_or_the_thought_it_sealed(
    vendor: str, client: str, stranger: str
) -> None:
    # From Chat to Chat goes what came: the field is Google's own, and so may be the server.
    if stranger != vendor and (client, stranger) != ("openai_chat", "openai_chat"):
        sent = str(body_for(stranger, next_request(vendor, client), client))
        assert SIGNATURE not in sent
        assert ENCRYPTED not in sent
        assert "dgm1." not in sent
        assert THOUGHT not in sent


@pytest.mark.rule("P45")
@pytest.mark.parametrize("client", [client for vendor, client in ROUNDS if vendor == "anthropic"])
def test_a_seal_does_not_go_to_another_model_of_the_same_vendor(client: str) -> None:
    request = next_request("anthropic", client)
    request |= {} if client == "gemini" else {"model": "another"}
    translation = translate_request(request, source=client, target="anthropic", model="another")
    assert SIGNATURE not in str(translation.body)
    assert translation.losses


@pytest.mark.rule("P47")
@pytest.mark.parametrize("vendor", SIGNED)
def test_a_vendor_s_own_client_sends_signed_blocks_back_unchanged(vendor: str) -> None:
    request = answered(vendor, asking(vendor, tools=("Read",)), SIGNED[vendor])
    assert translate_request(request, source=vendor, target=vendor, model="m").body == request
