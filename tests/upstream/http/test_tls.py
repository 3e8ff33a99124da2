"""The HTTP client over TLS, straight and through a proxy."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.config.provider import Provider
from dragoman.hub.errors import UpstreamFailed
from dragoman.upstream.http.upstream import HttpUpstream
from dragoman.upstream.port import UpstreamReply, UpstreamRequest
from tests.upstream.byte_server import (
    LAST_CHUNK,
    ByteServer,
    Close,
    Pause,
    chunk,
    eventually,
    reply,
    run,
    stream_head,
)

CERTIFICATES = Path(__file__).parent / "certificates"
TRUSTED = str(CERTIFICATES / "server.crt")
CALL = UpstreamRequest(body=b"{}", model="m", stream=True)


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.crt", CERTIFICATES / "server.key")
    return context


def upstream_of(server: ByteServer, verify: bool | str = TRUSTED, proxy: str = "") -> HttpUpstream:
    return HttpUpstream(
        Provider(name="up", dialect="openai_chat", base_url=server.url, verify=verify, proxy=proxy)
    )


async def body_of(answer: UpstreamReply) -> bytes:
    return b"".join([piece async for piece in answer.pieces()])


class TunnelProxy:
    """A proxy that accepts every request and records its target."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> "TunnelProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        await eventually(lambda: not self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0]
        self.lines.append(line)
        host, port = line.split(" ")[1].rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        both = {writer, far_writer}
        self._open |= both
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        self._open -= both


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


def test_a_trusted_server_is_called_over_one_connection() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), chunk(b"x"), LAST_CHUNK], tls=server_tls()) as server:
            upstream = upstream_of(server)
            for _ in range(5):
                assert await body_of(await upstream.send(CALL)) == b"x"
            assert server.accepted == 1
            await upstream.close()

    run(scenario)


def test_a_server_with_an_untrusted_certificate_is_not_called() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")], tls=server_tls()) as server:
            with pytest.raises(UpstreamFailed, match="certificate is not trusted") as caught:
                await upstream_of(server, verify=True).send(CALL)
            assert caught.value.failure.kind == "server"
            assert server.received == []

    run(scenario)


def test_a_server_that_need_not_be_trusted_is_called() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")], tls=server_tls()) as server:
            upstream = upstream_of(server, verify=False)
            assert await body_of(await upstream.send(CALL)) == b"x"
            await upstream.close()

    run(scenario)


@pytest.mark.rule("H73")
def test_a_secure_reply_that_breaks_off_is_a_failure() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), chunk(b"x"), Close()], tls=server_tls()) as server:
            answer = await upstream_of(server).send(CALL)
            with pytest.raises(UpstreamFailed, match="broke off"):
                await body_of(answer)

    run(scenario)


@pytest.mark.rule("R126")
def test_a_secure_answer_that_is_let_go_is_cancelled_at_the_upstream() -> None:
    async def scenario() -> None:
        script = [stream_head(), chunk(b"x")]
        async with ByteServer([*script, Pause(asyncio.Event())], tls=server_tls()) as server:
            (await upstream_of(server).send(CALL)).close()
            await eventually(server.hung_up.is_set)

    run(scenario)


def test_a_secure_call_goes_through_a_proxy_unseen() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")], tls=server_tls()) as server, TunnelProxy() as proxy:
            upstream = upstream_of(server, proxy=f"http://127.0.0.1:{proxy.port}")
            for _ in range(3):
                assert await body_of(await upstream.send(CALL)) == b"x"
            assert proxy.lines == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]
            assert server.accepted == 1
            await upstream.close()

    run(scenario)


def test_a_server_behind_a_proxy_must_be_trusted_too() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")], tls=server_tls()) as server, TunnelProxy() as proxy:
            upstream = upstream_of(server, verify=True, proxy=f"http://127.0.0.1:{proxy.port}")
            with pytest.raises(UpstreamFailed, match="certificate is not trusted"):
                await upstream.send(CALL)

    run(scenario)
