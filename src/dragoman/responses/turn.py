"""Makes one turn out of a request that leans on what is kept: the whole conversation, for any upstream.

What the client said about state ends here: no upstream is asked to store, to continue or to run anything in
the background, because whatever it stored could not be found again at another one.
"""

from collections.abc import Mapping, Sequence

import msgspec

from dragoman.exchange.ask import Ask
from dragoman.hub.errors import ClientProtocolError, DragomanError
from dragoman.responses.labels import Label
from dragoman.responses.store import ResponseStore
from dragoman.responses.stored import CONTINUABLE, Members, items_of, members_of, previous_not_found

ENCRYPTED_REASONING = "reasoning.encrypted_content"
#: Marks of requests that need a turn of ours though they neither store nor continue.
_MARKS = (b'"item_reference"',)

_encode = msgspec.json.encode


class Wish(msgspec.Struct, frozen=True):
    """What a request says about state. Anything of the wrong type is refused when it is used."""

    store: object = None
    previous_response_id: object = None
    background: object = None
    conversation: object = None
    stream: object = None
    reasoning: object = None
    include: object = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A request made whole. `input`: what is new in it, as far as the store is concerned."""

    ask: Ask
    label: Label
    owner: str
    #: The stored response that it continues.
    parent: str
    input: list[msgspec.Raw]
    #: Everything that was said up to here, `input` included.
    conversation: list[msgspec.Raw]
    stream: bool = False


class Local(msgspec.Struct):
    """What one connection remembers without storing it: the last response and all that led to it."""

    id: str = ""
    items: list[msgspec.Raw] = []


_wish = msgspec.json.Decoder(Wish).decode
_string = msgspec.json.Decoder(str).decode


class ItemHead(msgspec.Struct):
    type: object = ""
    id: object = ""


_head = msgspec.json.Decoder(ItemHead).decode


def wish_of(body: bytes) -> Wish | None:
    """What the request asks of us beyond a reply; None if that is nothing, or it cannot be read at all."""
    try:
        wish = _wish(body)
    except (ValueError, RecursionError):
        return None
    if wish.conversation is not None:
        # That is kept by the vendor, and only the vendor can go on with it.
        return None
    plain = wish.store is False and wish.previous_response_id is None and not wish.background
    return None if plain and not any(mark in body for mark in _MARKS) else wish


class TurnMaker:
    def __init__(self, store: ResponseStore, *, keeps: bool, limit: int) -> None:
        self._store = store
        self._keeps = keeps
        self._limit = limit

    async def make(self, ask: Ask, wish: Wish, response_id: str, owner: str, local: Local) -> Turn:
        members = members_of(ask.take_body())
        previous = _text(wish.previous_response_id, "previous_response_id")
        background = _flag(wish.background, "background", default=False)
        stream = _flag(wish.stream, "stream", default=False)
        store = _flag(wish.store, "store", default=True)
        if background and not (store and self._keeps):
            raise ClientProtocolError("a response that runs in the background must be stored", path="store")
        new = await self._resolved(_input(members), owner)
        parent, before = "", list[msgspec.Raw]()
        if previous and previous == local.id:
            before = local.items
        elif previous:
            parent, before = previous, await self._before(previous, owner)
        if previous or new is not None:
            members["input"] = msgspec.Raw(_encode([*before, *(new or ())]))
        _settle(members, wish, background=background)
        body = _encode(members)
        return Turn(
            ask=msgspec.structs.replace(ask, body=body, assembled=bool(previous), seals=True),
            label=Label(
                id=response_id, previous=previous, store=store and self._keeps, background=background
            ),
            owner=owner,
            parent=parent,
            input=[*([] if parent else before), *(new or ())],
            conversation=[*before, *(new or ())],
            stream=stream,
        )

    async def _before(self, previous: str, owner: str) -> list[msgspec.Raw]:
        """Input and output of every turn before this one, in order."""
        try:
            status, turns = await self._store.turns(previous, owner, self._limit)
        except DragomanError as error:
            if error.status == 404:
                raise previous_not_found() from None
            raise
        if status not in CONTINUABLE:
            raise ClientProtocolError(
                f"the response is {status.replace('_', ' ')} and cannot be continued",
                path="previous_response_id",
                hint="wait until it is completed",
            )
        return [item for turn in turns for part in (turn.input, turn.output) for item in items_of(part)]

    async def _resolved(self, items: list[msgspec.Raw] | None, owner: str) -> list[msgspec.Raw] | None:
        """The items, references replaced by what they refer to. What is unknown is left to upstreams."""
        places = {
            position: head.id
            for position, item in enumerate(items or ())
            if b"item_reference" in bytes(item)
            and (head := _head(item)).type == "item_reference"
            and isinstance(head.id, str)
        }
        if not places or items is None:
            return items
        found = await self._store.items(list(places.values()), owner)
        known = {place: item for place, item in zip(places, found, strict=True) if item is not None}
        return [known.get(position, item) for position, item in enumerate(items)]


def _input(members: Mapping[str, msgspec.Raw]) -> list[msgspec.Raw] | None:
    """The request's own items; None if it has none to speak of."""
    given = bytes(members.get("input", b"null"))
    if given[:1] == b'"':
        return [msgspec.Raw(_encode({"type": "message", "role": "user", "content": _string(given)}))]
    if given[:1] == b"[":
        return items_of(given)
    if given == b"null":
        return None
    raise ClientProtocolError("expected a string or an array", path="input")


def _settle(members: Members, wish: Wish, *, background: bool) -> None:
    """Leave nothing about state for an upstream to act on."""
    members["store"] = msgspec.Raw(b"false")
    members.pop("previous_response_id", None)
    members.pop("background", None)
    if background:
        members["stream"] = msgspec.Raw(b"true")
    reasoning = wish.reasoning
    thinks = isinstance(reasoning, dict) and reasoning.get("effort") != "none"
    include = wish.include if isinstance(wish.include, list) else []
    if thinks and ENCRYPTED_REASONING not in include:
        # What an upstream does not store has to come back to it in full.
        members["include"] = msgspec.Raw(_encode([*include, ENCRYPTED_REASONING]))


def _text(value: object, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value:
        raise ClientProtocolError("expected the id of a response", path=name)
    return value


def _flag(value: object, name: str, *, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ClientProtocolError("expected a boolean", path=name)
    return value


def array(items: Sequence[msgspec.Raw]) -> bytes:
    return _encode(items)
