"""Compaction: by a trigger or by the endpoint, and the summary as text for any model."""

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.responses.compaction import INTRODUCTION, SUMMARY_PROMPT, pack_summary, unpack_summary
from tests.exchange.sample_replies import CHAT_STREAM, CHAT_WHOLE
from tests.responses.looped import looped
from tests.responses.test_http import Json, error, events
from tests.server.running import config_for, running
from tests.upstream.byte_server import (
    LAST_CHUNK,
    ByteServer,
    chunk,
    reply,
    stream_head,
)

TOOL = {"type": "function", "name": "ls", "parameters": {"type": "object", "properties": {}}}
ASKED: Json = {
    "model": "any",
    "input": [{"role": "user", "content": "first"}, {"type": "compaction_trigger"}],
    "tools": [TOOL],
    "text": {"format": {"type": "json_object"}},
    "store": False,
}


def messages_of(body: bytes) -> list[Json]:
    return list(msgspec.json.decode(body)["messages"])


def only_item(response: object) -> Json:
    assert isinstance(response, dict)
    (item,) = response["output"]
    assert isinstance(item, dict)
    return item


@pytest.mark.parametrize("summary", ["", "plain", "ünïcödé \U0001f36c", "long " * 10_000])
def test_a_summary_comes_out_as_it_went_in(summary: str) -> None:
    assert unpack_summary(pack_summary(summary)) == summary


@pytest.mark.parametrize(
    "value", ["", "dgmc1.", "dgmc1.!!!", "dgmc1.AAAA", "dgm1.x", pack_summary("whole")[:-4], "dgmc1.é"]
)
def test_what_is_no_whole_summary_is_none(value: str) -> None:
    assert unpack_summary(value) is None


def test_a_bomb_is_no_summary() -> None:
    assert unpack_summary(pack_summary("x" * (9 * 1024 * 1024))) is None


@pytest.mark.rule("H64")
@looped
async def test_a_trigger_is_answered_with_one_item_that_holds_the_models_summary() -> None:
    async with ByteServer([reply(CHAT_WHOLE)]) as upstream, running(config_for(upstream.url)) as gateway:
        response = (await gateway.ask("POST", "/v1/responses", ASKED)).json()
        item = only_item(response)
        assert (item["type"], unpack_summary(str(item["encrypted_content"]))) == ("compaction", "good day")
        assert response["status"] == "completed"
        received = msgspec.json.decode(upstream.received[0].body)
        assert [message["content"] for message in received["messages"]] == ["first", SUMMARY_PROMPT]
        assert received["tool_choice"] == "none"
        assert received["tools"][0]["function"]["name"] == "ls"
        assert "response_format" not in received


@looped
async def test_the_stream_of_a_summary_is_valid_and_contains_nothing_else() -> None:
    answer = [stream_head(), *map(chunk, CHAT_STREAM), LAST_CHUNK]
    async with ByteServer(answer) as upstream, running(config_for(upstream.url)) as gateway:
        got = await gateway.ask("POST", "/v1/responses", {**ASKED, "stream": True})
        assert dialect_named("openai_responses").check_stream(got.body) == []
        sent = events(got)
        assert [event["type"] for event in sent] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ]
        assert only_item(sent[-1]["response"]) == sent[3]["item"]


@looped
async def test_a_summary_goes_to_the_next_model_as_text() -> None:
    async with ByteServer([reply(CHAT_WHOLE)]) as upstream, running(config_for(upstream.url)) as gateway:
        item = only_item((await gateway.ask("POST", "/v1/responses", ASKED)).json())
        body = {"model": "any", "input": [item, {"role": "user", "content": "next"}], "store": False}
        await gateway.ask("POST", "/v1/responses", body)
        contents = [message["content"] for message in messages_of(upstream.received[-1].body)]
        assert contents == [INTRODUCTION + "good day", "next"]


@looped
async def test_a_conversation_goes_on_from_its_summary_alone() -> None:
    async with ByteServer([reply(CHAT_WHOLE)]) as upstream, running(config_for(upstream.url)) as gateway:
        first = (await gateway.ask("POST", "/v1/responses", {**ASKED, "store": True})).json()
        body = {"model": "any", "input": "next", "previous_response_id": first["id"]}
        second = (await gateway.ask("POST", "/v1/responses", body)).json()
        await gateway.ask("POST", "/v1/responses", {**body, "previous_response_id": second["id"]})
        contents = [message["content"] for message in messages_of(upstream.received[-1].body)]
        assert contents == [INTRODUCTION + "good day", "next", "good day", "next"]


@looped
async def test_where_all_targets_can_compact_themselves_the_trigger_is_passed_on() -> None:
    whole = {"id": "resp_up", "object": "response", "status": "completed", "output": []}
    async with (
        ByteServer([reply(msgspec.json.encode(whole))]) as upstream,
        running(config_for(upstream.url, "openai_responses")) as gateway,
    ):
        await gateway.ask("POST", "/v1/responses", ASKED)
        received = msgspec.json.decode(upstream.received[0].body)
        assert received["input"] == ASKED["input"]


@pytest.mark.parametrize("stream", [True, False])
@looped
async def test_a_model_that_gives_no_summary_is_an_error(stream: bool) -> None:
    silent = CHAT_WHOLE.replace(b"good day", b"")
    async with ByteServer([reply(silent)]) as upstream, running(config_for(upstream.url)) as gateway:
        got = await gateway.ask("POST", "/v1/responses", {**ASKED, "stream": stream})
        if stream:
            assert events(got)[-1]["type"] == "response.failed"
        else:
            assert got.status == 502
            assert "summary" in str(error(got)["message"])


@looped
async def test_an_upstreams_refusal_to_summarise_is_passed_on() -> None:
    refusal = [reply(b'{"error": {"message": "too long"}}', "400 Bad Request")]
    async with ByteServer(refusal) as upstream, running(config_for(upstream.url)) as gateway:
        assert (await gateway.ask("POST", "/v1/responses", ASKED)).status == 400
        assert (await gateway.ask("POST", "/v1/responses/compact", ASKED)).status == 400


@pytest.mark.rule("H64")
@looped
async def test_the_endpoint_returns_the_users_messages_and_the_summary() -> None:
    items = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "second"},
        {"role": "user", "content": [{"type": "input_text", "text": "third"}]},
    ]
    async with ByteServer([reply(CHAT_WHOLE)]) as upstream, running(config_for(upstream.url)) as gateway:
        body = {"model": "any", "input": items, "stream": True}
        got = (await gateway.ask("POST", "/v1/responses/compact", body)).json()
        assert got["object"] == "response.compaction"
        output = got["output"]
        assert isinstance(output, list)
        assert [item.get("content") for item in output[:2]] == [
            [{"type": "input_text", "text": "first"}],
            [{"type": "input_text", "text": "third"}],
        ]
        assert unpack_summary(output[2]["encrypted_content"]) == "good day"
        assert isinstance(got["usage"], dict)
        assert (await gateway.ask("GET", f"/v1/responses/{got['id']}")).status == 404


@pytest.mark.parametrize("body", [b"{}", b'{"model": 7, "input": "x"}', b"[]", b"no"])
@looped
async def test_a_summary_of_nothing_is_refused(body: bytes) -> None:
    async with running(config_for()) as gateway:
        assert (await gateway.ask("POST", "/v1/responses/compact", body)).status == 400
