"""A mock upstream on loopback, as a program, with OpenAI Chat; the model's name decides what it sends.

`mock-c300-d20` is a stream of 300 chunks, 20 ms apart. It costs as little as Python can, because what is
measured is the gateway before it.
"""

import asyncio
import re
from typing import cast

import msgspec

SCRIPT = re.compile(rb'"model": ?"mock-c(\d+)-d(\d+)')
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(delta: dict[str, object], finish: str | None = None, usage: object = None) -> bytes:
    event = {
        "id": "chatcmpl-mock0001",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "mock",
        "usage": usage,
        "choices": [] if usage else [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    data = b"data: " + msgspec.json.encode(event) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


FIRST = chunk({"role": "assistant", "content": ""})
WORD = chunk({"content": " word after word"})
DONE = b"data: [DONE]\n\n"
LAST = (
    chunk({}, "stop")
    + chunk({}, usage={"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18})
    + b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE)
)


class Stats:
    accepted = 0
    open = 0


class Mock(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        Stats.accepted += 1
        Stats.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        Stats.open -= 1
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        length = re.search(rb"content-length: (\d+)", received[:end].lower())
        if len(received) < end + 4 + (int(length[1]) if length else 0):
            return
        if received.startswith(b"GET /stats"):
            body = msgspec.json.encode({"accepted": Stats.accepted, "open": Stats.open})
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        else:
            script = SCRIPT.search(received)
            assert script is not None, "no script in the model's name"
            self._answer(int(script[1]), int(script[2]) / 1000)
        received.clear()

    def _answer(self, chunks: int, pause: float) -> None:
        if not pause:
            self._transport.write(HEAD + FIRST + WORD * chunks + LAST)
            return
        self._transport.write(HEAD + FIRST)
        self._left = chunks
        self._say(pause)

    def _say(self, pause: float) -> None:
        if self._left:
            self._left -= 1
            self._transport.write(WORD)
            self._timer = self._loop.call_later(pause, self._say, pause)
        else:
            self._timer = None
            self._transport.write(LAST)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Mock, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
