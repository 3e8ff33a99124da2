"""Makes one turn out of a request that leans on what is kept: the whole conversation, for any upstream.

What the client said about state ends here: no upstream is asked to store, to continue or to run anything in
the background, because whatever it stored could not be found again at another one.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.dialects.base import Json
from dragoman.hub.errors import ClientProtocolError, DragomanError
from dragoman.hub.loss import Losses
from dragoman.pipeline.bodies import read_object
from dragoman.pipeline.plan import ClientRequest, RequestPlan
from dragoman.responses.compaction import asked_for, gone_on, head_of, is_trigger, told_again
from dragoman.responses.facts import ResponseFacts
from dragoman.responses.store import ResponseStore
from dragoman.responses.stored import CONTINUABLE, Members, items_of, members_of, previous_not_found, too_long

ENCRYPTED_REASONING = "reasoning.encrypted_content"
#: Marks of requests that need a turn of ours though they neither store nor continue.
_MARKS = (b'"item_reference"', b'"compaction')

#: How every item begins.
OBJECT = ord("{")

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
    model: object = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A request made whole. `input`: what is new in it, as far as the store is concerned."""

    plan: RequestPlan
    caller: Caller
    facts: ResponseFacts
    #: The stored response that it continues.
    parent: str
    input: list[msgspec.Raw]
    #: Everything that was said up to here, `input` included.
    conversation: list[msgspec.Raw]
    stream: bool = False
    #: The reply is to be a summary of the conversation.
    compacts: bool = False

    @property
    def owner(self) -> str:
        return self.caller.owner


class Local(msgspec.Struct):
    """What one connection remembers without storing it: the last response and all that led to it."""

    id: str = ""
    items: list[msgspec.Raw] = []


_wish = msgspec.json.Decoder(Wish).decode
_string = msgspec.json.Decoder(str).decode


def wish_of(body: bytes) -> Wish | None:
    """What a request says about state; None if it cannot be read at all."""
    try:
        return _wish(body)
    except (ValueError, RecursionError):
        return None


def leans(wish: Wish, body: bytes) -> bool:
    """Whether the request needs what is kept here, or wants to be kept."""
    if wish.conversation is not None:
        # That is kept by the vendor, and only the vendor can go on with it.
        return False
    plain = wish.store is False and wish.previous_response_id is None and not wish.background
    return not plain or any(mark in body for mark in _MARKS)


class TurnMaker:
    """`summarises` says whether a summary is the gateway's to ask for, by the model that is to write it."""

    def __init__(
        self,
        store: ResponseStore,
        clock: Callable[[], float],
        *,
        keeps: bool,
        limit: int,
        summarises: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._keeps = keeps
        self._limit = limit
        self._summarises = summarises

    async def make(
        self,
        client: ClientRequest,
        body: bytes,
        caller: Caller,
        wish: Wish,
        response_id: str,
        local: Local,
        *,
        compacts: bool = False,
    ) -> Turn:
        owner = caller.owner
        members = _members(body)
        del body
        previous = _text(wish.previous_response_id, "previous_response_id")
        background = _flag(wish.background, "background", default=False)
        store = _flag(wish.store, "store", default=True)
        if background and not (store and self._keeps):
            raise ClientProtocolError("a response that runs in the background must be stored", path="store")
        own = _input(members)
        new = await self._resolved(own, owner)
        parent, before = "", list[msgspec.Raw]()
        if previous and previous == local.id:
            before = local.items
        elif previous:
            parent, before = previous, await self._before(previous, owner)
        conversation = [*before, *new]
        if before and sum(map(len, conversation)) > self._limit:
            raise too_long(self._limit)
        compacts = compacts or self._is_to_summarise(new, wish)
        if compacts:
            _settle_summary(members)
        seen = told_again(conversation)
        if previous or compacts or any(one is not other for one, other in zip(seen, own, strict=True)):
            members["input"] = msgspec.Raw(_encode(asked_for(seen) if compacts else seen))
        _settle(members, wish, background=background)
        facts = ResponseFacts(
            id=response_id, previous=previous, store=store and self._keeps, background=background
        )
        client = msgspec.structs.replace(
            client, is_assembled=bool(previous), with_seals=True, reply_members=facts.encode_members()
        )
        return Turn(
            plan=RequestPlan(client, _encode(members), created=int(self._clock())),
            caller=caller,
            facts=facts,
            parent=parent,
            input=new if parent else [*before, *new],
            conversation=conversation,
            stream=_flag(wish.stream, "stream", default=False),
            compacts=compacts,
        )

    def _is_to_summarise(self, new: Sequence[msgspec.Raw], wish: Wish) -> bool:
        has_trigger = bool(new) and is_trigger(new[-1])
        return has_trigger and isinstance(wish.model, str) and self._summarises(wish.model)

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
        items: list[msgspec.Raw] = []
        for turn in turns:
            items = gone_on([*items, *items_of(turn.input)], items_of(turn.output))
        return items

    async def _resolved(self, items: list[msgspec.Raw], owner: str) -> list[msgspec.Raw]:
        """The items, references replaced by what they refer to. What is unknown is left to upstreams."""
        heads = {
            place: head_of(item) for place, item in enumerate(items) if b'"item_reference"' in bytes(item)
        }
        names = {
            place: head.id
            for place, head in heads.items()
            if head.type == "item_reference" and isinstance(head.id, str)
        }
        if not names:
            return items
        found = await self._store.items(list(names.values()), owner)
        known = {place: item for place, item in zip(names, found, strict=True) if item is not None}
        return [known.get(place, item) for place, item in enumerate(items)]


def _members(body: bytes) -> Members:
    try:
        return members_of(body)
    except (ValueError, RecursionError):
        raise ClientProtocolError("expected a JSON object as the request body") from None


def _input(members: Mapping[str, msgspec.Raw]) -> list[msgspec.Raw]:
    """The request's own items."""
    given = bytes(members.get("input", b"null"))
    if given[:1] == b'"':
        return [msgspec.Raw(_encode({"type": "message", "role": "user", "content": _string(given)}))]
    if given[:1] == b"[":
        items = items_of(given)
        for place, item in enumerate(items):
            if memoryview(item)[0] != OBJECT:
                raise ClientProtocolError("expected an object", path=f"input[{place}]")
        return items
    if given == b"null":
        return []
    raise ClientProtocolError("expected a string or an array", path="input")


def _settle_summary(members: Members) -> None:
    """A summary is plain text, and calls nothing; the tools stay, so that caches still know the prompt."""
    members.pop("text", None)
    if "tools" in members:
        members["tool_choice"] = msgspec.Raw(b'"none"')


def _settle(members: Members, wish: Wish, *, background: bool) -> None:
    """Leave nothing about state for an upstream to act on."""
    members["store"] = msgspec.Raw(b"false")
    members.pop("previous_response_id", None)
    members.pop("background", None)
    if wish.stream is False:
        members.pop("stream", None)
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


def encode_items(items: Sequence[msgspec.Raw]) -> bytes:
    return _encode(items)


def read_checked_body(turn: Turn) -> Json:
    """The body of a request that is sent later or never. Raises what is wrong with it."""
    body = turn.plan.body
    turn.plan.dialect.read_request(read_object(body), Losses())
    return read_object(body)
