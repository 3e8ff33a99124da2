"""What a second worker adds: `dragoman serve --workers 2` against one, by processor time.

On a busy machine the requests per second depend on the machine, and the load needs a part of it. So the
capacity is counted from the processor time of the workers alone: the requests per second that they can answer
with a core for each. The busiest worker's share shows how evenly the system divides the connections.

    python -m bench workers
"""

import subprocess
import tempfile
from pathlib import Path
from statistics import median

from bench.gateway_processes import (
    CONFIG,
    Contender,
    cpu,
    load,
    say,
    start_gateway,
    start_program,
    write_bodies,
)

ROUNDS = 5
CONNECTIONS = 128
REQUESTS = 1500
BODY = "short"
#: How much two workers can answer, compared with one.
GOAL = 1.8


def list_workers(supervisor: int) -> list[int]:
    """The processes that serve: the children of a supervisor, or the process itself."""
    children = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == supervisor:
                children.append(int(entry.name))
    return children or [supervisor]


def measure(contender: Contender, folder: Path) -> tuple[float, float]:
    """The requests per second of all workers, and the busiest worker's share of the processor time."""
    workers = list_workers(contender.process.pid)
    before = {each: cpu(each) for each in workers}
    result = load(contender, folder / f"{BODY}-anthropic", CONNECTIONS, REQUESTS)
    assert (result.good, result.bad) == (REQUESTS, 0), result
    spent = [cpu(each) - before[each] for each in workers]
    return REQUESTS * len(workers) / sum(spent), max(spent) / sum(spent)


def workers_report() -> list[str]:
    """The capacity of one and of two workers, and whether the goal is met."""
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_bodies(folder)
        try:
            _, port = start_program(started, "bench.gateway_mock")
            (folder / "dragoman.toml").write_text(CONFIG.format(state=folder, port=port, routes="", more=""))
            contenders = [
                Contender(
                    f"{count} workers",
                    "/v1/messages",
                    "anthropic",
                    *start_gateway(started, folder, "--workers", str(count)),
                )
                for count in (1, 2)
            ]
            capacities: dict[str, list[float]] = {each.name: [] for each in contenders}
            shares: dict[str, list[float]] = {each.name: [] for each in contenders}
            for number in range(ROUNDS + 1):
                say(f"workers: round {number} of {ROUNDS}")
                for contender in contenders:
                    capacity, share = measure(contender, folder)
                    if number:
                        capacities[contender.name].append(capacity)
                        shares[contender.name].append(share)
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(20)
    one, two = capacities.values()
    ratio = median(late / early for early, late in zip(one, two, strict=True))
    lines = ["Workers, requests per second by their processor time alone, with a core for each"]
    for label, values in capacities.items():
        share = median(shares[label])
        lines.append(
            f"  {label:<12}{median(values):>7.0f}   the busiest has {share:.0%} of the processor time"
        )
    verdict = "met" if ratio >= GOAL else "missed"
    return [*lines, f"  goal: two answer {GOAL} times as much as one: {ratio:.2f}, {verdict}"]
