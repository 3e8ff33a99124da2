"""A web server on this machine for the tests of the web tools: fixed answers by path."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec


class StubServer:
    """Answers each path with (status, headers, body), and keeps the heads and bodies of the requests."""

    def __init__(self, answers: Mapping[str, tuple[int, Mapping[str, str], bytes]]) -> None:
        self.answers = dict(answers)
        self.requests: list[tuple[str, bytes]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
        self.requests.append((head, await reader.readexactly(size)))
        path = head.split(" ")[1]
        status, headers, body = self.answers.get(path.partition("?")[0], (404, {}, b"nothing here"))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status} X\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()


@asynccontextmanager
async def serve(answers: Mapping[str, tuple[int, Mapping[str, str], bytes]]) -> AsyncIterator[StubServer]:
    stub = StubServer(answers)
    server = await asyncio.start_server(stub.handle, "127.0.0.1", 0)
    stub.port = server.sockets[0].getsockname()[1]
    try:
        yield stub
    finally:
        server.close()
        await server.wait_closed()


def json_answer(value: object) -> tuple[int, Mapping[str, str], bytes]:
    return 200, {"content-type": "application/json"}, msgspec.json.encode(value)


def html_answer(text: str) -> tuple[int, Mapping[str, str], bytes]:
    return 200, {"content-type": "text/html; charset=utf-8"}, text.encode()
