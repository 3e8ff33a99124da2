"""Stored responses over HTTP: stored, continued, listed and deleted, with upstreams of every dialect."""

import msgspec
import pytest

from dragoman.config.settings import ResponsesSettings
from tests.exchange.sample_replies import CHAT_WHOLE
from tests.pipeline.asking import chat_reply_with_call
from tests.responses.looped import looped
from tests.server.running import Got, Running, config_for, running
from tests.upstream.byte_server import ByteServer, reply

Json = dict[str, object]
HELLO: Json = {"model": "any", "input": "say hello"}


async def create(gateway: Running, **more: object) -> Json:
    got = await gateway.ask("POST", "/v1/responses", {**HELLO, **more})
    assert got.status == 200, got.body
    return got.json()


def events(got: Got) -> list[Json]:
    frames = got.body.split(b"\n\n")
    found = [frame.partition(b"data: ")[2] for frame in frames]
    return [msgspec.json.decode(data) for data in found if data.startswith(b"{")]


def error(got: Got) -> Json:
    found = got.json()["error"]
    assert isinstance(found, dict)
    return found


@pytest.mark.rule("H62")
@looped
async def test_a_response_is_stored_unless_store_is_false() -> None:
    async with running(config_for()) as gateway:
        kept = await create(gateway)
        unkept = await create(gateway, store=False)
        assert (await gateway.ask("GET", f"/v1/responses/{kept['id']}")).json() == kept
        got = await gateway.ask("GET", f"/v1/responses/{unkept['id']}")
        assert got.status == 404
        assert error(got) | {"message": ""} == {
            "message": "",
            "type": "invalid_request_error",
            "param": None,
            "code": "response_not_found",
        }


@looped
async def test_a_streamed_response_is_stored_as_in_its_last_event() -> None:
    async with running(config_for()) as gateway:
        sent = events(await gateway.ask("POST", "/v1/responses", {**HELLO, "stream": True}))
        responses = [event["response"] for event in sent if "response" in event]
        last = responses[-1]
        assert isinstance(last, dict)
        assert [each["id"] for each in responses if isinstance(each, dict)] == [last["id"]] * 3
        assert (await gateway.ask("GET", f"/v1/responses/{last['id']}")).json() == last


@looped
async def test_ids_differ_though_the_upstream_repeats_its_own() -> None:
    async with (
        ByteServer([reply(CHAT_WHOLE)]) as upstream,
        running(config_for(upstream.url)) as gateway,
    ):
        first, second = await create(gateway), await create(gateway)
        assert first["id"] != second["id"]


@pytest.mark.rule("H62", "P67")
@looped
async def test_a_continued_conversation_reaches_the_upstream_whole() -> None:
    async with (
        ByteServer([reply(CHAT_WHOLE)]) as upstream,
        running(config_for(upstream.url)) as gateway,
    ):
        first = await create(gateway, input="first question", instructions="be brief")
        second = await create(gateway, input="second question", previous_response_id=first["id"])
        assert second["previous_response_id"] == first["id"]
        assert second["instructions"] is None
        await create(gateway, input="third question", previous_response_id=second["id"], store=False)
        received = msgspec.json.decode(upstream.received[-1].body)
        assert [(message["role"], message["content"]) for message in received["messages"]] == [
            ("user", "first question"),
            ("assistant", "good day"),
            ("user", "second question"),
            ("assistant", "good day"),
            ("user", "third question"),
        ]
        assert not {"store", "previous_response_id", "background"} & set(received)


