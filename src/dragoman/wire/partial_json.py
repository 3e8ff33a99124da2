"""JSON that still arrives: how much of it is valid, how to complete it early, one string while it arrives.

Results do not depend on where the text is cut. Time is linear in the text; memory does not grow with it,
except in `StringMember` until it has found its member, up to a limit.
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
    complete_escape,
    pair_surrogates,
    unescape,
)

LIMIT = 16 * 1024 * 1024

#: The members that hold arguments which are no object: another value, or an incomplete object.
TEXT_MEMBER = "text"
INCOMPLETE_MEMBER = "incomplete_arguments"

#: Characters that one regular expression reads at most, which bounds its memory.
WINDOW = 64 * 1024


def parse_object(text: str, *, limit: int = LIMIT) -> dict[str, object] | None:
    """The object in a strict JSON text; None if it is no object. An empty text is an empty object."""
    if not text or text.isspace():
        return {}
    try:
        value = decode(text, limit=limit)
    except DragomanError:
        return None
    return value if isinstance(value, dict) else None


def wrap_as_object(text: str) -> dict[str, object]:
    """An object that contains a text which is no object itself."""
    return {choose_member(text): text}


def choose_member(text: str) -> str:
    """The member of `wrap_as_object` for this text.

    An incomplete object gets a member that no tool has: half a command must not run.
    """
    if not text.lstrip().startswith("{"):
        return TEXT_MEMBER
    prefix = JsonPrefix()
    prefix.feed(text)
    return TEXT_MEMBER if prefix.is_broken and text.rstrip().endswith("}") else INCOMPLETE_MEMBER


class JsonPrefix:
    """Checks whether a text that arrives in pieces is the beginning of one strict JSON value.

    `is_broken`: the text is invalid, and everything from there on is refused. `kind`: the kind of the value
    ("object", "array", "string", "number", "boolean", "null"); empty until it begins.
    """

    __slots__ = ("_escape", "_stack", "_state", "is_broken", "kind")

    def __init__(self) -> None:
        self.is_broken = False
        self.kind = ""
        self._state: State = START
        #: The open brackets, outermost first.
        self._stack: list[str] = []
        #: The beginning of an escape. It is read again with the text that follows.
        self._escape = ""

    def copy(self) -> "JsonPrefix":
        """An independent copy of this checker, in the same state."""
        copied = JsonPrefix()
        copied.is_broken, copied.kind, copied._state = self.is_broken, self.kind, self._state
        copied._stack, copied._escape = [*self._stack], self._escape
        return copied

    @property
    def is_empty(self) -> bool:
        """Whether the text has only white space so far."""
        return self._state is START

    @property
    def is_complete(self) -> bool:
        """Whether a complete value was read, perhaps with white space after it."""
        return self._state is DONE or (not self._stack and self._state in NUMBER_ENDS)

    @property
    def depth(self) -> int:
        return len(self._stack)

    def is_string_continuation(self, text: str) -> bool:
        """Whether a text only continues the open string, as most pieces do. It need not be fed then."""
        return (
            self._state in STRINGS
            and not self._escape
            and not self.is_broken
            and len(text) <= WINDOW
            and PLAIN_TEXT.fullmatch(text) is not None
        )

    def feed(self, text: str) -> int:
        """The number of characters of this text that continue valid JSON."""
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
        """A shortest text that completes the accepted text; a missing value becomes null."""
        return self._ending() + self._brackets(0)

    def closing_with(self, key: str, value_json: str) -> str:
        """Like `closing`, with one more member in the top-level object.

        The member is left out if the value is no object or is closed already.
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
        return complete_escape(self._escape) + ENDINGS[self._state]

    def _brackets(self, outermost: int) -> str:
        return "".join([CLOSERS[bracket] for bracket in reversed(self._stack[outermost:])])

    def _resume(self, text: str) -> str:
        text = self._escape + text
        self._escape = ""
        return text

    def _advance(self, text: str, position: int) -> int:
        """Read from `position`, at most to the next border of a string; return the new position."""
        if self._state in STRINGS:
            return self._read_string(text, position)
        return self._read_tokens(text, position)

    def _read_string(self, text: str, position: int) -> int:
        found = STRING_BODY.match(text, position, position + WINDOW)
        stop = found.end() if found else position
        if stop == len(text):
            return stop
        if text[stop] == '"':
            self._state = COLON if self._state is KEY_TEXT else self._leave_value()
            return stop + 1
        if stop > position:
            return stop
        # No complete character here: an escape begins, or the text is invalid.
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
                state = self._leave_value()
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
                state = self._leave_value()
            elif move is ENDED:
                state = self._leave_value()
            else:
                state = move
                if move in STRINGS:
                    break
        self._state = state
        return position

    def _leave_value(self) -> State:
        return AFTER_VALUE[self._stack[-1]] if self._stack else DONE


class StringMember:
    """Decodes one string member of an object while it arrives; other members are skipped.

    For free-text tools, whose input is wrapped in an object for models that can only send objects. Models
    make mistakes in the wrapping, so the string is read leniently. If the member does not come, `is_found`
    stays False and `raw` is the whole text.
    """

    __slots__ = ("_escape", "_half", "_is_ended", "_key", "_name", "_prefix", "_raw", "_room", "is_found")

    def __init__(self, name: str, *, limit: int = LIMIT) -> None:
        self.is_found = False
        self._name = name
        self._prefix = JsonPrefix()
        self._key = ""
        self._raw = io.StringIO()
        self._room = limit
        #: For the string: whether it has ended, and an escape and a surrogate that may continue.
        self._is_ended = False
        self._escape = ""
        self._half = ""

    @property
    def raw(self) -> str:
        """The text so far; empty once the member is found."""
        return self._raw.getvalue()

    def feed(self, text: str) -> str:
        """The text that this piece adds to the member."""
        if self.is_found:
            return self._read(text)
        self._room -= len(text)
        if self._room < 0:
            raise UpstreamProtocolError("tool arguments are longer than allowed")
        self._raw.write(text)
        rest = self._find(text)
        if rest is None:
            return ""
        self.is_found = True
        self._raw = io.StringIO()
        return self._read(rest)

    def finish(self) -> str:
        """The text to add at the end.

        A string under another name is accepted if it is the only member; so is a bare JSON string.
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
        self.is_found = self._is_ended = True
        self._raw = io.StringIO()
        return value

    def _find(self, text: str) -> str | None:
        """The text after the opening quote of the member; None if it is not here."""
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
        # A longer key cannot be the wanted one, even with every character escaped.
        if len(self._key) <= 12 * len(self._name) + 2:
            self._key += piece

    def _is_wanted(self) -> bool:
        try:
            return decode(self._key, limit=LIMIT) == self._name
        except DragomanError:
            return False

    def _read(self, text: str) -> str:
        if self._is_ended or not text:
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
                self._is_ended = True
                break
            if stop == position:
                # A backslash without a complete escape: it may become one, otherwise it means itself.
                if LENIENT_ESCAPE_BEGINNING.fullmatch(text, stop):
                    self._escape = text[stop:]
                    break
                pieces.append("\\")
                stop += 1
            position = stop
        return self._join_surrogates("".join(pieces))

    def _join_surrogates(self, text: str) -> str:
        """Join surrogate pairs and replace lone ones; keep a high surrogate at the end for the next piece."""
        self._half = ""
        if text.isascii() or not SURROGATE.search(text):
            return text
        if "\ud800" <= text[-1] <= "\udbff" and not self._is_ended:
            self._half = text[-1]
            text = text[:-1]
        return pair_surrogates(text)
