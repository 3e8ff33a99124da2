"""The arguments of one call while `hold` collects them: what arrived, what may go out, how it can go on.

`HeldArguments` sends nothing before the end. `StreamedArguments` sends the beginning of one strict JSON
object as it arrives, but keeps back every part that a repair may have to change: a comma, number or word
before the next token, a key before its colon, an unfinished escape, the first bracket and the last.
`find_continuation` completes what was sent to the repaired object, if that is possible.
"""

import re
from typing import NamedTuple

import msgspec

from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, encode
from dragoman.wire.partial_json import LIMIT, JsonPrefix, parse_object

_HEX = "[0-9a-fA-F]"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
#: Text and complete escapes; half of a surrogate pair is not complete.
_WHOLE = re.compile(
    rf"(?:[^\\]++|\\(?:[^u]"
    rf"|u(?:[0-9abcefABCEF]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}|[dD][89abAB]{_HEX}{{2}}{_LOW})))*+"
)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
#: Characters outside strings that wait for the next token.
_WAITING = "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, \t\r\n"

#: A longer key is sent as it arrives.
MAX_KEY = 4096


class HeldArguments:
    """The arguments of one call, all held back until its end."""

    __slots__ = ("_pieces", "sent")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        #: How many characters are sent.
        self.sent = 0

    def add(self, text: str) -> str:
        """Add a piece. Returns the text that may be sent now."""
        self._pieces.append(text)
        return ""

    @property
    def is_held(self) -> bool:
        """Whether the arguments are kept back, beyond the few characters that wait for the next token."""
        return True

    @property
    def raw(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def rest(self) -> str:
        return self.raw[self.sent :]

    @property
    def is_empty(self) -> bool:
        return not self.raw.strip()

    @property
    def is_valid(self) -> bool:
        """Whether this is one strict JSON object, or empty, which means no arguments."""
        return parse_object(self.raw) is not None


class StreamedArguments(HeldArguments):
    """Arguments that are sent as they arrive, until they deviate from strict JSON."""

    __slots__ = ("_has_deviated", "_in_string", "_prefix", "_tail", "_tail_in_string")

    def __init__(self) -> None:
        super().__init__()
        self._prefix = JsonPrefix()
        self._has_deviated = False
        self._in_string = False
        #: The pieces that wait, and whether they begin inside a string.
        self._tail: list[str] = []
        self._tail_in_string = False

    def add(self, text: str) -> str:
        """Take the next piece. Returns the text that may be sent now, because no repair can change it."""
        self._pieces.append(text)
        prefix = self._prefix
        if self._in_string and not self._tail and prefix.is_string_continuation(text):
            self.sent += len(text)
            return text
        if self._has_deviated:
            return ""
        accepted = prefix.feed(text)
        kind = prefix.kind
        self._has_deviated = prefix.is_broken or (bool(kind) and kind != "object")
        if kind and kind != "object":
            return ""
        ready = self._find_ready(text if accepted == len(text) else text[:accepted])
        self.sent += len(ready)
        return ready

    @property
    def is_held(self) -> bool:
        return self._has_deviated

    @property
    def is_valid(self) -> bool:
        if self._has_deviated:
            return False
        return self._prefix.is_empty or self._prefix.is_complete

    def _find_ready(self, text: str) -> str:
        """The part of the waiting text plus `text` that can be sent now; the rest waits."""
        if '"' in text or "\\" in text or (self._in_string and self._tail):
            return self._find_ready_quoted(text)
        if self._in_string:
            return text
        return self._split_at(text, self._ready_length(text))

    def _ready_length(self, text: str) -> int:
        """The number of characters that may be sent of a text that ends outside strings."""
        ready = text.rstrip(_WAITING)
        if self._prefix.is_complete:
            # Some models write more after the last bracket, so it waits too.
            ready = ready[:-1].rstrip(_WAITING)
        return len(ready)

    def _find_ready_quoted(self, text: str) -> str:
        if self._in_string and self._tail:
            # A key, or the beginning of an escape: short in both cases.
            text, self._tail = "".join(self._tail) + text, []
            self._in_string = self._tail_in_string
        masked = _ESCAPE.sub("__", text)
        self._in_string ^= bool(masked.count('"') & 1)
        end = self._find_open_key(masked)
        if end is None and self._in_string:
            whole = _WHOLE.match(text)
            self._tail_in_string = True
            return self._split_at(text, whole.end() if whole else 0)
        self._tail_in_string = False
        return self._split_at(text, self._ready_length(text[:end]))

    def _find_open_key(self, masked: str) -> int | None:
        """Where a key begins that has no colon yet; None if there is none, or it is too long to wait."""
        if '"' not in masked:
            return None
        closing = self._prefix.closing()
        if not (":null" in closing if self._in_string else closing.startswith(":")):
            return None
        ends = len(masked) if self._in_string else masked.rfind('"')
        begins = masked.rfind('"', 0, ends)
        return begins if begins >= 0 and len(masked) - begins <= MAX_KEY else None

    def _split_at(self, text: str, end: int) -> str:
        if end == 0:
            self._tail.append(text)
            return ""
        ready = "".join(self._tail) + text[:end]
        rest = text[end:]
        if not self.sent and ready.strip() == "{":
            ready, rest = "", ready + rest
        self._tail = [rest] if rest else []
        return ready


class _OpenContainer(NamedTuple):
    """An open object or array: the members that were sent, and the members that it must have."""

    sent: object
    wanted: object


def find_continuation(sent: str, wanted: dict[str, object]) -> str | None:
    """The text that completes `sent` to the JSON object `wanted`, or None if there is none.

    `sent` is the beginning of a JSON object; it ends inside a string or after a bracket, colon or quote.
    """
    if not sent:
        return _write(wanted)
    prefix = JsonPrefix()
    prefix.feed(sent)
    if prefix.is_broken:
        return None
    closing = prefix.closing()
    try:
        containers = _find_containers(decode(sent + closing, limit=2 * LIMIT), wanted, prefix.depth)
        candidate = _write_rest(containers, closing)
        # Compared as text: for Python 1, 1.0 and True are equal.
        if candidate is not None and _sort(decode(sent + candidate, limit=2 * LIMIT)) == _sort(wanted):
            return candidate
    except (DragomanError, KeyError, IndexError, TypeError, ValueError):
        # The sent and the wanted object have different shapes.
        return None
    return None


def _find_containers(sent: object, wanted: object, depth: int) -> list[_OpenContainer]:
    """The open containers, outermost first; each but the first is the last member of the one before."""
    containers: list[_OpenContainer] = []
    for _ in range(depth):
        containers.append(_OpenContainer(sent, wanted))
        if sent:
            key = _last_key(sent)
            sent, wanted = _read_member(sent, key), _try_member(wanted, key)
    return containers


def _write_rest(containers: list[_OpenContainer], closing: str) -> str | None:
    if not containers:
        return ""
    text = _write_value_end(containers[-1], closing)
    if text is None:
        return None
    for each in reversed(containers):
        text += _write_members(each, in_key=closing.startswith('":') and each is containers[-1])
    return text


def _write_value_end(innermost: _OpenContainer, closing: str) -> str | None:
    """Write the end of the unfinished member. `closing`: the text that would close the sent JSON."""
    sent, wanted = innermost
    if closing.startswith('":'):
        begun = str(_last_key(sent))
        key = _find_key(innermost, begun)
        return None if key is None else f'{_escape(key[len(begun) :])}":{_write(_read_member(wanted, key))}'
    if closing.startswith('"') and not closing.startswith('"":'):
        last = _last_key(sent)
        part, whole = _read_member(sent, last), _read_member(wanted, last)
        if not isinstance(part, str) or not isinstance(whole, str) or not whole.startswith(part):
            return None
        return _escape(whole[len(part) :]) + '"'
    if closing.startswith((":null", "null")):
        colon = ":" if closing.startswith(":") else ""
        return colon + _write(_read_member(wanted, _last_key(sent)))
    return ""


def _find_key(container: _OpenContainer, begun: str) -> str | None:
    """The key of the wanted object that completes the partly sent key `begun`; None if none does."""
    sent, wanted = container
    if not isinstance(sent, dict) or not isinstance(wanted, dict):
        return None
    return next((key for key in wanted if key.startswith(begun) and (key == begun or key not in sent)), None)


def _write_members(container: _OpenContainer, *, in_key: bool) -> str:
    """The members that are not sent yet, and the closing bracket."""
    sent, wanted = container
    if isinstance(sent, list) and isinstance(wanted, list):
        members = [_write(item) for item in wanted[len(sent) :]]
    elif isinstance(sent, dict) and isinstance(wanted, dict):
        done = set(sent)
        if in_key:
            begun = str(_last_key(sent))
            done = (done - {begun}) | {_find_key(container, begun)}
        members = [f"{_write(key)}:{_write(value)}" for key, value in wanted.items() if key not in done]
    else:
        raise TypeError
    comma = "," if sent and members else ""
    return comma + ",".join(members) + ("]" if isinstance(sent, list) else "}")


def _last_key(container: object) -> str | int:
    if isinstance(container, dict):
        return str(next(reversed(container)))
    if isinstance(container, list):
        return len(container) - 1
    raise TypeError


def _read_member(container: object, key: str | int) -> object:
    if isinstance(container, dict) and isinstance(key, str):
        return container[key]
    if isinstance(container, list) and isinstance(key, int):
        return container[key]
    raise TypeError


def _try_member(container: object, key: str | int) -> object:
    """The member `key` of the container; None without one, for example if the key is unfinished."""
    try:
        return _read_member(container, key)
    except (KeyError, IndexError):
        return None


def _sort(value: object) -> bytes:
    """The value as JSON with sorted keys."""
    return msgspec.json.encode(value, order="sorted")


def _write(value: object) -> str:
    return encode(value).decode()


def _escape(text: str) -> str:
    """The text as it stands inside a JSON string."""
    return _write(text)[1:-1]
