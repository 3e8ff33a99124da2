"""Connections that idle: how many, how long, and what becomes of them."""

import asyncio

import pytest

from dragoman.upstream.http import connector
from tests.upstream.byte_server import ByteServer, eventually, reply, run
from tests.upstream.http.calling import CALL, body_of, upstream_of


@pytest.mark.rule("P74")
def test_a_connection_that_has_been_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "MAX_IDLE_SECONDS", 0.01)

    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            assert server.open == 1
            await eventually(lambda: server.open == 0)
            assert await body_of(await upstream.send(CALL)) == b"x"

    run(scenario)


@pytest.mark.rule("P74")
def test_after_a_rush_a_bounded_number_of_connections_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "MAX_IDLE", 2)

    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            answers = await asyncio.gather(*(upstream.send(CALL) for _ in range(8)))
            await asyncio.gather(*map(body_of, answers))
            assert server.accepted == 8
            await eventually(lambda: server.open == 2)

    run(scenario)


def test_a_pool_that_is_closed_keeps_nothing() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            answer = await upstream.send(CALL)
            await upstream.close()
            assert await body_of(answer) == b"x"
            await eventually(lambda: server.open == 0)

    run(scenario)
