"""Reads one JSON value as models write it, in one pass, and corrects it.

The result is the text itself with edits at the places that are wrong, so that numbers, strings, layout and
order stay as the model wrote them. Where a place has two plausible meanings the text is unreadable.

The work is linear: only a bounded look-ahead reads a character twice. `inner_quotes` selects how to find the
end of a string: at its next quote, or at the next quote that something fitting follows.
"""

from collections.abc import Callable

import msgspec

from dragoman.governance.repair import reader_states as states
from dragoman.governance.repair.reader_states import (
    AFTER,
    BARE_KEY,
    BARE_KEY_OF_A_LINE,
    COLON,
    DONE,
    FIRST,
    ITEM,
    MEMBER,
    OTHER_COMMAS,
    QUOTED_KEY,
    SEPARATOR,
    UNCLOSED_KEY,
    VALUE,
    VALUE_STARTS,
    ReaderState,
)
from dragoman.governance.repair.schema import Nesting
from dragoman.governance.repair.steps import Edits, RepairStep, UnreadableText
from dragoman.governance.repair.tokens import (
    BARE_PHRASE,
    BARE_VALUE,
    BEFORE,
    BEHIND,
    CLOSING_QUOTES,
    TRIPLE_QUOTES,
    find_blanks,
    find_quote,
    find_space_end,
    read_bare_value,
    skip_blanks,
    write_string,
)
from dragoman.wire.fields import encode
from dragoman.wire.json_grammar import CLOSERS

#: Steps after which a string without an end rather shows that these steps were wrong.
DOUBTFUL = frozenset(
    (
        RepairStep.COMMAS,
        RepairStep.COMMENTS,
        RepairStep.SEPARATORS,
        RepairStep.SURPLUS_CLOSERS,
        RepairStep.BARE_VALUES,
    )
)


class ReadValue(msgspec.Struct, frozen=True):
    """One JSON value as text, the steps that it needed, and where it ends in the original text."""

    text: str
    steps: frozenset[RepairStep]
    end: int