@looped
async def test_an_upstream_of_the_same_dialect_is_asked_to_keep_nothing() -> None:
    whole = {"id": "resp_up", "object": "response", "status": "completed", "store": False, "output": []}
    async with (
        ByteServer([reply(msgspec.json.encode(whole))]) as upstream,
        running(config_for(upstream.url, "openai_responses")) as gateway,
    ):
        first = await create(gateway, reasoning={"effort": "low"})
        assert first["store"] is True
        await create(gateway, previous_response_id=first["id"])
        begun, continued = (msgspec.json.decode(received.body) for received in upstream.received)
        assert (begun["store"], begun["include"]) == (False, ["reasoning.encrypted_content"])
        assert (continued["store"], "previous_response_id" in continued) == (False, False)
        assert [item["content"] for item in continued["input"]] == ["say hello", "say hello"]


CALLING = msgspec.json.encode(chat_reply_with_call("Read", "{}"))


@pytest.mark.rule("F21")
@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
@pytest.mark.parametrize("stream", [True, False])
@looped
async def test_a_response_is_continued_only_with_outputs_of_its_own_calls(kind: str, stream: bool) -> None:
    async with (
        ByteServer([reply(CALLING)], [reply(CHAT_WHOLE)]) as upstream,
        running(config_for(upstream.url)) as gateway,
    ):
        first = await create(gateway)
        given: Json = {"type": kind, "call_id": "call_x", "output": "a"}
        hello: Json = {"role": "user", "content": "hello"}
        body = {**HELLO, "input": [hello, given], "previous_response_id": first["id"], "stream": stream}
        got = await gateway.ask("POST", "/v1/responses", body)
        assert got.status == 400
        assert error(got)["param"] == "input[1].call_id"
        assert len(upstream.received) == 1
        known = {"type": "function_call_output", "call_id": "call_1", "output": "a"}
        again = await create(gateway, input=[known], previous_response_id=first["id"])
        assert again["status"] == "completed"


@pytest.mark.rule("F21")
@looped
async def test_a_call_may_come_together_with_its_output() -> None:
    async with running(config_for()) as gateway:
        first = await create(gateway)
        items = [
            {"type": "function_call", "call_id": "call_2", "name": "Read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_2", "output": "a"},
            {"role": "user", "content": "the text _output is no output"},
        ]
        assert (await create(gateway, input=items, previous_response_id=first["id"]))["status"] == "completed"


@pytest.mark.rule("H62", "F10")
@pytest.mark.parametrize("stream", [True, False])
@looped
async def test_a_previous_response_that_is_not_there_is_the_clients_mistake(stream: bool) -> None:
    async with running(config_for()) as gateway:
        body = {**HELLO, "previous_response_id": "resp_none", "stream": stream}
        got = await gateway.ask("POST", "/v1/responses", body)
        assert got.status == 400
        assert error(got)["code"] == "previous_response_not_found"
        assert error(got)["param"] == "previous_response_id"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("store", "yes"),
        ("previous_response_id", 7),
        ("previous_response_id", ""),
        ("background", "yes"),
        ("input", 7),
        ("stream", "yes"),
    ],
)
@looped
async def test_state_of_the_wrong_type_is_refused_by_name(field: str, value: object) -> None:
    async with running(config_for()) as gateway:
        got = await gateway.ask("POST", "/v1/responses", {**HELLO, field: value})
        assert got.status == 400
        assert error(got)["param"] == field


@looped
async def test_a_deleted_response_can_be_neither_asked_for_nor_continued() -> None:
    async with running(config_for()) as gateway:
        first = await create(gateway)
        second = await create(gateway, previous_response_id=first["id"])
        got = await gateway.ask("DELETE", f"/v1/responses/{first['id']}")
        assert got.json() == {"id": first["id"], "object": "response", "deleted": True}
        assert (await gateway.ask("GET", f"/v1/responses/{first['id']}")).status == 404
        assert (await gateway.ask("DELETE", f"/v1/responses/{first['id']}")).status == 404
        body = {**HELLO, "previous_response_id": first["id"]}
        assert (await gateway.ask("POST", "/v1/responses", body)).status == 400
        assert (await create(gateway, previous_response_id=second["id"]))["status"] == "completed"


