"""How long a first word takes while many streams begin: an open loop, beside a byte relay in the same run.

python -m bench opening
RATE=100 SECONDS=5 python -m bench opening
"""

import os
import subprocess
import sys

import msgspec

from bench.gateway_processes import Contender, Setting, cpu, say

RATE = 200
SECONDS = 10
ROUNDS = 3
#: Milliseconds (p99).
GOAL = 50.0


class Opening(msgspec.Struct):
    """What the load generator reports."""

    whole: int
    broken: int
    #: Milliseconds to the first word: p50, p90, p99 and the longest.
    first_ms: tuple[float, float, float, float]
    #: How late requests started (p99): the load generator had no processor.
    late_ms: float


def opening_report(setting: Setting) -> list[str]:
    """The first word of each contender, in rounds that take turns. The round with the best p99 is shown."""
    rate, seconds = float(os.environ.get("RATE", RATE)), float(os.environ.get("SECONDS", SECONDS))
    mock = setting.relay._replace(name="the upstream itself", port=setting.mock)
    contenders = (mock, setting.relay, setting.forwarding, setting.patching, setting.translating)
    found: dict[str, list[tuple[Opening, float]]] = {each.name: [] for each in contenders}
    for number in range(ROUNDS):
        for contender in contenders:
            say(f"{rate:g} new streams a second, {contender.name}, round {number + 1} of {ROUNDS}")
            found[contender.name].append(_measure(contender, setting, rate, seconds))
    lines = [
        f"First word in milliseconds, {rate:g} new streams a second for {seconds:g} s, growing sessions"
        f" (best of {ROUNDS} rounds; p99 of all rounds)",
        f"  {'':<34} {'p50':>7} {'p90':>7} {'p99':>7} {'longest':>8} {'late':>6} {'CPU':>6} {'broken':>7}",
    ]
    for name, rounds in found.items():
        best, busy = min(rounds, key=lambda each: each[0].first_ms[2])
        numbers = (
            f"{best.first_ms[0]:7.1f} {best.first_ms[1]:7.1f} {best.first_ms[2]:7.1f} {best.first_ms[3]:8.1f}"
        )
        spread = ", ".join(f"{each.first_ms[2]:.0f}" for each, _ in rounds)
        broken = sum(each.broken for each, _ in rounds)
        lines.append(f"  {name:<34} {numbers} {best.late_ms:6.1f} {busy:5.0%} {broken:7}   ({spread})")
    best_of = min(each.first_ms[2] for each, _ in found[setting.translating.name])
    verdict = "met" if best_of <= GOAL else "MISSED"
    lines.append(f"  goal for the gateway that translates: p99 of {GOAL:g} ms: {verdict}")
    lines.append("  late: by how much the load itself was late (p99). CPU: the share of one core")
    return lines


def _measure(contender: Contender, setting: Setting, rate: float, seconds: float) -> tuple[Opening, float]:
    """One round, and the share of a core that the contender used."""
    command = [sys.executable, "-m", "bench.gateway_arrivals", str(contender.port), contender.path]
    options = [str(setting.body("opening", contender)), "--rate", str(rate), "--seconds", str(seconds)]
    before = cpu(contender.process.pid)
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Opening), (cpu(contender.process.pid) - before) / seconds
