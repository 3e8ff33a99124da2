"""Background responses: queued, polled, followed, cancelled, ended."""

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from dragoman.accounts.keys import ANONYMOUS
from dragoman.config.config import Config
from dragoman.config.settings import ResponsesSettings
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError
from dragoman.pipeline.plan import RequestMetadata
from dragoman.responses.background import DEAD_AFTER, MAX_RUNNING, MAX_WAITING, BackgroundRun, BackgroundRuns
from dragoman.responses.service import ResponsesService
from dragoman.responses.stored_response import StoredResponse
from dragoman.responses.turn import ResponseTurn
from dragoman.server.app import App
from dragoman.storage.port import Transaction
from dragoman.storage.sqlite import SqliteStorage
from tests.exchange.fakes import RememberingClient
from tests.exchange.sample_replies import CHAT_STREAM, chat_text
from tests.responses.looped import looped
from tests.responses.test_http import Json, error, events
from tests.server.running import Got, Running, config_for, running
from tests.upstream.byte_server import LAST_CHUNK, Action, ByteServer, Pause, chunk, reply, stream_head

HELLO: Json = {"model": "any", "input": "say hello", "background": True}


def slowly(until: asyncio.Event) -> list[Action]:
    """A reply whose end waits."""
    return [
        stream_head(),
        *map(chunk, CHAT_STREAM[:2]),
        Pause(until),
        *map(chunk, CHAT_STREAM[2:]),
        LAST_CHUNK,
    ]


async def begin(gateway: Running, **more: object) -> Json:
    got = await gateway.ask("POST", "/v1/responses", {**HELLO, **more})
    assert got.status == 200, got.body
    return got.json()


async def look(gateway: Running, response: Json) -> Json:
    return (await gateway.ask("GET", f"/v1/responses/{response['id']}")).json()


async def ended(gateway: Running, response: Json) -> Json:
    """Ask until it is no longer being made."""
    async with asyncio.timeout(5):
        while (found := await look(gateway, response))["status"] in ("queued", "in_progress"):
            await asyncio.sleep(0.001)
    return found


async def followed(gateway: Running, response: Json, after: int | None = None) -> Got:
    query = "?stream=true" + ("" if after is None else f"&starting_after={after}")
    return await gateway.ask("GET", f"/v1/responses/{response['id']}{query}")


def numbers(got: Got) -> list[object]:
    return [event["sequence_number"] for event in events(got)]


@pytest.mark.rule("H63")
@looped
async def test_a_background_response_is_queued_then_made_then_found() -> None:
    gate = asyncio.Event()
    async with ByteServer(slowly(gate)) as upstream, running(config_for(upstream.url)) as gateway:
        begun = await begin(gateway)
        assert (begun["status"], begun["background"], begun["output"]) == ("queued", True, [])
        assert (await look(gateway, begun))["status"] in ("queued", "in_progress")
        gate.set()
        done = await ended(gateway, begun)
        assert done["status"] == "completed"
        assert (done["id"], done["background"], done["store"]) == (begun["id"], True, True)
        assert "good day" in str(done["output"])
        received = msgspec.json.decode(upstream.received[0].body)
        assert received["stream"] is True
        assert "background" not in received


@looped
async def test_a_finished_background_response_can_be_continued_and_one_in_the_making_cannot() -> None:
    gate = asyncio.Event()
    async with ByteServer(slowly(gate)) as upstream, running(config_for(upstream.url)) as gateway:
        begun = await begin(gateway)
        body = {"model": "any", "input": "and now", "previous_response_id": begun["id"]}
        early = await gateway.ask("POST", "/v1/responses", body)
        assert early.status == 400
        assert error(early)["param"] == "previous_response_id"
        gate.set()
        await ended(gateway, begun)
        assert (await gateway.ask("POST", "/v1/responses", body)).status == 200


