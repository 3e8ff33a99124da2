"""What means nothing between tokens: odd white space, comments, fences and the markers around a call."""

import re
from collections.abc import Iterator
from typing import Final

from dragoman.governance.repair.steps import COMMENTS, CONTROL_CHARACTERS, WRAPPING

Place = str
OUTSIDE: Final = "outside every bracket"
BEFORE: Final = "before a key or a value"
BEHIND: Final = "behind a value"

SPACE = re.compile(r"[ \t\n\r]*+")
FENCE = re.compile(r"```[\w+-]{0,20}[ \t]*+|~~~[\w+-]{0,20}[ \t]*+")

#: Tags and tokens that frame a call in a model's own text: `</tool_call>`, `<|im_end|>`, `[/TOOL_CALLS]`.
MARKER = re.compile(
    r"</?[A-Za-z_][\w:.-]{0,60}>|<\|[\w:.-]{1,60}\|?>|<[\w:.-]{1,60}\|>"
    r"|<\uff5c[^<>\uff5c\r\n]{1,60}\uff5c>|\[/?[A-Z][A-Z_]{2,30}\]"
)
_ODD_SPACE = re.compile(r"[\s\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]++")
_BYTE_ORDER_MARKS = re.compile(r"\ufeff++")
#: A number sign needs a blank behind it, for a colour has none.
_LINE_COMMENT = re.compile(r"(?://|#(?=[ \t\r\n!#]))[^\r\n]*+")


def space_end(text: str, position: int) -> int:
    """Where the white space of JSON ends that begins here, if any does."""
    found = SPACE.match(text, position)
    return found.end() if found else position


def _blank_at(text: str, position: int, place: Place) -> tuple[int, str, str] | None:
    """Where the blank ends that begins here, what to put in its place, and what it was; None if none is."""
    if found := _BYTE_ORDER_MARKS.match(text, position):
        return found.end(), "", WRAPPING
    if found := _ODD_SPACE.match(text, position):
        return found.end(), " ", CONTROL_CHARACTERS
    if place is not BEFORE and (found := MARKER.match(text, position) or FENCE.match(text, position)):
        return found.end(), "", WRAPPING
    stop = _comment_end(text, position, place)
    return None if stop < 0 else (stop, " ", COMMENTS)


def _comment_end(text: str, position: int, place: Place) -> int:
    """Where the comment ends that begins here; -1 if none does, or if it may have swallowed what follows."""
    if text.startswith("/*", position):
        stop = text.find("*/", position + 2) + 2
        is_whole = stop > 1
    else:
        found = _LINE_COMMENT.match(text, position)
        stop = found.end() if found else -1
        is_whole = place is OUTSIDE or stop < len(text)
    # Half a pair of quotes belongs to a string that went wrong.
    return stop if is_whole and stop > 0 and text.count('"', position, stop) % 2 == 0 else -1


def blanks_from(text: str, position: int, place: Place) -> Iterator[tuple[int, int, str, str]]:
    """The blanks in a row that begin here: where each begins and ends, its replacement, and what it is.

    White space of JSON's own stands between them and counts for nothing.
    """
    position = space_end(text, position)
    while position < len(text) and (found := _blank_at(text, position, place)):
        stop, replacement, step = found
        yield position, stop, replacement, step
        position = space_end(text, stop)


def blanks_end(text: str, position: int, place: Place, steps: set[str]) -> int:
    """Where the blanks in a row that begin here end, and the white space behind them; adds what they are."""
    end = position
    for blank in blanks_from(text, position, place):
        end = blank[1]
        steps.add(blank[3])
    return space_end(text, end)