class LenientReader:
    """Reads the value at a position of the text. One object makes one pass."""

    __slots__ = ("_comma", "_edits", "_inner_quotes", "_key_start", "_nesting", "_state", "_text")

    def __init__(self, text: str, schema: object = None, *, inner_quotes: bool = False) -> None:
        self._text = text
        self._inner_quotes = inner_quotes
        self._state: ReaderState = VALUE
        self._nesting = Nesting(schema)
        self._edits = Edits(text)
        #: Where the current key begins, and the comma before it; -1 if there is none.
        self._key_start = -1
        self._comma = -1

    def read(self, position: int = 0, *, without_brace: bool = False) -> ReadValue:
        """Read the value; raises `UnreadableText`. `without_brace`: an object's first member begins here."""
        text = self._text
        start = position
        end = len(text)
        if without_brace:
            self._edits.insert(position, "{", RepairStep.BRACKETS)
            self._enter("{")
        while self._state is not DONE:
            if position < end and text[position] not in states.TOKEN_STARTS:
                position = self._skip(position)
            if position < end:
                position = HANDLERS[self._state](self, position)
            else:
                self._finish(position)
        return ReadValue(self._edits.apply(start, position), frozenset(self._edits.steps), position)

    def _skip(self, position: int) -> int:
        end = position
        place = BEHIND if self._state is AFTER else BEFORE
        for start, end, replacement, step in find_blanks(self._text, position, place):
            self._edits.replace(start, end, replacement, step)
        return find_space_end(self._text, end)

    # One handler per state.

    def _member(self, position: int) -> int:
        if not self._inner_quotes:
            stop = self._pass_run(position)
        elif found := states.STRICT_KEY.match(self._text, position):
            stop = self._begin_value(found[1], position, found.end())
        else:
            stop = position
        if stop > position:
            return stop
        if self._text[position] in "}]":
            return self._close(position)
        return self._drop_commas(position) or self._read_odd_key(position)

    def _item(self, position: int) -> int:
        if not self._inner_quotes and (stop := self._pass_run(position)) > position:
            return stop
        if self._text[position] in "}]":
            return self._close(position)
        return self._drop_commas(position) or self._value(position)

    def _pass_run(self, position: int) -> int:
        """Skip members or items of strict JSON. Only the last of their commas can turn out to be surplus."""
        found = states.STRICT_RUNS[self._state].match(self._text, position)
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
            self._edits.insert(position, ":", RepairStep.SEPARATORS)
        elif self._state is not COLON:
            self._edits.replace(position, found.end(), "", RepairStep.SEPARATORS)
        elif found[0].rstrip() != ":":
            self._edits.replace(position, found.end(), ":", RepairStep.SEPARATORS)
        self._state = VALUE
        return found.end() if found else position

    def _value(self, position: int) -> int:
        text = self._text
        character = text[position]
        found = (states.STRICT_SCALAR if self._inner_quotes else states.STRICT_VALUE).match(text, position)
        if found and (character != '"' or not self._inner_quotes or self._can_string_end(found.end())):
            self._end_value()
            return found.end()
        if character in FIRST:
            self._enter(character)
            return position + 1
        if character in CLOSING_QUOTES:
            return self._read_odd_string(position, character)
        if character == ":":
            return self._colon(position)
        if character in ",;}]" and self._state is VALUE:
            return self._omit(position)
        return self._read_bare(position)

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
        """Close what is open at the end of the text."""
        if self._state in (VALUE, COLON):
            raise UnreadableText
        self._drop_last_comma()
        while self._nesting.brackets:
            self._edits.insert(position, self._nesting.leave(), RepairStep.BRACKETS)
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
        if not nesting.count_open(closer) or (outermost and states.has_member_behind(self._text, position)):
            self._edits.replace(position, position + 1, "", RepairStep.SURPLUS_CLOSERS)
            return position + 1
        self._drop_last_comma()
        while CLOSERS[nesting.brackets[-1]] != closer:
            self._edits.insert(position, nesting.leave(), RepairStep.BRACKETS)
        nesting.leave()
        self._end_value()
        return position + 1

    def _end_value(self) -> None:
        self._state = AFTER if self._nesting.brackets else DONE

    # Commas.

    def _drop_last_comma(self) -> None:
        if self._comma >= 0 and self._state in (MEMBER, ITEM):
            self._edits.replace(self._comma, self._comma + 1, "", RepairStep.COMMAS)

    def _drop_commas(self, position: int) -> int:
        """Delete the commas at this position: their end, or 0 if there are none."""
        character = self._text[position]
        if character != "," and character not in OTHER_COMMAS:
            return 0
        stop = self._comma_run(position)
        self._edits.replace(position, stop, "", RepairStep.COMMAS)
        return stop

    def _replace_comma(self, position: int) -> int:
        stop = self._comma_run(position)
        self._edits.replace(position, stop, "", RepairStep.COMMAS)
        rest = skip_blanks(self._text, stop, BEFORE, set())
        if self._text[rest : rest + 1] not in ("", "}", "]"):
            self._edits.insert(stop, ",", RepairStep.COMMAS)
        return self._begin_next(stop)

    def _insert_comma(self, position: int) -> int:
        text = self._text
        if self._nesting.brackets[-1] == "[":
            is_joined = text[position] in CLOSING_QUOTES and text[position - 1] in CLOSING_QUOTES
            if is_joined or text[position] not in VALUE_STARTS:
                raise UnreadableText
        elif not QUOTED_KEY.match(text, position):
            line_break = states.LINE_BREAK.search(
                text, max(0, position - states.LINE_BREAK_DISTANCE), position
            )
            if line_break is None or not BARE_KEY_OF_A_LINE.match(text, position):
                raise UnreadableText
        self._edits.insert(position, ",", RepairStep.COMMAS)
        return self._begin_next(position)

    def _begin_next(self, position: int) -> int:
        self._comma = -1
        self._state = FIRST[self._nesting.brackets[-1]]
        return position

    def _comma_run(self, position: int) -> int:
        found = states.COMMA_RUN.match(self._text, position)
        return found.end() if found else position

    # Keys.

    def _read_odd_key(self, position: int) -> int:
        text = self._text
        opener = text[position]
        self._key_start = position
        self._state = COLON
        if found := BARE_KEY.match(text, position):
            step = RepairStep.BARE_KEYS if found.end() == found.end(1) else RepairStep.QUOTES
            return self._set_key(position, found.end(), encode(found[1]).decode(), step)
        if opener not in CLOSING_QUOTES:
            raise UnreadableText
        stop = find_quote(text, position + 1, opener)
        if stop < len(text) and self._continues_after_key(stop + 1):
            key = write_string(text[position + 1 : stop], opener, self._edits.steps)
            return self._set_key(position, stop + 1, key, RepairStep.QUOTES if opener != '"' else None)
        if found := UNCLOSED_KEY.match(text, position):
            return self._set_key(position, found.end(), encode(found[1]).decode(), RepairStep.QUOTES)
        raise UnreadableText

    def _continues_after_key(self, position: int) -> bool:
        """Whether a colon follows, or a value that is separate from the key."""
        rest = skip_blanks(self._text, position, BEFORE, set())
        following = self._text[rest : rest + 1]
        is_apart = rest > position or following not in CLOSING_QUOTES
        return bool(SEPARATOR.match(self._text, rest)) or (is_apart and following in VALUE_STARTS)

    def _set_key(self, start: int, end: int, key: str, step: RepairStep | None) -> int:
        self._nesting.keys[-1] = key
        self._edits.replace(start, end, key, step)
        return end

    # Strings.

    def _read_odd_string(self, position: int, opener: str) -> int:
        text = self._text
        self._end_value()
        if opener != '"':
            self._edits.steps.add(RepairStep.QUOTES)
        if text.startswith(TRIPLE_QUOTES, position):
            return self._read_triple_quoted(position, opener)
        if self._inner_quotes:
            stop = self._inner_end(position)
        else:
            stop = find_quote(text, position + 1, opener)
            if stop == len(text):
                return self._read_unfinished_string(position, opener)
        return self._set_string(position, stop + 1, text[position + 1 : stop], opener)

    def _set_string(self, start: int, end: int, body: str, opener: str) -> int:
        self._edits.replace(start, end, write_string(body, opener, self._edits.steps))
        return end

    def _read_triple_quoted(self, position: int, opener: str) -> int:
        stop = self._text.find(opener * 3, position + 3)
        if stop < 0:
            raise UnreadableText
        self._edits.steps.add(RepairStep.QUOTES)
        return self._set_string(position, stop + 3, self._text[position + 3 : stop], opener)

    def _read_unfinished_string(self, position: int, opener: str) -> int:
        brackets = self._nesting.brackets
        body, stop = states.find_unfinished_end(self._text, position + 1, opener, brackets)
        if not brackets or stop < 0 or not self._edits.steps.isdisjoint(DOUBTFUL):
            raise UnreadableText
        self._edits.steps.add(RepairStep.UNFINISHED_STRING)
        return self._set_string(position, stop, body, opener)

    def _inner_end(self, position: int) -> int:
        stop = states.find_inner_end(self._text, position, self._nesting.brackets, self._nesting.names())
        if stop < 0:
            raise UnreadableText
        if stop > find_quote(self._text, position + 1, self._text[position]):
            self._edits.steps.add(RepairStep.INNER_QUOTES)
        return stop

    def _can_string_end(self, position: int) -> bool:
        return states.can_string_end(self._text, position, self._nesting.brackets, self._nesting.names())

    # Values without quotes, and missing values.

    def _read_bare(self, position: int) -> int:
        text = self._text
        nesting = self._nesting
        if not nesting.brackets:
            raise UnreadableText
        types = nesting.types()
        found = BARE_VALUE.match(text, position)
        value = read_bare_value(found[0], types, self._edits.steps) if found else None
        if value is None and types == {"string"} and (found := BARE_PHRASE.match(text, position)):
            if found[1] and found[1] not in nesting.names():
                raise UnreadableText
            self._edits.steps.add(RepairStep.BARE_VALUES)
            value = encode(found[0].rstrip()).decode()
        if found is None or value is None:
            raise UnreadableText
        self._edits.replace(position, found.end(), value)
        self._end_value()
        return found.end()

    def _omit(self, position: int) -> int:
        """Drop a key without a value, if the schema declares the key as optional."""
        if not self._nesting.brackets or not self._nesting.is_key_optional():
            raise UnreadableText
        self._edits.drop_from(self._key_start)
        self._edits.replace(self._key_start, position, "", RepairStep.OMITTED_VALUES)
        self._state = MEMBER
        return position


HANDLERS: dict[ReaderState, Callable[[LenientReader, int], int]] = {
    MEMBER: LenientReader._member,
    COLON: LenientReader._colon,
    VALUE: LenientReader._value,
    ITEM: LenientReader._item,
    AFTER: LenientReader._after,
}
