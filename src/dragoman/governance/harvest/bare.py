"""Answers that are nothing but calls, with no marker to say so."""

from dragoman.governance.harvest.cursor import Cursor, Ending, Step


def nothing_follows(cursor: Cursor, *tokens: str) -> Step[bool]:
    """Whether the reply ends here, well and for good, but for leaked end tokens."""
    while True:
        yield from cursor.blanks()
        if not tokens or not (yield from cursor.literal(*tokens)):
            break
    return not (yield from cursor.more()) and cursor.source.ending is Ending.CLEAN
