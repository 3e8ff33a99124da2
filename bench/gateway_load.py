"""A load generator, as a program: keeps so many connections busy until so many requests are answered.

Reads events as bytes. A request counts if its stream came to the proper end.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from itertools import repeat
from typing import cast

import msgspec

#: The text that marks a whole reply in either dialect, and the end of its stream.
ENDINGS = (b"[DONE]", b"message_stop")
END_OF_BODY = b"\r\n0\r\n\r\n"

#: The beginning of a session's messages, and what each turn adds to them, in Anthropic's dialect.
MESSAGES = b'"messages":['
BEGINNING = b'{"role":"user","content":"session %d"},{"role":"assistant","content":"Yes."},'
TURN = b"".join(
    (
        b',{"role":"assistant","content":[{"type":"tool_use","id":"toolu_s%d","name":"Tool1","input":{}}]}',
        b',{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_s%d","content":"',
        b"the file holds a parser " * 40,
        b'"}]}',
    )
)


class Tally:
    def __init__(self, requests: int, tell: int) -> None:
        self.to_ask = requests
        self.asked = 0
        self.good = 0
        self.bad = 0
        #: Replies that were hung up on in the middle, on purpose.
        self.left = 0
        self._tell = tell
        self.events = 0
        self.first: list[float] = []
        self.open = 0
        self.done = asyncio.get_running_loop().create_future()

    def note(self) -> None:
        """Count one more request; print the number now and then."""
        if self._tell and not (self.good + self.bad + self.left) % self._tell:
            print(self.good + self.bad + self.left, flush=True)

    def told(self) -> dict[str, object]:
        first = sorted(self.first) or [0.0]
        return {
            "good": self.good,
            "bad": self.bad,
            "left": self.left,
            "events": self.events,
            "first_ms": [first[int(len(first) * share)] * 1000 for share in (0.5, 0.99)],
        }


class Caller(asyncio.Protocol):
    """One connection: asks, reads to the end, asks again."""

    def __init__(self, questions: "Questions", tally: Tally) -> None:
        self._questions = questions
        self._requests = questions.list_requests()
        self._tally = tally
        self._is_waiting = False
        self._leaves = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._tally.open += 1
        self._ask()

    def _ask(self) -> None:
        tally = self._tally
        if not tally.to_ask:
            self._transport.close()
            return
        tally.to_ask -= 1
        tally.asked += 1
        self._is_waiting = True
        self._has_words = self._is_whole = False
        self._tail = b""
        self._asked = time.perf_counter()
        leaving = self._questions.find_leaving(tally.asked)
        self._leaves = bool(leaving)
        self._transport.write(leaving or next(self._requests))

    def data_received(self, data: bytes) -> None:
        tally = self._tally
        if not self._has_words and b"word" in data:
            self._has_words = True
            tally.first.append(time.perf_counter() - self._asked)
            if self._leaves:
                self._is_waiting = False
                tally.left += 1
                tally.note()
                self._transport.abort()
                return
        tally.events += data.count(b"\n\n")
        seen = self._tail + data
        self._is_whole = self._is_whole or any(ending in seen for ending in ENDINGS)
        self._tail = seen[-32:]
        if seen.endswith(END_OF_BODY):
            self._is_waiting = False
            tally.good += self._is_whole
            tally.bad += not self._is_whole
            tally.note()
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        tally = self._tally
        tally.bad += self._is_waiting
        if self._leaves and tally.to_ask:
            self._questions.another_caller()
        tally.open -= 1
        if not tally.open and not tally.done.done():
            tally.done.set_result(None)


class Questions:
    """What to ask: mostly one thing, now and then the other, whose answer is not waited for."""

    def __init__(self, options: argparse.Namespace, tally: Tally) -> None:
        self._options = options
        self._tally = tally
        self._sessions = 0
        self._usual = self._read(options.body)
        self._leaving = self._build_request(self._read(options.leaving)) if options.leaving else b""
        self._opening: set[asyncio.Task[object]] = set()

    def _read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def _build_request(self, *body: bytes) -> bytes:
        options = self._options
        size = sum(map(len, body))
        head = f"POST {options.path} HTTP/1.1\r\nhost: 127.0.0.1:{options.port}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {size}\r\n\r\n"
        return b"".join((head.encode(), *body))

    def list_requests(self) -> Iterator[bytes]:
        """The requests of one connection: always the same, or sessions that grow with every turn."""
        if not self._options.turns:
            yield from repeat(self._build_request(self._usual))
        # The messages are the last member.
        before, member, messages = self._usual.removesuffix(b"]}").partition(MESSAGES)
        while True:
            self._sessions += 1
            first = BEGINNING % self._sessions
            added = b""
            for turn in range(self._options.turns):
                yield self._build_request(before, member, first, messages, added, b"]}")
                added += TURN % (turn, turn)

    def find_leaving(self, number: int) -> bytes:
        """The request whose reply is not waited for, if it is the turn of one; otherwise nothing."""
        return self._leaving if self._leaving and number % self._options.every == 0 else b""

    async def call(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: Caller(self, self._tally), "127.0.0.1", self._options.port)
        self._tally.open -= 1

    def another_caller(self) -> None:
        """In the place of one who left. It counts as open until it is, lest everything seem to be over."""
        self._tally.open += 1
        task = asyncio.get_running_loop().create_task(self.call())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)


async def main(options: argparse.Namespace) -> None:
    tally = Tally(options.requests, options.tell)
    questions = Questions(options, tally)
    started = time.perf_counter()

    def out_of_time() -> None:
        tally.to_ask = 0

    if options.seconds:
        asyncio.get_running_loop().call_later(options.seconds, out_of_time)
    for _ in range(options.connections):
        tally.open += 1
        await questions.call()
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
    parser.add_argument("--seconds", type=float, default=0.0, help="ask nothing more after so long")
    parser.add_argument("--tell", type=int, default=0, help="print a number each time so many are answered")
    parser.add_argument("--leaving", default="", help="a body to whose answer nobody listens to the end")
    parser.add_argument("--turns", type=int, default=0, help="turns of a session whose body grows")
    parser.add_argument("--every", type=int, default=50, help="how often to send that body")
    asyncio.run(main(parser.parse_args()))
