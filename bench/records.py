"""What recording costs: a session of an agent whose history grows, with each level of `record`.

CPU time of the whole process (the recorder's thread included) and of the event loop's thread alone, which is
the time that a client waits. The upstream and the client are in memory, so a turn costs less than over HTTP.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from statistics import median

import msgspec

from bench.instructions import LONG, SHORT, run_turns
from bench.payloads import agent_request, chat_stream, text_of
from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import RecordLevel, RecordSettings
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.transports import SSE
from dragoman.records.recorder import Recorder
from dragoman.records.store import open_records, read_size
from dragoman.upstream.port import UpstreamRequest
from dragoman.wire.sse import Output

TURNS = 60
ROUNDS = 5
LEVELS: tuple[RecordLevel, ...] = ("off", "meta", "bodies")
HEADERS = {"user-agent": "claude-cli/2.1.0", "x-claude-code-session-id": "bench"}
REPLY = chat_stream()
WARM_UP = b'{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}'


class StreamedReply:
    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self) -> None:
        self._iterator = self._list_pieces()

    def pieces(self) -> AsyncIterator[bytes]:
        return self._iterator

    async def _list_pieces(self) -> AsyncIterator[bytes]:
        """The pieces up to the first content; `push_to` gives the rest."""
        for piece in REPLY[:2]:
            yield piece

    async def push_to(self, sink: Callable[[bytes], bool]) -> bool:
        pieces = iter(REPLY[2:])
        return all(sink(piece) for piece in pieces)

    def close(self) -> None:
        pass


class MemoryUpstream:
    async def send(self, request: UpstreamRequest) -> StreamedReply:
        return StreamedReply()

    async def close(self) -> None:
        pass


async def drained() -> None:
    """At once."""


class MemoryClient:
    transport = SSE
    direct: DirectConnection | None = DirectConnection(SSE.encode, bool, drained)

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        pass

    async def send(self, output: Output) -> None:
        SSE.encode(output)

    async def end(self, output: Output = ()) -> None:
        SSE.encode(output)

    async def ping(self, data: bytes) -> None:
        pass

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        pass

    def abort(self, *, at_once: bool = False) -> None:
        pass


def list_requests() -> list[bytes]:
    """The requests of one session: each repeats the history and adds a call, its result and a text."""
    body = msgspec.json.decode(agent_request(75_000, 20))
    requests = []
    for turn in range(TURNS):
        body["messages"] += [
            {"role": "assistant", "content": text_of(300, turn) + os.urandom(4).hex()},
            {"role": "user", "content": text_of(1500, turn * 3) + os.urandom(4).hex()},
        ]
        requests.append(msgspec.json.encode(body))
    return requests


async def _play(level: RecordLevel, requests: list[bytes], file: Path) -> tuple[float, float]:
    """CPU microseconds per turn: of the process, and of the event loop's thread."""
    provider = Provider(name="up", dialect="openai_chat", base_url="http://upstream.invalid")
    config = Config(
        providers={"up": provider},
        default=(TargetName("up", "*"),),
        records=RecordSettings(record=level),
    )
    gateway = Gateway(config, upstreams={"up": MemoryUpstream()})
    recorder = Recorder(file, lambda: config, gateway.clock)
    if level != "off":
        gateway.recorder = recorder
        gateway.observers.append(recorder.record_exchange)
    began = loop_began = 0.0
    for number, body in enumerate((WARM_UP, *requests)):
        if number == 1:
            # The first turn of a process creates the file.
            while level != "off" and not recorder.status.written:
                await asyncio.sleep(0.001)
            began, loop_began = time.process_time(), time.thread_time()
        metadata = RequestMetadata(dialect="anthropic", headers=HEADERS, request_id=f"req_{number}")
        await Exchange(gateway, RequestPlan(metadata, body), MemoryClient()).run()
    on_loop = time.thread_time() - loop_began
    recorder.close()
    spent = time.process_time() - began
    return spent / len(requests) * 1e6, on_loop / len(requests) * 1e6


def records_report() -> list[str]:
    requests = list_requests()
    costs: dict[str, list[tuple[float, float]]] = {level: [] for level in LEVELS}
    sizes: dict[str, int] = {}
    for _ in range(ROUNDS):
        for level in LEVELS:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "records.db"
                costs[level].append(asyncio.run(_play(level, requests, file)))
                if file.exists():
                    sizes[level] = open_records(file, read_size)[1]
    sent = sum(map(len, requests))
    lines = [f"Records: a session of {TURNS} turns, {sent / 1e6:.1f} MB of requests, CPU per turn"]
    for level in LEVELS:
        pairs = list(zip(costs[level], costs["off"], strict=True))
        spent, on_loop = (median(each[part] for each in costs[level]) for part in (0, 1))
        ratios = [median(own[part] / off[part] for own, off in pairs) - 1 for part in (0, 1)]
        size = f", {sizes[level] / 1000:.0f} KB stored" if level in sizes else ""
        name = f'record = "{level}"'
        lines.append(
            f"  {name:<20} {spent:8.0f} µs {ratios[0]:+7.1%}"
            f"   on the event loop {on_loop:8.0f} µs {ratios[1]:+7.1%}{size}"
        )
    return lines


def records_instructions_report() -> list[str]:
    """Millions of instructions per translated turn, by level: of all threads, and of the event loop."""
    if not shutil.which("valgrind"):
        return ["Records: valgrind is not installed (Debian: apt install valgrind)"]
    counts = {level: _count_per_turn(level) for level in LEVELS}
    lines = ["Records: instructions per translated turn, in millions (valgrind, no sockets)"]
    for level, own in counts.items():
        process, loop = (count / off - 1 for count, off in zip(own, counts["off"], strict=True))
        name = f'record = "{level}"'
        lines.append(
            f"  {name:<20} {own[0] / 1e6:9.2f} {process:+7.1%}"
            f"   on the event loop {own[1] / 1e6:9.2f} {loop:+7.1%}"
        )
    return lines


def _count_per_turn(level: str) -> tuple[float, float]:
    """The instructions of one turn: of all threads, and of the event loop's."""
    runs = [_count_threads(level, turns) for turns in (SHORT, LONG)]
    process, loop = ((long - short) / (LONG - SHORT) for short, long in zip(*runs, strict=True))
    return process, loop


def _count_threads(level: str, turns: int) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counts"
        command = ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={file}"]
        command += [sys.executable, "-m", "bench.records", level, str(turns)]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        subprocess.run(command, capture_output=True, env=environment, check=True)
        # The first thread is the event loop's.
        files = sorted(Path(folder).glob("counts-*"))
        counts = [int(re.findall(r"^totals: (\d+)", each.read_text(), re.MULTILINE)[-1]) for each in files]
    return sum(counts), counts[0]


if __name__ == "__main__":
    level_to_run = next(level for level in LEVELS if level == sys.argv[1])
    asyncio.run(run_turns("translated", int(sys.argv[2]), record=level_to_run))
