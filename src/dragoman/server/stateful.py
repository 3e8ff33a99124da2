"""The Responses API's endpoints: turns that lean on what is kept, and what is kept under an id."""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.hub.errors import ClientProtocolError
from dragoman.responses.background import BackgroundRun
from dragoman.responses.compaction import CompactClient
from dragoman.responses.input_items import read_page
from dragoman.responses.response import StoredResponse
from dragoman.responses.turn import ResponseTurn
from dragoman.server.counting import count_answer
from dragoman.server.paths import Endpoint

if TYPE_CHECKING:
    from dragoman.server.app import App, Arrival

#: No stream has so many events that their numbers are longer.
MOST_DIGITS = 9


async def run(app: "App", arrival: "Arrival", endpoint: Endpoint, caller: Caller) -> None:
    """Answer a request that may refer to stored responses, or that is to be stored itself."""
    client = app.read_client_request(arrival, endpoint)
    if endpoint.name == "compact":
        turn = await app.responses.build_summary_turn(client, await app.receive_body(arrival), caller)
        compacting = CompactClient(arrival.client, turn.conversation)
        return await app.exchange(turn.plan, arrival, app.responses.build_client(turn, compacting), caller)
    built = await app.responses.build_turn(client, await app.receive_body(arrival), caller)
    plan = built.plan if isinstance(built, ResponseTurn) else built
    if endpoint.name == "count":
        count = count_answer(app.gateway.config, endpoint, plan.body)
        return await arrival.client.json(200, count, arrival.identity)
    if not isinstance(built, ResponseTurn):
        return await app.exchange(plan, arrival, arrival.client, caller)
    if built.facts.background:
        return await _begin(app, arrival, built)
    await app.exchange(plan, arrival, app.responses.build_client(built, arrival.client), caller)


async def _begin(app: "App", arrival: "Arrival", turn: ResponseTurn) -> None:
    """Start it; its client may listen, or ask again later."""
    begun = await app.background.start(turn)
    if turn.stream:
        return await _follow(app, arrival, begun, -1)
    await arrival.client.json(200, msgspec.Raw(begun.encode_response()), arrival.identity)


async def answer(app: "App", arrival: "Arrival", endpoint: Endpoint, caller: Caller) -> None:
    """What is kept under an id, for whom it was kept."""
    response_id, owner = endpoint.id, caller.owner
    body: object
    if endpoint.name == "input_items":
        page = read_page(parse_qs(arrival.query))
        body = await app.responses.list_input_items(response_id, owner, page)
    elif endpoint.name == "cancel":
        body = msgspec.Raw(await app.background.cancel(response_id, owner))
    elif arrival.method == "DELETE":
        await app.background.delete(response_id, owner)
        body = {"id": response_id, "object": "response", "deleted": True}
    else:
        found = await app.background.get(response_id, owner)
        query = parse_qs(arrival.query)
        if query.get("stream", [""])[0] == "true":
            return await _follow(app, arrival, found, _after(query.get("starting_after", ["-1"])[0]))
        body = msgspec.Raw(found.encode_response())
    await arrival.client.json(200, body, arrival.identity)


def _after(number: str) -> int:
    if number != "-1" and not (number.isdecimal() and len(number) <= MOST_DIGITS):
        raise ClientProtocolError("expected the number of an event", path="starting_after")
    return int(number)


async def _follow(app: "App", arrival: "Arrival", found: BackgroundRun | StoredResponse, after: int) -> None:
    """Tell the events of a response until its end, or until nobody listens; it goes on either way."""
    if isinstance(found, StoredResponse) and not found.is_background:
        raise ClientProtocolError(
            "only a response that was made in the background can be streamed again",
            path="stream",
            hint="leave it out to get the whole response",
        )
    telling = asyncio.ensure_future(
        app.background.follow(found, after, arrival.client, app.gateway.config.server.ping, arrival.identity)
    )
    leaving = asyncio.ensure_future(_left(arrival))
    await asyncio.wait((telling, leaving), return_when=asyncio.FIRST_COMPLETED)
    for task in (telling, leaving):
        task.cancel()
    await asyncio.wait((telling, leaving))
    if not telling.cancelled():
        telling.result()


async def _left(arrival: "Arrival") -> None:
    while (await arrival.receive())["type"] != "http.disconnect":
        pass
