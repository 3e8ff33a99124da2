"""Connections that are opened before there is a request, and requests that are one write."""

import asyncio
import socket
import ssl
from typing import Any

import pytest

from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.upstream.http.connection import HttpConnection
from tests.upstream.byte_server import ByteServer, eventually, reply, run
from tests.upstream.http.calling import CALL, body_of, upstream_of
from tests.upstream.http.test_tls import TRUSTED, server_tls


class CountingSocket(socket.socket):
    """Counts the calls that send bytes."""

    sends = 0

    def send(self, *args: Any) -> int:
        self.sends += 1
        return super().send(*args)


def fail(reason: str) -> UpstreamFailed:
    return UpstreamFailed(Failure(kind="server", message=reason))


def test_a_request_waits_for_no_connection_that_was_opened_early() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            upstream.open_early()
            await eventually(lambda: server.accepted == 1)
            upstream.open_early()
            assert await body_of(await upstream.send(CALL)) == b"x"
            upstream.open_early()
            assert await body_of(await upstream.send(CALL)) == b"x"
            assert server.accepted == 1
            await upstream.close()

    run(scenario)


def test_a_request_takes_the_connection_that_is_being_opened() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            upstream.open_early()
            answers = await asyncio.gather(upstream.send(CALL), upstream.send(CALL))
            assert [await body_of(each) for each in answers] == [b"x", b"x"]
            assert server.accepted == 2
            await upstream.close()

    run(scenario)


def test_an_early_connection_that_fails_is_no_error_before_a_request_needs_it() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
        upstream.open_early()
        await eventually(lambda: upstream._early is None)
        with pytest.raises(UpstreamFailed):
            await upstream.send(CALL)
        upstream.open_early()
        with pytest.raises(UpstreamFailed):
            await upstream.send(CALL)

    run(scenario)


def test_an_early_connection_ends_with_the_upstream() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            for has_time in (False, True):
                upstream = upstream_of(server)
                upstream.open_early()
                await asyncio.sleep(0.05 if has_time else 0)
                await upstream.close()
                await eventually(lambda: server.open == 0)

    run(scenario)


@pytest.mark.parametrize("is_secure", [False, True])
def test_head_and_body_are_one_write(is_secure: bool) -> None:
    async def scenario() -> None:
        server_side = client_side = None
        if is_secure:
            server_side, client_side = server_tls(), ssl.create_default_context(cafile=TRUSTED)
        async with ByteServer([reply(b"x")], tls=server_side) as server:
            loop = asyncio.get_running_loop()
            client = CountingSocket(socket.AF_INET)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            name = "127.0.0.1" if is_secure else None
            _, connection = await loop.create_connection(
                lambda: HttpConnection(loop, lambda free: None),
                sock=client,
                ssl=client_side,
                server_hostname=name,
            )
            before = client.sends
            body = b"x" * 10_000
            head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000\r\n\r\n"
            answer = connection.send(head, body, fail)
            assert client.sends - before == 1
            await answer.wait_for_head()
            connection.abort()

    asyncio.run(scenario())
