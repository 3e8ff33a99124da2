"""Run with `make bench`: prints every measurement as a ratio within this run."""

from bench.claude_code import claude_code_report
from bench.core import request_report, stream_report
from bench.gateway import gateway_report


def main() -> None:
    for report in (stream_report, request_report, gateway_report, claude_code_report):
        print("\n".join(report()), end="\n\n")


main()
