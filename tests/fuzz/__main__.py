"""Fuzz the library: `python -m tests.fuzz --count N --seed S`; with `--only N`, run one input and show it."""

import argparse
import shutil
import subprocess
import sys
import time
from collections import Counter

from tests.fuzz.library import Fault, Run, build_run, find_faults, minimise

#: Inputs of a kind that are shown; the rest is only counted.
MAX_SHOWN = 3
PROGRESS_SECONDS = 30.0
MAX_SHOWN_BYTES = 4000


def main() -> int:
    arguments = _read_arguments()
    if arguments.only is not None:
        run = build_run(arguments.seed, arguments.only)
        faults = find_faults(run)
        _show(run, faults)
        return 1 if faults else 0
    commit = _find_commit()
    begun = time.monotonic()
    end = begun + arguments.seconds if arguments.seconds else float("inf")
    shown = begun
    kinds: Counter[str] = Counter()
    inputs: Counter[str] = Counter()
    runs = 0
    for number in range(arguments.first, arguments.first + arguments.count):
        run = build_run(arguments.seed, number)
        faults = find_faults(run)
        runs += 1
        inputs[run.kind] += 1
        for kind in {fault.kind for fault in faults}:
            kinds[kind] += 1
            if kinds[kind] <= MAX_SHOWN:
                _show(minimise(run, kind) if kind != "hang" else run, [f for f in faults if f.kind == kind])
        now = time.monotonic()
        if now - shown >= PROGRESS_SECONDS or now >= end:
            shown = now
            print(f"{runs} runs, {kinds.total()} failures, {runs / (now - begun):.0f} runs/s", flush=True)
            if now >= end:
                break
    _print_table(commit, arguments.seed, arguments.first, runs, inputs, kinds, time.monotonic() - begun)
    return 1 if kinds else 0


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="how many runs (default: 100000)")
    parser.add_argument(
        "--seed", type=int, default=1, help="the same seed gives the same inputs (default: 1)"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first run (default: 0)")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="stop after so many seconds (default: never)"
    )
    parser.add_argument("--only", type=int, help="the number of one run, which is shown")
    return parser.parse_args()


def _show(run: Run, faults: list[Fault]) -> None:
    asked = run.request.body[:80] if run.request else b"none"
    print(f"\n{run.name}: {run.kind}, {run.source} -> {run.target}, {len(run.data)} bytes, request {asked!r}")
    if run.governance is not None:
        print(f"  governance: {run.governance}")
    for fault in faults:
        print(f"  {fault.kind}: {fault.detail}")
    print(f"  input: {run.data[:MAX_SHOWN_BYTES]!r}", flush=True)


def _print_table(
    commit: str, seed: int, first: int, runs: int, inputs: Counter[str], kinds: Counter[str], seconds: float
) -> None:
    rows = [
        ("commit", commit),
        ("seed", str(seed)),
        ("runs", f"{runs} (from {first})"),
        *((f"  {kind}", str(count)) for kind, count in sorted(inputs.items())),
        ("failures", str(kinds.total())),
        *((f"  {kind}", str(count)) for kind, count in sorted(kinds.items())),
        ("seconds", f"{seconds:.0f}"),
    ]
    print()
    for name, value in rows:
        print(f"{name:<22}{value}")


def _find_commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    result = subprocess.run(
        [git, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return result.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
