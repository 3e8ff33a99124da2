"""The Responses API's endpoints: turns that lean on what is kept, and what is kept under an id."""

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import msgspec

from dragoman.exchange.ask import Ask
from dragoman.limits.caller import Caller
from dragoman.responses.listing import page_of
from dragoman.server.counting import count_answer
from dragoman.server.paths import Endpoint

if TYPE_CHECKING:
    from dragoman.server.app import App, Arrival


async def run(app: "App", arrival: "Arrival", endpoint: Endpoint, ask: Ask) -> None:
    """Answer a request that may lean on what is kept, or want to be kept itself."""
    turn = await app.responses.turn(ask)
    if turn is not None:
        ask = turn.ask
    if endpoint.name == "count":
        count = count_answer(app.gateway.config, endpoint, ask.take_body())
        return await arrival.client.json(200, count, arrival.identity)
    client = arrival.client if turn is None else app.responses.client(turn, arrival.client)
    await app.exchange(ask, arrival, client)


async def answer(app: "App", arrival: "Arrival", endpoint: Endpoint, caller: Caller) -> None:
    """What is kept under an id, for whom it was kept."""
    response_id, owner, responses = endpoint.id, caller.id, app.responses
    body: object
    if endpoint.name == "input_items":
        body = await responses.input_items(response_id, owner, page_of(parse_qs(arrival.query)))
    elif arrival.method == "DELETE":
        await responses.store.delete(response_id, owner)
        body = {"id": response_id, "object": "response", "deleted": True}
    else:
        body = msgspec.Raw((await responses.store.get(response_id, owner)).told())
    await arrival.client.json(200, body, arrival.identity)