@looped
async def test_its_stream_is_legal_and_can_be_taken_up_anywhere_while_it_runs_and_after() -> None:
    gate = asyncio.Event()
    async with ByteServer(slowly(gate)) as upstream, running(config_for(upstream.url)) as gateway:
        begun = await begin(gateway)
        during = asyncio.ensure_future(followed(gateway, begun))
        later = asyncio.ensure_future(followed(gateway, begun, 3))
        await asyncio.sleep(0)
        gate.set()
        whole, rest = await during, await later
        assert dialect_named("openai_responses").check_stream(whole.body) == []
        assert [event["type"] for event in events(whole)][:3] == [
            "response.created",
            "response.queued",
            "response.in_progress",
        ]
        assert numbers(whole) == list(range(len(numbers(whole))))
        assert numbers(rest) == numbers(whole)[4:]
        await ended(gateway, begun)
        assert (await followed(gateway, begun)).body == whole.body
        assert events(await followed(gateway, begun, 3)) == events(rest)
        assert events(await followed(gateway, begun, 10_000)) == []


@looped
async def test_a_run_continues_when_its_client_leaves() -> None:
    gate = asyncio.Event()
    async with ByteServer(slowly(gate)) as upstream, running(config_for(upstream.url)) as gateway:
        async with gateway.connected() as client:
            await client.send("POST", "/v1/responses", {**HELLO, "stream": True})
            assert (await client.head())[0] == 200
            seen = b""
            while b"good" not in seen:
                seen += await client.chunk()
        begun = events(Got(200, {}, seen))[0]["response"]
        assert isinstance(begun, dict)
        gate.set()
        assert (await ended(gateway, begun))["status"] == "completed"
        last = events(await followed(gateway, begun, len(events(Got(200, {}, seen))) - 1))
        assert last[-1]["type"] == "response.completed"


@pytest.mark.rule("R126")
@looped
async def test_a_cancellation_ends_the_upstreams_reply_and_the_streams_of_clients() -> None:
    async with ByteServer(slowly(asyncio.Event())) as upstream, running(config_for(upstream.url)) as gateway:
        begun = await begin(gateway)
        listening = asyncio.ensure_future(followed(gateway, begun))
        async with asyncio.timeout(5):
            while (await look(gateway, begun))["status"] != "in_progress" or not upstream.received:
                await asyncio.sleep(0.001)
        path = f"/v1/responses/{begun['id']}/cancel"
        cancelled = (await gateway.ask("POST", path)).json()
        assert cancelled["status"] == "cancelled"
        await asyncio.wait_for(upstream.hung_up.wait(), 5)
        assert events(await listening)[-1]["type"] == "response.failed"
        assert await look(gateway, begun) == cancelled
        assert (await gateway.ask("POST", path)).json() == cancelled


@looped
async def test_a_waiting_run_can_be_cancelled() -> None:
    async with waiting() as (background, run):
        response = msgspec.json.decode(await background.cancel(run.turn.facts.id, ""))
        assert response["status"] == "cancelled"
        found = await background.get(run.turn.facts.id, "")
        assert msgspec.json.decode(found.encode_response())["status"] == "cancelled"


@looped
async def test_a_waiting_run_fails_when_the_gateway_closes() -> None:
    async with waiting() as (background, run):
        await background.close()
        assert msgspec.json.decode(run.encode_response())["status"] == "failed"
        assert run.over.is_set()


async def hello(responses: ResponsesService) -> ResponseTurn:
    metadata = RequestMetadata(dialect="openai_responses")
    turn = await responses.build_turn(metadata, msgspec.json.encode(HELLO), ANONYMOUS)
    assert isinstance(turn, ResponseTurn)
    return turn


@asynccontextmanager
async def waiting() -> AsyncIterator[tuple[BackgroundRuns, BackgroundRun]]:
    """A response that has no place to run in yet."""
    async with running(config_for()) as gateway:
        app = gateway.app
        background = BackgroundRuns(app.gateway, app.responses.service, app.exchanges.run, max_running=0)
        turn = await hello(app.responses.service)
        assert turn is not None
        yield background, await background.start(turn)


