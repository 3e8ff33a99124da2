"""What the HTTP client makes of replies, good and bad."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from dragoman.config.settings import Timeouts
from dragoman.hub.errors import UpstreamFailed
from dragoman.upstream.http import connection as connection_module
from tests.upstream.byte_server import (
    LAST_CHUNK,
    Bytes,
    ByteServer,
    Close,
    Pause,
    chunk,
    eventually,
    reply,
    run,
    stream_head,
)
from tests.upstream.http.calling import CALL, body_of, upstream_of


async def failure_of(awaiting: AsyncIterator[bytes]) -> str:
    with pytest.raises(UpstreamFailed) as caught:
        async for _ in awaiting:
            pass
    return caught.value.failure.message


def test_pieces_come_as_they_are_sent() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()
        head, last = [stream_head(), chunk(b"one"), chunk(b"two")], [chunk(b"three"), LAST_CHUNK]
        async with ByteServer([*head, Pause(go_on), *last]) as server:
            answer = await upstream_of(server).send(CALL)
            pieces = answer.pieces()
            got = b""
            while got != b"onetwo":
                got += await anext(pieces)
            go_on.set()
            assert await anext(pieces) == b"three"
            with pytest.raises(StopAsyncIteration):
                await anext(pieces)

    run(scenario)


@pytest.mark.rule("P74")
def test_one_connection_serves_many_calls() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), chunk(b"x"), LAST_CHUNK]) as server:
            upstream = upstream_of(server)
            for _ in range(20):
                assert await body_of(await upstream.send(CALL)) == b"x"
            assert server.accepted == 1
            await upstream.close()
            await eventually(lambda: server.open == 0)

    run(scenario)


@pytest.mark.rule("P74")
def test_calls_at_once_have_connections_of_their_own_and_share_them_later() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            for _ in range(3):
                answers = await asyncio.gather(*(upstream.send(CALL) for _ in range(10)))
                assert await asyncio.gather(*map(body_of, answers)) == [b"x"] * 10
            assert server.accepted == 10

    run(scenario)


def test_a_connection_is_free_as_soon_as_its_reply_has_come_whole() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            first = await upstream.send(CALL)
            second = await upstream.send(CALL)
            assert await body_of(second) == b"x"
            assert await body_of(first) == b"x"
            assert server.accepted == 1

    run(scenario)


@pytest.mark.rule("R126", "P58")
def test_an_answer_that_is_let_go_is_cancelled_at_the_upstream() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), chunk(b"x"), Pause(asyncio.Event())]) as server:
            answer = await upstream_of(server).send(CALL)
            answer.close()
            await eventually(server.hung_up.is_set)

    run(scenario)


def test_a_task_that_waits_for_a_closed_reply_gets_an_error() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), Pause(asyncio.Event())]) as server:
            answer = await upstream_of(server).send(CALL)
            asyncio.get_running_loop().call_later(0.005, answer.close)
            assert "was cancelled by the gateway" in await failure_of(answer.pieces())

    run(scenario)


@pytest.mark.rule("R126")
def test_a_call_that_is_cancelled_before_its_head_came_is_cancelled_at_the_upstream() -> None:
    async def scenario() -> None:
        async with ByteServer([Pause(asyncio.Event())]) as server:
            sending = asyncio.ensure_future(upstream_of(server).send(CALL))
            await eventually(lambda: len(server.received) == 1)
            sending.cancel()
            await eventually(server.hung_up.is_set)
            assert sending.cancelled() or sending.cancelling()

    run(scenario)


def test_an_idle_connection_that_the_server_closed_is_replaced_unnoticed() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x"), Close()], [reply(b"y")]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            await eventually(lambda: server.open == 0)
            assert await body_of(await upstream.send(CALL)) == b"y"
            assert server.accepted == 2

    run(scenario)


def test_a_connection_that_closes_just_as_it_is_used_again_is_replaced_unnoticed() -> None:
    async def scenario() -> None:
        # The second request is read, but answered by nothing but the end of the connection.
        async with ByteServer([reply(b"x")], [Close()], [reply(b"y")]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            assert await body_of(await upstream.send(CALL)) == b"y"
            assert [received.connection for received in server.received] == [1, 1, 2]

    run(scenario)


def test_a_new_connection_that_closes_without_an_answer_is_a_failure() -> None:
    async def scenario() -> None:
        async with ByteServer([Close()]) as server:
            with pytest.raises(UpstreamFailed, match="closed the connection") as caught:
                await upstream_of(server).send(CALL)
            assert caught.value.failure.kind == "overloaded"
            assert server.accepted == 1

    run(scenario)


@pytest.mark.parametrize(
    "script",
    [
        [stream_head(), chunk(b"x"), Close()],
        [stream_head(), chunk(b"x"), Close(rudely=True)],
        [stream_head(), Bytes(b"9\r\nx"), Close()],
        [Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nx"), Close()],
        [stream_head(), chunk(b"x"), Bytes(b"zz\r\n")],
    ],
    ids=["closed", "reset", "inside a chunk", "too short", "bad chunk"],
)
@pytest.mark.rule("H73")
def test_a_reply_that_breaks_off_is_a_failure(script: Sequence[Bytes | Close]) -> None:
    async def scenario() -> None:
        async with ByteServer(script) as server:
            answer = await upstream_of(server).send(CALL)
            assert "provider up" in await failure_of(answer.pieces())

    run(scenario)


def test_a_reply_without_a_length_ends_with_its_connection() -> None:
    async def scenario() -> None:
        body = [Bytes(b"HTTP/1.1 200 OK\r\n\r\none "), Bytes(b"two")]
        async with ByteServer([*body, Close()]) as server:
            upstream = upstream_of(server)
            assert await body_of(await upstream.send(CALL)) == b"one two"
            assert await body_of(await upstream.send(CALL)) == b"one two"
            assert server.accepted == 2

    run(scenario)


def test_a_server_that_wants_its_connection_closed_gets_it_closed() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x", "200 OK", "connection: close")]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            await body_of(await upstream.send(CALL))
            assert server.accepted == 2

    run(scenario)


def test_interim_answers_are_passed_over() -> None:
    async def scenario() -> None:
        interim = Bytes(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        async with ByteServer([interim, reply(b"x")]) as server:
            answer = await upstream_of(server).send(CALL)
            assert answer.status == 200
            assert "link" not in answer.headers
            assert await body_of(answer) == b"x"

    run(scenario)


@pytest.mark.parametrize(
    "garbage", [b"<html>", b"HTTP/2 200\r\n\r\n", b"\x00" * 100, b"HTTP/1.1 101 x\r\nupgrade: h2c\r\n\r\n"]
)
def test_what_is_not_http_is_a_failure(garbage: bytes) -> None:
    async def scenario() -> None:
        async with ByteServer([Bytes(garbage), Close()]) as server:
            with pytest.raises(UpstreamFailed):
                await upstream_of(server).send(CALL)

    run(scenario)


def test_a_head_without_end_is_a_failure() -> None:
    async def scenario() -> None:
        endless = [Bytes(b"HTTP/1.1 200 OK\r\n"), *[Bytes(b"x-more: " + b"x" * 10_000 + b"\r\n")] * 30]
        async with ByteServer([*endless, Pause(asyncio.Event())]) as server:
            with pytest.raises(UpstreamFailed, match="too large"):
                await upstream_of(server).send(CALL)

    run(scenario)


def test_a_server_that_answers_twice_is_not_asked_again_over_that_connection() -> None:
    async def scenario() -> None:
        twice = Bytes(
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\ny"
        )
        async with ByteServer([twice]) as server:
            upstream = upstream_of(server)
            assert await body_of(await upstream.send(CALL)) == b"x"
            assert await body_of(await upstream.send(CALL)) == b"x"
            assert server.accepted == 2

    run(scenario)


def test_a_reply_before_data_that_is_not_http_in_the_same_read_is_complete() -> None:
    async def scenario() -> None:
        mixed = Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx<html>")
        async with ByteServer([mixed, Pause(asyncio.Event())]) as server:
            upstream = upstream_of(server)
            assert await body_of(await upstream.send(CALL)) == b"x"
            assert await body_of(await upstream.send(CALL)) == b"x"
            assert server.accepted == 2

    run(scenario)


def test_pieces_before_a_broken_one_in_the_same_read_arrive() -> None:
    async def scenario() -> None:
        script = Bytes(stream_head().data + chunk(b"one").data + b"not a size\r\n")
        async with ByteServer([script, Pause(asyncio.Event())]) as server:
            pieces = (await upstream_of(server).send(CALL)).pieces()
            assert await anext(pieces) == b"one"
            assert "not HTTP" in await failure_of(pieces)

    run(scenario)


def test_a_connection_with_unrequested_data_is_closed() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()
        async with ByteServer([reply(b"x"), Pause(go_on), reply(b"again"), Pause(asyncio.Event())]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            go_on.set()
            await eventually(server.hung_up.is_set)

    run(scenario)


def test_a_reply_that_is_not_read_stops_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "HIGH_WATER", 1000)

    async def scenario() -> None:
        piece = b"x" * 100_000
        sent = [Bytes(b"%x\r\n%b\r\n" % (len(piece), piece)) for _ in range(400)]
        async with ByteServer([stream_head(), *sent, LAST_CHUNK]) as server:
            answer = await upstream_of(server).send(CALL)
            await asyncio.sleep(0.02)
            assert isinstance(answer, connection_module.HttpReply)
            assert answer.size < 2_000_000
            assert len(await body_of(answer)) == 400 * len(piece)

    run(scenario)


def test_no_answer_in_time_is_a_timeout() -> None:
    async def scenario() -> None:
        async with ByteServer([Pause(asyncio.Event())]) as server:
            with pytest.raises(UpstreamFailed, match="no answer within") as caught:
                await upstream_of(server, timeouts=Timeouts(first_byte=0.01)).send(CALL)
            assert caught.value.failure.kind == "timeout"
            assert caught.value.failure.http_status == 504
            await eventually(server.hung_up.is_set)

    run(scenario)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("X-Gzip", gzip.compress)],
)
def test_a_compressed_reply_is_inflated(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    packed = compress(b"hello " * 1000)

    async def scenario() -> None:
        async with ByteServer([reply(packed, "200 OK", f"content-encoding: {encoding}")]) as server:
            assert await body_of(await upstream_of(server).send(CALL)) == b"hello " * 1000

    run(scenario)


def test_a_bomb_comes_in_pieces_of_bounded_size() -> None:
    packed = gzip.compress(b"\0" * 50_000_000)

    async def scenario() -> None:
        async with ByteServer([reply(packed, "200 OK", "content-encoding: gzip")]) as server:
            answer = await upstream_of(server).send(CALL)
            sizes = [len(piece) async for piece in answer.pieces()]
            assert sum(sizes) == 50_000_000
            assert max(sizes) <= 1024 * 1024

    run(scenario)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("br", b"xxx"), ("gzip", b"xxx"), ("gzip", gzip.compress(b"hello" * 100)[:-9])],
    ids=["unknown", "damaged", "cut"],
)
def test_what_cannot_be_inflated_is_a_failure(encoding: str, body: bytes) -> None:
    async def scenario() -> None:
        async with ByteServer([reply(body, "200 OK", f"content-encoding: {encoding}")]) as server:
            answer = await upstream_of(server).send(CALL)
            assert "provider up" in await failure_of(answer.pieces())

    run(scenario)


@pytest.mark.rule("S7")
def test_what_follows_the_end_of_compressed_data_is_not_read() -> None:
    async def scenario() -> None:
        head = Bytes(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hello") + b"junk")
        async with ByteServer([head, *[Bytes(b"x" * 65536)] * 16, Pause(asyncio.Event())]) as server:
            answer = await upstream_of(server).send(CALL)
            assert await body_of(answer) == b"hello"
            await eventually(server.hung_up.is_set)

    run(scenario)


@pytest.mark.rule("S6")
@pytest.mark.parametrize("status", [600, 777, 999])
def test_a_status_that_http_does_not_have_is_a_failure(status: int) -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"{}", f"{status} Odd")]) as server:
            with pytest.raises(UpstreamFailed, match=f"status {status}") as caught:
                await upstream_of(server).send(CALL)
            assert caught.value.failure.http_status == 502

    run(scenario)
