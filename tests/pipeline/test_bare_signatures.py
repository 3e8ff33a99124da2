"""A part of Gemini with nothing but a thought signature completes the part before it, for every client."""

import msgspec
import pytest

from dragoman import StreamTranslator, translate_reply, translate_request
from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import Reasoning, ReplyBlock, Text
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from tests.pipeline.recordings import DIALECTS
from tests.sse import collect_sse

Json = dict[str, object]

SEAL = "Z2VtaW5pIHNpZ25hdHVyZQ=="
OTHER_SEAL = "YW5vdGhlcg=="
TEXT: Json = {"text": "Hello."}
THOUGHT: Json = {"text": "Hm.", "thought": True}
CALL: Json = {"functionCall": {"id": "call_1", "name": "ls", "args": {}}}
SIGNED_CALL: Json = {**CALL, "thoughtSignature": OTHER_SEAL}

#: Parts with nothing but a signature.
BARE: dict[str, Json] = {
    "bare": {"thoughtSignature": SEAL},
    "with an empty text": {"text": "", "thoughtSignature": SEAL},
}
#: What may stand before it, and the kind of block that carries the signature.
BEFORE: dict[str, tuple[list[Json], type[ReplyBlock]]] = {
    "thought": ([THOUGHT], Reasoning),
    "text": ([TEXT], Text),
    "thought and text": ([THOUGHT, TEXT], Text),
    "call and text": ([SIGNED_CALL, TEXT], Text),
}


def body(*parts: Json) -> Json:
    content: Json = {"role": "model", "parts": list(parts)}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "modelVersion": "m",
        "responseId": "r",
    }


def stream(*parts: Json) -> bytes:
    """One part in each chunk, and the finish reason with the last."""
    chunks = [body(part) for part in parts]
    for chunk in chunks[:-1]:
        candidates = chunk["candidates"]
        assert isinstance(candidates, list)
        del candidates[0]["finishReason"]
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in chunks)


def read_blocks(data: bytes) -> tuple[ReplyBlock, ...]:
    reader = dialect_named("gemini").stream_reader(UpstreamContext(issuer="gemini"))
    return fold([*reader.feed(data), *reader.close()]).blocks


@pytest.mark.rule("F4")
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("bare", BARE)
def test_a_signature_alone_seals_the_block_before_it(bare: str, before: str) -> None:
    parts, kind = BEFORE[before]
    plain = read_blocks(stream(*parts))
    sealed = read_blocks(stream(*parts, BARE[bare]))
    assert [type(block) for block in sealed] == [type(block) for block in plain]
    last = sealed[-1]
    assert isinstance(last, kind)
    assert isinstance(last, Text | Reasoning)
    assert last.seal is not None
    assert last.seal.value == SEAL


@pytest.mark.rule("F4")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("bare", BARE)
def test_a_stream_and_a_whole_reply_agree(bare: str, before: str, client: str) -> None:
    parts = [*BEFORE[before][0], BARE[bare]]
    translator = StreamTranslator(source="gemini", target=client, ids=IdSource("seed"))
    written = translator.feed(stream(*parts)) + translator.close()
    assert dialect_named(client).check_stream(written) == []
    whole = translate_reply(body(*parts), source="gemini", target=client, ids=IdSource("seed")).body
    assert collect_sse(dialect_named(client), written) == whole


@pytest.mark.rule("F4")
@pytest.mark.parametrize("before", BEFORE)
def test_a_gemini_client_gets_the_part_as_it_came(before: str) -> None:
    reply = body(*BEFORE[before][0], BARE["bare"])
    assert translate_reply(reply, source="gemini", target="gemini", model="m").body == reply


@pytest.mark.rule("F4")
@pytest.mark.parametrize("bare", BARE)
def test_an_anthropic_client_gets_no_block_for_it_where_a_thought_can_carry_it(bare: str) -> None:
    content = translate_reply(body(THOUGHT, BARE[bare]), source="gemini", target="anthropic").body["content"]
    assert isinstance(content, list)
    (thinking,) = content
    assert thinking["type"] == "thinking"
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}]
    request: Json = {
        "model": "m",
        "max_tokens": 4096,
        "messages": [*history, {"role": "user", "content": "And?"}],
    }
    again = translate_request(request, source="anthropic", target="gemini").body
    assert SEAL.encode() in msgspec.json.encode(again)


@pytest.mark.rule("F4")
@pytest.mark.parametrize(
    "parts",
    [[BARE["bare"], TEXT], [{**THOUGHT, "thoughtSignature": OTHER_SEAL}, BARE["bare"]], [CALL, BARE["bare"]]],
)
def test_a_signature_that_no_part_can_carry_has_a_block_of_its_own(parts: list[Json]) -> None:
    blocks = read_blocks(stream(*parts))
    assert len(blocks) == 2
    assert SEAL in [block.seal.value for block in blocks if isinstance(block, Reasoning) and block.seal]


@pytest.mark.rule("F4", "F17")
def test_a_signature_alone_is_no_content() -> None:
    chunk = body({"thoughtSignature": SEAL})
    candidates = chunk["candidates"]
    assert isinstance(candidates, list)
    candidates[0]["finishReason"] = "MALFORMED_FUNCTION_CALL"
    assert read_blocks(b"data: %b\n\n" % msgspec.json.encode(chunk)) == ()
