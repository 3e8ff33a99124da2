"""Machine instructions of one translated reply, by direction, counted by valgrind.

A streamed turn of 300 events, text and two calls, of each API to clients of each other API, through
`StreamTranslator`: in reads of 16 KB, as from a server without pauses, and each event in a read of its own.
`python -m bench replies` prints all directions.
"""

import shutil
import sys
from collections.abc import Callable

import msgspec

from bench.instructions import READ, count_per_turn
from bench.payloads import agent_request, anthropic_stream, chat_stream, gemini_stream, responses_stream
from dragoman import StreamTranslator, translate_request

STREAMS: dict[str, Callable[[], list[bytes]]] = {
    "anthropic": anthropic_stream,
    "openai_chat": chat_stream,
    "openai_responses": responses_stream,
    "gemini": gemini_stream,
}
#: Replies of the short and of the long run.
SHORT, LONG = 3, 9


def run_replies(lane: str, number: int) -> None:
    """Translate the reply so many times. `lane`: both dialects and `joined` or `single`, joined by colons."""
    source, target, reads = lane.split(":")
    body = agent_request(10_000, 2)
    if target != "anthropic":
        body = msgspec.json.encode(translate_request(body, source="anthropic", target=target).body)
    events = STREAMS[source]()
    if reads == "joined":
        whole = b"".join(events)
        events = [whole[at : at + READ] for at in range(0, len(whole), READ)]
    for _ in range(number):
        translator = StreamTranslator(source=source, target=target, request=body, model="model")
        written = sum([len(translator.feed(event)) for event in events]) + len(translator.close())
        assert written > 10_000, f"{written} bytes: not a whole reply"


def replies_report() -> list[str]:
    """Millions of instructions per reply, by direction."""
    if not shutil.which("valgrind"):
        return ["Instructions per reply: valgrind is not installed (Debian: apt install valgrind)"]
    title = "Instructions per translated reply of 300 events, in millions (valgrind)"
    lines = [f"{title:<72} {'16 KB':>9} {'single':>9}"]
    for source in STREAMS:
        for target in STREAMS:
            if target == source:
                continue
            joined, single = (
                count_per_turn("bench.replies", f"{source}:{target}:{reads}", short=SHORT, long=LONG) / 1e6
                for reads in ("joined", "single")
            )
            lines.append(f"  {f'{source} to {target}':<70} {joined:9.2f} {single:9.2f}")
    return lines


if __name__ == "__main__":
    run_replies(sys.argv[1], int(sys.argv[2]))
