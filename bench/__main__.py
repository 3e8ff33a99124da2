"""Run with `make bench`: prints every measurement as a ratio within this run.

python -m bench [core | governed | repair | records | rules | claude_code | instructions | requests |
    replies | loop | state | workers | clients | gateway | opening | endurance]...
"""

import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import repair
from bench.claude_code import claude_code_report
from bench.clients import clients_report
from bench.core import request_report, stream_report
from bench.gateway import gateway_report
from bench.gateway_endurance import held_report, soak_report
from bench.gateway_opening import opening_report
from bench.gateway_processes import everything
from bench.governed import governed_report
from bench.instructions import instructions_report
from bench.loop import loop_report
from bench.records import records_instructions_report, records_report
from bench.records_gateway import records_gateway_report
from bench.replies import replies_report
from bench.requests import requests_report
from bench.rules import rules_report
from bench.state import state_report
from bench.workers import workers_report

ALONE = {
    "core": (stream_report, request_report),
    "governed": (governed_report,),
    "repair": (repair.report,),
    "records": (records_report, records_gateway_report, records_instructions_report),
    "rules": (rules_report,),
    "claude_code": (claude_code_report,),
    "instructions": (instructions_report,),
    "requests": (requests_report,),
    "replies": (replies_report,),
    "loop": (loop_report,),
    "state": (state_report,),
    "workers": (workers_report,),
}
RUNNING = {
    "clients": (clients_report,),
    "gateway": (gateway_report,),
    "opening": (opening_report,),
    "endurance": (soak_report, held_report),
}


def reports(wanted: set[str]) -> Iterator[list[str]]:
    for name, measures in ALONE.items():
        if name in wanted or not wanted:
            for report in measures:
                yield report()
    running = [name for name in RUNNING if name in wanted or not wanted]
    if running:
        with tempfile.TemporaryDirectory() as folder, everything(Path(folder)) as setting:
            for name in running:
                for measure in RUNNING[name]:
                    yield measure(setting)


def main(wanted: set[str]) -> None:
    unknown = wanted - ALONE.keys() - RUNNING.keys()
    if unknown:
        sys.exit(
            f"error: no benchmark {', '.join(sorted(unknown))}; there are {', '.join([*ALONE, *RUNNING])}"
        )
    # Every stream takes two sockets of the gateway's, and the usual limit is made for less.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for lines in reports(wanted):
        print("\n".join(lines), end="\n\n", flush=True)


main(set(sys.argv[1:]))
