"""Machine instructions of one translated request, by direction, counted by valgrind.

An agent's request of 100 KB with 24 tools, through `translate_request` and the encoding of its result,
without reuse of history. `python -m bench requests` prints all directions.
"""

import shutil
import sys

import msgspec

from bench.instructions import count_per_turn
from bench.payloads import agent_request
from dragoman import translate_request

DIRECTIONS = (
    ("anthropic", "openai_chat"),
    ("anthropic", "openai_responses"),
    ("anthropic", "gemini"),
    ("anthropic", "anthropic"),
    ("openai_chat", "anthropic"),
    ("openai_responses", "openai_chat"),
    ("gemini", "openai_chat"),
)


def run_requests(direction: str, number: int) -> None:
    """Translate the request so many times. `direction`: both dialects, with a colon between them."""
    source, _, target = direction.partition(":")
    body = agent_request()
    if source != "anthropic":
        body = msgspec.json.encode(translate_request(body, source="anthropic", target=source).body)
    model = "model" if source == "gemini" else ""
    for _ in range(number):
        msgspec.json.encode(translate_request(body, source=source, target=target, model=model).body)


def requests_report() -> list[str]:
    """Millions of instructions per request, by direction."""
    if not shutil.which("valgrind"):
        return ["Instructions per request: valgrind is not installed (Debian: apt install valgrind)"]
    lines = ["Instructions per translated request of 100 KB, in millions (valgrind)"]
    for source, target in DIRECTIONS:
        millions = count_per_turn("bench.requests", f"{source}:{target}") / 1e6
        lines.append(f"  {f'{source} to {target}':<52} {millions:9.2f}")
    return lines


if __name__ == "__main__":
    run_requests(sys.argv[1], int(sys.argv[2]))
