"""Where work on the whole body of a request runs: on the event loop, or in a thread if the body is large."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

#: Bytes of a body that is read and translated on the event loop. A larger one would block it for more than
#: 5 ms (`python -m bench loop`).
MAX_INLINE_BODY = 192 * 1024

Result = TypeVar("Result")


def is_large(body: bytes) -> bool:
    """Whether work that reads or writes the whole body of a request must not run on the event loop."""
    return len(body) > MAX_INLINE_BODY


async def run_by_size(body: bytes, work: Callable[[], Result]) -> Result:
    """Run work that reads or writes the whole body of a request: in a thread if the body is large.

    A legal body of 50 MB takes seconds, in which no other exchange would go on.
    """
    return await asyncio.to_thread(work) if is_large(body) else work()
