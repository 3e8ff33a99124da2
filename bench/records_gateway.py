"""What recording costs over HTTP: three gateways before one mock, each with another level of `record`.

Sessions of an agent whose history grows. CPU time of the gateway's process, and of its event loop's thread
alone, for which clients wait.
"""

import http.client
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.gateway_processes import say, start_gateway, start_program
from bench.payloads import grow_session

ROUNDS = 5
LEVELS = ("off", "meta", "bodies")
#: Name: chunks of a reply, milliseconds between them, sessions at the same time, turns of each.
SCENARIOS = {
    "300 events without pauses": (300, 0, 1, 40),
    "300 events that come alone": (300, 3, 8, 6),
}

CONFIG = """
default = "up"

[server]
log = "json"
state = "{state}"

[records]
record = "{level}"

[providers.up]
dialect = "openai_chat"
base_url = "http://127.0.0.1:{port}/v1"
"""


class Cost(NamedTuple):
    """CPU microseconds per turn: of the process, and of the event loop's thread."""

    process: float
    event_loop: float


def records_gateway_report() -> list[str]:
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            _, mock = start_program(started, "bench.gateway_mock")
            gateways = {level: _start(started, folder, level, mock) for level in LEVELS}
            return [line for scenario in SCENARIOS for line in _compare(scenario, gateways)]
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(20)


def _start(
    started: list[subprocess.Popen[bytes]], folder: Path, level: str, mock: int
) -> tuple[subprocess.Popen[bytes], int]:
    own = folder / level
    own.mkdir()
    (own / "dragoman.toml").write_text(CONFIG.format(state=own / "state", level=level, port=mock))
    return start_gateway(started, own)


def _compare(scenario: str, gateways: dict[str, tuple[subprocess.Popen[bytes], int]]) -> list[str]:
    costs: dict[str, list[Cost]] = {level: [] for level in LEVELS}
    for number in range(ROUNDS + 1):
        say(f"records, {scenario}, round {number} of {ROUNDS}")
        # Each level is first once, so that none has the better place.
        for level in LEVELS[number % 3 :] + LEVELS[: number % 3]:
            process, port = gateways[level]
            before = _read_cpu(process.pid)
            turns = _play(port, scenario, number)
            after = _read_cpu(process.pid)
            if number:
                differences = [now - then for now, then in zip(after, before, strict=True)]
                costs[level].append(Cost(*(each / turns / 1000 for each in differences)))
    lines = [f"Records over HTTP: a translated session, {scenario}, CPU per turn"]
    for level in LEVELS:
        pairs = list(zip(costs[level], costs["off"], strict=True))
        spent, on_loop = (median(each[part] for each in costs[level]) for part in (0, 1))
        ratios = [median(own[part] / off[part] for own, off in pairs) - 1 for part in (0, 1)]
        name = f'record = "{level}"'
        lines.append(
            f"  {name:<20} {spent:8.0f} µs {ratios[0]:+7.1%}"
            f"   on the event loop {on_loop:8.0f} µs {ratios[1]:+7.1%}"
        )
    return lines


def _play(port: int, scenario: str, number: int) -> int:
    """Play some sessions. Returns the number of turns."""
    chunks, pause, sessions, turns = SCENARIOS[scenario]
    model = f"mock-c{chunks}-d{pause}"

    def play_session(session: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {
            "content-type": "application/json",
            "user-agent": "claude-cli/2.1.0",
            "x-claude-code-session-id": f"{model}-{session}",
        }
        for body in grow_session(session, model, turns):
            connection.request("POST", "/v1/messages", body, headers)
            assert b"message_stop" in connection.getresponse().read()[-200:]
        connection.close()

    with ThreadPoolExecutor(sessions) as pool:
        list(pool.map(play_session, range(number * sessions, (number + 1) * sessions)))
    return sessions * turns


def _read_cpu(process: int) -> tuple[int, int]:
    """Nanoseconds of CPU time of all threads, and of the main thread. Linux only."""
    tasks = Path(f"/proc/{process}/task")
    spent = {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()}
    return sum(spent.values()), spent[str(process)]