@looped
async def test_only_background_responses_are_cancelled_or_streamed_again() -> None:
    async with running(config_for()) as gateway:
        plain = await begin(gateway, background=False)
        path = f"/v1/responses/{plain['id']}"
        assert (await gateway.ask("POST", f"{path}/cancel")).status == 400
        assert (await gateway.ask("GET", f"{path}?stream=true")).status == 400
        assert (await gateway.ask("GET", f"{path}?stream=false")).status == 200
        assert (await gateway.ask("POST", "/v1/responses/resp_none/cancel")).status == 404
        assert (await gateway.ask("GET", "/v1/responses/resp_none?stream=true")).status == 404
        made = await begin(gateway)
        await ended(gateway, made)
        path = f"/v1/responses/{made['id']}?stream=true&starting_after"
        assert (await gateway.ask("GET", f"{path}=x")).status == 400
        # More digits than Python reads, after zeros that hide how large the number is.
        assert (await gateway.ask("GET", f"{path}={'0' * 12}{'9' * 5000}")).status == 400
        assert (await gateway.ask("GET", f"{path}=1")).status == 200


@pytest.mark.rule("H63")
@looped
async def test_what_cannot_be_stored_does_not_run_in_the_background() -> None:
    async with running(config_for()) as gateway:
        got = await gateway.ask("POST", "/v1/responses", {**HELLO, "store": False})
        assert got.status == 400
        assert error(got)["param"] == "store"


@pytest.mark.parametrize(
    ("body", "status"), [({"input": [7]}, 400), ({"input": [{"type": 7}]}, 400), ({"tools": "x"}, 400)]
)
@looped
async def test_a_request_that_is_wrong_is_refused_before_it_is_queued(body: Json, status: int) -> None:
    async with running(config_for()) as gateway:
        assert (await gateway.ask("POST", "/v1/responses", {**HELLO, **body})).status == status


@looped
async def test_a_refusal_of_the_upstream_is_a_failed_response() -> None:
    refusal = [reply(b'{"error": {"message": "not this"}}', "400 Bad Request")]
    async with ByteServer(refusal) as upstream, running(config_for(upstream.url)) as gateway:
        begun = await begin(gateway)
        done = await ended(gateway, begun)
        assert done["status"] == "failed"
        assert "not this" in str(done["error"])
        assert events(await followed(gateway, begun))[-1]["type"] == "response.failed"


@looped
async def test_a_deleted_response_is_not_made_any_further() -> None:
    async with ByteServer(slowly(asyncio.Event())) as upstream, running(config_for(upstream.url)) as gateway:
        begun = await begin(gateway)
        assert (await gateway.ask("DELETE", f"/v1/responses/{begun['id']}")).status == 200
        assert (await gateway.ask("GET", f"/v1/responses/{begun['id']}")).status == 404


@looped
async def test_every_run_has_ended_when_the_gateway_is_drained() -> None:
    async with ByteServer(slowly(asyncio.Event())) as upstream, running(config_for(upstream.url)) as gateway:
        begun = await begin(gateway)
        await gateway.app.drain(0)
        assert (await look(gateway, begun))["status"] == "failed"


@looped
async def test_a_run_whose_process_died_has_failed(tmp_path: Path) -> None:
    config = config_for()
    now = 1_800_000_000.0
    first = App(Gateway(config, storage=SqliteStorage(tmp_path / "state.db"), clock=lambda: now))
    stuck = BackgroundRuns(first.gateway, first.responses.service, first.exchanges.run, max_running=0)
    turn = await hello(first.responses.service)
    assert turn is not None
    await stuck.start(turn)
    await first.gateway.storage.close()

    second = App(Gateway(config, storage=SqliteStorage(tmp_path / "state.db"), clock=lambda: now))
    soon = await second.responses.runs.get(turn.facts.id, "")
    assert isinstance(soon, StoredResponse)
    assert soon.status == "queued"
    now += DEAD_AFTER
    late = await second.responses.runs.get(turn.facts.id, "")
    assert isinstance(late, StoredResponse)
    assert late.status == "failed"
    client = RememberingClient()
    await second.responses.runs.follow(late, 5, client, 1.0, {})
    assert [event["type"] for event in events(Got(200, {}, client.body))] == ["response.failed"]
    await second.gateway.storage.close()


