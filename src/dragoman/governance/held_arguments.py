"""One call's arguments at the gate: what has come, and how much of it may go out already.

`HeldArguments` let nothing go. `StreamedArguments` let go what is surely the beginning of one strict JSON
object, but never a part that might have to be mended: no comma, number or word before what follows it, no key
before its colon, no unfinished escape, neither the first bracket nor the last. What deviates there can still
be mended freely.
"""

import re

from dragoman.wire.partial_json import JsonPrefix, parse_object

_HEX = "[0-9a-fA-F]"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
#: Text and whole escapes; half a pair of surrogates is no whole escape.
_WHOLE = re.compile(
    rf"(?:[^\\]++|\\(?:[^u]"
    rf"|u(?:[0-9abcefABCEF]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}|[dD][89abAB]{_HEX}{{2}}{_LOW})))*+"
)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
#: Outside strings: what is not let go before something else follows it.
_UNSETTLED = "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, \t\r\n"

#: A longer key is let go as it comes.
MAX_KEY = 4096


class HeldArguments:
    __slots__ = ("_pieces", "sent")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        #: How many characters went out.
        self.sent = 0

    def add(self, text: str) -> str:
        """What may go out now."""
        self._pieces.append(text)
        return ""

    @property
    def is_held(self) -> bool:
        """Whether something is kept back for good reason."""
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
    def is_sound(self) -> bool:
        """Whether this is one strict JSON object, or nothing at all, which means no arguments."""
        return parse_object(self.raw) is not None


class StreamedArguments(HeldArguments):
    __slots__ = ("_has_deviated", "_in_string", "_prefix", "_tail", "_tail_in_string")

    def __init__(self) -> None:
        super().__init__()
        self._prefix = JsonPrefix()
        self._has_deviated = False
        self._in_string = False
        #: What came but is not settled: pieces, because it can be long; and whether it begins in a string.
        self._tail: list[str] = []
        self._tail_in_string = False

    def add(self, text: str) -> str:
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
        settled = self._settled(text if accepted == len(text) else text[:accepted])
        self.sent += len(settled)
        return settled

    @property
    def is_held(self) -> bool:
        return self._has_deviated

    @property
    def is_sound(self) -> bool:
        if self._has_deviated:
            return False
        return self._prefix.is_empty or self._prefix.is_complete

    def _settled(self, text: str) -> str:
        """What of the unsettled and this further text is settled now."""
        if '"' in text or "\\" in text or (self._in_string and self._tail):
            return self._settled_with_quotes(text)
        if self._in_string:
            return text
        return self._settled_to(text, self._settled_length(text))

    def _settled_length(self, text: str) -> int:
        """How much of a text that ends outside strings is settled."""
        settled = text.rstrip(_UNSETTLED)
        if self._prefix.is_complete:
            # Models go on behind the last bracket, so it has to wait as well.
            settled = settled[:-1].rstrip(_UNSETTLED)
        return len(settled)

    def _settled_with_quotes(self, text: str) -> str:
        if self._in_string and self._tail:
            # A key, or the beginning of an escape: not much in either case.
            text, self._tail = "".join(self._tail) + text, []
            self._in_string = self._tail_in_string
        masked = _ESCAPE.sub("__", text)
        self._in_string ^= bool(masked.count('"') & 1)
        end = self._before_key(masked)
        if end is None and self._in_string:
            whole = _WHOLE.match(text)
            self._tail_in_string = True
            return self._settled_to(text, whole.end() if whole else 0)
        self._tail_in_string = False
        return self._settled_to(text, self._settled_length(text[:end]))

    def _before_key(self, masked: str) -> int | None:
        """Where a key begins that has no colon behind it yet; None if there is none, or it is endless."""
        if '"' not in masked:
            return None
        closing = self._prefix.closing()
        if not (":null" in closing if self._in_string else closing.startswith(":")):
            return None
        ends = len(masked) if self._in_string else masked.rfind('"')
        begins = masked.rfind('"', 0, ends)
        return begins if begins >= 0 and len(masked) - begins <= MAX_KEY else None

    def _settled_to(self, text: str, end: int) -> str:
        if end == 0:
            self._tail.append(text)
            return ""
        settled = "".join(self._tail) + text[:end]
        rest = text[end:]
        if not self.sent and settled.strip() == "{":
            settled, rest = "", settled + rest
        self._tail = [rest] if rest else []
        return settled
