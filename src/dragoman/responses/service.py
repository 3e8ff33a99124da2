"""Everything the Responses API does with what is kept."""

from uuid import uuid4

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.dialects.base import Json
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.client import Client
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ClientProtocolError, DragomanError, RequestTooLarge
from dragoman.pipeline.plan import ClientRequest, RequestPlan
from dragoman.responses.compaction import CompactionCollector
from dragoman.responses.facts import ResponseCollector
from dragoman.responses.listing import Page, listed
from dragoman.responses.store import MEGABYTE, ResponseStore
from dragoman.responses.stored import Members
from dragoman.responses.storing import StoreResponse, StoringClient, build_stored
from dragoman.responses.turn import Local, Turn, TurnMaker, Wish, leans, wish_of
from dragoman.routing.choose import choose


class ResponsesService:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.store = ResponseStore(gateway.database, lambda: gateway.config.responses, gateway.clock)

    async def build_turn(self, client: ClientRequest, body: bytes, caller: Caller) -> Turn | RequestPlan:
        """The request with all it refers to; a plain plan if it uses no state and is not stored."""
        wish = wish_of(body)
        if wish is None or not leans(wish, body):
            if wish is not None and isinstance(wish.model, str) and isinstance(wish.stream, bool):
                client = msgspec.structs.replace(client, model=wish.model, stream=wish.stream, is_peeked=True)
            return RequestPlan(client, body, created=int(self._gateway.clock()))
        return await self._maker().make(client, body, caller, wish, _new_id(), Local())

    async def build_local_turn(
        self, client: ClientRequest, body: bytes, caller: Caller, local: Local
    ) -> Turn:
        """The same for a connection that remembers its last response, stored or not."""
        if len(body) > self._limit:
            raise RequestTooLarge(f"the message exceeds {self._limit} bytes")
        return await self._maker().make(client, body, caller, _readable(body), _new_id(), local)

    async def build_summary_turn(self, client: ClientRequest, body: bytes, caller: Caller) -> Turn:
        """The request for a summary of the conversation that it holds or continues."""
        wish = msgspec.structs.replace(_readable(body), store=False, background=False, stream=False)
        if not isinstance(wish.model, str) or not wish.model:
            raise ClientProtocolError("expected the name of a model", path="model")
        return await self._maker().make(client, body, caller, wish, _new_id(), Local(), compacts=True)

    def _maker(self) -> TurnMaker:
        return TurnMaker(
            self.store,
            self._gateway.clock,
            keeps=self._gateway.config.responses.store,
            limit=self._limit,
            summarises=self._summarises,
        )

    def _summarises(self, model: str) -> bool:
        """Only if all who may answer have a way of their own is a summary left to them."""
        config = self._gateway.config
        try:
            targets = choose(config, model).targets
        except DragomanError:
            return False
        dialects = (dialect_named(config.providers[each.provider].wire_dialect) for each in targets)
        return not all(dialect.keeps_state for dialect in dialects)

    def build_client(self, turn: Turn, client: Client, store: StoreResponse | None = None) -> Client:
        """The client through which the response is stored on its way."""

        async def store_if_asked(response: Members) -> bool:
            return turn.facts.store and await self.keep(turn, response)

        return StoringClient(client, build_collector(turn), store or store_if_asked)

    async def input_items(self, response_id: str, owner: str, page: Page) -> Json:
        return listed((await self.store.turns(response_id, owner, self._limit))[1], page)

    @property
    def _limit(self) -> int:
        return self._gateway.config.server.max_body_mb * MEGABYTE

    async def keep(self, turn: Turn, response: Members, *, events: bytes = b"") -> bool:
        """Keep a response that has had its last word; a store that fails must not take the reply with it."""
        try:
            row = build_stored(turn, response, self._gateway.clock())
            if events and await self.store.put(msgspec.structs.replace(row, events=events)):
                return True
            return await self.store.put(row)
        except (DragomanError, msgspec.MsgspecError):
            return False


def build_collector(turn: Turn) -> ResponseCollector:
    return (CompactionCollector if turn.compacts else ResponseCollector)(turn.facts)


def _new_id() -> str:
    return f"resp_{uuid4().hex}"


def _readable(body: bytes) -> Wish:
    wish = wish_of(body)
    if wish is None:
        raise ClientProtocolError("expected a JSON object as the request")
    return wish
