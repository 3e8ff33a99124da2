"""Calls to a server on loopback, as the gateway makes them."""

from collections.abc import Sequence

from dragoman.config.provider import Provider
from dragoman.config.settings import Secret, Timeouts
from dragoman.upstream.http.upstream import HttpUpstream
from dragoman.upstream.port import UpstreamReply, UpstreamRequest
from tests.upstream.byte_server import ByteServer

CALL = UpstreamRequest(body=b'{"x":1}', model="m", stream=True)


def upstream_of(
    server: ByteServer,
    dialect: str = "openai_chat",
    *,
    keys: Sequence[str] = (),
    timeouts: Timeouts | None = None,
    path: str = "",
    headers: dict[str, Secret] | None = None,
    proxy: str = "",
    base_url: str = "",
) -> HttpUpstream:
    return HttpUpstream(
        Provider(
            name="up",
            dialect=dialect,
            base_url=base_url or server.url + path,
            keys=tuple(Secret(key) for key in keys),
            timeouts=timeouts or Timeouts(),
            headers=headers or {},
            proxy=proxy,
        )
    )


async def body_of(answer: UpstreamReply) -> bytes:
    return b"".join([piece async for piece in answer.pieces()])
