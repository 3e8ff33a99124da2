"""Repair of tool arguments: how fast it goes on what models write, and that nothing makes it slow."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from bench.measure import compare
from dragoman.governance.repair import repair
from dragoman.server.run import GC_THRESHOLDS

SIZE = 1_000_000
HOSTILE_GOAL = 1.0

CODE = (
    'def greet(name):\n\tprint(f"Hello, {name}!")  # it\'s a greeting\n\treturn {"name": name, "ok": True}\n'
)

#: What goes wrong with a call that writes a file, by how its text is damaged.
SLIPS: dict[str, Callable[[str], str]] = {
    "valid": lambda text: text,
    "fence": lambda text: f"```json\n{text}\n```",
    "comma at the end": lambda text: text[:-1] + ",}",
    "raw line breaks": lambda text: text.replace("\\n", "\n").replace("\\t", "\t"),
    "encoded as a string": lambda text: msgspec.json.encode(text).decode(),
    "bracket missing": lambda text: text[:-1],
    "invalid escapes": lambda text: text.replace("\\t", "\\d"),
    "single quotes": lambda text: repr(msgspec.json.decode(text)),
    "quotes inside": lambda text: text.replace("\\n", " ").replace('\\"', '"', 2),
}

BEGINNINGS = ("", "{", '{"a":"', "{'a':'", '{"a":[', '"')
UNITS = (
    *"\"'\\[{]},:a\n",
    *("\\\\", '\\"', "\\u", '""', '"""', "//\n", "/*", "</s>", "{}", '{"a":', '{"a":1},', "1,", "[[1]],"),
    *('"a" ', 'x"y', '", "a": ', '"}', "a:1\n", "'a':1,", "True,"),
)


def report() -> list[str]:
    with _collecting_as_the_server():
        return [*_slips(), "", *_hostile()]


@contextmanager
def _collecting_as_the_server() -> Iterator[None]:
    """Garbage is looked for as often as in a gateway, and not among what a benchmark has lying about."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _slips() -> list[str]:
    arguments = {"path": "src/greet.py", "content": CODE * 1000}
    text = msgspec.json.encode(arguments).decode()
    jobs = {name: _job(slip(text)) for name, slip in SLIPS.items()}
    results = compare(lambda: msgspec.json.decode(text), jobs, units=1, rounds=3)
    lines = [f"Repair of a call that writes {len(text) // 1000} KB"]
    for name, result in results.items():
        if name:
            lines.append(
                f"  {name:<32} {len(text) / result.micros:9.1f} MB/s  {result.ratio:7.2f}x decoding it"
            )
    return lines


def _job(text: str) -> Callable[[], object]:
    return lambda: repair(text)


def _hostile() -> list[str]:
    timed = sorted(
        (
            (_seconds(_hostile_text(beginning, unit)), beginning, unit)
            for unit in UNITS
            for beginning in BEGINNINGS
        ),
        reverse=True,
    )
    # A busy machine slows single runs down; what is slow by itself is slow each time.
    slowest = sorted(
        (
            (min(seconds, *(_seconds(_hostile_text(beginning, unit)) for _ in range(2))), beginning, unit)
            for seconds, beginning, unit in timed[:8]
        ),
        reverse=True,
    )
    verdict = "met" if slowest[0][0] <= HOSTILE_GOAL else "MISSED"
    lines = [f"Repair of 1 MB of hostile text, {len(timed)} cases, the slowest of them"]
    lines += [
        f"  {f'{beginning!r} + {unit!r} ...':<52} {seconds:6.3f} s" for seconds, beginning, unit in slowest
    ]
    return [*lines, f"  goal {HOSTILE_GOAL:g} s each: {verdict}"]


def _hostile_text(beginning: str, unit: str) -> str:
    return beginning + unit * (SIZE // len(unit))


def _seconds(text: str) -> float:
    start = time.process_time()
    repair(text)
    return time.process_time() - start
