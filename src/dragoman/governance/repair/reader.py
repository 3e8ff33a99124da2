"""Reads one JSON value as models write them, in one pass, noting every liberty it had to take.

What is right is not touched: the result is the text itself with edits at the places that are wrong, so
that numbers, strings, layout and order stay as they were written. A place with two plausible meanings
is no place to guess: then there is no reading.

Work is linear: nothing is read twice but by a bounded look ahead. `inner_quotes` chooses between two ways
to find the end of a string: at its next quote, or at the next quote that something fitting follows.
"""

from collections.abc import Callable

import msgspec

from dragoman.governance.repair import endings
from dragoman.governance.repair.blanks import BEFORE, BEHIND, blanks_end, blanks_from, space_end
from dragoman.governance.repair.edits import Edits, Unreadable
from dragoman.governance.repair.grammar import (
    AFTER,
    BARE_KEY,
    BARE_KEY_OF_A_LINE,
    COLON,
    COMMA_RUN,
    DONE,
    FIRST,
    ITEM,
    LINE_BREAK,
    LINE_BREAK_REACH,
    MEMBER,
    OTHER_COMMAS,
    QUOTED_KEY,
    SEPARATOR,
    STRICT_KEY,
    STRICT_RUNS,
    STRICT_SCALAR,
    STRICT_VALUE,
    TOKEN_STARTS,
    UNCLOSED_KEY,
    VALUE,
    VALUE_STARTS,
    State,
)
from dragoman.governance.repair.nesting import Nesting
from dragoman.governance.repair.scalars import PHRASE, WORD, read_word
from dragoman.governance.repair.steps import (
    BARE_KEYS,
    BARE_VALUES,
    BRACKETS,
    COMMAS,
    COMMENTS,
    INNER_QUOTES,
    OMITTED_VALUES,
    QUOTES,
    SEPARATORS,
    SURPLUS_CLOSERS,
    UNFINISHED_STRING,
)
from dragoman.governance.repair.strings import CLOSING_QUOTES, TRIPLE_QUOTES, body_end, written
from dragoman.wire.fields import encode
from dragoman.wire.json_grammar import CLOSERS

#: Liberties after which a string without an end is rather a sign that they were wrong.
DOUBTFUL = frozenset((COMMAS, COMMENTS, SEPARATORS, SURPLUS_CLOSERS, BARE_VALUES))


class Reading(msgspec.Struct, frozen=True):
    """One JSON value as text, the liberties it took, and where in the original it ends."""

    text: str
    steps: frozenset[str]
    end: int


