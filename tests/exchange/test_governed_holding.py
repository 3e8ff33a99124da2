"""While a call is held the client gets pings, and no call is held for ever."""

import asyncio

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.exchange.exchange import CLOSING
from dragoman.hub.events import ReplyFinished, StopCause
from tests.cases.essence import parsed, read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import (
    Bench,
    Break,
    ExchangeResult,
    Piece,
    RememberingClient,
    Script,
    ScriptedUpstream,
    Wait,
)
from tests.exchange.governing import events_of, governed, question, run_governed, script, write_stream
from tests.exchange.sample_replies import DIALECTS

HOLD: dict[str, object] = {"tools": "hold"}
CALL = ("Read", '{"path": "a"}')
BROKEN_CALL = ("Read", "{'path': 'rm -r /srv/data', 'more': 1}")


def slowly(*blocks: tuple[str, str] | str, wait: float, cause: StopCause = "tool_calls") -> list[Piece]:
    """A Chat reply in small pieces with pauses between them."""
    pieces: list[Piece] = []
    for written in write_stream("openai_chat", events_of(*blocks, cause=cause, pieces=6)):
        pieces += [written, Wait(wait)]
    return pieces


def told_by(
    pieces: list[Piece], values: dict[str, object], *, client: str = "anthropic", ping: float = 10.0
) -> ExchangeResult:
    bench = Bench(
        {"up": ScriptedUpstream(Script(pieces=pieces))}, [governed("up", "openai_chat", values)], ping=ping
    )
    return run(bench.run_exchange(question(client)))


def calls_of(client: str, body: bytes) -> list[object]:
    return [arguments for _, arguments in read_essence(client, body).calls]


@pytest.mark.rule("R81", "C17", "G11")
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses"])
def test_a_held_call_is_sent_when_it_is_whole(client: str) -> None:
    result = told_by(slowly(CALL, wait=1), HOLD, client=client)
    opened = [number for number, write in enumerate(result.client.writes) if b'"id":"call_' in write]
    complete = [number for number, write in enumerate(result.client.writes) if rb"\"path\"" in write]
    opened = opened or [n for n, write in enumerate(result.client.writes) if b'"call_id"' in write]
    assert result.client.times[opened[0]] == result.client.times[complete[0]]
    assert calls_of(client, result.client.body) == [{"path": "a"}]
    (held,) = result.record.interventions
    assert held.intervention.kind == "hold"
    assert held.intervention.held > 1


@pytest.mark.rule("R82", "H13")
@pytest.mark.parametrize(
    ("client", "ping"),
    [
        ("anthropic", b'event: ping\ndata: {"type":"ping"}\n\n'),
        ("openai_chat", b": keep-alive\n\n"),
        ("openai_responses", b": keep-alive\n\n"),
    ],
)
def test_signs_of_life_are_sent_while_a_call_is_held(client: str, ping: bytes) -> None:
    result = told_by(slowly("Wait.", CALL, wait=4), HOLD, client=client, ping=5)
    assert result.client.writes.count(ping) >= 2
    assert dialect_named(client).check_stream(result.client.body) == []
    assert calls_of(client, result.client.body) == [{"path": "a"}]


@pytest.mark.rule("R82")
def test_text_flows_as_it_comes() -> None:
    result = told_by(slowly("one two three", CALL, wait=1), {**HOLD, "harvest": "auto"})
    texts = [
        time
        for time, write in zip(result.client.times, result.client.writes, strict=True)
        if b"text_delta" in write
    ]
    assert texts == sorted(set(texts))
    assert len(texts) == 5


@pytest.mark.parametrize("client", DIALECTS)
def test_nothing_is_held_for_longer_than_allowed_even_if_nothing_comes(client: str) -> None:
    written = write_stream("openai_chat", events_of(CALL, cause="tool_calls", pieces=2))
    half = next(number for number, piece in enumerate(written) if b'"arguments":"{' in piece)
    pieces: list[Piece] = [*written[: half + 1], Wait(60), *written[half + 1 :]]
    values = {**HOLD, "hold_seconds": 5.0}
    result = told_by(pieces, values, client=client, ping=0)
    assert calls_of(client, result.client.body) == [{"path": "a"}]
    (let_go,) = [noted.intervention for noted in result.record.interventions]
    assert (let_go.kind, let_go.ok, let_go.reason) == ("hold", False, "held for as long as allowed")
    assert let_go.held < 7
    if client not in ("gemini",):
        assert any(5 < time < 8 for time in result.client.times)


def test_text_that_may_be_a_call_goes_when_its_time_is_up() -> None:
    begun, rest = '<tool_call>{"name": "Read",', " never mind"
    pieces: list[Piece] = []
    for piece in write_stream("openai_chat", events_of("Well.", begun, rest)):
        pieces += [piece, Wait(20)] if begun.encode()[:10] in piece else [piece]
    result = told_by(pieces, {"harvest": "hermes", "hold_seconds": 5.0}, ping=0)
    assert read_essence("anthropic", result.client.body).text == f"Well.{begun}{rest}"
    assert any(5 < time < 8 for time in result.client.times)


@pytest.mark.rule("R81", "R84", "R127")
@pytest.mark.parametrize("mode", ["hold", "auto"])
@pytest.mark.parametrize("client", DIALECTS)
def test_a_call_whose_upstream_dies_is_never_completed(client: str, mode: str) -> None:
    written = write_stream("openai_chat", events_of(BROKEN_CALL, cause="tool_calls", pieces=4))
    for length in range(2, len(written) - 2):
        result = told_by([*written[:length], Break()], {"tools": mode}, client=client)
        assert result.record.ending == "truncated" if result.client.status == 200 else "failed"
        if result.client.status != 200:
            continue
        assert dialect_named(client).check_stream(result.client.body) == []
        assert b"rm -r" not in result.client.body


