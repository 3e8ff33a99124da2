"""Wrong values of the state fields never cause an internal error."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from tests.responses.looped import looped
from tests.server.running import config_for, running

WORDS = st.sampled_from(
    ["", "x", "resp_x", "compaction", "compaction_trigger", "item_reference", "message", "user", "dgmc1.eJw"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
ITEM = st.fixed_dictionaries(
    {},
    optional={
        "type": WORDS | ANYTHING,
        "role": WORDS,
        "id": WORDS | ANYTHING,
        "content": WORDS | ANYTHING,
        "call_id": WORDS,
        "output": WORDS | ANYTHING,
        "encrypted_content": WORDS | ANYTHING,
        "summary": ANYTHING,
    },
)
BODY = st.fixed_dictionaries(
    {"model": st.just("any")},
    optional={
        "input": st.lists(ITEM, max_size=3) | st.just("say hello") | ANYTHING,
        "store": st.booleans() | ANYTHING,
        "stream": st.booleans() | ANYTHING,
        "background": st.booleans() | ANYTHING,
        "previous_response_id": WORDS | ANYTHING,
        "conversation": ANYTHING,
        "include": ANYTHING,
        "reasoning": ANYTHING,
        "generate": st.booleans() | ANYTHING,
        "stream_id": ANYTHING,
    },
)
LAST = ("response.completed", "response.incomplete", "response.failed")


@settings(max_examples=15)
@given(bodies=st.lists(BODY, min_size=10, max_size=20))
@looped
async def test_no_request_is_an_error_of_ours(bodies: list[dict[str, object]]) -> None:
    async with running(config_for()) as gateway:
        for body in bodies:
            for path in ("", "/input_tokens", "/compact"):
                got = await gateway.ask("POST", f"/v1/responses{path}", body)
                assert got.status < 500, got.body
                if got.status == 200 and not path and got.headers["content-type"] == "application/json":
                    name = got.json()["id"]
                    for query in ("", "?stream=true", "/input_items"):
                        found = await gateway.ask("GET", f"/v1/responses/{name}{query}")
                        assert found.status < 500, found.body


@settings(max_examples=15)
@given(bodies=st.lists(BODY, min_size=10, max_size=20))
@looped
async def test_no_message_goes_without_an_answer(bodies: list[dict[str, object]]) -> None:
    async with (
        running(config_for()) as gateway,
        connect(f"ws://127.0.0.1:{gateway.port}/v1/responses", proxy=None) as socket,
    ):
        for body in bodies:
            await socket.send(msgspec.json.encode({"type": "response.create", **body}).decode())
            while True:
                event = msgspec.json.decode(await socket.recv())
                if event["type"] in LAST:
                    break
                if event["type"] == "error" and "status" in event:
                    assert event["status"] < 500, event
                    break
