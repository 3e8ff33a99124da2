"""When a client gets a call, and the text that comes while it is open, in all directions."""

from typing import NamedTuple

import msgspec
import pytest

from dragoman import Governance, StreamTranslator
from dragoman.dialects.registry import DIALECTS, dialect_named
from dragoman.providers.profile import Profile
from tests.cases.essence import read_essence
from tests.pipeline.asking import asking

Json = dict[str, object]
ARGUMENTS = ('{"path"', ': "a"', "}")


class Upstream(NamedTuple):
    """A stream of one call of `Read` in pieces. `named`: the piece that has the call's id and name.

    `text`: the piece with text while the call is open; -1 if the dialect cannot write it.
    """

    pieces: list[bytes]
    named: int
    text: int = -1


def event(payload: Json) -> bytes:
    name = f"event: {payload['type']}\n" if "type" in payload else ""
    return f"{name}data: {msgspec.json.encode(payload).decode()}\n\n".encode()


def chunk(delta: Json, reason: str | None = None) -> bytes:
    choice: Json = {"index": 0, "delta": delta, "finish_reason": reason}
    return event(
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    )


def chat() -> Upstream:
    function: Json = {"name": "Read", "arguments": ""}
    more = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in ARGUMENTS]
    pieces = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}),
        more[0],
        chunk({"content": "Meanwhile."}),
        *more[1:],
        chunk({}, "tool_calls") + b"data: [DONE]\n\n",
    ]
    return Upstream(pieces, named=1, text=3)


def anthropic() -> Upstream:
    message: Json = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    block: Json = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    deltas: list[Json] = [{"type": "input_json_delta", "partial_json": piece} for piece in ARGUMENTS]
    ending: Json = {"stop_reason": "tool_use", "stop_sequence": None}
    pieces = [
        event({"type": "message_start", "message": message}),
        event({"type": "content_block_start", "index": 0, "content_block": block}),
        *(event({"type": "content_block_delta", "index": 0, "delta": delta}) for delta in deltas),
        event({"type": "content_block_stop", "index": 0}),
        event({"type": "message_delta", "delta": ending, "usage": {"output_tokens": 3}}),
        event({"type": "message_stop"}),
    ]
    return Upstream(pieces, named=1)


def responses() -> Upstream:
    response: Json = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    call: Json = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "Read", "arguments": ""}
    done: Json = {**call, "arguments": "".join(ARGUMENTS), "status": "completed"}
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    part: Json = {"type": "output_text", "text": "", "annotations": []}
    said_part: Json = {**part, "text": "Meanwhile."}
    text_place: Json = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    place: Json = {"item_id": "fc_1", "output_index": 0}
    delta = "response.function_call_arguments.delta"
    more = [event({"type": delta, **place, "delta": piece}) for piece in ARGUMENTS]
    output = [done, {**message, "status": "completed", "content": [said_part]}]
    usage: Json = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    pieces = [
        event({"type": "response.created", "response": {**response, "status": "in_progress"}}),
        event({"type": "response.output_item.added", "output_index": 0, "item": call}),
        more[0],
        event({"type": "response.output_item.added", "output_index": 1, "item": message})
        + event({"type": "response.content_part.added", **text_place, "part": part})
        + event({"type": "response.output_text.delta", **text_place, "delta": "Meanwhile."}),
        *more[1:],
        event({"type": "response.output_item.done", "output_index": 0, "item": done}),
        event(
            {
                "type": "response.completed",
                "response": {**response, "status": "completed", "output": output, "usage": usage},
            }
        ),
    ]
    return Upstream(pieces, named=1, text=3)


def gemini() -> Upstream:
    parts: list[list[Json]] = [[{"functionCall": {"name": "Read", "args": {"path": "a"}, "id": "x"}}], []]
    reasons: list[Json] = [{}, {"finishReason": "STOP"}]
    candidates = [
        {"content": {"parts": part, "role": "model"}, "index": 0, **reason}
        for part, reason in zip(parts, reasons, strict=True)
    ]
    return Upstream(
        [event({"candidates": [candidate], "responseId": "r"}) for candidate in candidates], named=0
    )


UPSTREAMS = {
    "openai_chat": chat(),
    "anthropic": anthropic(),
    "openai_responses": responses(),
    "gemini": gemini(),
}
WITH_TEXT = [name for name, upstream in UPSTREAMS.items() if upstream.text >= 0]


def translated(
    upstream: str, client: str, governance: Governance | None = None, profile: Profile | None = None
) -> list[bytes]:
    """What the client gets with each piece of the upstream, and at last with its end."""
    request = asking(client, tools=["Read"])
    translator = StreamTranslator(
        source=upstream, target=client, request=request, model="m", governance=governance, profile=profile
    )
    out = [translator.feed(piece) for piece in UPSTREAMS[upstream].pieces]
    out.append(translator.close())
    stream = b"".join(out)
    assert dialect_named(client).check_stream(stream) == []
    assert read_essence(client, stream).calls == (("Read", {"path": "a"}),)
    if UPSTREAMS[upstream].text >= 0:
        assert read_essence(client, stream).text == "Meanwhile."
    return out


