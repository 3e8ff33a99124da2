"""A load generator, as a program: keeps so many connections busy until so many requests are answered.

Reads events as bytes. A request counts if its stream came to the proper end.
"""

import argparse
import asyncio
import time
from typing import cast

import msgspec

#: How a reply says that it is whole, in either dialect, and how its stream then ends.
ENDINGS = (b"[DONE]", b"message_stop")
END_OF_BODY = b"\r\n0\r\n\r\n"


class Tally:
    def __init__(self, requests: int) -> None:
        self.left = requests
        self.good = 0
        self.bad = 0
        self.events = 0
        self.first: list[float] = []
        self.open = 0
        self.done = asyncio.get_running_loop().create_future()

    def told(self) -> dict[str, object]:
        first = sorted(self.first) or [0.0]
        return {
            "good": self.good,
            "bad": self.bad,
            "events": self.events,
            "first_ms": [first[int(len(first) * share)] * 1000 for share in (0.5, 0.99)],
        }


class Caller(asyncio.Protocol):
    """One connection: asks, reads to the end, asks again."""

    def __init__(self, request: bytes, tally: Tally) -> None:
        self._request = request
        self._tally = tally
        self._is_waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._tally.open += 1
        self._ask()

    def _ask(self) -> None:
        tally = self._tally
        if not tally.left:
            self._transport.close()
            return
        tally.left -= 1
        self._is_waiting = True
        self._has_words = self._is_whole = False
        self._tail = b""
        self._asked = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        tally = self._tally
        if not self._has_words and b"word" in data:
            self._has_words = True
            tally.first.append(time.perf_counter() - self._asked)
        tally.events += data.count(b"\n\n")
        seen = self._tail + data
        self._is_whole = self._is_whole or any(ending in seen for ending in ENDINGS)
        self._tail = seen[-32:]
        if seen.endswith(END_OF_BODY):
            self._is_waiting = False
            tally.good += self._is_whole
            tally.bad += not self._is_whole
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        tally = self._tally
        tally.bad += self._is_waiting
        tally.open -= 1
        if not tally.open and not tally.done.done():
            tally.done.set_result(None)


async def main(options: argparse.Namespace) -> None:
    with open(options.body, "rb") as file:
        body = file.read()
    head = f"POST {options.path} HTTP/1.1\r\nhost: 127.0.0.1:{options.port}\r\n"
    request = f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    loop = asyncio.get_running_loop()
    tally = Tally(options.requests)
    started = time.perf_counter()
    for _ in range(options.connections):
        await loop.create_connection(lambda: Caller(request, tally), "127.0.0.1", options.port)
        await asyncio.sleep(options.ramp / options.connections)
    await tally.done
    print(msgspec.json.encode({**tally.told(), "seconds": time.perf_counter() - started}).decode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("body")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--ramp", type=float, default=0.0, help="seconds over which to open the connections")
    asyncio.run(main(parser.parse_args()))
