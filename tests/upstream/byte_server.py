"""A server on loopback that answers with whatever bytes a test wants, and remembers what it saw."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec
import uvicorn


class ReceivedRequest(msgspec.Struct, frozen=True):
    """One request as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: bytes
    #: Which connection it came over, counted from 1.
    connection: int


class Bytes(msgspec.Struct, frozen=True):
    data: bytes


class Pause(msgspec.Struct, frozen=True):
    """Nothing until the event is set, or the client hangs up."""

    until: asyncio.Event


class Close(msgspec.Struct, frozen=True):
    """End the connection; `rudely`: so that the other side sees a reset."""

    rudely: bool = False


Action = Bytes | Pause | Close
Answer = Sequence[Action]


def reply(body: bytes, status: str = "200 OK", *headers: str) -> Bytes:
    """A whole reply with its length."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return Bytes("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def stream_head(*headers: str) -> Bytes:
    lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked", *headers]
    return Bytes("\r\n".join(lines).encode() + b"\r\n\r\n")


def chunk(data: bytes) -> Bytes:
    return Bytes(b"%x\r\n%b\r\n" % (len(data), data))


LAST_CHUNK = Bytes(b"0\r\n\r\n")


class ByteServer:
    """Answers each request with the next answer; the last one stands for all that follow."""

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._answers = list(answers)
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[object]] = set()
        self.accepted = 0
        self.received: list[ReceivedRequest] = []
        #: When a client hung up in the middle of an answer, by the loop's clock.
        self.hung_up_at: list[float] = []
        self.hung_up = asyncio.Event()
        self.port = 0
        self.sent = 0

    async def __aenter__(self) -> "ByteServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls, limit=2**26)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()
        # The end of the loop would cancel them, which asyncio reports as an error of a callback.
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        return len(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        number = self.accepted
        self._open.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while await self._one(reader, writer, number):
                    pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head[:-4].split("\r\n")
        headers = dict(each.split(": ", 1) for each in lines)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.received.append(ReceivedRequest(line, headers, body, number))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        for action in answer:
            if not await self._act(action, reader, writer):
                return False
        return True

    async def _act(self, action: Action, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        match action:
            case Bytes(data):
                writer.write(data)
                await writer.drain()
                self.sent += len(data)
            case Pause(until):
                return await self._pause(until, reader)
            case Close(rudely):
                if not rudely:
                    writer.close()
                    await writer.wait_closed()
                return False
        return True

    async def _pause(self, until: asyncio.Event, reader: asyncio.StreamReader) -> bool:
        going_on = asyncio.ensure_future(until.wait())
        leaving = asyncio.ensure_future(reader.read(1))
        done, pending = await asyncio.wait((going_on, leaving), return_when=asyncio.FIRST_COMPLETED)
        for waiting in pending:
            waiting.cancel()
            await asyncio.wait((waiting,))
        if leaving in done:
            leaving.exception()
            self.hung_up_at.append(asyncio.get_running_loop().time())
            self.hung_up.set()
            return False
        return True


async def eventually(holds: Callable[[], bool], within: float = 5.0) -> None:
    """Wait, in turns of a millisecond, until something holds."""
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.001)


def run(main: Callable[[], Awaitable[None]]) -> None:
    """A scenario on the loop that production uses, where there is one."""

    async def bounded() -> None:
        async with asyncio.timeout(20):
            await main()

    with asyncio.Runner(loop_factory=uvicorn.Config("", log_config=None).get_loop_factory()) as runner:
        runner.run(bounded())
