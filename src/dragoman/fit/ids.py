"""Call ids: legal for the target, unique, and equal on a call and its result; and legal for the client again.

An upstream's id that a client may not accept is encoded for the client (`ClientIds`). `fit_ids` decodes it in
the next request, if the target accepts the original.
"""

import base64
import binascii
import re
from itertools import count

from dragoman.fit.editing import build_illegal_pattern, edit_messages, is_foreign, replace
from dragoman.hub.blocks import AnyBlock, ToolCall, ToolResult
from dragoman.hub.errors import ConfigError
from dragoman.hub.events import EVENT_KINDS, BlockOpened, ReplyEvent
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, list_blocks
from dragoman.providers.profile import TargetFacts

#: Ids that every client and every vendor accepts.
SAFE = re.compile(r"[A-Za-z0-9_-]{1,40}")
SAFE_LENGTH = 40

#: New ids that are tried for one call. Only a very short limit makes more of them equal to others.
MAX_ATTEMPTS = 100

#: An encoded id: the original in base64, and a number if the same original came more than once.
ENCODED = re.compile(r"dgi([0-9]*)_([A-Za-z0-9_-]+)")


class ClientIds:
    """Gives the calls of one reply ids that the client accepts and does not use yet."""

    __slots__ = ("_repeats", "_taken")

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = set(taken)
        #: How often an id was in use already: keeps a reply in which all calls have one id linear.
        self._repeats: dict[str, int] = {}

    def assign(self, original: str) -> str:
        """The id that the client gets for a call with this id."""
        is_encoded = bool(ENCODED.fullmatch(original))
        if not is_encoded and original not in self._taken and SAFE.fullmatch(original):
            self._taken.add(original)
            return original
        body = "" if is_encoded else _encode_id(original)
        for repeat in count(self._repeats.get(original, 0)):
            candidate = f"dgi{repeat or ''}_{body}"
            if not body or len(candidate) > SAFE_LENGTH:
                candidate = "call_" + digest(original, str(repeat))
            if candidate not in self._taken:
                break
        self._repeats[original] = repeat + 1
        self._taken.add(candidate)
        return candidate


def decode_id(encoded: str) -> str | None:
    """The upstream's id inside an encoded one; None if `ClientIds` did not encode this id."""
    found = ENCODED.fullmatch(encoded)
    if found is None:
        return None
    body = found[2]
    try:
        original = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    except (ValueError, binascii.Error):
        return None
    # Anything but the one way of encoding it is a foreign id that looks like ours.
    is_ours = bool(original) and _encode_id(original) == body and not ENCODED.fullmatch(original)
    return original if is_ours else None


def _encode_id(original: str) -> str:
    try:
        return base64.urlsafe_b64encode(original.encode()).decode().rstrip("=")
    except UnicodeEncodeError:
        return ""


def fit_ids(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Give calls and results legal ids, in the order of the conversation.

    The order makes the ids stable: a longer conversation repeats the ids of a shorter one.
    """
    is_limited = target.call_id_limit or target.call_id_exact or target.call_id_extra != "*"
    if not is_limited and not is_foreign(request, target):
        return request
    if _has_legal_ids(request, target):
        return request
    assignment = _Assignment(target)
    return edit_messages(request, assignment.edit, inside_results=False)


def _has_legal_ids(request: Request, target: TargetFacts) -> bool:
    """Quick test: True if the target accepts all ids as they are, which is the usual case."""
    calls: list[str] = []
    ids: set[str] = set()
    for block in list_blocks(request.messages):
        if type(block) is ToolCall:
            calls.append(block.id)
        elif type(block) is ToolResult:
            ids.add(block.call_id)
    if len(set(calls)) < len(calls) and not target.repeated_calls:
        return False
    ids.update(calls)
    return all(is_legal_id(each, target) and not ENCODED.fullmatch(each) for each in ids)


class _Assignment:
    """The ids given so far in one conversation."""

    def __init__(self, target: TargetFacts) -> None:
        self._target = target
        self._used: set[str] = set()
        self._repeats: dict[str, int] = {}
        #: By client id: the new ids of the calls in the last message that has any. Results take them in
        #: order.
        self._unanswered: dict[str, list[str]] = {}
        self._message: dict[str, Message] = {}

    def edit(self, block: AnyBlock, message: Message) -> AnyBlock:
        if type(block) is ToolCall:
            new = self._assign_call(block.id, message)
            return block if new == block.id else replace(block, id=new)
        if type(block) is ToolResult:
            new = self._find_result(block.call_id)
            return block if new == block.call_id else replace(block, call_id=new)
        return block

    def _assign_call(self, client: str, message: Message) -> str:
        new = self._choose(client)
        self._used.add(new)
        if self._message.get(client) is message:
            self._unanswered[client].append(new)
        else:
            self._message[client] = message
            self._unanswered[client] = [new]
        return new

    def _choose(self, client: str) -> str:
        for candidate in (decode_id(client) or client, client):
            is_free = candidate not in self._used or self._target.repeated_calls
            if is_free and is_legal_id(candidate, self._target):
                return candidate
        first = self._repeats.get(client, 0)
        for repeat in range(first, first + MAX_ATTEMPTS):
            hashed = _hash_id(client, repeat, self._target)
            if hashed not in self._used:
                self._repeats[client] = repeat + 1
                return hashed
        length = self._target.call_id_exact or self._target.call_id_limit
        raise ConfigError(f"call ids of {length} characters leave no room to distinguish calls")

    def _find_result(self, client: str) -> str:
        unanswered = self._unanswered.get(client)
        if not unanswered:
            return client if is_legal_id(client, self._target) else _hash_id(client, 0, self._target)
        return unanswered.pop(0) if len(unanswered) > 1 else unanswered[0]


def is_legal_id(call_id: str, target: TargetFacts) -> bool:
    if target.call_id_exact:
        return len(call_id) == target.call_id_exact and call_id.isascii() and call_id.isalnum()
    if target.call_id_limit and len(call_id) > target.call_id_limit:
        return False
    return bool(call_id) and not build_illegal_pattern(target.call_id_extra).search(call_id)


def _hash_id(client: str, repeat: int, target: TargetFacts) -> str:
    """A new id for a client's id. It quotes no part of it: `tool-1` is the beginning of `tool-10`."""
    salt = str(repeat) if repeat else ""
    if target.call_id_exact:
        pieces = (digest(client, salt, str(n)) for n in range(1 + target.call_id_exact // 24))
        return "".join(pieces)[: target.call_id_exact]
    new = "call_" + digest(client, salt)
    limit = target.call_id_limit
    return new if not limit or len(new) <= limit else digest(client, salt, length=limit)


class IdsStage:
    """Gives the calls of a reply ids that are legal and new for the client.

    From such an id `decode_id` restores the upstream's id, where the id was encoded.
    """

    __slots__ = ("_ids",)

    unchanged_kinds = EVENT_KINDS - {BlockOpened}

    def __init__(self, taken: frozenset[str]) -> None:
        self._ids = ClientIds(taken)

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            call_id = self._ids.assign(event.block.id)
            if call_id != event.block.id:
                return [BlockOpened(event.index, replace(event.block, id=call_id))]
        return [event]
