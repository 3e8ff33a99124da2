"""Call ids that the target takes, the same on a call and on its result, no two calls alike.

An upstream's id that a client may not be able to carry on is coded on its way to the client
(`client_id`), and comes out of its code again on the way back, if the target takes it.
"""

import base64
import binascii
import re
from functools import lru_cache
from itertools import count

from dragoman.fit.editing import edit_blocks, is_foreign, replace
from dragoman.hub.content import AnyBlock, ToolCall, ToolResult
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.providers.profile import Target

#: What every client and every vendor accepts.
SAFE = re.compile(r"[A-Za-z0-9_-]{1,40}")
SAFE_LENGTH = 40

#: A coded id: the original in base64, and a number if the same original came more than once.
CODED = re.compile(r"dgi([0-9]*)_([A-Za-z0-9_-]+)")


class ClientIds:
    """Gives the calls of one reply ids that the client can carry, none of which it has seen before."""

    __slots__ = ("_repeats", "_taken")

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = set(taken)
        #: How often an id was found taken, so that a reply of one id alone stays linear.
        self._repeats: dict[str, int] = {}

    def client_id(self, original: str) -> str:
        coded = bool(CODED.fullmatch(original))
        if not coded and original not in self._taken and SAFE.fullmatch(original):
            self._taken.add(original)
            return original
        body = "" if coded else _code(original)
        for repeat in count(self._repeats.get(original, 0)):
            candidate = f"dgi{repeat or ''}_{body}"
            if not body or len(candidate) > SAFE_LENGTH:
                candidate = "call_" + digest(original, str(repeat))
            if candidate not in self._taken:
                break
        self._repeats[original] = repeat + 1
        self._taken.add(candidate)
        return candidate


def original_id(coded: str) -> str | None:
    """The upstream's id inside a coded one, or None if this is no code of ours."""
    found = CODED.fullmatch(coded)
    if found is None:
        return None
    body = found[2]
    try:
        original = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    except (ValueError, binascii.Error):
        return None
    # Anything but the one way of coding it is somebody else's id that looks like ours.
    return original if original and _code(original) == body and not CODED.fullmatch(original) else None


def _code(original: str) -> str:
    try:
        return base64.urlsafe_b64encode(original.encode()).decode().rstrip("=")
    except UnicodeEncodeError:
        return ""


def ids(request: Request, target: Target, losses: Losses) -> Request:
    """Decide in the order of the conversation, so that a longer one repeats what a shorter one got."""
    limited = target.call_id_limit or target.call_id_exact or target.call_id_extra != "*"
    if not limited and not is_foreign(request, target):
        return request
    assignment = _Assignment(target)
    return edit_blocks(request, assignment.change, inside_results=False)


class _Assignment:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._used: set[str] = set()
        self._repeats: dict[str, int] = {}
        #: What the calls with an id became, in the last turn that had any; results take them in order.
        self._waiting: dict[str, list[str]] = {}
        self._turn: dict[str, Turn] = {}

    def change(self, block: AnyBlock, turn: Turn) -> AnyBlock:
        if type(block) is ToolCall:
            new = self._call(block.id, turn)
            return block if new == block.id else replace(block, id=new)
        if type(block) is ToolResult:
            new = self._result(block.call_id)
            return block if new == block.call_id else replace(block, call_id=new)
        return block

    def _call(self, client: str, turn: Turn) -> str:
        new = self._choose(client)
        self._used.add(new)
        if self._turn.get(client) is turn:
            self._waiting[client].append(new)
        else:
            self._turn[client] = turn
            self._waiting[client] = [new]
        return new

    def _choose(self, client: str) -> str:
        for candidate in (original_id(client) or client, client):
            is_free = candidate not in self._used or self._target.repeated_calls
            if is_free and is_legal_id(candidate, self._target):
                return candidate
        for repeat in count(self._repeats.get(client, 0)):
            hashed = _hashed(client, repeat, self._target)
            if hashed not in self._used:
                break
        self._repeats[client] = repeat + 1
        return hashed

    def _result(self, client: str) -> str:
        waiting = self._waiting.get(client)
        if not waiting:
            return client if is_legal_id(client, self._target) else _hashed(client, 0, self._target)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


def is_legal_id(call_id: str, target: Target) -> bool:
    if target.call_id_exact:
        return len(call_id) == target.call_id_exact and call_id.isascii() and call_id.isalnum()
    if target.call_id_limit and len(call_id) > target.call_id_limit:
        return False
    return bool(call_id) and not _illegal(target.call_id_extra).search(call_id)


@lru_cache(maxsize=64)
def _illegal(extra: str) -> re.Pattern[str]:
    return re.compile(r"(?!)" if extra == "*" else f"[^A-Za-z0-9_{re.escape(extra)}-]")


def _hashed(client: str, repeat: int, target: Target) -> str:
    """Never a part of the id itself: `tool-1` is the beginning of `tool-10`."""
    salt = str(repeat) if repeat else ""
    if target.call_id_exact:
        pieces = (digest(client, salt, str(n)) for n in range(1 + target.call_id_exact // 24))
        return "".join(pieces)[: target.call_id_exact]
    new = "call_" + digest(client, salt)
    limit = target.call_id_limit
    return new if not limit or len(new) <= limit else digest(client, salt, length=limit)
