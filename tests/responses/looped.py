"""A decorator that runs a coroutine as a test."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec

from tests.upstream.byte_server import run

Arguments = ParamSpec("Arguments")


def looped(test: Callable[Arguments, Awaitable[None]]) -> Callable[Arguments, None]:
    @wraps(test)
    def runs(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        run(partial(test, *arguments, **named))

    return runs
