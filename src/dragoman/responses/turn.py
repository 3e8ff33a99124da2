"""Builds one turn: a request with everything that it refers to, so that any upstream can answer it.

No upstream sees the fields about state. It is not asked to store, to continue or to run anything in the
background, because its ids mean nothing to another upstream.

A body is decoded once, into members that stay JSON. The few fields that concern state are decoded from them.
"""

from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.hub.errors import ClientProtocolError, DragomanError
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.responses.compaction import (
    add_summary_prompt,
    expand_summaries,
    extend_conversation,
    is_trigger,
    read_head,
)
from dragoman.responses.input_items import check_outputs
from dragoman.responses.members import (
    Members,
    ResponseFacts,
    encode_json,
    read_items,
    read_members,
    read_text,
)
from dragoman.responses.store import ResponseStore
from dragoman.responses.stored_response import (
    CONTINUABLE,
    build_previous_not_found,
    build_too_long,
)

ENCRYPTED_REASONING = "reasoning.encrypted_content"
#: Bytes of requests that need a turn although they neither store nor continue anything.
_MARKS = (b'"item_reference"', b'"compaction')

_OBJECT_START = ord("{")


class StateRequest(msgspec.Struct, frozen=True):
    """The fields of a request that concern state. A value of the wrong type is refused when it is used."""

    store: object = None
    previous_response_id: object = None
    background: object = None
    conversation: object = None
    stream: object = None
    reasoning: object = None
    include: object = None
    model: object = None

    def needs_turn(self, body: bytes) -> bool:
        """Whether the request refers to stored responses, or is to be stored."""
        if self.conversation is not None:
            # The vendor keeps conversations, and only the vendor can continue them.
            return False
        is_plain = self.store is False and self.previous_response_id is None and not self.background
        return not is_plain or any(mark in body for mark in _MARKS)

    def apply_to(self, metadata: RequestMetadata) -> RequestMetadata:
        """The metadata with the request's model and `stream`, so that the plan need not search the body."""
        if not isinstance(self.model, str) or not isinstance(self.stream, bool | None):
            return metadata
        return msgspec.structs.replace(metadata, model=self.model, stream=self.stream is True, is_peeked=True)


def read_state(members: Members) -> StateRequest:
    """The state fields of a request. Raises `ClientProtocolError` if one of them is not valid JSON."""
    names = StateRequest.__struct_fields__
    try:
        return StateRequest(**{name: msgspec.json.decode(members[name]) for name in names if name in members})
    except (ValueError, RecursionError):
        raise ClientProtocolError("expected a JSON object as the request body") from None


def read_request_members(body: bytes) -> Members:
    try:
        return read_members(body)
    except (ValueError, RecursionError):
        raise ClientProtocolError("expected a JSON object as the request body") from None


class ConversationMemory(msgspec.Struct, frozen=True):
    """What one WebSocket connection keeps in memory: its last response and the whole conversation."""

    id: str = ""
    items: Sequence[msgspec.Raw] = ()


NO_MEMORY = ConversationMemory()


class ResponseTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose reply becomes a response of the gateway."""

    plan: RequestPlan
    caller: Caller
    facts: ResponseFacts
    #: The stored response that it continues.
    parent: str
    #: The items that are stored with the response.
    input: list[msgspec.Raw]
    #: All items up to the reply, `input` included.
    conversation: list[msgspec.Raw]
    stream: bool = False
    #: The reply is a summary of the conversation.
    is_summary: bool = False

    @property
    def owner(self) -> str:
        return self.caller.owner

    def check(self) -> dict[str, object]:
        """Raise what is wrong with the request. Returns its members without the input, for a response object.

        The plan keeps the request that it reads here, so the exchange does not read it again.
        """
        _ = self.plan.request
        members = read_members(self.plan.body)
        return {name: msgspec.json.decode(value) for name, value in members.items() if name != "input"}


class TurnBuilder:
    """Builds turns with one configuration. `limit` is the largest conversation in bytes.

    `must_summarize` gets a model's name and returns whether the gateway must ask this model for a summary.
    """

    def __init__(
        self,
        store: ResponseStore,
        clock: Callable[[], float],
        *,
        is_storing: bool,
        limit: int,
        must_summarize: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._is_storing = is_storing
        self._limit = limit
        self._must_summarize = must_summarize

    async def build(
        self,
        metadata: RequestMetadata,
        members: Members,
        state: StateRequest,
        caller: Caller,
        *,
        memory: ConversationMemory = NO_MEMORY,
        is_summary: bool = False,
    ) -> ResponseTurn:
        """The turn of a request. Changes `members` into those of the request to the upstream."""
        previous = _read_id(state.previous_response_id, "previous_response_id")
        is_background = _read_flag(state.background, "background", default=False)
        is_stored = _read_flag(state.store, "store", default=True)
        if is_background and not (is_stored and self._is_storing):
            raise ClientProtocolError("a response that runs in the background must be stored", path="store")
        own = _read_input(members)
        new = await self._resolve_references(own, caller.owner)
        parent, before = "", list[msgspec.Raw]()
        if previous and previous == memory.id:
            before = list(memory.items)
        elif previous:
            parent, before = previous, await self._load_conversation(previous, caller.owner)
        if previous:
            check_outputs(before, new)
        conversation = [*before, *new]
        if before and sum(map(len, conversation)) > self._limit:
            raise build_too_long(self._limit)
        is_summary = is_summary or self._is_summary_request(new, state)
        if is_summary:
            _prepare_summary(members)
        sent = expand_summaries(conversation)
        if previous or is_summary or any(one is not other for one, other in zip(sent, own, strict=True)):
            members["input"] = msgspec.Raw(encode_json(add_summary_prompt(sent) if is_summary else sent))
        _remove_state(members, state, is_background=is_background)
        facts = ResponseFacts(
            id=f"resp_{uuid4().hex}",
            previous=previous,
            store=is_stored and self._is_storing,
            background=is_background,
        )
        is_stream = _read_flag(state.stream, "stream", default=False)
        # A background run is streamed, also if its client gets a whole response.
        asked = msgspec.structs.replace(state, stream=is_stream or is_background)
        metadata = msgspec.structs.replace(
            asked.apply_to(metadata),
            is_assembled=bool(previous),
            with_seals=True,
            reply_members=facts.encode_members(),
        )
        return ResponseTurn(
            plan=RequestPlan(metadata, encode_json(members), created=int(self._clock())),
            caller=caller,
            facts=facts,
            parent=parent,
            input=new if parent else conversation,
            conversation=conversation,
            stream=is_stream,
            is_summary=is_summary,
        )

    def _is_summary_request(self, new: Sequence[msgspec.Raw], state: StateRequest) -> bool:
        has_trigger = bool(new) and is_trigger(new[-1])
        return has_trigger and isinstance(state.model, str) and self._must_summarize(state.model)

    async def _load_conversation(self, previous: str, owner: str) -> list[msgspec.Raw]:
        """Input and output of all turns up to the previous response, in order."""
        try:
            status, turns = await self._store.load_turns(previous, owner, self._limit)
        except DragomanError as error:
            if error.status == 404:
                raise build_previous_not_found() from None
            raise
        if status not in CONTINUABLE:
            raise ClientProtocolError(
                f"the response is {status.replace('_', ' ')} and cannot be continued",
                path="previous_response_id",
                hint="wait until it is completed",
            )
        items: list[msgspec.Raw] = []
        for turn in turns:
            items = extend_conversation([*items, *read_items(turn.input)], read_items(turn.output))
        return items

    async def _resolve_references(self, items: list[msgspec.Raw], owner: str) -> list[msgspec.Raw]:
        """The items, with stored items in place of references to them. Unknown references stay."""
        heads = {
            place: read_head(item) for place, item in enumerate(items) if b'"item_reference"' in bytes(item)
        }
        ids = {
            place: head.id
            for place, head in heads.items()
            if head.type == "item_reference" and isinstance(head.id, str)
        }
        if not ids:
            return items
        found = await self._store.load_items(list(ids.values()), owner)
        known = {place: item for place, item in zip(ids, found, strict=True) if item is not None}
        return [known.get(place, item) for place, item in enumerate(items)]


def _read_input(members: Mapping[str, msgspec.Raw]) -> list[msgspec.Raw]:
    """The request's own items."""
    value = bytes(members.get("input", b"null"))
    if value[:1] == b'"':
        return [msgspec.Raw(encode_json({"type": "message", "role": "user", "content": read_text(value)}))]
    if value[:1] == b"[":
        items = read_items(value)
        for place, item in enumerate(items):
            if memoryview(item)[0] != _OBJECT_START:
                raise ClientProtocolError("expected an object", path=f"input[{place}]")
        return items
    if value == b"null":
        return []
    raise ClientProtocolError("expected a string or an array", path="input")


def _prepare_summary(members: Members) -> None:
    """A summary is plain text and calls no tools. The tools stay, so that the prompt cache still matches."""
    members.pop("text", None)
    if "tools" in members:
        members["tool_choice"] = msgspec.Raw(b'"none"')


def _remove_state(members: Members, state: StateRequest, *, is_background: bool) -> None:
    """Remove the fields about state, and request sealed reasoning, which the upstream does not store."""
    members["store"] = msgspec.Raw(b"false")
    members.pop("previous_response_id", None)
    members.pop("background", None)
    if state.stream is False:
        members.pop("stream", None)
    if is_background:
        members["stream"] = msgspec.Raw(b"true")
    reasoning = state.reasoning
    has_reasoning = isinstance(reasoning, dict) and reasoning.get("effort") != "none"
    include = state.include if isinstance(state.include, list) else []
    if has_reasoning and ENCRYPTED_REASONING not in include:
        members["include"] = msgspec.Raw(encode_json([*include, ENCRYPTED_REASONING]))


def _read_id(value: object, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value:
        raise ClientProtocolError("expected the id of a response", path=name)
    return value


def _read_flag(value: object, name: str, *, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ClientProtocolError("expected a boolean", path=name)
    return value
