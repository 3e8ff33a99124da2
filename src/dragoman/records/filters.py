"""The language of filters: words and comparisons, for lists of sessions and turns.

    agent:claude-code model:gpt* cost>0.05 failed -sub "some text"

Terms that stand side by side must all hold; `or`, `-` (or `not`) and parentheses combine them. A filter
becomes a condition of SQL with parameters: no text of the filter is part of the SQL.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from dragoman.hub.errors import ClientProtocolError

#: Characters of a filter.
MAX_LENGTH = 1000
MAX_DEPTH = 20

#: Fields with text, by their names in filters. `*` in a value matches anything.
TEXT_FIELDS: Mapping[str, str] = {
    name: name
    for name in (
        *("session", "request", "agent", "sub_agent", "project", "key", "client", "upstream", "model"),
        *("target", "route", "rule", "lane", "ending", "cause", "error", "level"),
    )
}
#: Fields with numbers, and what a number of the filter is multiplied by.
NUMBER_FIELDS: Mapping[str, tuple[str, float]] = {
    **{
        name: (name, 1) for name in ("number", "seconds", "first_token", "status", "tries", "tools", "losses")
    },
    **{name: (name, 1) for name in ("interventions", "input", "cache_read", "cache_write", "output")},
    "reasoning": ("reasoning", 1),
    "started": ("started", 1),
    "cost": ("cost", 1_000_000),
    "saved": ("saved", 1_000_000),
}
#: Words with a meaning of their own.
FLAGS: Mapping[str, str] = {
    "failed": "ending IN ('failed', 'truncated')",
    "cancelled": "ending = 'cancelled'",
    "finished": "ending = 'finished'",
    "retried": "tries > 1",
    "lossy": "losses > 0",
    "changed": "interventions > 0",
    "cached": "cache_read > 0",
    "uncached": "COALESCE(cache_read, 0) = 0 AND input > 1024",
    "sub": "sub_agent <> ''",
    "streamed": "stream = 1",
    "stored": "level = 'bodies'",
}
#: The columns that a plain word is searched in.
_SEARCHED = ("session", "agent", "project", "model", "target", "error", "key", "request")

_FIELDS = frozenset((*TEXT_FIELDS, *NUMBER_FIELDS))

_TOKEN = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|(?P<minus>-(?=\S))
    |(?P<field>[a-z_]+)(?P<operator>:|>=|<=|>|<|=)(?:"(?P<quoted>[^"]*)"|(?P<value>[^\s()"]+))
    |"(?P<phrase>[^"]*)"|(?P<word>[^\s()"]+))""",
    re.VERBOSE,
)


class _Mistake(NamedTuple):
    """What is wrong with a filter, and what to write instead."""

    message: str
    next_step: str


_NO_TERM = _Mistake(
    "expected a word or a comparison",
    'write one, such as failed or cost>0.1; in quotes, "or" is a word itself',
)
_NO_VALUE = _Mistake("expected a value after the comparison", "write one without a space before it")
_OPEN_QUOTE = _Mistake("a quote has no end", 'end it with "')
_OPEN_PARENTHESIS = _Mistake("expected )", 'each ( needs one; in quotes, "(" is a word')
_NOT_OPENED = _Mistake("a parenthesis closes that was not opened", 'remove it; in quotes, ")" is a word')
_TOO_DEEP = _Mistake("too many parentheses or negations", f"put at most {MAX_DEPTH} into one another")
_NO_CHARACTER = _Mistake("a part is not Unicode", "write * in its place")


class Condition(NamedTuple):
    """A condition of SQL and its parameters."""

    sql: str
    values: tuple[object, ...] = ()


class InvalidFilter(ClientProtocolError):
    """The filter cannot be read. The message has the place and the reason."""


def parse_filter(text: str) -> Condition:
    """The condition for a filter. An empty filter holds for everything. Raises `InvalidFilter` alone."""
    if len(text) > MAX_LENGTH:
        raise InvalidFilter(f"the filter is longer than {MAX_LENGTH} characters: shorten it", path="filter")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # The shell passes bytes on that are no UTF-8. The database takes no such text.
        raise _build_error(text, error.start, _NO_CHARACTER) from None
    tokens: list[re.Match[str]] = []
    position = 0
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None:
            raise _build_error(text, position, _OPEN_QUOTE)
        tokens.append(found)
        position = found.end()
    parser = _FilterParser(text, tokens)
    return parser.parse() if tokens else Condition("1")