@looped
async def test_input_items_are_everything_that_led_to_a_response() -> None:
    async with running(config_for()) as gateway:
        first = await create(gateway, input="say one")
        second = await create(gateway, input="say two", previous_response_id=first["id"])
        path = f"/v1/responses/{second['id']}/input_items"
        listed = (await gateway.ask("GET", f"{path}?order=asc")).json()
        data = listed["data"]
        assert isinstance(data, list)
        assert [item["content"][0]["text"] for item in data] == ["say one", "one", "say two"]
        assert all(item["id"] and item["type"] == "message" for item in data)
        assert (listed["first_id"], listed["last_id"]) == (data[0]["id"], data[2]["id"])
        newest = (await gateway.ask("GET", f"{path}?limit=1")).json()
        assert newest["data"] == [data[2]]
        assert newest["has_more"] is True
        rest = (await gateway.ask("GET", f"{path}?limit=2&after={data[2]['id']}")).json()
        assert rest["data"] == [data[1], data[0]]
        assert rest["has_more"] is False


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=x", f"limit={'1'.zfill(9)}{'0' * 5000}", "order=up", "after=msg_none"],
)
@looped
async def test_a_page_that_cannot_be_is_refused(query: str) -> None:
    async with running(config_for()) as gateway:
        response = await create(gateway)
        got = await gateway.ask("GET", f"/v1/responses/{response['id']}/input_items?{query}")
        assert got.status == 400


@looped
async def test_a_count_takes_in_the_conversation_before() -> None:
    async with running(config_for()) as gateway:
        first = await create(gateway, input="say " + "a long word " * 50)
        alone = await gateway.ask("POST", "/v1/responses/input_tokens", HELLO)
        body = {**HELLO, "previous_response_id": first["id"]}
        both = await gateway.ask("POST", "/v1/responses/input_tokens", body)
        assert int(str(both.json()["input_tokens"])) > int(str(alone.json()["input_tokens"])) + 100


@looped
async def test_a_reference_stands_for_the_item_it_names() -> None:
    async with (
        ByteServer([reply(CHAT_WHOLE)]) as upstream,
        running(config_for(upstream.url)) as gateway,
    ):
        output = (await create(gateway))["output"]
        assert isinstance(output, list)
        items = [{"type": "item_reference", "id": output[0]["id"]}, {"role": "user", "content": "go on"}]
        await create(gateway, input=items, store=False)
        messages = msgspec.json.decode(upstream.received[-1].body)["messages"]
        assert [message["content"] for message in messages] == ["good day", "go on"]


@looped
async def test_a_reply_that_cannot_be_stored_is_sent_with_store_false() -> None:
    async with running(config_for()) as gateway:
        await create(gateway)
        storage = gateway.app.gateway.storage
        await storage.run(lambda transaction: transaction.execute("DROP TABLE response_items"))
        assert (await create(gateway))["store"] is False
        sent = events(await gateway.ask("POST", "/v1/responses", {**HELLO, "stream": True}))
        last = sent[-1]["response"]
        assert isinstance(last, dict)
        assert (last["status"], last["store"]) == ("completed", False)


@looped
async def test_a_gateway_may_keep_nothing_at_all() -> None:
    config = msgspec.structs.replace(config_for(), responses=ResponsesSettings(store=False))
    async with running(config) as gateway:
        response = await create(gateway, store=True)
        assert response["store"] is False
        assert (await gateway.ask("GET", f"/v1/responses/{response['id']}")).status == 404


@looped
async def test_a_failed_reply_is_not_kept() -> None:
    async with (
        ByteServer([reply(b'{"error": {"message": "no"}}', "400 Bad Request")]) as upstream,
        running(config_for(upstream.url)) as gateway,
    ):
        assert (await gateway.ask("POST", "/v1/responses", HELLO)).status == 400
        storage = gateway.app.gateway.storage
        count = await storage.read(lambda each: each.fetch_one("SELECT COUNT(*) FROM responses"))
        assert count == (0,)
