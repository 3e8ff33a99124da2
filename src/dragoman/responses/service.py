"""Everything the Responses API does with what is kept."""

from uuid import uuid4

import msgspec

from dragoman.dialects.base import Json
from dragoman.exchange.ask import Ask, Client
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError
from dragoman.responses.keeping import KeepingClient, stored
from dragoman.responses.labels import Labelling
from dragoman.responses.listing import Page, listed
from dragoman.responses.store import MEGABYTE, ResponseStore
from dragoman.responses.stored import Members
from dragoman.responses.turn import Local, Turn, TurnMaker, wish_of


class ResponsesService:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.store = ResponseStore(gateway.database, lambda: gateway.config.responses, gateway.clock)

    async def turn(self, ask: Ask, local: Local | None = None) -> Turn | None:
        """The request made whole; None if it stands on its own and nothing shall be kept of it."""
        wish = wish_of(ask.body)
        if wish is None:
            return None
        maker = TurnMaker(self.store, keeps=self._gateway.config.responses.store, limit=self._limit)
        return await maker.make(ask, wish, f"resp_{uuid4().hex}", ask.caller.id, local or Local())

    def client(self, turn: Turn, client: Client) -> Client:
        """The way back to the client, by which the response is also kept."""

        async def keep(response: Members) -> bool:
            return turn.label.store and await self.keep(turn, response)

        return KeepingClient(client, Labelling(turn.label), keep)

    async def input_items(self, response_id: str, owner: str, page: Page) -> Json:
        return listed((await self.store.turns(response_id, owner, self._limit))[1], page)

    @property
    def _limit(self) -> int:
        return self._gateway.config.server.max_body_mb * MEGABYTE

    async def keep(self, turn: Turn, response: Members) -> bool:
        """Keep a response that has had its last word; a store that fails must not take the reply with it."""
        try:
            return await self.store.put(stored(turn, response, self._gateway.clock()))
        except (DragomanError, msgspec.MsgspecError):
            return False
