"""Llama 3: JSON objects with semicolons between them, behind a tag or, most often, behind nothing.

Without the tag the whole answer must be calls: JSON that the user asked for looks exactly like this.
"""

from dragoman.governance.harvest.bare import nothing_follows
from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Place, Reading
from dragoman.governance.harvest.json_calls import JsonBody, read_calls

BODY = JsonBody(shapes=("object",))
END_TOKENS = ("<|eom_id|>", "<|eot_id|>")


def read_tagged(cursor: Cursor, context: Context) -> Reading:
    calls = yield from _read_all(cursor, context)
    if not calls:
        return None
    yield from cursor.literal(*END_TOKENS)
    return Calls(calls)


def read_bare(cursor: Cursor, context: Context) -> Reading:
    calls = yield from _read_all(cursor, context)
    return Calls(calls) if calls and (yield from nothing_follows(cursor, *END_TOKENS)) else None


def _read_all(cursor: Cursor, context: Context) -> Step[tuple[Call, ...]]:
    calls: tuple[Call, ...] = ()
    while True:
        found = yield from read_calls(cursor, context, BODY)
        if not found:
            return ()
        calls += found
        yield from cursor.blanks()
        if not (yield from cursor.literal(";")):
            return calls


FORMATS = (
    Format(
        name="llama3",
        models="Llama 3.1 to 3.3",
        openers=(
            Opener(marker="<|python_tag|>", read=read_tagged, safety="A"),
            Opener(marker="{", read=read_bare, safety="C", place=Place.OPENING, inside=0),
        ),
    ),
)
