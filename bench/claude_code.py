"""What Claude Code's sessions cost a caller in time: the first reply, with and without a process that waits,
and a round of tools in a session that is parked, beside the time that the model itself takes.

Times are medians of wall time on this machine, as a caller on the OpenAI SDK sees them; the model is scripted
and answers at once.
"""

import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from tests.e2e.claude_code import CALCULATE, Caller
from tests.e2e.environment import Environment
from tests.e2e.upstream.script import Turn, Use

FIRSTS = 3
ROUNDS = 9
ASKS = Turn(uses=(Use("calculate", "1 + 1"),))


def claude_code_report() -> list[str]:
    if find_spec("claude_agent_sdk") is None:
        return ["Claude Code: not measured, because the extra dragoman[claude-code] is not installed"]
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder))
        environment.open()
        caller = Caller(environment)
        caller.client = caller.new_client()
        try:
            return _measured(caller)
        finally:
            caller.client.close()
            environment.close()


def _measured(caller: Caller) -> list[str]:
    cold = median(_first(caller, "custom-claude-4-sonnet") for _ in range(FIRSTS))
    _first(caller, "prepared")
    warm = median(_first(caller, "prepared", settled=True) for _ in range(FIRSTS))
    rounds, spawned = _rounds(caller)
    return [
        "Claude Code behind the gateway, wall time of a whole request with a model that answers at once",
        f"  first reply, process started for it   {cold * 1000:7.0f} ms",
        f"  first reply, process that waited      {warm * 1000:7.0f} ms",
        f"  round of tools in a parked session    {rounds * 1000:7.0f} ms, {spawned} new processes",
    ]


def _first(caller: Caller, model: str, *, settled: bool = False) -> float:
    talk = caller.talk([Turn(text="Hello.")], model=model)
    if settled:
        # The next process is started while the last one answers; a caller rarely comes sooner than this.
        caller.environment.wait(2.0)
    return _timed(lambda: talk.say("hello", tools=[CALCULATE]))


def _rounds(caller: Caller) -> tuple[float, int]:
    talk = caller.talk([ASKS] * (ROUNDS + 1))
    reply = talk.say("go on", tools=[CALCULATE])
    spawned = caller.counts()["spawned"]
    times = []
    for _ in range(ROUNDS):
        talk.result(reply.calls[0], "2")
        start = time.perf_counter()
        reply = talk.send()
        times.append(time.perf_counter() - start)
    return median(times), caller.counts()["spawned"] - spawned


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    print("\n".join(claude_code_report()))
