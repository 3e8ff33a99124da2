"""What a turn executes besides translation and HTTP: bytecode instructions and Python calls, by area.

The turns are those of `bench.instructions`, forwarded, with a log line. They are traced, so the counts do not
depend on the load of the machine.

    python -m bench.overhead
"""

import asyncio
import os
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import dragoman
from bench.instructions import LANES, build_app, run_http
from bench.payloads import grow_session
from dragoman.telemetry.log import set_up_logging

LANE = "forwarded"
#: Turns before the count begins, and turns that count.
WARM, COUNTED = 5, 15

#: Areas by the beginning of a module's path below the package or the standard library; the first one counts.
AREAS = (
    (
        "log line",
        ("logging/", "telemetry/log", "telemetry/short_line.py", "exchange/record.py", "exchange/kind.py"),
    ),
    ("record of the turn", ("records/",)),
    ("metrics", ("telemetry/",)),
    ("HTTP request, access, response", ("server/",)),
    ("accounts", ("accounts/",)),
    ("identity of the client", ("agents/",)),
    ("facts of the provider, healing", ("config/", "providers/", "healing/", "exchange/healer.py")),
    ("routing", ("routing/",)),
    ("exchange", ("exchange/",)),
    ("event loop of the standard library", ("asyncio/",)),
)
REST = "translation, reading of the reply, and others"

_ROOT = str(Path(dragoman.__file__).parent) + "/"
_LIBRARY = str(Path(os.__file__).parent) + "/"


class Counts(NamedTuple):
    """Bytecode instructions and calls, by area."""

    instructions: Counter[str]
    calls: Counter[str]


def find_area(path: str) -> str:
    """The area of a module. `path` is that of its file."""
    module = path.removeprefix(_ROOT).removeprefix(_LIBRARY)
    return next((area for area, prefixes in AREAS if module.startswith(prefixes)), REST)


def overhead_report() -> list[str]:
    """Bytecode instructions and calls per turn."""
    counts = asyncio.run(_count())
    lines = ["Bytecode instructions and calls per forwarded turn with a log line, by area"]
    for area, _ in (*AREAS, (REST, ())):
        lines.append(f"  {area:<50} {_show(counts, area)}")
    overhead = [area for area, _ in AREAS]
    total = Counts(
        Counter({"all": sum(counts.instructions[area] for area in overhead)}),
        Counter({"all": sum(counts.calls[area] for area in overhead)}),
    )
    return [*lines, f"  {'all areas but the last':<50} {_show(total, 'all')}"]


def _show(counts: Counts, area: str) -> str:
    return f"{counts.instructions[area] / COUNTED:9.0f} {counts.calls[area] / COUNTED:7.1f} calls"


async def _count() -> Counts:
    counts = Counts(Counter(), Counter())
    areas: dict[CodeType, str] = {}

    def trace_call(frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if code.co_filename.endswith("bench/instructions.py"):
            return None
        counts.calls[areas.setdefault(code, find_area(code.co_filename))] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return trace_instruction

    def trace_instruction(frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            counts.instructions[areas[frame.f_code]] += 1
        return trace_instruction

    path, model, _ = LANES[LANE]
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as output:
        with redirect_stderr(output):
            set_up_logging("text")
        app = build_app(folder, (), "meta")
        for number, body in enumerate(grow_session(0, model)[: WARM + COUNTED]):
            if number == WARM:
                sys.settrace(trace_call)
            await run_http(app, path, body)
        sys.settrace(None)
        await app.gateway.close()
    return counts


if __name__ == "__main__":
    print("\n".join(overhead_report()))
