"""A response that is stored with one key cannot be used with another key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from websockets.asyncio.client import connect

from dragoman.config.settings import Secret, ServerSettings
from tests.responses.looped import looped
from tests.server.running import Got, Running, config_for, running

MINE = {"authorization": "Bearer key-of-mine"}
YOURS = {"authorization": "Bearer key-of-yours"}
HELLO = {"model": "any", "input": "say hello"}


@asynccontextmanager
async def guarded() -> AsyncIterator[Running]:
    keys = (Secret("key-of-mine"), Secret("key-of-yours"))
    async with running(config_for(server=ServerSettings(port=0, keys=keys))) as gateway:
        yield gateway


async def stored(gateway: Running, **more: object) -> str:
    got = await gateway.ask("POST", "/v1/responses", {**HELLO, **more}, MINE)
    assert got.status == 200
    return str(got.json()["id"])


@pytest.mark.rule("H62")
@pytest.mark.parametrize(
    ("method", "path", "mine"),
    [
        ("GET", "", 200),
        ("GET", "/input_items", 200),
        ("GET", "?stream=true", 400),
        ("POST", "/cancel", 400),
        ("DELETE", "", 200),
    ],
)
@looped
async def test_a_response_is_its_owners_alone(method: str, path: str, mine: int) -> None:
    async with guarded() as gateway:
        name = await stored(gateway)
        for headers, status in ((YOURS, 404), ({}, 401), (MINE, mine)):
            got = await gateway.ask(method, f"/v1/responses/{name}{path}", headers=headers)
            assert got.status == status


@pytest.mark.rule("H62")
@looped
async def test_a_key_that_takes_anothers_place_in_the_configuration_does_not_get_its_responses() -> None:
    async with guarded() as gateway:
        name = await stored(gateway)
        config = gateway.app.gateway.config
        keys = (Secret("key-of-yours"), Secret("key-of-mine"))
        server = msgspec.structs.replace(config.server, keys=keys)
        gateway.app.gateway.reload(msgspec.structs.replace(config, server=server))
        for headers, status in ((YOURS, 404), (MINE, 200)):
            assert (await gateway.ask("GET", f"/v1/responses/{name}", headers=headers)).status == status


@looped
async def test_a_key_cannot_continue_the_conversation_of_another_key() -> None:
    async with guarded() as gateway:
        name = await stored(gateway)
        body = {**HELLO, "previous_response_id": name}
        assert (await gateway.ask("POST", "/v1/responses", body, YOURS)).status == 400
        assert (await gateway.ask("POST", "/v1/responses/input_tokens", body, YOURS)).status == 400
        assert (await gateway.ask("POST", "/v1/responses/compact", body, YOURS)).status == 400
        assert (await gateway.ask("POST", "/v1/responses", body, MINE)).status == 200


@looped
async def test_a_run_in_the_background_is_its_owners_alone() -> None:
    async with guarded() as gateway:
        name = await stored(gateway, background=True)
        looks: list[Got] = []
        for headers in (YOURS, MINE):
            looks.append(await gateway.ask("GET", f"/v1/responses/{name}", headers=headers))
            looks.append(await gateway.ask("GET", f"/v1/responses/{name}?stream=true", headers=headers))
        assert [got.status for got in looks] == [404, 404, 200, 200]
        assert (await gateway.ask("POST", f"/v1/responses/{name}/cancel", headers=YOURS)).status == 404
        assert (await gateway.ask("DELETE", f"/v1/responses/{name}", headers=YOURS)).status == 404
        assert (await gateway.ask("POST", f"/v1/responses/{name}/cancel", headers=MINE)).status == 200


@looped
async def test_a_socket_sees_what_its_key_may_see() -> None:
    async with guarded() as gateway:
        name = await stored(gateway)
        message = msgspec.json.encode({"type": "response.create", **HELLO, "previous_response_id": name})
        url = f"ws://127.0.0.1:{gateway.port}/v1/responses"
        for headers, kind in ((YOURS, "error"), (MINE, "response.created")):
            async with connect(url, additional_headers=headers, proxy=None) as socket:
                await socket.send(message.decode())
                async with asyncio.timeout(5):
                    assert msgspec.json.decode(await socket.recv())["type"] == kind
