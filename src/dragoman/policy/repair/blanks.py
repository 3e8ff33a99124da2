"""What means nothing between tokens: odd white space, comments, fences and the markers around a call."""

import re
from collections.abc import Iterator

from dragoman.policy.repair.steps import COMMENTS, CONTROL_CHARACTERS, WRAPPING

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


def _blank_at(text: str, position: int, *, within: bool) -> tuple[int, str, str] | None:
    """Where the blank ends that begins here, what to put in its place, and what it was; None if none is."""
    if found := _BYTE_ORDER_MARKS.match(text, position):
        return found.end(), "", WRAPPING
    if found := _ODD_SPACE.match(text, position):
        return found.end(), " ", CONTROL_CHARACTERS
    if found := MARKER.match(text, position):
        return found.end(), "", WRAPPING
    if text.startswith("/*", position):
        stop = text.find("*/", position + 2)
        return None if stop < 0 else (stop + 2, " ", COMMENTS)
    if found := _LINE_COMMENT.match(text, position):
        # Without a line break it may have swallowed what follows.
        return None if within and found.end() == len(text) else (found.end(), "", COMMENTS)
    if not within and (found := FENCE.match(text, position)):
        return found.end(), "", WRAPPING
    return None


def blanks_from(text: str, position: int, *, within: bool) -> Iterator[tuple[int, int, str, str]]:
    """The blanks in a row that begin here: where each begins and ends, its replacement, and what it is.

    White space of JSON's own stands between them and counts for nothing.
    """
    position = space_end(text, position)
    while position < len(text) and (found := _blank_at(text, position, within=within)):
        stop, replacement, step = found
        yield position, stop, replacement, step
        position = space_end(text, stop)


def blanks_end(text: str, position: int, steps: set[str], *, within: bool) -> int:
    """Where the blanks in a row that begin here end, and the white space behind them; adds what they are."""
    end = position
    for blank in blanks_from(text, position, within=within):
        end = blank[1]
        steps.add(blank[3])
    return space_end(text, end)