#: What the opening of a call contains, by the client's dialect.
OPENING = {
    "openai_chat": b'"tool_calls":[{"index":0,"id":',
    "anthropic": b'"type":"tool_use"',
    "openai_responses": b'"type":"function_call"',
    "gemini": b'"functionCall"',
}


#: The dialects whose clients accept text while a call is open. The blocks of the others come one by one.
INTERLEAVED = ("openai_chat", "gemini")


def find(wanted: bytes, out: list[bytes]) -> int:
    return next(number for number, written in enumerate(out) if wanted in written)


@pytest.mark.rule("G11", "D7")
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_call_is_opened_when_its_id_and_name_are_known(upstream: str, client: str) -> None:
    out = translated(upstream, client)
    opening = find(OPENING[client], out)
    if client == "gemini":
        # One part has the call with all arguments.
        assert b'"path"' in out[opening]
    else:
        assert opening == UPSTREAMS[upstream].named


@pytest.mark.rule("G11", "D6")
@pytest.mark.parametrize("upstream", WITH_TEXT)
@pytest.mark.parametrize("client", DIALECTS)
def test_text_comes_while_a_call_is_open_where_the_dialect_permits_it(upstream: str, client: str) -> None:
    out = translated(upstream, client)
    if client in INTERLEAVED:
        assert find(b"Meanwhile.", out) == UPSTREAMS[upstream].text
    else:
        assert find(b"Meanwhile.", out) > UPSTREAMS[upstream].text


@pytest.mark.rule("G11", "D6", "R82")
@pytest.mark.parametrize("upstream", WITH_TEXT)
@pytest.mark.parametrize("client", DIALECTS)
def test_text_flows_while_a_call_is_held_and_the_call_comes_whole(upstream: str, client: str) -> None:
    out = translated(upstream, client, Governance(tools="hold"))
    assert find(b"Meanwhile.", out) == UPSTREAMS[upstream].text
    opening = find(OPENING[client], out)
    assert opening > UPSTREAMS[upstream].text
    assert b"path" in out[opening]


@pytest.mark.rule("G10")
@pytest.mark.parametrize("governance", [None, Governance(tools="hold")], ids=["ungoverned", "held"])
@pytest.mark.parametrize("pieces", [(" \n",), (" ", "\n"), ("\u2028",)], ids=ascii)
@pytest.mark.parametrize("client", DIALECTS)
def test_arguments_of_white_space_alone_are_an_empty_object(
    client: str, pieces: tuple[str, ...], governance: Governance | None
) -> None:
    function: Json = {"name": "Read", "arguments": pieces[0]}
    call: Json = {"index": 0, "id": "call_1", "type": "function", "function": function}
    more = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces[1:]]
    request = asking(client, tools=["Read"])
    translator = StreamTranslator(
        source="openai_chat", target=client, request=request, model="m", governance=governance
    )
    written = [chunk({"tool_calls": [call]}), *more, chunk({}, "tool_calls") + b"data: [DONE]\n\n"]
    stream = b"".join(map(translator.feed, written)) + translator.close()
    assert dialect_named(client).check_stream(stream) == []
    assert read_essence(client, stream).calls == (("Read", {}),)
    if client == "openai_chat":
        arguments = [each["function"] for each in list_fragments([stream])]
        assert "".join(str(each["arguments"]) for each in arguments if isinstance(each, dict)) == "{}"
    if client == "openai_responses":
        assert b'"arguments":"{}"' in stream


@pytest.mark.rule("G10")
@pytest.mark.parametrize("token", ["<|start|>assistant<|channel|>final<|message|>", "<|START_RESPONSE|>"])
@pytest.mark.parametrize("client", DIALECTS)
def test_without_a_harvest_text_is_the_models_own(client: str, token: str) -> None:
    request = asking(client, tools=["Read"])
    translator = StreamTranslator(
        source="openai_chat", target=client, request=request, model="m", governance=Governance(tools="hold")
    )
    written = [chunk({"content": f"{token}Hello."}), chunk({}, "stop") + b"data: [DONE]\n\n"]
    stream = b"".join(map(translator.feed, written)) + translator.close()
    assert read_essence(client, stream).text == f"{token}Hello."


def list_fragments(out: list[bytes]) -> list[Json]:
    """The fragments of calls in a Chat stream."""
    lines = [line[6:] for line in b"".join(out).splitlines() if line.startswith(b"data: {")]
    choices = [choice for line in lines for choice in msgspec.json.decode(line)["choices"]]
    return [fragment for choice in choices for fragment in choice["delta"].get("tool_calls", ())]


@pytest.mark.rule("D10", "R107")
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_held_call_is_one_chunk_for_a_chat_client(upstream: str) -> None:
    (fragment,) = list_fragments(translated(upstream, "openai_chat", Governance(tools="hold")))
    function = fragment["function"]
    assert isinstance(function, dict)
    assert (fragment["type"], function["name"]) == ("function", "Read")
    assert msgspec.json.decode(function["arguments"]) == {"path": "a"}


@pytest.mark.rule("D10", "R107")
def test_a_call_of_an_upstream_with_whole_calls_is_one_chunk() -> None:
    profile = Profile(dialect="anthropic", whole_calls=True)
    assert len(list_fragments(translated("anthropic", "openai_chat", profile=profile))) == 1
    assert len(list_fragments(translated("gemini", "openai_chat"))) == 1