class _FilterParser:
    def __init__(self, text: str, tokens: list[re.Match[str]]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    def parse(self) -> Condition:
        condition = self._parse_any(0)
        if self._at < len(self._tokens):
            raise self._build_error(_NOT_OPENED)
        return condition

    def _parse_any(self, depth: int) -> Condition:
        parts = [self._parse_all(depth)]
        while self._word() == "or":
            self._at += 1
            parts.append(self._parse_all(depth))
        return _join(parts, " OR ")

    def _parse_all(self, depth: int) -> Condition:
        parts: list[Condition] = []
        while self._at < len(self._tokens) and self._word() != "or":
            if self._tokens[self._at]["close"]:
                break
            parts.append(self._parse_one(depth))
        if not parts:
            raise self._build_error(_NO_TERM)
        return _join(parts, " AND ")

    def _parse_one(self, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise self._build_error(_TOO_DEEP)
        if self._at >= len(self._tokens) or self._tokens[self._at]["close"] or self._word() == "or":
            raise self._build_error(_NO_TERM)
        token = self._tokens[self._at]
        self._at += 1
        if token["minus"] or token["word"] == "not":
            inner = self._parse_one(depth + 1)
            return Condition(f"NOT ({inner.sql})", inner.values)
        if token["open"]:
            inner = self._parse_any(depth + 1)
            if self._at >= len(self._tokens) or not self._tokens[self._at]["close"]:
                raise self._build_error(_OPEN_PARENTHESIS)
            self._at += 1
            return inner
        if token["field"]:
            return self._compare(token)
        word = token["phrase"] if token["phrase"] is not None else token["word"]
        if word in FLAGS and token["phrase"] is None:
            return Condition(f"({FLAGS[word]})")
        if token["phrase"] is None and word.rstrip(":<>=") != word and word.rstrip(":<>=") in _FIELDS:
            raise self._build_error(_NO_VALUE)
        pattern = _build_pattern(f"*{word}*")
        return _join([Condition(f"{name} LIKE ? ESCAPE '!'", (pattern,)) for name in _SEARCHED], " OR ")

    def _compare(self, token: re.Match[str]) -> Condition:
        field, operator = token["field"], token["operator"]
        value = token["quoted"] if token["quoted"] is not None else token["value"]
        if field in TEXT_FIELDS:
            if operator not in ":=":
                raise self._build_error(_Mistake(f"{field} is a text", f"write {field}:value"))
            return Condition(f"{TEXT_FIELDS[field]} LIKE ? ESCAPE '!'", (_build_pattern(value),))
        if field not in NUMBER_FIELDS:
            names = ", ".join((*TEXT_FIELDS, *NUMBER_FIELDS))
            mistake = _Mistake(
                f"there is no field {field}", f"in quotes it is a phrase; the fields are {names}"
            )
            raise self._build_error(mistake)
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise self._build_error(_Mistake(f"{field} is a number", f"write for example {field}>1"))
        column, factor = NUMBER_FIELDS[field]
        return Condition(f"{column} {'=' if operator == ':' else operator} ?", (number * factor,))

    def _word(self) -> str | None:
        return self._tokens[self._at]["word"] if self._at < len(self._tokens) else None

    def _build_error(self, mistake: _Mistake) -> InvalidFilter:
        position = self._tokens[self._at - 1].start() if self._tokens and self._at else 0
        return _build_error(self._text, position, mistake)


def _build_error(text: str, position: int, mistake: _Mistake) -> InvalidFilter:
    near = text[position : position + 20].strip()
    place = f", at {near!r}" if near else ""
    return InvalidFilter(f"{mistake.message}{place}: {mistake.next_step}", path="filter")


def _join(parts: list[Condition], word: str) -> Condition:
    if len(parts) == 1:
        return parts[0]
    values = tuple(value for part in parts for value in part.values)
    return Condition(f"({word.join(part.sql for part in parts)})", values)


def _build_pattern(text: str) -> str:
    """A pattern of LIKE: `*` matches anything, everything else itself."""
    for character in "!%_":
        text = text.replace(character, "!" + character)
    return text.replace("*", "%")
