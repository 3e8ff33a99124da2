"""An event loop whose time jumps: every wait is over at once, in the order in which it would end."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

#: Virtual seconds. A test that waits longer waits for something that never comes.
LONGEST_TEST = 100_000.0


class JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, adds the wait to the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everyone waits for something that never comes")
        self.now += max(timeout, 0.0)
        assert self.now < LONGEST_TEST, "waited too long"
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # typeshed: a method with more type variables
        """A thread takes no virtual time: the future is done when this returns."""
        future: asyncio.Future[T] = self.create_future()
        with ThreadPoolExecutor(1) as threads:
            done = threads.submit(func, *args)
        if (error := done.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())
        return future


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, in no time; tasks that outlive the test are an error."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(_alone(main))


async def _alone(main: Coroutine[Any, Any, T]) -> T:
    result = await main
    # Whatever only tidies up gets the chance to; the heart stops at its next beat.
    await asyncio.sleep(2)
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []
    return result
