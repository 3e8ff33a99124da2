"""The running gateway against a bare byte relay on aiohttp: CPU per turn and per event, memory, endurance.

Everything runs on loopback as programs of its own. Costs are CPU time of the gateway's process, because wall
time on a busy machine says more about the machine; ratios are medians over rounds that take turns.

    python -m bench.gateway [--soak REQUESTS]
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

import msgspec

from bench.payloads import agent_request, text_of

ROUNDS = 3
#: Name: the chunks of a reply, milliseconds between them, connections, requests.
SCENARIOS = {"turn": (300, 0, 16, 160), "event": (150, 10, 40, 40)}
HELD = 1_000
SOAK = 2_000

CONFIG = """
default = "up"

[server]
log = "json"

[providers.up]
dialect = "openai_chat"
base_url = "http://127.0.0.1:{port}/v1"
"""


class Contender(NamedTuple):
    name: str
    path: str
    body: str
    process: subprocess.Popen[bytes]
    port: int


class Result(msgspec.Struct):
    """What the load generator tells."""

    good: int
    bad: int
    events: int
    #: Milliseconds to the first word: p50 and p99.
    first_ms: tuple[float, float]
    seconds: float


def gateway_report(soak: int = 0) -> list[str]:
    """All measurements, as lines."""
    soak = soak or int(os.environ.get("SOAK", SOAK))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder, _contenders(Path(folder)) as (contenders, mock):
        translating = contenders[-1]
        fresh = _memory(translating.process.pid)
        lines = [f"Gateway over HTTP, CPU time (a fresh gateway takes {fresh:.0f} MB)"]
        for name in SCENARIOS:
            lines += _compared(name, contenders, Path(folder))
        lines += _soaked(translating, Path(folder), soak, mock)
        lines += _held(translating, Path(folder))
    return lines


def _compared(scenario: str, contenders: list[Contender], folder: Path) -> list[str]:
    costs: dict[str, list[float]] = {each.name: [] for each in contenders}
    for number in range(ROUNDS + 1):
        for contender in contenders:
            cost = _cost(scenario, contender, folder)
            if number:
                costs[contender.name].append(cost)
    relay = costs[contenders[0].name]
    unit = "turn of 300 events" if scenario == "turn" else "event that comes alone"
    return [
        f"  {f'{name}, per {unit}':<66} {median(costs[name]):9.1f} µs"
        f"  {median(own / base for own, base in zip(costs[name], relay, strict=True)):6.2f}x"
        for name in costs
    ]


def _cost(scenario: str, contender: Contender, folder: Path) -> float:
    """CPU microseconds per turn, or per event."""
    _, _, connections, requests = SCENARIOS[scenario]
    before = _cpu(contender.process.pid)
    result = _load(contender, folder / f"{scenario}-{contender.body}", connections, requests)
    spent = _cpu(contender.process.pid) - before
    assert (result.good, result.bad) == (requests, 0), f"{contender.name}: {result}"
    return spent * 1e6 / (result.events if scenario == "event" else requests)


def _held(contender: Contender, folder: Path) -> list[str]:
    """A thousand slow streams, open at once."""
    idle = _memory(contender.process.pid)
    load = _start_load(contender, folder / f"held-{contender.body}", HELD, HELD, "--ramp", "5")
    time.sleep(10)
    held = _memory(contender.process.pid)
    result = _result(load)
    kilobytes = (held - idle) * 1024 / HELD
    first, last = result.first_ms
    return [
        f"{HELD} slow streams at once: {result.good} whole, {result.bad} broken; "
        f"first word after {first:.1f} ms (p50), {last:.1f} ms (p99)",
        f"  idle {idle:.0f} MB, held {held:.0f} MB, {kilobytes:.0f} KB per stream",
    ]


def _soaked(contender: Contender, folder: Path, requests: int, mock: int) -> list[str]:
    """Many turns, one after another: memory stays flat and no connection is left behind.

    What idles in the gateway's pool is not left behind; it is as many as were busy at once.
    """
    body = folder / f"turn-{contender.body}"
    _load(contender, body, 16, max(200, requests // 5))
    start, files = _memory(contender.process.pid), _open_files(contender.process.pid)
    result = _load(contender, body, 16, requests)
    end, left = _memory(contender.process.pid), _open_files(contender.process.pid)
    open_upstream = msgspec.json.decode(urlopen(f"http://127.0.0.1:{mock}/stats").read())["open"]
    health = msgspec.json.decode(urlopen(f"http://127.0.0.1:{contender.port}/health").read())
    verdict = "flat" if end - start < max(8.0, start * 0.1) and left <= files + 2 else "NOT FLAT"
    return [
        f"{requests} turns on end: {result.good} whole, {result.bad} broken, "
        f"{requests / result.seconds:.0f} a second: {verdict}",
        f"  memory {start:.1f} MB before, {end:.1f} MB after; open files {files} before, {left} after; "
        f"{health['open_exchanges']} exchanges and {open_upstream - 1} upstream connections open",
    ]


@contextmanager
def _contenders(folder: Path) -> Iterator[tuple[list[Contender], int]]:
    """The relay, the gateway that forwards and the gateway that translates, all before one mock."""
    _write_bodies(folder)
    started: list[subprocess.Popen[bytes]] = []
    try:
        _, port = _program(started, "bench.gateway_mock")
        relay, relay_port = _program(started, "bench.gateway_relay", f"http://127.0.0.1:{port}")
        (folder / "dragoman.toml").write_text(CONFIG.format(port=port))
        chat, messages = "/v1/chat/completions", "/v1/messages"
        contenders = [Contender("aiohttp byte relay", chat, "chat", relay, relay_port)]
        for name, path, body in (("forwarding", chat, "chat"), ("translating", messages, "anthropic")):
            gateway, gateway_port = _gateway(started, folder)
            contenders.append(Contender(f"dragoman, {name}", path, body, gateway, gateway_port))
        yield contenders, port
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(20)


def _program(started: list[subprocess.Popen[bytes]], *module: str) -> tuple[subprocess.Popen[bytes], int]:
    """A program that prints the port it listens on."""
    process = subprocess.Popen([sys.executable, "-m", *module], stdout=subprocess.PIPE)
    started.append(process)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def _gateway(started: list[subprocess.Popen[bytes]], folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    command = [
        sys.executable,
        "-m",
        "dragoman",
        "serve",
        "--config",
        str(folder / "dragoman.toml"),
        "--port",
        "0",
    ]
    log = folder / f"gateway-{len(started)}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output)
    started.append(process)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        told = re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())
        if told:
            return process, int(told[1])
        time.sleep(0.05)
    raise TimeoutError("the gateway did not say where it listens")


def _write_bodies(folder: Path) -> None:
    """The same agent's question in both dialects, for each script of the mock."""
    scripts = {name: f"mock-c{chunks}-d{pause}" for name, (chunks, pause, _, _) in SCENARIOS.items()}
    scripts["held"] = "mock-c40-d400"
    question = msgspec.json.decode(agent_request(75_000))
    chat = {"stream": True, "messages": [{"role": "user", "content": text_of(75_000)}]}
    for name, model in scripts.items():
        (folder / f"{name}-anthropic").write_bytes(msgspec.json.encode({**question, "model": model}))
        (folder / f"{name}-chat").write_bytes(msgspec.json.encode({**chat, "model": model}))