@pytest.mark.rule("H63")
@looped
async def test_a_response_whose_process_was_killed_has_failed_at_once() -> None:
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await killed.wait()
    async with running(config_for()) as gateway:
        background = gateway.app.responses.runs
        row = StoredResponse(
            id="resp_left",
            created=gateway.app.gateway.clock(),
            seen=gateway.app.gateway.clock(),
            runner=f"{socket.gethostname()} {killed.pid} 0",
            status="in_progress",
            input=b"[]",
            body=b'{"id":"resp_left","status":"in_progress","background":true}',
        )
        await gateway.app.responses.service.store.save(row)
        found = await background.get("resp_left", "")
        assert isinstance(found, StoredResponse)
        assert found.status == "failed"


@looped
async def test_the_end_of_a_run_is_not_visible_before_it_is_stored() -> None:
    until, held = asyncio.Event(), threading.Event()
    async with ByteServer(slowly(until)) as upstream, running(config_for(upstream.url)) as gateway:
        begun = await begin(gateway)
        run = await gateway.app.responses.runs.get(str(begun["id"]), "")
        assert isinstance(run, BackgroundRun)

        async def hold(transaction: Transaction) -> None:
            held.wait(5)

        holding = asyncio.create_task(gateway.app.gateway.storage.run(hold))
        until.set()
        async with asyncio.timeout(5):
            while not run.is_over:
                await asyncio.sleep(0.001)
        assert (await look(gateway, begun))["status"] == "in_progress"
        held.set()
        await holding
        assert (await ended(gateway, begun))["status"] == "completed"


@looped
async def test_many_at_once_all_end() -> None:
    async with running(config_for()) as gateway:
        begun = await asyncio.gather(*(begin(gateway, input=f"say {number}") for number in range(60)))
        done = [await ended(gateway, each) for each in begun]
        assert [each["status"] for each in done] == ["completed"] * 60
        assert all(f"'{number}'" in str(each["output"]) for number, each in enumerate(done))


@looped
async def test_a_run_beyond_the_limit_is_refused_with_a_time_to_retry() -> None:
    async with running(config_for()) as gateway:
        app = gateway.app
        background = BackgroundRuns(app.gateway, app.responses.service, app.exchanges.run, max_running=0)

        async def one() -> BackgroundRun:
            turn = await hello(app.responses.service)
            assert turn is not None
            return await background.start(turn)

        await asyncio.gather(*(one() for _ in range(MAX_RUNNING + MAX_WAITING)))
        with pytest.raises(DragomanError) as refused:
            await one()
        assert (refused.value.status, refused.value.retry_after) == (429, 10.0)
        await background.close()


@looped
async def test_a_response_that_fits_only_without_its_events_is_kept_without_them() -> None:
    long = (CHAT_STREAM[0], chat_text("x" * 250_000), *CHAT_STREAM[3:])
    async with ByteServer([stream_head(), *map(chunk, long), LAST_CHUNK]) as upstream:
        config = config_for(upstream.url)
        await _kept_without_events(msgspec.structs.replace(config, responses=ResponsesSettings(max_mb=1)))


async def _kept_without_events(config: Config) -> None:
    async with running(config) as gateway:
        begun = await begin(gateway)
        done = await ended(gateway, begun)
        assert done["status"] == "completed"
        async with asyncio.timeout(5):
            # Until its run is over its events are still in memory.
            while len(last := events(await followed(gateway, begun, 3))) > 1:
                await asyncio.sleep(0.001)
        assert [event["type"] for event in last] == ["response.completed"]
