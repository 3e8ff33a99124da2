"""Our own upstream client against aiohttp's: CPU of one process that asks a mock and reads the answers.

Both ask for the same streams, read pieces as they come and do nothing with them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

import uvicorn
from aiohttp import ClientSession, ClientTimeout, TCPConnector

from bench.gateway_processes import Setting, say
from dragoman.config.provider import Provider
from dragoman.upstream.http.upstream import HttpUpstream
from dragoman.upstream.port import PushReply, UpstreamRequest

ROUNDS = 7
#: Name: what is counted, streams at once, streams in all.
SCENARIOS = {"turn": ("turn of 300 events", 16, 160), "event": ("event that comes alone", 40, 40)}

Ask = Callable[[bytes], Awaitable[int]]


def clients_report(setting: Setting) -> list[str]:
    factory = uvicorn.Config("", log_config=None).get_loop_factory()
    lines = ["Upstream client alone, CPU time"]
    for scenario, (unit, _, _) in SCENARIOS.items():
        say(f"clients, {scenario}")
        body = setting.body(scenario, setting.relay).read_bytes()
        with asyncio.Runner(loop_factory=factory) as runner:
            costs = runner.run(_costs(setting.mock, scenario, body))
        for name, each in costs.items():
            ratio = median(own / base for own, base in zip(each, costs["aiohttp"], strict=True))
            lines.append(f"  {f'{name}, per {unit}':<66} {median(each):9.1f} µs  {ratio:6.2f}x")
    return lines


async def _costs(port: int, scenario: str, body: bytes) -> dict[str, list[float]]:
    """CPU microseconds per turn or per event, by client, for each round."""
    costs: dict[str, list[float]] = {"aiohttp": [], "our own": []}
    connector = TCPConnector(limit=0)
    async with ClientSession(connector=connector, timeout=ClientTimeout(total=None)) as session:
        asks = {"aiohttp": _aiohttp(session, port), "our own": _own(port)}
        for number in range(ROUNDS + 1):
            for name, ask in asks.items():
                cost = await _cost(ask, scenario, body)
                if number:
                    costs[name].append(cost)
    return costs


async def _cost(ask: Ask, scenario: str, body: bytes) -> float:
    _, at_once, total = SCENARIOS[scenario]
    events = 0

    async def keep_asking() -> None:
        nonlocal events
        for _ in range(total // at_once):
            received = await ask(body)
            events += received

    start = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(keep_asking())
    spent = time.process_time() - start
    return spent * 1e6 / (events if scenario == "event" else total)


def _aiohttp(session: ClientSession, port: int) -> Ask:
    async def ask(body: bytes) -> int:
        events = 0
        headers = {"content-type": "application/json"}
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        async with session.post(url, data=body, headers=headers) as answer:
            while piece := await answer.content.readany():
                events += piece.count(b"\n\n")
        return events

    return ask


def _own(port: int) -> Ask:
    url = f"http://127.0.0.1:{port}/v1"
    upstream = HttpUpstream(Provider(name="mock", dialect="openai_chat", base_url=url))

    async def ask(body: bytes) -> int:
        events = 0

        def sink(piece: bytes) -> bool:
            nonlocal events
            events += piece.count(b"\n\n")
            return True

        answer = await upstream.send(UpstreamRequest(body=body, model="mock", stream=True))
        assert isinstance(answer, PushReply)
        await answer.push_to(sink)
        return events

    return ask
