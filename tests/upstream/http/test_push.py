"""Answers that are pushed from socket to socket."""

import asyncio

import pytest

from dragoman.hub.errors import UpstreamFailed
from dragoman.upstream.http.connection import HttpReply
from dragoman.upstream.port import PushReply
from tests.upstream.byte_server import (
    LAST_CHUNK,
    Action,
    ByteServer,
    Close,
    Pause,
    chunk,
    run,
    stream_head,
)
from tests.upstream.http.calling import CALL, body_of, upstream_of


def test_a_pushed_answer_reaches_the_sink_piece_by_piece_and_whole() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()
        head, last = [stream_head(), chunk(b"one")], [chunk(b"two"), LAST_CHUNK]
        async with ByteServer([*head, Pause(go_on), *last]) as server:
            answer = await upstream_of(server).send(CALL)
            assert isinstance(answer, PushReply)
            got: list[bytes] = []

            def sink(piece: bytes) -> bool:
                got.append(piece)
                go_on.set()
                return True

            assert await answer.push_to(sink)
            assert got == [b"one", b"two"]
            assert await answer.push_to(sink)

    run(scenario)


@pytest.mark.parametrize("at_once", [True, False], ids=["in one read", "one by one"])
def test_a_sink_that_has_had_enough_gets_the_rest_when_it_asks_again(at_once: bool) -> None:
    async def scenario() -> None:
        gates = [asyncio.Event() for _ in range(3)]
        body: list[Action] = [
            chunk(b"one"),
            Pause(gates[0]),
            chunk(b"two"),
            Pause(gates[1]),
            chunk(b"three"),
            LAST_CHUNK,
        ]
        shown = [action for action in body if not (at_once and isinstance(action, Pause))]
        async with ByteServer([stream_head(), *shown]) as server:
            answer = await upstream_of(server).send(CALL)
            assert isinstance(answer, PushReply)
            got: list[bytes] = []

            def sink(piece: bytes) -> bool:
                got.append(piece)
                gates[min(len(got), 3) - 1].set()
                return False

            while not await answer.push_to(sink):
                pass
            assert b"".join(got) == b"onetwothree"

    run(scenario)


@pytest.mark.rule("H73")
def test_a_pushed_answer_that_breaks_off_is_a_failure() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), chunk(b"one"), Close()]) as server:
            answer = await upstream_of(server).send(CALL)
            assert isinstance(answer, PushReply)
            got: list[bytes] = []

            def sink(piece: bytes) -> bool:
                got.append(piece)
                return True

            with pytest.raises(UpstreamFailed, match="broke off"):
                await answer.push_to(sink)
            assert got == [b"one"]

    run(scenario)


def test_a_task_that_waits_for_a_closed_pushed_reply_gets_an_error() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), Pause(asyncio.Event())]) as server:
            answer = await upstream_of(server).send(CALL)
            assert isinstance(answer, HttpReply)
            asyncio.get_running_loop().call_later(0.005, answer.close)
            with pytest.raises(UpstreamFailed, match="was cancelled by the gateway"):
                await answer.push_to(lambda piece: True)

    run(scenario)


def test_nothing_is_pushed_after_the_waiting_task_has_gone() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()
        async with ByteServer([stream_head(), Pause(go_on), chunk(b"one"), LAST_CHUNK]) as server:
            answer = await upstream_of(server).send(CALL)
            assert isinstance(answer, HttpReply)
            pushed: list[bytes] = []

            def sink(piece: bytes) -> bool:
                pushed.append(piece)
                return True

            pushing = asyncio.ensure_future(answer.push_to(sink))
            await asyncio.sleep(0.005)
            pushing.cancel()
            await asyncio.wait((pushing,))
            go_on.set()
            assert await body_of(answer) == b"one"
            assert pushed == []

    run(scenario)
