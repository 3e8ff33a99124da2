"""Whether a gateway endures: a thousand slow streams at once, and many thousand requests on end.

Memory must stay what it is, and nothing may be left behind by clients who hang up in the middle.

    SOAK=2000 python -m bench
"""

import os
import time

from bench.gateway_processes import (
    PATIENCE,
    Setting,
    memory,
    open_exchanges,
    open_files,
    open_upstream,
    result_of,
    say,
    start_load,
)

HELD = 1_000
SOAK = 50_000
BUSY = 16
#: Turns of the sessions of a soak. Each has a conversation of its own, which grows.
TURNS = 20
#: Of so many clients one hangs up in the middle of its reply.
LEAVING = 50
#: Megabytes that a soak may add to what is in memory after its first tenth, and still be called flat.
FLAT = 8.0
KILOBYTES_GOAL = 130


def held_report(setting: Setting) -> list[str]:
    """A thousand slow streams, open at once."""
    contender = setting.translating
    idle = memory(contender.process.pid)
    load = start_load(contender, setting.body("held", contender), HELD, HELD, "--ramp", "5")
    say(f"opening {HELD} slow streams")
    deadline = time.monotonic() + 30
    while open_exchanges(contender) < HELD and time.monotonic() < deadline:
        time.sleep(0.5)
    most = open_exchanges(contender)
    held = memory(contender.process.pid)
    say(f"{most} streams open, {held:.0f} MB")
    result = result_of(load)
    kilobytes = (held - idle) * 1024 / HELD
    verdict = "met" if kilobytes <= KILOBYTES_GOAL else "MISSED"
    return [
        f"{HELD} slow streams: {most} open at once, {result.good} whole, {result.bad} broken; "
        f"first word after {result.first_ms[0]:.1f} ms (p50), {result.first_ms[1]:.1f} ms (p99)",
        f"  idle {idle:.0f} MB, held {held:.0f} MB, {kilobytes:.0f} KB per stream"
        f"   goal {KILOBYTES_GOAL} KB: {verdict}",
    ]


def soak_report(setting: Setting) -> list[str]:
    """Many turns on end: memory stays flat and no connection is left behind.

    What idles in the gateway's pool is not left behind; it is as many as were busy at once.
    """
    contender, requests = setting.soaking, int(os.environ.get("SOAK", SOAK))
    samples: list[float] = []
    before = open_upstream(setting.mock)

    def note(done: int) -> None:
        samples.append(memory(contender.process.pid))
        say(f"{done} of {requests} requests, {samples[-1]:.1f} MB")

    leaving = ["--leaving", str(setting.body("left", contender)), "--every", str(LEAVING)]
    options = ["--tell", str(max(1, requests // 10)), "--turns", str(TURNS)]
    options += ["--seconds", str(max(PATIENCE, requests // 25))]
    body = setting.body("short", contender)
    result = result_of(start_load(contender, body, BUSY, requests, *leaving, *options), note)
    deadline = time.monotonic() + 10
    while open_exchanges(contender) and time.monotonic() < deadline:
        time.sleep(0.2)
    exchanges, upstream = open_exchanges(contender), open_upstream(setting.mock)
    answered = result.good + result.left
    rise = samples[-1] - samples[0] if samples else 0.0
    is_flat = rise <= FLAT and not exchanges and upstream <= before + BUSY and answered == requests
    return [
        f"{requests} requests on end: {result.good} whole, {result.left} left by their clients, "
        f"{result.bad} broken, {answered / result.seconds:.0f} a second: {'flat' if is_flat else 'NOT FLAT'}",
        f"  memory after each tenth: {' '.join(f'{each:.1f}' for each in samples)} MB",
        f"  left behind: {exchanges} exchanges; {open_files(contender.process.pid)} files open, "
        f"idle connections to the upstream {before} before, {upstream} after",
    ]
