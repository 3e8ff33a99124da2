"""Llama 4 and Llama 3.2: a list of Python calls, behind a tag or, most often, behind nothing."""

from dragoman.governance.harvest.bare import nothing_follows
from dragoman.governance.harvest.cursor import Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Place, Reading
from dragoman.governance.harvest.pythonic import read_python_list

END_TOKENS = ("<|python_end|>", "<|eom_id|>", "<|eot_id|>", "<|eot|>", "<|eom|>")


def read_tagged(cursor: Cursor, context: Context) -> Reading:
    yield from cursor.blanks()
    calls = yield from read_python_list(cursor, context)
    if not calls:
        return None
    yield from calls
    yield from cursor.blanks()
    while (yield from cursor.literal(*END_TOKENS)):
        yield from cursor.blanks()
    return Calls()


def read_bare(cursor: Cursor, context: Context) -> Reading:
    calls = yield from read_python_list(cursor, context)
    return Calls(calls) if calls and (yield from nothing_follows(cursor, *END_TOKENS)) else None


FORMATS = (
    Format(
        name="llama4",
        models="Llama 4, Llama 3.2",
        openers=(
            Opener(marker="<|python_start|>", read=read_tagged, safety="A"),
            Opener(marker="[", read=read_bare, safety="C", place=Place.OPENING, inside=0),
        ),
    ),
)
