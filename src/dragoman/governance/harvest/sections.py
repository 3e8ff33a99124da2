"""Sections of calls: a marker, calls with marks of their own, and an end that models like to forget.

Each call is handed over when it is complete, since another may take long to come.
"""

from collections.abc import Callable

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Calls, Context, Reader, Reading

CallReader = Callable[[Cursor, Context], Step[Call | None]]


def section_of_calls(opens: str, read_call: CallReader, closer: str) -> Reader:
    """Reads calls, each behind its own `opens`, up to the closer."""

    def read(cursor: Cursor, context: Context) -> Reading:
        count = 0
        while True:
            yield from cursor.blanks()
            found = yield from cursor.literal(opens, closer)
            if found != opens:
                if count and not found:
                    yield from cursor.closing(closer)
                return Calls() if count else None
            call = yield from read_call(cursor, context)
            if call is None:
                return None
            count += 1
            yield call

    return read


def lone_call(read_call: CallReader, closer: str) -> Reader:
    """Reads one call whose section has no beginning."""

    def read(cursor: Cursor, context: Context) -> Reading:
        call = yield from read_call(cursor, context)
        if call is None:
            return None
        yield call
        yield from cursor.blanks()
        yield from cursor.literal(closer)
        return Calls()

    return read


def end_of_call(cursor: Cursor, closer: str, *followers: str) -> Step[bool]:
    """A call's own end, or what follows one whose end is missing."""
    yield from cursor.blanks()
    if (yield from cursor.closing(closer)):
        return True
    return bool((yield from cursor.ahead(*followers)))
