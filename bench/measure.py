"""CPU time of two or more ways of doing a thing, in interleaved rounds, so that noise hits all alike."""

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

Job = Callable[[], object]


class Result(NamedTuple):
    """Microseconds per unit, and the ratio to the baseline: the median over rounds."""

    micros: float
    ratio: float


def compare(
    baseline: Job, jobs: dict[str, Job], *, units: int, rounds: int = 61, seconds: float = 0.015
) -> dict[str, Result]:
    """Run baseline and jobs in turn, `rounds` times; `units` is how many things one run of a job handles.

    Many short rounds: on a busy machine only what ran within the same moment can be compared.
    """
    repeats = {name: _repeats(job, seconds) for name, job in {"": baseline, **jobs}.items()}
    times: dict[str, list[float]] = {name: [] for name in repeats}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, job in {"": baseline, **jobs}.items():
                times[name].append(_timed(job, repeats[name]))
    finally:
        gc.enable()
    return {
        name: Result(
            median(times[name]) / units * 1e6,
            median(own / base for own, base in zip(times[name], times[""], strict=True)),
        )
        for name in times
    }


def _timed(job: Job, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        job()
    return (time.process_time() - start) / repeats


def _repeats(job: Job, seconds: float) -> int:
    job()
    return max(1, int(seconds / max(_timed(job, 1), 1e-7)))
