"""Everything the Responses API does with what is kept."""

from uuid import uuid4

import msgspec

from dragoman.dialects.base import Json
from dragoman.exchange.ask import Ask, Client
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ClientProtocolError, DragomanError, RequestTooLarge
from dragoman.responses.compaction import Compacting
from dragoman.responses.keeping import Keep, KeepingClient, stored
from dragoman.responses.labels import Labelling
from dragoman.responses.listing import Page, listed
from dragoman.responses.store import MEGABYTE, ResponseStore
from dragoman.responses.stored import Members
from dragoman.responses.turn import Local, Turn, TurnMaker, Wish, leans, wish_of
from dragoman.routing.choose import choose


class ResponsesService:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.store = ResponseStore(gateway.database, lambda: gateway.config.responses, gateway.clock)

    async def turn(self, ask: Ask) -> Turn | None:
        """The request made whole; None if it stands on its own and nothing shall be kept of it."""
        wish = wish_of(ask.body)
        if wish is None or not leans(wish, ask.body):
            if wish is not None and isinstance(wish.model, str) and isinstance(wish.stream, bool):
                ask.model, ask.stream, ask.is_glanced = wish.model, wish.stream, True
            return None
        return await self._maker().make(ask, wish, _new_id(), Local())

    async def turn_of(self, ask: Ask, local: Local) -> Turn:
        """The same for a connection that remembers, whatever the request says."""
        if len(ask.body) > self._limit:
            raise RequestTooLarge(f"the message exceeds {self._limit} bytes")
        return await self._maker().make(ask, _readable(ask), _new_id(), local)

    async def summary_of(self, ask: Ask) -> Turn:
        """The request for a summary of the conversation that it holds or continues."""
        wish = msgspec.structs.replace(_readable(ask), store=False, background=False, stream=False)
        if not isinstance(wish.model, str) or not wish.model:
            raise ClientProtocolError("expected the name of a model", path="model")
        return await self._maker().make(ask, wish, _new_id(), Local(), compacts=True)

    def _maker(self) -> TurnMaker:
        return TurnMaker(
            self.store,
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
        return any(config.providers[each.provider].wire_dialect != "openai_responses" for each in targets)

    def client(self, turn: Turn, client: Client, keep: Keep | None = None) -> Client:
        """The way back to the client, by which the response is also kept."""

        async def keep_if_asked(response: Members) -> bool:
            return turn.label.store and await self.keep(turn, response)

        return KeepingClient(client, labelling_of(turn), keep or keep_if_asked)

    async def input_items(self, response_id: str, owner: str, page: Page) -> Json:
        return listed((await self.store.turns(response_id, owner, self._limit))[1], page)

    @property
    def _limit(self) -> int:
        return self._gateway.config.server.max_body_mb * MEGABYTE

    async def keep(self, turn: Turn, response: Members, *, events: bytes = b"") -> bool:
        """Keep a response that has had its last word; a store that fails must not take the reply with it."""
        try:
            row = stored(turn, response, self._gateway.clock())
            if events and await self.store.put(msgspec.structs.replace(row, events=events)):
                return True
            return await self.store.put(row)
        except (DragomanError, msgspec.MsgspecError):
            return False


def labelling_of(turn: Turn) -> Labelling:
    """What stands between the reply and whoever hears it."""
    return (Compacting if turn.compacts else Labelling)(turn.label)


def _new_id() -> str:
    return f"resp_{uuid4().hex}"


def _readable(ask: Ask) -> Wish:
    wish = wish_of(ask.body)
    if wish is None:
        raise ClientProtocolError("expected a JSON object as the request")
    return wish
