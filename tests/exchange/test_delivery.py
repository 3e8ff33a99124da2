"""What the client receives while it waits, when a reply breaks off, and when there is none."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec
import pytest

from dragoman.config.settings import Timeouts
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.exchange import CLOSING, Exchange
from tests.exchange.clock import run
from tests.exchange.fakes import (
    JSON,
    Ask,
    Bench,
    Break,
    ExchangeResult,
    Piece,
    RememberingClient,
    Script,
    ScriptedUpstream,
    Wait,
    ask,
    provider,
)
from tests.exchange.sample_replies import (
    ANTHROPIC_OPEN,
    ANTHROPIC_OVERLOADED,
    ANTHROPIC_START,
    ANTHROPIC_STREAM,
    CHAT_START,
    CHAT_STREAM,
    CHAT_WHOLE,
    DIALECTS,
    GEMINI_STREAM,
    anthropic_text,
    chat_text,
    data,
    error,
    gemini_text,
)

CLI = {"user-agent": "GeminiCLI-tui/0.61.0/gemini-3 (linux)"}
SDK = {"user-agent": "google-genai-sdk/3.1.0 gl-python/3.11"}


def told_of(
    *pieces: Piece,
    dialect: str,
    upstream_dialect: str = "openai_chat",
    headers: Mapping[str, str] | None = None,
    as_array: bool = False,
) -> ExchangeResult:
    upstream = ScriptedUpstream(Script(pieces=pieces))
    bench = Bench({"up": upstream}, [provider("up", upstream_dialect, retries=0)])
    return run(bench.run_exchange(ask(dialect, as_array=as_array, headers=headers)))


def interrupted(bench: Bench, question: Ask, act: Callable[[Exchange], None]) -> ExchangeResult:
    """An exchange to which something happens after five seconds."""

    async def scenario() -> ExchangeResult:
        client = RememberingClient()
        exchange = bench.exchange(question, client)
        asyncio.get_running_loop().call_later(5, act, exchange)
        await exchange.run()
        return ExchangeResult(client, exchange.record)

    return run(scenario())


def stop(exchange: Exchange) -> None:
    exchange.stop(CLOSING)


@pytest.mark.rule("H75", "R128")
def test_an_anthropic_client_gets_pings_while_a_reply_pauses() -> None:
    result = told_of(CHAT_START, chat_text("good"), Wait(35), *CHAT_STREAM[2:], dialect="anthropic")
    assert result.client.body.count(b'event: ping\ndata: {"type":"ping"}\n\n') == 3
    assert dialect_named("anthropic").check_stream(result.client.body) == []


@pytest.mark.rule("H75")
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_openais_clients_get_comments_while_a_reply_pauses(dialect: str) -> None:
    result = told_of(CHAT_START, chat_text("good"), Wait(35), *CHAT_STREAM[2:], dialect=dialect)
    assert result.client.body.count(b": keep-alive\n\n") == 3
    assert dialect_named(dialect).check_stream(result.client.body) == []


@pytest.mark.rule("H75")
def test_a_gemini_client_gets_data_and_nothing_else() -> None:
    result = told_of(CHAT_START, Wait(100), chat_text("good"), Wait(100), *CHAT_STREAM[2:], dialect="gemini")
    frames = result.client.body.split(b"\n\n")[:-1]
    assert all(frame.startswith(b"data: {") for frame in frames)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses"])
def test_before_a_reply_has_begun_the_sign_of_life_is_no_event(dialect: str) -> None:
    result = told_of(Wait(25), *CHAT_STREAM, dialect=dialect)
    assert result.client.body.startswith(b": waiting\n\n: waiting\n\n")
    assert dialect_named(dialect).check_stream(result.client.body) == []


def test_signs_of_life_come_while_the_head_of_the_answer_is_awaited() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM, after=25))
    result = run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    assert result.client.body.startswith(b": waiting\n\n")
    assert result.client.body.endswith(b"".join(CHAT_STREAM))


def test_a_sign_of_life_does_not_rule_out_another_target() -> None:
    slow = ScriptedUpstream(Script(pieces=[Wait(25), Break()]))
    result = run(
        Bench({"slow": slow, "good": ScriptedUpstream(Script(pieces=CHAT_STREAM))}).run_exchange(
            ask("gemini")
        )
    )
    assert result.client.status == 200
    result = run(
        Bench({"slow": slow, "good": ScriptedUpstream(Script(pieces=CHAT_STREAM))}).run_exchange(
            ask("openai_chat")
        )
    )
    assert result.client.body.endswith(b"".join(CHAT_STREAM))


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses"])
def test_after_a_sign_of_life_an_error_is_reported_in_the_stream(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(status=429, pieces=[error("slow down")], headers={}, after=25))
    bench = Bench({"up": upstream}, [provider("up", retries=0)])
    result = run(bench.run_exchange(ask(dialect)))
    assert result.client.status == 200
    assert b"slow down" in result.client.body
    assert result.client.is_ended
    assert result.record.ending == "failed"


def test_a_busy_stream_gets_no_signs_of_life() -> None:
    pieces = [piece for _ in range(20) for piece in (Wait(4), chat_text("x"))]
    result = told_of(CHAT_START, *pieces, *CHAT_STREAM[3:], dialect="openai_chat")
    assert b"keep-alive" not in result.client.body


def test_a_client_that_wants_no_stream_gets_no_signs_of_life() -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_WHOLE], headers={"content-type": JSON}, after=60))
    result = run(Bench({"up": upstream}).run_exchange(ask("openai_chat", stream=False)))
    assert result.client.body == CHAT_WHOLE


def test_signs_of_life_can_be_switched_off() -> None:
    upstream = ScriptedUpstream(Script(pieces=[Wait(100), *CHAT_STREAM]))
    result = run(Bench({"up": upstream}, ping=0).run_exchange(ask("openai_chat")))
    assert result.client.body == b"".join(CHAT_STREAM)


def test_a_sign_of_life_never_falls_into_the_middle_of_an_event() -> None:
    first, second = chat_text("day")[:20], chat_text("day")[20:]
    result = told_of(
        CHAT_START, chat_text("good"), first, Wait(25), second, *CHAT_STREAM[3:], dialect="openai_chat"
    )
    assert b": keep-alive\n\n" + chat_text("day") in result.client.body


#: How each dialect reports a failure in the middle of a stream.
ERRORS = {
    "anthropic": b"event: error\ndata: ",
    "openai_chat": b'data: {"error":',
    "openai_responses": b"event: response.failed\ndata: ",
    "gemini": b'data: {"error":',
}


@pytest.mark.rule("H72", "H73", "R127")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("ending", [(), (Break(),)], ids=["closed", "broken"])
def test_a_reply_that_breaks_off_ends_in_the_clients_own_error(
    dialect: str, ending: tuple[Piece, ...]
) -> None:
    result = told_of(CHAT_START, chat_text("good"), *ending, dialect=dialect, headers=CLI)
    assert ERRORS[dialect] in result.client.body
    assert result.client.is_ended
    assert result.record.ending == "truncated"


@pytest.mark.rule("H72", "H73")
def test_a_forwarded_reply_that_breaks_off_ends_in_the_clients_own_error() -> None:
    pieces = (ANTHROPIC_START, ANTHROPIC_OPEN, anthropic_text("good"), anthropic_text("day")[:30], Break())
    result = told_of(*pieces, dialect="anthropic", upstream_dialect="anthropic")
    assert result.client.body.startswith(b"".join(pieces[:3]) + b"event: error\n")
    assert result.client.body.count(b"event: error") == 1


def test_a_forwarded_error_is_not_reported_twice() -> None:
    pieces = (ANTHROPIC_START, ANTHROPIC_OPEN, anthropic_text("good"), ANTHROPIC_OVERLOADED)
    result = told_of(*pieces, dialect="anthropic", upstream_dialect="anthropic")
    assert result.client.body == b"".join(pieces)
    assert result.record.ending == "failed"


@pytest.mark.rule("H72")
def test_geminis_own_agent_gets_a_clean_end_behind_the_error() -> None:
    result = told_of(gemini_text("good"), Break(), dialect="gemini", upstream_dialect="gemini", headers=CLI)
    assert result.client.is_ended
    assert not result.client.is_broken_off
    assert result.client.body.startswith(gemini_text("good") + b'data: {"error":')


@pytest.mark.rule("H72")
@pytest.mark.parametrize("upstream_dialect", ["gemini", "openai_chat"])
def test_other_gemini_clients_get_a_broken_connection_behind_the_error(upstream_dialect: str) -> None:
    word = gemini_text("good") if upstream_dialect == "gemini" else CHAT_START + chat_text("good")
    result = told_of(word, Break(), dialect="gemini", upstream_dialect=upstream_dialect, headers=SDK)
    assert b'data: {"error":' in result.client.body
    assert result.client.is_broken_off
    assert not result.client.is_cut
    assert not result.client.is_ended


def test_a_finished_reply_is_no_reason_to_break_the_connection() -> None:
    result = told_of(*GEMINI_STREAM, dialect="gemini", upstream_dialect="gemini", headers=SDK)
    assert result.client.is_ended
    assert not result.client.is_broken_off


def test_an_array_that_breaks_off_is_still_an_array() -> None:
    result = told_of(CHAT_START, chat_text("good"), Break(), dialect="gemini", headers=CLI, as_array=True)
    *_, last = msgspec.json.decode(result.client.body)
    assert "error" in last


def test_an_array_that_cannot_begin_is_an_error_in_an_array() -> None:
    upstream = ScriptedUpstream(Script(status=404, pieces=[error("no such model")], headers={}))
    result = run(Bench({"up": upstream}).run_exchange(ask("gemini", as_array=True)))
    assert result.client.status == 404
    (only,) = msgspec.json.decode(result.client.body)
    assert only["error"]["status"] == "NOT_FOUND"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_that_makes_no_sense_is_refused_in_the_clients_dialect(dialect: str) -> None:
    question = ask(dialect)
    question.body = b'{"model": '
    result = run(Bench({"up": ScriptedUpstream(Script(pieces=CHAT_STREAM))}).run_exchange(question))
    assert result.client.status == 400
    assert "error" in result.client.json()
    assert result.client.headers["content-type"] == JSON


@pytest.mark.rule("H65")
@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("anthropic", "prompt is too long: 200000 tokens > 128000 maximum"),
        ("openai_chat", "context_length_exceeded"),
        ("openai_responses", "context_length_exceeded"),
        ("gemini", "exceeds the maximum number of tokens"),
    ],
)
@pytest.mark.parametrize("inside", [False, True], ids=["as a status", "inside the stream"])
def test_a_prompt_that_is_too_long_is_reported_in_the_words_that_the_client_knows(
    dialect: str, words: str, inside: bool
) -> None:
    message = "This model's maximum context length is 128000 tokens, but the messages have 200000 tokens."
    body = error(message, "invalid_request_error", "context_length_exceeded")
    script = Script(pieces=[data(msgspec.json.decode(body))]) if inside else Script(status=400, pieces=[body])
    result = run(Bench({"up": ScriptedUpstream(script)}).run_exchange(ask(dialect)))
    assert result.client.status == 400
    assert words in str(result.client.json())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_rate_limit_always_states_when_to_come_back(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(status=429, pieces=[error("slow down", "rate_limit_error")]))
    result = run(Bench({"up": upstream}, [provider("up", retries=0)]).run_exchange(ask(dialect)))
    assert result.client.status == 429
    assert 1 <= int(result.client.headers["retry-after"]) <= 30
    assert "x-should-retry" not in result.client.headers


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_wait_is_reported_in_words_and_the_client_is_asked_not_to_wait(dialect: str) -> None:
    upstream = ScriptedUpstream(
        Script(status=429, pieces=[error("slow down", "rate_limit_error")], headers={"retry-after": "300"})
    )
    result = run(Bench({"up": upstream}).run_exchange(ask(dialect)))
    assert int(result.client.headers["retry-after"]) <= 30
    assert result.client.headers["x-should-retry"] == "false"
    assert "300 s" in str(result.client.json())


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_client_is_asked_not_to_repeat_what_cannot_succeed(status: int) -> None:
    upstream = ScriptedUpstream(Script(status=status, pieces=[error("no")]))
    result = run(Bench({"up": upstream}).run_exchange(ask("anthropic")))
    assert result.client.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("status", [400, 500, 503, 529])
def test_a_client_may_repeat_what_may_succeed(status: int) -> None:
    upstream = ScriptedUpstream(Script(status=status, pieces=[error("no")]))
    result = run(Bench({"up": upstream}, [provider("up", retries=0)]).run_exchange(ask("anthropic")))
    assert "x-should-retry" not in result.client.headers


@pytest.mark.rule("R126", "H83", "P58")
def test_a_client_that_leaves_ends_the_upstreams_work_and_is_counted() -> None:
    usage = anthropic_text("good")
    upstream = ScriptedUpstream(Script(pieces=[ANTHROPIC_START, ANTHROPIC_OPEN, usage, Wait(100)]))
    bench = Bench({"up": upstream}, [provider("up", "anthropic")])
    result = interrupted(bench, ask("anthropic"), Exchange.abandon)
    assert upstream.answers[0].closed_at == 5.0
    assert result.record.ending == "cancelled"
    assert result.record.line()["input"] == 12
    assert b"error" not in result.client.body


@pytest.mark.rule("R126")
@pytest.mark.parametrize(
    "script",
    [
        Script(pieces=CHAT_STREAM, after=100),
        Script(status=429, pieces=[error("slow down")], headers={"retry-after": "15"}),
        Script(pieces=[Wait(100)]),
    ],
    ids=["before the head", "between two tries", "before the first word"],
)
def test_a_client_may_leave_at_any_time(script: Script) -> None:
    upstream = ScriptedUpstream(script)
    bench = Bench({"up": upstream})
    result = interrupted(bench, ask("openai_chat"), Exchange.abandon)
    assert result.record.ending == "cancelled"
    assert result.record.seconds == pytest.approx(5.0)
    assert len(upstream.calls) == 1


def test_a_client_that_takes_nothing_is_hung_up_on() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    client = RememberingClient(slowness=10_000)
    result = run(Bench({"up": upstream}).run_exchange(ask("openai_chat"), client))
    assert client.is_cut
    assert result.record.ending == "cancelled"
    assert result.record.seconds == pytest.approx(300, abs=2)
    assert upstream.answers[0].closed_at is not None


def test_a_slow_client_is_not_mistaken_for_a_silent_upstream() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    client = RememberingClient(slowness=200)
    bench = Bench({"up": upstream}, [provider("up", timeouts=Timeouts(first_byte=5, idle=5))])
    result = run(bench.run_exchange(ask("openai_chat"), client))
    assert result.record.ending == "finished"


def test_a_slow_client_gets_no_signs_of_life_on_top() -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    result = run(Bench({"up": upstream}).run_exchange(ask("openai_chat"), RememberingClient(slowness=100)))
    assert result.client.body == b"".join(CHAT_STREAM)


@pytest.mark.rule("R135")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_that_is_stopped_ends_in_the_clients_own_error(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_START, chat_text("good"), Wait(100)]))
    bench = Bench({"up": upstream})
    result = interrupted(bench, ask(dialect, headers=CLI), stop)
    assert ERRORS[dialect] in result.client.body
    assert b"shutting down" in result.client.body
    assert result.client.is_ended
    assert upstream.answers[0].closed_at == 5.0
    assert result.record.ending == "cancelled"


@pytest.mark.rule("R135")
def test_an_exchange_that_is_stopped_before_it_has_sent_anything_is_refused() -> None:
    bench = Bench({"up": ScriptedUpstream(Script(pieces=CHAT_STREAM, after=100))}, ping=0)
    result = interrupted(bench, ask("openai_chat"), stop)
    assert result.client.status == 503
    assert result.client.headers["retry-after"] == "1"


def test_an_upstream_that_stays_after_its_last_event_delays_no_client() -> None:
    upstream = ScriptedUpstream(Script(pieces=[*ANTHROPIC_STREAM, Wait(100), b": bye\n\n"]))
    bench = Bench({"up": upstream}, [provider("up", "anthropic")])
    result = run(bench.run_exchange(ask("openai_chat")))
    assert result.client.times[-1] == 0.0
    assert result.client.is_ended
    assert upstream.answers[0].closed_at == pytest.approx(1.0)
    assert result.record.ending == "finished"


def test_a_stream_that_ends_well_is_read_to_its_end_so_that_its_connection_can_be_used_again() -> None:
    upstream = ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    run(Bench({"up": upstream}, [provider("up", "anthropic")]).run_exchange(ask("openai_chat")))
    assert upstream.answers[0].is_read_to_end
