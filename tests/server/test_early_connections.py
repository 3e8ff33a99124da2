"""The connection to a provider is opened while the body of a request still arrives, after its first use."""

import asyncio

from tests.exchange.sample_replies import CHAT_STREAM
from tests.server.running import Connected, config_for, running
from tests.upstream.byte_server import Action, Bytes, ByteServer, Close, eventually, run

QUESTION = b'{"model":"any","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}'
#: A reply after which the server closes the connection.
REPLY: tuple[Action, ...] = (
    Bytes(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"),
    *(Bytes(piece) for piece in CHAT_STREAM),
    Close(),
)


async def send_head(client: Connected) -> None:
    """Send a request without its body."""
    size = {"content-length": str(len(QUESTION))}
    await client.send("POST", "/v1/messages", None, size)


def test_a_connection_opens_while_the_body_of_a_request_arrives() -> None:
    async def scenario() -> None:
        async with ByteServer(REPLY) as upstream, running(config_for(upstream.url)) as gateway:
            async with gateway.connected() as client:
                await send_head(client)
                await asyncio.sleep(0.1)
                # No provider is contacted before a client has used it.
                assert upstream.accepted == 0
                client.writer.write(QUESTION)
                assert (await client.got()).status == 200
            await eventually(lambda: gateway.app.gateway.watchdogs.open == 0 and upstream.open == 0)
            async with gateway.connected() as client:
                await send_head(client)
                await eventually(lambda: upstream.accepted == 2)
                client.writer.write(QUESTION)
                assert (await client.got()).status == 200
            assert upstream.accepted == 2

    run(scenario)