@pytest.mark.rule("R81", "R127")
@pytest.mark.parametrize("mode", ["hold", "auto"])
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("arguments", ['{"path": "rm -r /sr', "{'path': 'rm -r /sr", "{'path': 'a'"])
def test_a_call_is_not_completed_if_the_upstream_never_reported_why_it_ended(
    arguments: str, client: str, mode: str
) -> None:
    written = write_stream("openai_chat", events_of(("Read", arguments), cause="tool_calls"))
    pieces = [piece for piece in written if b'"finish_reason":"tool_calls"' not in piece]
    assert len(pieces) < len(written)
    result = told_by([*pieces, b"data: [DONE]\n\n"], {"tools": mode}, client=client)
    reply = read_essence(client, result.client.body)
    assert result.record.tally is not None
    assert result.record.tally.ending == ReplyFinished(cause="length", implied=True)
    for _, shown in reply.calls:
        assert shown is None or (isinstance(shown, dict) and "path" not in shown)


@pytest.mark.rule("R81")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("mode", ["hold", "auto"])
@pytest.mark.parametrize("arguments", ['{"path": "rm -r /sr', "{'path': 'a'}", '{"path"', "{"])
def test_a_call_that_ran_into_the_limit_is_no_call_that_could_run(
    arguments: str, mode: str, stream: bool
) -> None:
    events = events_of(("Read", arguments), cause="length")
    reply = run_governed(
        {"tools": mode}, script("openai_chat", events, stream=stream), client="openai_chat", stream=stream
    )
    ((_, shown),) = reply.essence.calls
    assert shown is None


@pytest.mark.rule("R81")
@pytest.mark.parametrize("arguments", ['{"path": "rm -r /sr', "{'path': 'a'}"])
def test_clients_that_take_objects_are_shown_a_call_that_ran_into_the_limit(arguments: str) -> None:
    events = events_of(("Read", arguments), cause="length")
    for client in ("anthropic", "gemini"):
        reply = run_governed(
            {"tools": "hold"}, script("openai_chat", events, stream=False), client=client, stream=False
        )
        for _, shown in reply.essence.calls:
            assert isinstance(shown, dict)
            assert "path" not in shown
            assert shown


def test_a_gateway_that_closes_completes_no_call() -> None:
    async def scenario() -> ExchangeResult:
        pieces: list[Piece] = [*write_stream("openai_chat", events_of(BROKEN_CALL, pieces=3))[:4], Wait(1000)]
        bench = Bench({"up": ScriptedUpstream(Script(pieces=pieces))}, [governed("up", "openai_chat", HOLD)])
        client = RememberingClient()
        exchange = bench.exchange(question("anthropic"), client)
        task = asyncio.create_task(exchange.run())
        await asyncio.sleep(5)
        exchange.stop(CLOSING)
        await task
        return ExchangeResult(client, exchange.record)

    result = run(scenario())
    assert result.record.ending == "failed"
    assert result.client.status == 529
    assert b"rm -r" not in result.client.body


@pytest.mark.rule("R84", "C15")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_by_choice_a_reply_with_arguments_beyond_repair_fails(client: str, stream: bool) -> None:
    events = events_of("Well.", ("Read", "read it ]["), cause="tool_calls")
    upstream = ScriptedUpstream(script("openai_chat", events, stream=stream))
    values = {"tools": "hold", "on_unrepairable": "error"}
    bench = Bench({"up": upstream}, [governed("up", "openai_chat", values)])
    result = run(bench.run_exchange(question(client, stream=stream)))
    assert result.record.ending == "failed"
    assert result.record.failure is not None
    assert result.record.failure.http_status == 502
    assert result.client.status == (
        200 if stream else dialect_named(client).error_status(result.record.failure)
    )
    assert "unrepairable" in [noted.intervention.kind for noted in result.record.interventions]


@pytest.mark.rule("C15")
def test_by_choice_arguments_beyond_repair_stay_as_they_are() -> None:
    events = events_of(("Read", "read it ]["), cause="tool_calls")
    reply = run_governed(
        {"tools": "hold", "on_unrepairable": "raw"}, script("openai_chat", events), client="openai_chat"
    )
    chunks = [line for line in reply.result.client.body.split(b"\n\n") if b'"arguments"' in line]
    texts = [
        msgspec.json.decode(chunk.removeprefix(b"data: "))["choices"][0]["delta"]["tool_calls"][0]
        for chunk in chunks
    ]
    assert "".join(text["function"].get("arguments", "") for text in texts) == "read it ]["
    assert parsed("read it ][") is None


@pytest.mark.rule("P9", "R51")
@pytest.mark.parametrize("mode", ["hold", "auto"])
def test_no_client_gets_an_empty_fragment_while_a_call_is_held(mode: str) -> None:
    result = told_by(slowly(CALL, wait=0), {"tools": mode}, client="openai_chat")
    fragments = [
        entry["function"]["arguments"]
        for line in result.client.body.split(b"\n\n")
        if b'"tool_calls":' in line
        for entry in msgspec.json.decode(line.removeprefix(b"data: "))["choices"][0]["delta"]["tool_calls"]
    ]
    assert fragments[0] == ("" if mode == "auto" else CALL[1])
    assert all(fragments[1:])
    assert "".join(fragments) == CALL[1]
