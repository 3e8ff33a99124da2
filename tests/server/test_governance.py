"""Governance over real connections, where pieces of a reply go from socket to socket."""

import asyncio
from collections.abc import Mapping

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.settings import ServerSettings
from dragoman.dialects.registry import dialect_named
from dragoman.governance.settings import read_governance
from tests.cases.essence import read_essence
from tests.exchange.governing import events_of, write_stream
from tests.pipeline.asking import asking
from tests.server.running import OPERATOR, Connected, config_for, running
from tests.sse import collect_sse
from tests.upstream.byte_server import LAST_CHUNK, Action, ByteServer, Pause, chunk, reply, run, stream_head

CALL = ("Read", "{'path': 'a'}")


def governed_config(url: str, values: Mapping[str, object], *, ping: float = 10.0) -> Config:
    config = config_for(url, server=ServerSettings(port=0, ping=ping))
    provider = msgspec.structs.replace(config.providers["up"], governance=read_governance(values))
    return msgspec.structs.replace(config, providers={"up": provider})


def question(*, stream: bool) -> dict[str, object]:
    return {**asking("anthropic", tools=["Read"]), "stream": stream}


async def receive_until(connection: Connected, wanted: bytes) -> bytes:
    """The stream up to something; fails if it ends before."""
    received = b""
    while wanted not in received:
        piece = await connection.chunk()
        assert piece, received
        received += piece
    return received


def test_the_status_counts_the_repairs_of_each_model() -> None:
    async def scenario() -> None:
        stream = b"".join(write_stream("openai_chat", events_of(CALL, cause="tool_calls")))
        body = msgspec.json.encode(collect_sse(dialect_named("openai_chat"), stream))
        answer: list[Action] = [reply(body, "200 OK", "content-type: application/json")]
        async with (
            ByteServer(answer) as upstream,
            running(governed_config(upstream.url, {"tools": "hold"})) as gateway,
        ):
            got = await gateway.ask("POST", "/v1/messages", question(stream=False))
            assert got.headers["x-dragoman-repairs"] == "2: hold Read; repair Read (quotes)"
            status = (await gateway.ask("GET", "/admin/status", headers=OPERATOR)).json()
            assert status["tools"] == [
                {"target": "up/m", "counts": {"replies": 1, "calls": 1, "held": 1, "repaired": 1}}
            ]

    run(scenario)


@pytest.mark.rule("R81", "R82", "C17")
def test_pings_are_sent_while_a_call_is_held_and_then_the_whole_call() -> None:
    async def scenario() -> None:
        going_on = asyncio.Event()
        pieces = write_stream("openai_chat", events_of("Well.", CALL, cause="tool_calls", pieces=4))
        half = next(number for number, piece in enumerate(pieces) if b"tool_calls" in piece) + 2
        script: list[Action] = [stream_head(), *map(chunk, pieces[:half]), Pause(going_on)]
        script += [*map(chunk, pieces[half:]), LAST_CHUNK]
        async with (
            ByteServer(script) as upstream,
            running(governed_config(upstream.url, {"tools": "hold"}, ping=0.5)) as gateway,
            gateway.connected() as connection,
        ):
            await connection.send("POST", "/v1/messages", question(stream=True))
            await connection.head()
            received = await receive_until(connection, b"event: ping")
            assert b"tool_use" not in received
            going_on.set()
            received += await receive_until(connection, b"message_stop")
            assert dialect_named("anthropic").check_stream(received) == []
            assert read_essence("anthropic", received).calls == (("Read", {"path": "a"}),)

    run(scenario)


def test_what_was_held_for_too_long_goes_while_the_upstream_is_silent() -> None:
    async def scenario() -> None:
        going_on = asyncio.Event()
        pieces = write_stream(
            "openai_chat", events_of(("Read", '{"path": "a"}'), cause="tool_calls", pieces=2)
        )
        half = next(number for number, piece in enumerate(pieces) if b"tool_calls" in piece) + 2
        script: list[Action] = [stream_head(), *map(chunk, pieces[:half]), Pause(going_on)]
        script += [*map(chunk, pieces[half:]), LAST_CHUNK]
        values = {"tools": "hold", "hold_seconds": 0.2}
        async with (
            ByteServer(script) as upstream,
            running(governed_config(upstream.url, values)) as gateway,
            gateway.connected() as connection,
        ):
            await connection.send("POST", "/v1/messages", question(stream=True))
            await connection.head()
            received = await receive_until(connection, rb"{\"path\"")
            going_on.set()
            received += await receive_until(connection, b"message_stop")
            assert read_essence("anthropic", received).calls == (("Read", {"path": "a"}),)

    run(scenario)


@pytest.mark.rule("R74")
def test_the_model_is_asked_again_over_the_same_connection() -> None:
    async def scenario() -> None:
        first = write_stream("openai_chat", events_of(("Read", '{"path": "secret"}'), cause="tool_calls"))
        second = write_stream("openai_chat", events_of("Never mind."))
        scripts: list[list[Action]] = [
            [stream_head(), *map(chunk, pieces), LAST_CHUNK] for pieces in (first, second)
        ]
        rule = {"tools": ["Read"], "pattern": "secret", "verdict": "deny", "reason": "no"}
        async with (
            ByteServer(*scripts) as upstream,
            running(governed_config(upstream.url, {"guard": [rule], "on_denied": "model"})) as gateway,
        ):
            got = await gateway.ask("POST", "/v1/messages", question(stream=True))
            assert read_essence("anthropic", got.body).text == "Never mind."
            assert dialect_named("anthropic").check_stream(got.body) == []

    run(scenario)
