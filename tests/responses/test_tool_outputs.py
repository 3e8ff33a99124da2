"""Outputs of calls, sent to the response that made them."""

import msgspec
import pytest

from tests.exchange.sample_replies import CHAT_WHOLE
from tests.responses.looped import looped
from tests.responses.test_http import CALLING, HELLO, Json, create, error, events
from tests.server.running import config_for, running
from tests.upstream.byte_server import ByteServer, reply

TOOLS: list[Json] = [
    {"type": "function", "name": "Read", "parameters": {"type": "object", "properties": {}}, "strict": False}
]


@pytest.mark.rule("R3")
@pytest.mark.parametrize("name", ["tool_call_id", "call_id"])
@pytest.mark.parametrize("stream", [True, False])
@looped
async def test_a_response_continues_with_the_outputs_of_its_calls(name: str, stream: bool) -> None:
    async with (
        ByteServer([reply(CALLING)], [reply(CHAT_WHOLE)]) as upstream,
        running(config_for(upstream.url)) as gateway,
    ):
        first = await create(gateway, tools=TOOLS, instructions="Be short.", temperature=0.5)
        path = f"/v1/responses/{first['id']}/submit_tool_outputs"
        outputs: list[Json] = [{name: "call_1", "output": {"lines": 3}}]
        got = await gateway.ask("POST", path, {"tool_outputs": outputs, "stream": stream})
        assert got.status == 200, got.body
        last = events(got)[-1]["response"] if stream else got.json()
        assert isinstance(last, dict)
        assert (last["previous_response_id"], last["status"]) == (first["id"], "completed")
        assert last["id"] != first["id"]
        assert (await gateway.ask("GET", f"/v1/responses/{last['id']}")).json() == last
        asked = msgspec.json.decode(upstream.received[1].body)
        assert [message["role"] for message in asked["messages"]] == ["system", "user", "assistant", "tool"]
        assert asked["messages"][-1]["content"] == '{"lines":3}'
        assert asked["tools"][0]["function"]["name"] == "Read"
        assert asked["temperature"] == 0.5


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"[]", None),
        (b"{", None),
        ({}, "tool_outputs"),
        ({"tool_outputs": []}, "tool_outputs"),
        ({"tool_outputs": [3]}, "tool_outputs[0]"),
        ({"tool_outputs": [{"tool_call_id": "call_9", "output": "x"}]}, "tool_outputs[0].tool_call_id"),
    ],
)
@looped
async def test_other_bodies_are_refused_with_the_place(body: bytes | Json, param: str | None) -> None:
    async with ByteServer([reply(CALLING)]) as upstream, running(config_for(upstream.url)) as gateway:
        first = await create(gateway)
        got = await gateway.ask("POST", f"/v1/responses/{first['id']}/submit_tool_outputs", body)
        assert got.status == 400, got.body
        assert error(got)["param"] == param


def output(call_id: str) -> Json:
    return {"tool_call_id": call_id, "output": "x"}


@pytest.mark.rule("R3")
@pytest.mark.parametrize(
    ("call_ids", "param", "expected"),
    [
        (["call_1"], "tool_outputs", "missing: call_2"),
        (["call_1", "call_2", "call_1"], "tool_outputs[2].tool_call_id", "one output for each call"),
    ],
)
@looped
async def test_each_call_needs_exactly_one_output(call_ids: list[str], param: str, expected: str) -> None:
    two = msgspec.json.decode(CALLING)
    calls = two["choices"][0]["message"]["tool_calls"]
    calls.append({**calls[0], "id": "call_2"})
    async with (
        ByteServer([reply(msgspec.json.encode(two))], [reply(CHAT_WHOLE)]) as upstream,
        running(config_for(upstream.url)) as gateway,
    ):
        first = await create(gateway, tools=TOOLS)
        path = f"/v1/responses/{first['id']}/submit_tool_outputs"
        refused = await gateway.ask("POST", path, {"tool_outputs": [output(each) for each in call_ids]})
        assert (refused.status, error(refused)["param"]) == (400, param)
        assert expected in str(error(refused)["message"])
        # In any order, and after the refusal.
        outputs = [output("call_2"), output("call_1")]
        assert (await gateway.ask("POST", path, {"tool_outputs": outputs})).status == 200


@looped
async def test_a_response_that_is_not_stored_is_not_found() -> None:
    async with running(config_for()) as gateway:
        body = {**HELLO, "tool_outputs": [{"tool_call_id": "a", "output": "b"}]}
        got = await gateway.ask("POST", "/v1/responses/resp_none/submit_tool_outputs", body)
        assert got.status == 404
