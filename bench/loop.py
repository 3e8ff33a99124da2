"""How long one large request blocks the event loop of a gateway.

A task wakes up all the time while the gateway translates an agent's request from Anthropic's dialect to
OpenAI Chat, in one process without sockets. The longest time between two of its runs is the time for which
every other client waits. It is CPU time of the process: other programs of the machine do not count.
"""

import asyncio
import tempfile
import time
from statistics import median

import msgspec

from bench.instructions import build_app, run_http
from bench.payloads import agent_request
from dragoman.exchange.large_bodies import MAX_INLINE_BODY
from dragoman.server.run import set_up_interpreter

SIZES = (64_000, 128_000, 192_000, 256_000, 512_000, 1_000_000, 4_000_000)
ROUNDS = 15
#: Seconds between two runs of the task.
PAUSE = 0.0002
#: Seconds until the upstream answers: what happens before and after it are two blocks.
DELAY = 0.002
#: The longest time for which a request may block the loop, in milliseconds.
GOAL = 5.0


class LoopProbe:
    """The longest time for which the event loop ran nothing else, in seconds of CPU time."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(PAUSE)
            self.longest = max(self.longest, time.process_time() - before)


async def _measure(size: int) -> tuple[float, float]:
    """The median and the maximum of the longest blocks of some requests of this size, in milliseconds."""
    body = msgspec.json.decode(agent_request(size))
    blocks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        app = build_app(folder, (), "meta", delay=DELAY)
        for number in range(ROUNDS + 1):
            # Another conversation each time: nothing of it is remembered.
            body["model"], body["messages"][0]["content"] = "chat-model", f"Conversation {number}"
            data = msgspec.json.encode(body)
            probe = LoopProbe()
            task = asyncio.create_task(probe.run())
            await asyncio.sleep(0)
            await run_http(app, "/v1/messages", data)
            await asyncio.sleep(DELAY)
            task.cancel()
            blocks.append(probe.longest * 1000)
        await app.gateway.close()
    # The first request also imports and builds what later ones use.
    return median(blocks[1:]), max(blocks[1:])


def loop_report() -> list[str]:
    """The longest block of the event loop, by the size of a request."""
    set_up_interpreter()
    measured = {size: asyncio.run(_measure(size)) for size in SIZES}
    lines = [f"Longest block of the event loop by one request, in ms ({ROUNDS} requests: median, maximum)"]
    for size, (usual, longest) in measured.items():
        place = "in a thread" if size > MAX_INLINE_BODY else "on the loop"
        verdict = f"goal {GOAL:g}: {'met' if usual <= GOAL else 'MISSED'}"
        lines.append(f"  {size // 1000:>5} KB, {place:<39} {usual:9.2f} {longest:9.2f}   {verdict}")
    return lines
