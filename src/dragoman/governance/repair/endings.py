"""Where a string ends whose quotes do not tell: it lacks the last one, or holds some of its own unescaped.

An end is believed only when the rest of the text agrees with it. A wrong guess would hand a tool a value
that nobody wrote, so where two ends are possible neither is taken.
"""

import re
from collections.abc import Sequence
from functools import cache

from dragoman.governance.repair.blanks import MARKER
from dragoman.governance.repair.grammar import NAME, QUOTED_NAME, SEPARATES
from dragoman.governance.repair.strings import CLOSING_QUOTES, QUOTES_CLASS
from dragoman.wire.json_grammar import CLOSERS

_NEXT_MEMBER = (
    rf"\s*+(?:,\s*+(?:{QUOTED_NAME}|(?P<bare>{NAME}))|{QUOTED_NAME.replace('name', 'other')}){SEPARATES}"
)
_NEXT_ITEM = rf"\s*+,\s*+[{QUOTES_CLASS}{{\[\-0-9]"
_END_OF_TEXT = r"[\s}\]]*+(?:\Z|<|```)"

#: What can follow a value, by whether it stands in the outermost object, in an inner one, or in an array.
_FOLLOWING = {
    "outermost": rf"{_NEXT_MEMBER}|\s*+\}}{_END_OF_TEXT}",
    "{": rf"{_NEXT_MEMBER}|\s*+\}}\s*+(?:[,}}\]]|\Z)",
    "[": rf"{_NEXT_ITEM}|\s*+\]\s*+(?:[,}}\]]|\Z)",
}
_FOLLOWS = {place: re.compile(pattern) for place, pattern in _FOLLOWING.items()}
_MEMBER_FOLLOWS = re.compile(rf"[}}\]]\s*+,\s*+(?:{QUOTED_NAME}|{NAME}){SEPARATES}")
_CLOSING_TAIL = re.compile(r"\s*+[}\]][}\]\s]*+\Z")
#: How far from the end of a text its closing brackets are looked for.
_TAIL_REACH = 1000
_MARKER_REACH = 100


def member_follows(text: str, position: int) -> bool:
    """Whether another member comes behind the closing bracket at this place."""
    return bool(_MEMBER_FOLLOWS.match(text, position))


def fits_after(text: str, position: int, brackets: Sequence[str], names: frozenset[str]) -> bool:
    """Whether a string that ended right before this place would be followed by what belongs there."""
    found = _FOLLOWS[_place(brackets)].match(text, position)
    return found is not None and _is_member(found, names)


def inner_end(text: str, position: int, brackets: Sequence[str], names: frozenset[str]) -> int:
    """Where the string that begins at this quote ends, if it may hold its own quote; -1 if that is not sure.

    The quotes within must come in pairs, each first one close to what it quotes.
    """
    opener = text[position]
    scanner = _scanner(CLOSING_QUOTES[opener], _place(brackets))
    stop = position + 1
    while True:
        found = scanner.match(text, stop)
        stop = found.end() if found else stop
        if stop >= len(text):
            return -1
        if fits_after(text, stop + 1, brackets, names):
            break
        stop += 1
    body = text[position + 1 : stop]
    return stop if _plausible(body, opener, names) else -1


def unfinished(text: str, position: int, opener: str, brackets: Sequence[str]) -> tuple[str, int]:
    """What a string without its last quote holds, and where it ends; -1 if that is not sure.

    Brackets at the end are the string's own if it opened them, and the structure's if they close just what
    is open; markers at the end belong to neither.
    """
    end = _without_marker(text, position)
    body = text[position:end]
    tail = _CLOSING_TAIL.search(text, max(position, end - _TAIL_REACH), end)
    if tail is None or all(body.count(CLOSERS[bracket]) <= body.count(bracket) for bracket in CLOSERS):
        return body, end
    body = text[position : tail.start()]
    if "".join(tail[0].split()) != "".join([CLOSERS[bracket] for bracket in reversed(brackets)]):
        return body, -1
    # A quote that is escaped right before the structure ends was meant to end the string, unless it is the
    # second of two.
    escaped = "\\" + opener
    if body.endswith(escaped) and body.count(escaped) % 2:
        body = body[:-1]
    return body, -1 if _ends_in_doubt(body, opener) else tail.start()


def _ends_in_doubt(body: str, opener: str) -> bool:
    """Whether the last character rather belongs to the structure than to the string."""
    last = body[-1:]
    is_other_quote = last in CLOSING_QUOTES and last not in CLOSING_QUOTES[opener]
    return last in (",", ":") or (is_other_quote and body.count(last) % 2 == 1)


def _without_marker(text: str, position: int) -> int:
    end = len(text.rstrip())
    for found in MARKER.finditer(text, max(position, end - _MARKER_REACH), end):
        if found.end() == end:
            return found.start()
    return len(text)


def _place(brackets: Sequence[str]) -> str:
    return "outermost" if len(brackets) == 1 and brackets[0] == "{" else brackets[-1] if brackets else "["


def _is_member(found: re.Match[str], names: frozenset[str]) -> bool:
    """Whether the member that follows, if one does, can be one of this object."""
    groups = found.groupdict()
    name = groups.get("name") or groups.get("bare") or groups.get("other")
    return name is None or not names or name in names


@cache
def _scanner(closers: str, place: str) -> re.Pattern[str]:
    """The inside of a string up to a quote that something fitting follows."""
    return re.compile(rf"(?:[^{closers}\\]++|\\.|[{closers}](?!{_FOLLOWING[place]}))*+", re.DOTALL)


@cache
def _pairs(closers: str) -> re.Pattern[str]:
    plain = rf"[^{closers}\\]*+(?:\\.[^{closers}\\]*+)*+"
    return re.compile(
        rf"{plain}(?:[{closers}](?![\s,:]|[{closers}]\w){plain}[{closers}]{plain})*+", re.DOTALL
    )


@cache
def _member_within(closers: str) -> re.Pattern[str]:
    return re.compile(rf",\s*+[{closers}]([^{closers}\\\r\n]{{1,200}}+)[{closers}]\s*+:")


def _plausible(body: str, opener: str, names: frozenset[str]) -> bool:
    closers = CLOSING_QUOTES[opener]
    # Apostrophes stand alone; quotation marks come in pairs.
    if opener in '"`' and not _pairs(closers).fullmatch(body):
        return False
    return not any(not names or found[1] in names for found in _member_within(closers).finditer(body))
