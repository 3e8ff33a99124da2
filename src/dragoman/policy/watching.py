"""One call's arguments at the gate: what has come, and how much of it may go out already.

`HeldArguments` let nothing go. `WatchedArguments` let go what is surely the beginning of one strict JSON
object, but never a part that might have to be mended: no comma, number or word before what follows it, no
unfinished escape, and no lone opening bracket, so that what deviates at its first key can be mended freely.
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
    def is_sound(self) -> bool:
        """Whether this is one strict JSON object, or nothing at all, which means no arguments."""
        return parse_object(self.raw) is not None


class WatchedArguments(HeldArguments):
    __slots__ = ("_has_deviated", "_in_string", "_prefix", "_tail")

    def __init__(self) -> None:
        super().__init__()
        self._prefix = JsonPrefix()
        self._has_deviated = False
        self._in_string = False
        #: What came but is not settled: pieces, because it can be long.
        self._tail: list[str] = []

    def add(self, text: str) -> str:
        self._pieces.append(text)
        if self._has_deviated:
            return ""
        accepted = self._prefix.feed(text)
        kind = self._prefix.kind
        self._has_deviated = self._prefix.broken or (bool(kind) and kind != "object")
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
        return self._prefix.empty or self._prefix.complete

    def _settled(self, text: str) -> str:
        """What of the unsettled and this further text is settled now."""
        if '"' in text or "\\" in text or (self._in_string and self._tail):
            return self._settled_with_quotes(text)
        if self._in_string:
            return text
        return self._settled_to(text, len(text.rstrip(_UNSETTLED)))

    def _settled_with_quotes(self, text: str) -> str:
        if self._in_string and self._tail:
            # The beginning of an escape, a few characters at most.
            text, self._tail = "".join(self._tail) + text, []
        self._in_string ^= bool(_ESCAPE.sub("", text).count('"') & 1)
        if not self._in_string:
            return self._settled_to(text, len(text.rstrip(_UNSETTLED)))
        whole = _WHOLE.match(text)
        return self._settled_to(text, whole.end() if whole else 0)

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
