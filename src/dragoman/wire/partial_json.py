"""JSON that is still arriving: how much of it is good, how to end it early, one string as it comes.

Results never depend on how the text was cut. Work is linear in the text; memory does not grow with it,
except for `StringMember` while it has not found what it looks for, up to a limit.
"""

import io

from dragoman.hub.errors import DragomanError, UpstreamProtocolError
from dragoman.wire.fields import DEPTH, decode, encode
from dragoman.wire.json_grammar import (
    AFTER_VALUE,
    AT_FIRST,
    CLOSE,
    CLOSERS,
    COLON,
    DONE,
    ENDED,
    ENDINGS,
    ESCAPE_BEGINNING,
    FIRST_KEY,
    KEY,
    KEY_TEXT,
    KINDS,
    LENIENT_BODY,
    LENIENT_ESCAPE_BEGINNING,
    MOVES,
    NUMBER_ENDS,
    OPEN,
    PLAIN_TEXT,
    START,
    STRING_BODY,
    STRINGS,
    SURROGATE,
    TEXT,
    State,
    escape_ending,
    pair_surrogates,
    unescape,
)

LIMIT = 16 * 1024 * 1024

#: The members that show arguments which are no object: another value, or one that never ended.
TEXT_MEMBER = "text"
INCOMPLETE_MEMBER = "incomplete_arguments"

#: Characters of a string looked at in one go, so that what a regular expression remembers stays small.
WINDOW = 64 * 1024


def parse_object(text: str, *, limit: int = LIMIT) -> dict[str, object] | None:
    """The object that a strict JSON text holds, or None if it holds none. No text at all is no arguments."""
    if not text or text.isspace():
        return {}
    try:
        value = decode(text, limit=limit)
    except DragomanError:
        return None
    return value if isinstance(value, dict) else None


def wrap_as_object(text: str) -> dict[str, object]:
    """An object that shows a text which holds none."""
    return {choose_member(text): text}


def choose_member(text: str) -> str:
    """The member that shows a text which holds no object.

    What was broken off stands in one that no tool takes for an argument: half a command must not run.
    """
    if not text.lstrip().startswith("{"):
        return TEXT_MEMBER
    prefix = JsonPrefix()
    prefix.feed(text)
    return TEXT_MEMBER if prefix.is_broken and text.rstrip().endswith("}") else INCOMPLETE_MEMBER


