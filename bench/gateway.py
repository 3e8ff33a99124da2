"""The running gateway against a bare byte relay on aiohttp: CPU per turn and per event.

Costs are CPU time of the gateway's process, because wall time on a busy machine depends on the machine;
ratios are medians over rounds that take turns.

    python -m bench.gateway
"""

from statistics import median

from bench.gateway_processes import Contender, Setting, cpu, load, memory, say

ROUNDS = 5
#: Name: what is counted, connections, requests.
SCENARIOS = {"turn": ("turn of 300 events", 16, 160), "event": ("event that comes alone", 40, 40)}


def gateway_report(setting: Setting) -> list[str]:
    fresh = memory(setting.translating.process.pid)
    lines = [f"Gateway over HTTP, CPU time (a fresh gateway takes {fresh:.0f} MB)"]
    for name in SCENARIOS:
        lines += _compared(name, setting)
    return lines


def _compared(scenario: str, setting: Setting) -> list[str]:
    contenders = (setting.relay, setting.forwarding, setting.patching, setting.translating)
    costs: dict[str, list[float]] = {each.name: [] for each in contenders}
    for number in range(ROUNDS + 1):
        say(f"{scenario}, round {number} of {ROUNDS}")
        for contender in contenders:
            cost = _cost(scenario, contender, setting)
            if number:
                costs[contender.name].append(cost)
    relay = costs[setting.relay.name]
    unit, _, _ = SCENARIOS[scenario]
    return [
        f"  {f'{name}, per {unit}':<66} {median(costs[name]):9.1f} µs"
        f"  {median(own / base for own, base in zip(costs[name], relay, strict=True)):6.2f}x"
        for name in costs
    ]


def _cost(scenario: str, contender: Contender, setting: Setting) -> float:
    """CPU microseconds per turn, or per event."""
    _, connections, requests = SCENARIOS[scenario]
    before = cpu(contender.process.pid)
    result = load(contender, setting.body(scenario, contender), connections, requests)
    spent = cpu(contender.process.pid) - before
    assert (result.good, result.bad) == (requests, 0), f"{contender.name}: {result}"
    return spent * 1e6 / (result.events if scenario == "event" else requests)
