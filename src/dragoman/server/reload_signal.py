"""SIGHUP: the signal to reload, which a closing terminal sends too. Light: it is loaded before all else."""

import os
import signal
import sys
from contextlib import suppress


def has_terminal() -> bool:
    """Whether standard input is a terminal that is still open."""
    try:
        return (
            sys.stdin is not None and os.isatty(sys.stdin.fileno()) and os.tcgetpgrp(sys.stdin.fileno()) > 0
        )
    except (OSError, ValueError):
        return False


def ignore_early_reload() -> None:
    """Ignore the signal to reload until the loop handles it; called before anything else is loaded.

    Without a handler the signal ends the process. The signal of a closing terminal still ends it.
    """
    in_terminal = has_terminal()

    def handle(_number: int, _frame: object) -> None:
        if in_terminal and not has_terminal():
            raise SystemExit(128 + signal.SIGHUP)

    # Not every system has the signal, and only the main thread may handle it.
    with suppress(AttributeError, ValueError):
        signal.signal(signal.SIGHUP, handle)
