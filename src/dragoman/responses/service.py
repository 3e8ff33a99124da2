"""`ResponsesService`: builds turns, stores responses and lists their items. The server uses it."""

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.dialects.interfaces import Json
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.client import Client
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ClientProtocolError, DragomanError
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.responses.collector import ResponseCollector, StoreResponse, StoringClient
from dragoman.responses.compaction import CompactionCollector
from dragoman.responses.input_items import ItemPage, list_input_items
from dragoman.responses.members import Members
from dragoman.responses.store import MEGABYTE, ResponseStore
from dragoman.responses.stored_response import build_stored
from dragoman.responses.turn import (
    ConversationMemory,
    ResponseTurn,
    TurnBuilder,
    read_request_members,
    read_state,
)
from dragoman.routing.choose import choose


class ResponsesService:
    """One per gateway. It owns the store."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.store = ResponseStore(gateway.storage, lambda: gateway.config.responses, gateway.clock)

    @property
    def limit(self) -> int:
        """The largest request and the largest conversation, in bytes."""
        return self._gateway.config.server.max_body_mb * MEGABYTE

    async def build_turn(
        self, metadata: RequestMetadata, body: bytes, caller: Caller
    ) -> ResponseTurn | RequestPlan:
        """The turn of a request; a plain plan if the request uses no state and is not stored."""
        try:
            members = read_request_members(body)
            state = read_state(members)
        except ClientProtocolError:
            # The dialect's reader reports what is wrong.
            return RequestPlan(metadata, body, created=int(self._gateway.clock()))
        if not state.needs_turn(body):
            return RequestPlan(state.apply_to(metadata), body, created=int(self._gateway.clock()))
        return await self._build_builder().build(metadata, members, state, caller)

    async def build_socket_turn(
        self, metadata: RequestMetadata, members: Members, caller: Caller, memory: ConversationMemory
    ) -> ResponseTurn:
        """The turn of a request over a WebSocket, which may continue a response that is only in memory."""
        state = read_state(members)
        return await self._build_builder().build(metadata, members, state, caller, memory=memory)

    async def build_summary_turn(
        self, metadata: RequestMetadata, body: bytes, caller: Caller
    ) -> ResponseTurn:
        """The request for a summary of the conversation that the body contains or continues."""
        members = read_request_members(body)
        state = msgspec.structs.replace(read_state(members), store=False, background=False, stream=False)
        if not isinstance(state.model, str) or not state.model:
            raise ClientProtocolError("expected the name of a model", path="model")
        return await self._build_builder().build(metadata, members, state, caller, is_summary=True)

    def build_client(self, turn: ResponseTurn, client: Client, store: StoreResponse | None = None) -> Client:
        """A client that stores the response before its end is sent, by `store` if that is given."""

        async def store_if_requested(response: Members) -> bool:
            return turn.facts.store and await self.store_response(turn, response)

        return StoringClient(client, build_collector(turn), store or store_if_requested)

    async def store_response(self, turn: ResponseTurn, response: Members, *, events: bytes = b"") -> bool:
        """Store a finished response. False if that fails: the client gets its reply in any case."""
        try:
            row = build_stored(turn, response, self._gateway.clock())
            if events and await self.store.save(msgspec.structs.replace(row, events=events)):
                return True
            return await self.store.save(row)
        except (DragomanError, msgspec.MsgspecError):
            return False

    async def list_input_items(self, response_id: str, owner: str, page: ItemPage) -> Json:
        return list_input_items((await self.store.load_turns(response_id, owner, self.limit))[1], page)

    def _build_builder(self) -> TurnBuilder:
        return TurnBuilder(
            self.store,
            self._gateway.clock,
            is_storing=self._gateway.config.responses.store,
            limit=self.limit,
            must_summarize=self._must_summarize,
        )

    def _must_summarize(self, model: str) -> bool:
        """Whether a target of the model cannot compact conversations itself."""
        config = self._gateway.config
        try:
            targets = choose(config, model).targets
        except DragomanError:
            return False
        dialects = (config.providers[target.provider].wire_dialect for target in targets)
        return any(not dialect_named(name).keeps_state for name in dialects)


def build_collector(turn: ResponseTurn) -> ResponseCollector:
    return (CompactionCollector if turn.is_summary else ResponseCollector)(turn.facts)