def _start_load(
    contender: Contender, body: Path, connections: int, requests: int, *more: str
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.gateway_load", str(contender.port), contender.path, str(body)]
    options = ["--connections", str(connections), "--requests", str(requests), *more]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE)


def _result(load: subprocess.Popen[bytes]) -> Result:
    told, _ = load.communicate(timeout=3600)
    return msgspec.json.decode(told, type=Result)


def _load(contender: Contender, body: Path, connections: int, requests: int) -> Result:
    return _result(_start_load(contender, body, connections, requests))


def _cpu(pid: int) -> float:
    """Seconds of CPU time that a process has used."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    seconds = 0.0
    for part in _shown_by_ps("time", pid).split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


def _memory(pid: int) -> float:
    """Megabytes that a process has in memory."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmRSS:\s*(\d+)", status.read_text()) if status.exists() else None
    return int(found[1] if found else _shown_by_ps("rss", pid)) / 1024


def _shown_by_ps(field: str, pid: int) -> str:
    ps = shutil.which("ps")
    assert ps, "there is neither /proc nor ps"
    command = [ps, "-o", f"{field}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def _open_files(pid: int) -> int:
    folder = Path(f"/proc/{pid}/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--soak", type=int, default=0, metavar="REQUESTS", help="50000 for a long one")
    print("\n".join(gateway_report(parser.parse_args().soak)))