class Reader:
    """Reads the value that begins at a position of the text; good for one reading."""

    __slots__ = ("_comma", "_edits", "_inner_quotes", "_key_start", "_nesting", "_state", "_text")

    def __init__(self, text: str, schema: object = None, *, inner_quotes: bool = False) -> None:
        self._text = text
        self._inner_quotes = inner_quotes
        self._state: State = VALUE
        self._nesting = Nesting(schema)
        self._edits = Edits(text)
        #: Where the current key begins, and the comma before it; -1 if there is none.
        self._key_start = -1
        self._comma = -1

    def read(self, position: int = 0, *, without_brace: bool = False) -> Reading:
        """Raises `Unreadable`. Without a brace, what begins here is the first member of an object."""
        text = self._text
        start = position
        end = len(text)
        if without_brace:
            self._edits.insert(position, "{", BRACKETS)
            self._enter("{")
        while self._state is not DONE:
            if position < end and text[position] not in TOKEN_STARTS:
                position = self._skip(position)
            if position < end:
                position = HANDLERS[self._state](self, position)
            else:
                self._finish(position)
        return Reading(self._edits.applied(start, position), frozenset(self._edits.steps), position)

    def _skip(self, position: int) -> int:
        end = position
        place = BEHIND if self._state is AFTER else BEFORE
        for start, end, replacement, step in blanks_from(self._text, position, place):
            self._edits.replace(start, end, replacement, step)
        return space_end(self._text, end)

    # What stands at each place.

    def _member(self, position: int) -> int:
        if not self._inner_quotes:
            stop = self._pass_run(position)
        elif found := STRICT_KEY.match(self._text, position):
            stop = self._begin_value(found[1], position, found.end())
        else:
            stop = position
        if stop > position:
            return stop
        if self._text[position] in "}]":
            return self._close(position)
        return self._drop_commas(position) or self._odd_key(position)

    def _item(self, position: int) -> int:
        if not self._inner_quotes and (stop := self._pass_run(position)) > position:
            return stop
        if self._text[position] in "}]":
            return self._close(position)
        return self._drop_commas(position) or self._value(position)

    def _pass_run(self, position: int) -> int:
        """Step over what needs nothing. Of its commas only the last can turn out to be too much."""
        found = STRICT_RUNS[self._state].match(self._text, position)
        if found is None or (stop := found.end()) == position:
            return position
        if found["run"]:
            self._comma = self._text.rindex(",", position, found.end("run"))
        if found["value"]:
            self._state = AFTER
        elif self._state is MEMBER and found["key"]:
            self._begin_value(found["key"], found.start("key"), stop)
        return stop

    def _begin_value(self, key: str, start: int, end: int) -> int:
        self._key_start = start
        self._nesting.keys[-1] = key
        self._state = VALUE
        return end

    def _colon(self, position: int) -> int:
        found = SEPARATOR.match(self._text, position)
        if found is None:
            self._edits.insert(position, ":", SEPARATORS)
        elif self._state is not COLON:
            self._edits.replace(position, found.end(), "", SEPARATORS)
        elif found[0].rstrip() != ":":
            self._edits.replace(position, found.end(), ":", SEPARATORS)
        self._state = VALUE
        return found.end() if found else position

    def _value(self, position: int) -> int:
        text = self._text
        character = text[position]
        found = (STRICT_SCALAR if self._inner_quotes else STRICT_VALUE).match(text, position)
        if found and (character != '"' or not self._inner_quotes or self._fits_after(found.end())):
            self._end_value()
            return found.end()
        if character in FIRST:
            self._enter(character)
            return position + 1
        if character in CLOSING_QUOTES:
            return self._odd_string(position, character)
        if character == ":":
            return self._colon(position)
        if character in ",;}]" and self._state is VALUE:
            return self._omit(position)
        return self._bare_value(position)

    def _after(self, position: int) -> int:
        text = self._text
        character = text[position]
        if character == ",":
            self._comma = position
            self._state = FIRST[self._nesting.brackets[-1]]
            return position + 1
        if character in "}]":
            return self._close(position)
        if character in OTHER_COMMAS:
            return self._replace_comma(position)
        return self._insert_comma(position)

    def _finish(self, position: int) -> None:
        """The text ends here, whatever is open."""
        if self._state in (VALUE, COLON):
            raise Unreadable
        self._drop_last_comma()
        while self._nesting.brackets:
            self._edits.insert(position, self._nesting.leave(), BRACKETS)
        self._state = DONE

    # Brackets.

    def _enter(self, bracket: str) -> None:
        self._nesting.enter(bracket)
        self._comma = -1
        self._state = FIRST[bracket]

    def _close(self, position: int) -> int:
        closer = self._text[position]
        nesting = self._nesting
        outermost = len(nesting.brackets) == 1
        if not nesting.open_for(closer) or (outermost and endings.member_follows(self._text, position)):
            self._edits.replace(position, position + 1, "", SURPLUS_CLOSERS)
            return position + 1
        self._drop_last_comma()
        while CLOSERS[nesting.brackets[-1]] != closer:
            self._edits.insert(position, nesting.leave(), BRACKETS)
        nesting.leave()
        self._end_value()
        return position + 1

    def _end_value(self) -> None:
        self._state = AFTER if self._nesting.brackets else DONE

    # Commas.

    def _drop_last_comma(self) -> None:
        if self._comma >= 0 and self._state in (MEMBER, ITEM):
            self._edits.replace(self._comma, self._comma + 1, "", COMMAS)

    def _drop_commas(self, position: int) -> int:
        """Where the commas end that begin here; 0 if none do."""
        character = self._text[position]
        if character != "," and character not in OTHER_COMMAS:
            return 0
        stop = self._comma_run(position)
        self._edits.replace(position, stop, "", COMMAS)
        return stop

    def _replace_comma(self, position: int) -> int:
        stop = self._comma_run(position)
        self._edits.replace(position, stop, "", COMMAS)
        rest = blanks_end(self._text, stop, BEFORE, set())
        if self._text[rest : rest + 1] not in ("", "}", "]"):
            self._edits.insert(stop, ",", COMMAS)
        return self._begin_next(stop)

    def _insert_comma(self, position: int) -> int:
        text = self._text
        if self._nesting.brackets[-1] == "[":
            is_joined = text[position] in CLOSING_QUOTES and text[position - 1] in CLOSING_QUOTES
            if is_joined or text[position] not in VALUE_STARTS:
                raise Unreadable
        elif not QUOTED_KEY.match(text, position):
            line_break = LINE_BREAK.search(text, max(0, position - LINE_BREAK_REACH), position)
            if line_break is None or not BARE_KEY_OF_A_LINE.match(text, position):
                raise Unreadable
        self._edits.insert(position, ",", COMMAS)
        return self._begin_next(position)

    def _begin_next(self, position: int) -> int:
        self._comma = -1
        self._state = FIRST[self._nesting.brackets[-1]]
        return position

    def _comma_run(self, position: int) -> int:
        found = COMMA_RUN.match(self._text, position)
        return found.end() if found else position

    # Keys.

    def _odd_key(self, position: int) -> int:
        text = self._text
        opener = text[position]
        self._key_start = position
        self._state = COLON
        if found := BARE_KEY.match(text, position):
            step = BARE_KEYS if found.end() == found.end(1) else QUOTES
            return self._set_key(position, found.end(), encode(found[1]).decode(), step)
        if opener not in CLOSING_QUOTES:
            raise Unreadable
        stop = body_end(text, position + 1, opener)
        if stop < len(text) and self._goes_on_after_key(stop + 1):
            key = written(text[position + 1 : stop], opener, self._edits.steps)
            return self._set_key(position, stop + 1, key, QUOTES if opener != '"' else "")
        if found := UNCLOSED_KEY.match(text, position):
            return self._set_key(position, found.end(), encode(found[1]).decode(), QUOTES)
        raise Unreadable

    def _goes_on_after_key(self, position: int) -> bool:
        """Whether a colon follows, or a value that is clear of the key."""
        rest = blanks_end(self._text, position, BEFORE, set())
        following = self._text[rest : rest + 1]
        is_apart = rest > position or following not in CLOSING_QUOTES
        return bool(SEPARATOR.match(self._text, rest)) or (is_apart and following in VALUE_STARTS)

    def _set_key(self, start: int, end: int, key: str, step: str) -> int:
        self._nesting.keys[-1] = key
        self._edits.replace(start, end, key, step)
        return end

    # Strings.

    def _odd_string(self, position: int, opener: str) -> int:
        text = self._text
        self._end_value()
        if opener != '"':
            self._edits.steps.add(QUOTES)
        if text.startswith(TRIPLE_QUOTES, position):
            return self._triple_quoted(position, opener)
        if self._inner_quotes:
            stop = self._inner_end(position)
        else:
            stop = body_end(text, position + 1, opener)
            if stop == len(text):
                return self._unfinished_string(position, opener)
        return self._set_string(position, stop + 1, text[position + 1 : stop], opener)

    def _set_string(self, start: int, end: int, body: str, opener: str) -> int:
        self._edits.replace(start, end, written(body, opener, self._edits.steps))
        return end

    def _triple_quoted(self, position: int, opener: str) -> int:
        stop = self._text.find(opener * 3, position + 3)
        if stop < 0:
            raise Unreadable
        self._edits.steps.add(QUOTES)
        return self._set_string(position, stop + 3, self._text[position + 3 : stop], opener)

    def _unfinished_string(self, position: int, opener: str) -> int:
        brackets = self._nesting.brackets
        body, stop = endings.unfinished(self._text, position + 1, opener, brackets)
        if not brackets or stop < 0 or not self._edits.steps.isdisjoint(DOUBTFUL):
            raise Unreadable
        self._edits.steps.add(UNFINISHED_STRING)
        return self._set_string(position, stop, body, opener)

    def _inner_end(self, position: int) -> int:
        stop = endings.inner_end(self._text, position, self._nesting.brackets, self._nesting.names())
        if stop < 0:
            raise Unreadable
        if stop > body_end(self._text, position + 1, self._text[position]):
            self._edits.steps.add(INNER_QUOTES)
        return stop

    def _fits_after(self, position: int) -> bool:
        return endings.fits_after(self._text, position, self._nesting.brackets, self._nesting.names())

    # Values without quotes, and none at all.

    def _bare_value(self, position: int) -> int:
        text = self._text
        nesting = self._nesting
        if not nesting.brackets:
            raise Unreadable
        types = nesting.types()
        found = WORD.match(text, position)
        value = read_word(found[0], types, self._edits.steps) if found else None
        if value is None and types == {"string"} and (found := PHRASE.match(text, position)):
            if found[1] and found[1] not in nesting.names():
                raise Unreadable
            self._edits.steps.add(BARE_VALUES)
            value = encode(found[0].rstrip()).decode()
        if found is None or value is None:
            raise Unreadable
        self._edits.replace(position, found.end(), value)
        self._end_value()
        return found.end()

    def _omit(self, position: int) -> int:
        """A key without a value is as good as none where the schema can do without it."""
        if not self._nesting.brackets or not self._nesting.can_do_without_this():
            raise Unreadable
        self._edits.take_back(self._key_start)
        self._edits.replace(self._key_start, position, "", OMITTED_VALUES)
        self._state = MEMBER
        return position


HANDLERS: dict[State, Callable[[Reader, int], int]] = {
    MEMBER: Reader._member,
    COLON: Reader._colon,
    VALUE: Reader._value,
    ITEM: Reader._item,
    AFTER: Reader._after,
}
