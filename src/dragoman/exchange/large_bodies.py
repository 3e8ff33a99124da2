"""Where work on the whole body of a request runs: on the event loop, or in a thread if the body is large."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

#: Bytes of a body that is read and translated on the event loop. A larger one would block it for more than
#: 5 ms (`python -m bench loop`).
MAX_INLINE_BODY = 192 * 1024

#: So many new objects start a search for cycles while a large request is translated: 4 MB have about 130,000,
#: none of them in a cycle, and each search would keep the interpreter for 5 ms or more.
MAX_NEW_OBJECTS = 200_000

Result = TypeVar("Result")

_lock = threading.Lock()
_usual_thresholds: list[tuple[int, int, int]] = []


def is_large(body: bytes) -> bool:
    """Whether work that reads or writes the whole body of a request must not run on the event loop."""
    return len(body) > MAX_INLINE_BODY


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Let the interpreter search for cycles more rarely. For the threads that translate large requests."""
    with _lock:
        _usual_thresholds.append(gc.get_threshold())
        gc.set_threshold(MAX_NEW_OBJECTS, *_usual_thresholds[0][1:])
    try:
        yield
    finally:
        with _lock:
            usual = _usual_thresholds[0]
            _usual_thresholds.pop()
            if not _usual_thresholds:
                gc.set_threshold(*usual)


async def run_by_size(body: bytes, work: Callable[[], Result]) -> Result:
    """Run work that reads or writes the whole body of a request: in a thread if the body is large.

    A legal body of 50 MB takes seconds, in which no other exchange would go on.
    """
    return await asyncio.to_thread(work) if is_large(body) else work()
