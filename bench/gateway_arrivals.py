"""An open-loop load generator, as a program: so many new streams a second, however long the others take.

Agents run at once. Each of them in its place takes the next turn of its session, whose history grows with
every turn. A request that starts late because the machine is busy counts from when it should have started.
"""

import argparse
import asyncio
import time
from typing import cast

import msgspec
import uvicorn

from bench.gateway_load import END_OF_BODY, ENDINGS
from bench.payloads import SESSION

#: Sessions that run at once.
AGENTS = 50
#: Streams that begin at once before the measurement.
WARMING = 10


class Arrival(asyncio.Protocol):
    """One stream on its own connection."""

    def __init__(self, request: bytes, due: float) -> None:
        self._request = request
        self._due = due
        self._seen = b""
        self.first = 0.0
        self.is_whole = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.first and b"word" in data:
            self.first = time.perf_counter() - self._due
        self._seen = self._seen[-32:] + data
        self.is_whole = self.is_whole or any(ending in self._seen for ending in ENDINGS)
        if self._seen.endswith(END_OF_BODY):
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


class Sessions:
    """The requests of all agents, in the order in which they come."""

    def __init__(self, options: argparse.Namespace) -> None:
        with open(options.bodies, "rb") as file:
            self._turns = file.read().splitlines()
        self._head = (
            f"POST {options.path} HTTP/1.1\r\nhost: 127.0.0.1:{options.port}\r\n"
            "user-agent: claude-cli/2.1.325 (external, cli)\r\ncontent-type: application/json\r\n"
        ).encode()

    def build_request(self, number: int) -> bytes:
        """The request of one agent after the other. Their sessions began at different times."""
        done, agent = divmod(number, AGENTS)
        earlier, turn = divmod(done + agent, len(self._turns))
        session = b"session-%06d" % (agent + earlier * AGENTS)
        body = self._turns[turn].replace(SESSION, session)
        own = b"x-claude-code-session-id: %b\r\ncontent-length: %d\r\n\r\n" % (session, len(body))
        return self._head + own + body


async def _open(arrival: Arrival, port: int) -> None:
    await asyncio.get_running_loop().create_connection(lambda: arrival, "127.0.0.1", port)


async def main(options: argparse.Namespace) -> None:
    loop, sessions = asyncio.get_running_loop(), Sessions(options)
    # The sessions run already when the measurement begins.
    for start in range(0, AGENTS, WARMING):
        begun = [Arrival(sessions.build_request(number), 0.0) for number in range(start, start + WARMING)]
        for arrival in begun:
            await _open(arrival, options.port)
        await asyncio.wait([arrival.ended for arrival in begun])
    count = int(options.rate * options.seconds)
    arrivals: list[Arrival] = []
    late: list[float] = []
    opening: set[asyncio.Task[None]] = set()
    started = time.perf_counter() + 0.5
    for number in range(count):
        due = started + number / options.rate
        arrival = Arrival(sessions.build_request(AGENTS + number), due)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        late.append(time.perf_counter() - due)
        arrivals.append(arrival)
        task = loop.create_task(_open(arrival, options.port))
        opening.add(task)
        task.add_done_callback(opening.discard)
    await asyncio.wait([arrival.ended for arrival in arrivals], timeout=30)
    first = sorted(arrival.first for arrival in arrivals if arrival.is_whole) or [0.0]
    result = {
        "whole": sum(arrival.is_whole for arrival in arrivals),
        "broken": count - sum(arrival.is_whole for arrival in arrivals),
        "first_ms": [
            first[min(len(first) - 1, int(len(first) * share))] * 1e3 for share in (0.5, 0.9, 0.99, 1)
        ],
        "late_ms": sorted(late)[int(count * 0.99)] * 1e3,
    }
    print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("bodies", help="the requests of a session, one a line")
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    factory = uvicorn.Config("", log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(parser.parse_args()))