class JsonPrefix:
    """How far a text that arrives in pieces is the beginning of one strict JSON value.

    `is_broken`: the text has deviated, and everything from there on is refused. `kind`: what the value is
    ("object", "array", "string", "number", "boolean", "null"), empty until it begins.
    """

    __slots__ = ("_escape", "_stack", "_state", "is_broken", "kind")

    def __init__(self) -> None:
        self.is_broken = False
        self.kind = ""
        self._state: State = START
        #: The brackets that are open, outermost first.
        self._stack: list[str] = []
        #: The beginning of an escape: it is read again together with the text that follows.
        self._escape = ""

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing but white space so far."""
        return self._state is START

    @property
    def is_complete(self) -> bool:
        """Whether a whole value has been read, perhaps with white space after it."""
        return self._state is DONE or (not self._stack and self._state in NUMBER_ENDS)

    @property
    def is_in_string(self) -> bool:
        """Whether a string is open that is a value, not a key."""
        return self._state is TEXT

    @property
    def depth(self) -> int:
        return len(self._stack)

    def is_string_continuation(self, text: str) -> bool:
        """Whether this only continues the string that is open, as most pieces do; it need not be fed then."""
        return (
            self._state in STRINGS
            and not self._escape
            and not self.is_broken
            and len(text) <= WINDOW
            and PLAIN_TEXT.fullmatch(text) is not None
        )

    def feed(self, text: str) -> int:
        """How many characters of this text keep the whole a beginning of JSON."""
        if self.is_broken:
            return 0
        held = len(self._escape)
        if held:
            text = self._resume(text)
        position = 0
        end = len(text)
        while position < end and not self.is_broken:
            position = self._advance(text, position)
        return position - held

    def closing(self) -> str:
        """A shortest text that completes what was accepted so far; an owed value becomes null."""
        return self._ending() + self._brackets(0)

    def closing_with(self, key: str, value_json: str) -> str:
        """Like `closing`, with one more member in the top-level object.

        When the value is no object, or is already closed, there is no place for a member and it is left out.
        """
        member = f"{encode(key).decode()}:{value_json}}}"
        if self._state is START:
            return "{" + member
        if self._stack[:1] != ["{"]:
            return self.closing()
        if len(self._stack) == 1 and self._state in (FIRST_KEY, KEY):
            return member
        return f"{self._ending()}{self._brackets(1)},{member}"

    def _ending(self) -> str:
        return escape_ending(self._escape) + ENDINGS[self._state]

    def _brackets(self, outermost: int) -> str:
        return "".join([CLOSERS[bracket] for bracket in reversed(self._stack[outermost:])])

    def _resume(self, text: str) -> str:
        text = self._escape + text
        self._escape = ""
        return text

    def _advance(self, text: str, position: int) -> int:
        """Read on from before the end of the text, at most to the next border of a string: where that is."""
        if self._state in STRINGS:
            return self._read_string(text, position)
        return self._read_tokens(text, position)

    def _read_string(self, text: str, position: int) -> int:
        found = STRING_BODY.match(text, position, position + WINDOW)
        stop = found.end() if found else position
        if stop == len(text):
            return stop
        if text[stop] == '"':
            self._state = COLON if self._state is KEY_TEXT else self._after_value()
            return stop + 1
        if stop > position:
            return stop
        # Nothing whole can be read here: an escape has begun, or this is where the text deviates.
        found = ESCAPE_BEGINNING.match(text, position)
        stop = found.end() if found else position
        self._escape = text[position:stop]
        self.is_broken = stop < len(text)
        return stop

    def _read_tokens(self, text: str, position: int) -> int:
        state = self._state
        end = len(text)
        while position < end:
            character = text[position]
            move = MOVES[state].get(character)
            if move is None and state in NUMBER_ENDS:
                state = self._after_value()
                continue
            if move is None or (move is OPEN and len(self._stack) == DEPTH):
                self.is_broken = True
                break
            position += 1
            if state is START and move is not START:
                self.kind = KINDS[character]
            if move is OPEN:
                self._stack.append(character)
                state = AT_FIRST[character]
            elif move is CLOSE:
                self._stack.pop()
                state = self._after_value()
            elif move is ENDED:
                state = self._after_value()
            else:
                state = move
                if move in STRINGS:
                    break
        self._state = state
        return position

    def _after_value(self) -> State:
        return AFTER_VALUE[self._stack[-1]] if self._stack else DONE


class StringMember:
    """The text of one string member of an object, decoded as it arrives; other members are skipped.

    For tools that take free text, wrapped in an object for models that can only send objects. Models
    wrap badly, so the string itself is read leniently; and where nothing like it comes, `is_found`
    stays False and `raw` is all that was said.
    """

    __slots__ = ("_ended", "_escape", "_half", "_key", "_name", "_prefix", "_raw", "_room", "is_found")

    def __init__(self, name: str, *, limit: int = LIMIT) -> None:
        self.is_found = False
        self._name = name
        self._prefix = JsonPrefix()
        self._key = ""
        self._raw = io.StringIO()
        self._room = limit
        #: Of the string that was found: whether it has ended, and what may yet combine with what follows.
        self._ended = False
        self._escape = ""
        self._half = ""

    @property
    def raw(self) -> str:
        """Everything that came, as long as the member was not found."""
        return self._raw.getvalue()

    def feed(self, text: str) -> str:
        """What this piece adds to the member's text."""
        if self.is_found:
            return self._read(text)
        self._room -= len(text)
        if self._room < 0:
            raise UpstreamProtocolError("tool arguments are longer than allowed")
        self._raw.write(text)
        rest = self._hunt(text)
        if rest is None:
            return ""
        self.is_found = True
        self._raw = io.StringIO()
        return self._read(rest)

    def finish(self) -> str:
        """What is left to add when no more text comes.

        A string under any other name counts, if it is all the object holds; so does a bare JSON string.
        """
        if self.is_found:
            half, self._half = self._half, ""
            return pair_surrogates(half)
        prefix = self._prefix
        if prefix.is_broken or prefix.is_empty:
            return ""
        try:
            value = decode(self.raw + prefix.closing(), limit=4 * LIMIT)
        except DragomanError:
            return ""
        if isinstance(value, dict) and len(value) == 1:
            (value,) = value.values()
        if not isinstance(value, str):
            return ""
        self.is_found = self._ended = True
        self._raw = io.StringIO()
        return value

    def _hunt(self, text: str) -> str | None:
        """The text after the member's opening quote, if that is here."""
        prefix = self._prefix
        text = prefix._resume(text)
        position = 0
        while position < len(text) and not prefix.is_broken:
            start = position
            in_key = prefix._state is KEY_TEXT and prefix.depth == 1
            position = prefix._advance(text, position)
            if in_key:
                self._extend_key(text[start : position - len(prefix._escape)])
            elif prefix._state is KEY_TEXT:
                self._key = '"'
            elif prefix._state is TEXT and prefix._stack == ["{"] and self._is_wanted():
                return text[position:]
        return None

    def _extend_key(self, piece: str) -> None:
        # Longer than every character as an escape: no such key is the one we want.
        if len(self._key) <= 12 * len(self._name) + 2:
            self._key += piece

    def _is_wanted(self) -> bool:
        try:
            return decode(self._key, limit=LIMIT) == self._name
        except DragomanError:
            return False

    def _read(self, text: str) -> str:
        if self._ended or not text:
            return ""
        text = self._escape + text
        self._escape = ""
        pieces = [self._half]
        position = 0
        while position < len(text):
            found = LENIENT_BODY.match(text, position, position + WINDOW)
            stop = found.end() if found else position
            pieces.append(unescape(text[position:stop]))
            if stop < len(text) and text[stop] == '"':
                self._ended = True
                break
            if stop == position:
                # A backslash that begins no whole escape: it may become one, or else stands for itself.
                if LENIENT_ESCAPE_BEGINNING.fullmatch(text, stop):
                    self._escape = text[stop:]
                    break
                pieces.append("\\")
                stop += 1
            position = stop
        return self._paired("".join(pieces))

    def _paired(self, text: str) -> str:
        """The text without halves of surrogate pairs; a first half at the end waits for its second."""
        self._half = ""
        if text.isascii() or not SURROGATE.search(text):
            return text
        if "\ud800" <= text[-1] <= "\udbff" and not self._ended:
            self._half = text[-1]
            text = text[:-1]
        return pair_surrogates(text)
