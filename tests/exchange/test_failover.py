"""What happens when a target fails: again, elsewhere, or the truth; and who is remembered for it."""

import msgspec
import pytest

from dragoman.config.settings import Timeouts
from tests.exchange.clock import run
from tests.exchange.fakes import (
    JSON,
    Bench,
    Break,
    Script,
    ScriptedUpstream,
    Unreachable,
    Wait,
    ask,
    provider,
)
from tests.exchange.sample_replies import (
    ANTHROPIC_OPEN,
    ANTHROPIC_OVERLOADED,
    ANTHROPIC_START,
    ANTHROPIC_STREAM,
    CHAT_DONE,
    CHAT_START,
    CHAT_STREAM,
    CHAT_WHOLE,
    DIALECTS,
    GEMINI_MALFORMED,
    GEMINI_SIGNED_MALFORMED,
    GEMINI_STREAM,
    RESPONSES_CREATED,
    RESPONSES_FAILED,
    chat_text,
    data,
    error,
    gemini_text,
)

GOOD = Script(pieces=CHAT_STREAM)
PLAIN = {"content-type": JSON}


def refusal(status: int, body: bytes = error("no"), **headers: str) -> Script:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Script(status=status, pieces=[body], headers={**PLAIN, **named})


#: Ways to fail before the first word, all of them without a trace for the client.
EARLY_FAILURES: dict[str, Script | Unreachable] = {
    "500": refusal(500),
    "529": refusal(529),
    "connection refused": Unreachable(),
    "connection broken": Script(pieces=[Break()]),
    "broken after the start": Script(pieces=[CHAT_START, Break()]),
    "closed after the start": Script(pieces=[CHAT_START]),
    "finished after the start, without a reason": Script(pieces=[CHAT_START, CHAT_DONE]),
    "empty": Script(),
    "a web page": Script(pieces=[b"<html>busy</html>"], headers={"content-type": "text/html"}),
    "an error in the stream": Script(pieces=[data({"error": {"message": "overloaded", "code": 503}})]),
    "an error after the start": Script(
        pieces=[CHAT_START, data({"error": {"message": "overloaded", "code": 503}})]
    ),
    "words and an error at once": Script(pieces=[chat_text("go") + data({"error": {"message": "no"}})]),
}


@pytest.mark.parametrize("failure", EARLY_FAILURES)
@pytest.mark.rule("H74", "P17", "H73", "F1")
def test_another_target_takes_over_without_a_trace(failure: str) -> None:
    bad, good = ScriptedUpstream(EARLY_FAILURES[failure]), ScriptedUpstream(GOOD)
    result = run(Bench({"bad": bad, "good": good}).run_exchange(ask("openai_chat")))
    assert result.client.status == 200
    assert result.client.body == b"".join(CHAT_STREAM)
    assert result.client.headers["x-dragoman-target"] == "good/model"
    assert result.record.retries >= 1


@pytest.mark.rule("H74", "P17")
def test_an_overload_inside_an_anthropic_stream_reaches_no_client() -> None:
    pieces = [ANTHROPIC_START, b'event: ping\ndata: {"type":"ping"}\n\n', ANTHROPIC_OVERLOADED]
    bad, good = ScriptedUpstream(Script(pieces=pieces)), ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    providers = [provider("bad", "anthropic"), provider("good", "anthropic")]
    result = run(Bench({"bad": bad, "good": good}, providers).run_exchange(ask("anthropic")))
    assert result.client.body == b"".join(ANTHROPIC_STREAM)


@pytest.mark.rule("H74")
def test_a_failure_inside_a_responses_stream_reaches_no_client() -> None:
    bad = ScriptedUpstream(Script(pieces=[RESPONSES_CREATED, RESPONSES_FAILED]))
    providers = [provider("bad", "openai_responses")]
    result = run(
        Bench({"bad": bad, "good": ScriptedUpstream(GOOD)}, providers).run_exchange(ask("openai_responses"))
    )
    assert b"response.completed" in result.client.body
    assert b"response.failed" not in result.client.body


def test_another_target_takes_over_a_whole_reply_too() -> None:
    bad = ScriptedUpstream(Script(pieces=[error("overloaded", code="server_is_overloaded")], headers=PLAIN))
    good = ScriptedUpstream(Script(pieces=[CHAT_WHOLE], headers=PLAIN))
    result = run(Bench({"bad": bad, "good": good}).run_exchange(ask("anthropic", stream=False)))
    assert result.client.status == 200
    assert b"good day" in result.client.body


def gemini_script(*pieces: bytes, stream: bool) -> Script:
    """A reply of Gemini: chunks of a stream, or one of them as a whole reply."""
    if stream:
        return Script(pieces=pieces)
    return Script(pieces=[pieces[-1].removeprefix(b"data: ")], headers=PLAIN)


@pytest.mark.rule("F17")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_malformed_call_before_any_content_is_tried_again(dialect: str, stream: bool) -> None:
    bad = [gemini_script(piece, stream=stream) for piece in (GEMINI_MALFORMED, GEMINI_SIGNED_MALFORMED)]
    upstream = ScriptedUpstream(*bad, gemini_script(*GEMINI_STREAM, stream=stream))
    result = run(
        Bench({"up": upstream}, [provider("up", "gemini")]).run_exchange(ask(dialect, stream=stream))
    )
    assert result.client.status == 200
    assert b"day" in result.client.body
    assert b'error":{' not in result.client.body
    assert result.record.retries == 2


@pytest.mark.rule("F17")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_model_that_makes_malformed_calls_only_is_reported_as_an_error(dialect: str, stream: bool) -> None:
    upstream = ScriptedUpstream(gemini_script(GEMINI_MALFORMED, stream=stream))
    result = run(
        Bench({"up": upstream}, [provider("up", "gemini")]).run_exchange(ask(dialect, stream=stream))
    )
    assert result.client.status >= 500
    assert result.client.json()["error"]
    assert b"MALFORMED_FUNCTION_CALL" in result.client.body
    assert len(upstream.calls) == 3


@pytest.mark.rule("F17")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_malformed_call_after_content_is_an_error_in_the_stream(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=[gemini_text("I list the files"), GEMINI_MALFORMED]))
    result = run(Bench({"up": upstream}, [provider("up", "gemini")]).run_exchange(ask(dialect)))
    assert result.client.status == 200
    assert b'"error":{' in result.client.body
    assert result.record.ending == "truncated"
    assert len(upstream.calls) == 1


@pytest.mark.rule("H74")
def test_after_the_first_content_no_target_takes_over() -> None:
    bad = ScriptedUpstream(Script(pieces=[CHAT_START, chat_text("go"), Break()]))
    good = ScriptedUpstream(GOOD)
    result = run(Bench({"bad": bad, "good": good}).run_exchange(ask("anthropic")))
    assert good.calls == []
    assert b"event: error" in result.client.body
    assert result.record.ending == "truncated"


@pytest.mark.rule("R110")
def test_a_busy_target_is_tried_again_after_growing_waits() -> None:
    upstream = ScriptedUpstream(refusal(503), refusal(503), GOOD)
    result = run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    first, second, third = upstream.called_at
    assert [second - first, third - second] == pytest.approx([0.5, 1.0])
    assert result.client.headers["x-dragoman-retries"] == "2"
    assert result.client.status == 200


def test_waits_are_spread_by_chance() -> None:
    def waited(jitter: float) -> float:
        upstream = ScriptedUpstream(refusal(503), GOOD)
        run(Bench({"up": upstream}, jitter=lambda: jitter).run_exchange(ask("openai_chat")))
        return upstream.called_at[1] - upstream.called_at[0]

    assert waited(0.0) < waited(0.5) < waited(1.0)


@pytest.mark.rule("R110")
def test_a_wait_that_the_upstream_asks_for_is_kept() -> None:
    upstream = ScriptedUpstream(refusal(429, retry_after="7"), GOOD)
    run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    assert upstream.called_at[1] - upstream.called_at[0] == pytest.approx(7.0)


def test_a_wait_until_a_date_is_kept_too() -> None:
    upstream = ScriptedUpstream(refusal(429, retry_after="Fri, 15 Jan 2027 08:00:07 GMT"), GOOD)
    run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    assert upstream.called_at[1] - upstream.called_at[0] == pytest.approx(7.0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_upstream_that_sends_us_elsewhere_is_not_followed(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(status=302, headers={"location": "http://127.0.0.1:1/"}))
    result = run(Bench({"up": upstream}, [provider("up", retries=0)]).run_exchange(ask(dialect)))
    assert result.client.status in (502, 503)
    assert "location" not in result.client.headers


def test_a_wait_that_is_too_long_is_left_to_the_client() -> None:
    upstream = ScriptedUpstream(refusal(429, retry_after="300"))
    result = run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    assert len(upstream.calls) == 1
    assert result.client.status == 429


def test_no_request_waits_for_a_busy_target_while_another_is_free() -> None:
    busy, free = ScriptedUpstream(refusal(429, retry_after="7")), ScriptedUpstream(GOOD)
    run(Bench({"busy": busy, "free": free}).run_exchange(ask("openai_chat")))
    assert len(busy.calls) == 1
    assert free.called_at == [0.0]


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_error_of_the_request_itself_is_final(status: int) -> None:
    first, second = ScriptedUpstream(refusal(status)), ScriptedUpstream(GOOD)
    result = run(Bench({"first": first, "second": second}).run_exchange(ask("openai_chat")))
    assert result.client.status == status
    assert len(first.calls) == 1
    assert second.calls == []


def test_an_error_of_the_request_itself_cools_no_target() -> None:
    bench = Bench({"up": ScriptedUpstream(refusal(400))})

    async def scenario() -> None:
        await bench.run_exchange(ask("openai_chat"))
        assert bench.gateway.health.list_cooldowns(0.0) == {}

    run(scenario())


def test_a_target_that_failed_is_tried_last_for_a_while() -> None:
    bad, good = ScriptedUpstream(refusal(500), GOOD), ScriptedUpstream(GOOD)
    bench = Bench({"bad": bad, "good": good}, [provider("bad", retries=0)])

    async def scenario() -> None:
        await bench.run_exchange(ask("openai_chat"))
        result = await bench.run_exchange(ask("openai_chat"))
        assert result.client.headers["x-dragoman-target"] == "good/model"
        assert "x-dragoman-retries" not in result.client.headers

    run(scenario())


@pytest.mark.rule("P56")
def test_the_only_target_is_asked_every_time() -> None:
    upstream = ScriptedUpstream(refusal(404))
    bench = Bench({"up": upstream})

    async def scenario() -> None:
        for _ in range(3):
            result = await bench.run_exchange(ask("openai_chat"))
            assert result.client.status == 404
            assert "no" in str(result.client.json())

    run(scenario())
    assert len(upstream.calls) == 3


def test_a_key_that_is_refused_gives_way_to_the_next_key() -> None:
    upstream = ScriptedUpstream(refusal(401), GOOD)
    bench = Bench({"up": upstream}, [provider("up", keys=("key-of-one", "key-of-two"))])
    result = run(bench.run_exchange(ask("openai_chat")))
    assert result.client.status == 200
    first, second = upstream.calls
    assert first.key != second.key


@pytest.mark.parametrize("status", [500, 529])
def test_a_failure_that_is_not_about_the_key_is_not_met_again_with_every_key(status: int) -> None:
    upstream = ScriptedUpstream(refusal(status, error("no")))
    other = ScriptedUpstream(GOOD)
    keys = ("key-of-one", "key-of-two", "key-of-three")
    bench = Bench({"up": upstream, "other": other}, [provider("up", keys=keys, retries=1)])
    result = run(bench.run_exchange(ask("openai_chat")))
    assert result.client.status == 200
    # A busy target is not waited for while another is free.
    assert len(upstream.calls) == {500: 2, 529: 1}[status]
    assert len(other.calls) == 1


def test_a_busy_target_is_waited_for_though_it_has_other_keys() -> None:
    upstream = ScriptedUpstream(refusal(529, error("busy")), GOOD)
    bench = Bench({"up": upstream}, [provider("up", keys=("key-of-one", "key-of-two"))])
    assert run(bench.run_exchange(ask("openai_chat"))).client.status == 200
    assert len(upstream.calls) == 2


def test_a_session_keeps_its_key_and_other_sessions_take_others() -> None:
    upstream = ScriptedUpstream(GOOD)
    bench = Bench({"up": upstream}, [provider("up", keys=("key-of-one", "key-of-two", "key-of-three"))])

    async def scenario() -> None:
        for session in "aaabcdefgh":
            await bench.run_exchange(ask("openai_chat", headers={"session-id": session}))

    run(scenario())
    keys = [call.key for call in upstream.calls]
    assert len(set(keys[:3])) == 1
    assert len(set(keys)) == 3


def test_a_session_without_a_header_is_known_by_its_cache_key() -> None:
    upstream = ScriptedUpstream(GOOD)
    bench = Bench({"up": upstream}, [provider("up", keys=("key-of-one", "key-of-two", "key-of-three"))])

    async def scenario() -> None:
        for name in "aaabcdefgh":
            await bench.run_exchange(ask("openai_chat", body={"prompt_cache_key": name}))

    run(scenario())
    keys = [call.key for call in upstream.calls]
    assert len(set(keys[:3])) == 1
    assert len(set(keys)) == 3


def test_a_session_that_is_empty_of_itself_is_known_by_its_first_words() -> None:
    upstream = ScriptedUpstream(GOOD)
    bench = Bench({"up": upstream}, [provider("up", keys=("key-of-one", "key-of-two", "key-of-three"))])

    async def scenario() -> None:
        for turns, name in enumerate("aaabcdefgh"):
            question = ask("openai_chat")
            history = [{"role": "user", "content": name}]
            history += [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "go on"}] * turns
            question.body = msgspec.json.encode({"model": "m", "stream": True, "messages": history})
            await bench.run_exchange(question)

    run(scenario())
    keys = [call.key for call in upstream.calls]
    assert len(set(keys[:3])) == 1
    assert len(set(keys)) == 3


def test_of_several_failures_the_one_that_may_pass_is_reported() -> None:
    busy = ScriptedUpstream(refusal(429, error("slow down"), retry_after="25"))
    locked = ScriptedUpstream(refusal(401, error("bad key")))
    result = run(Bench({"busy": busy, "locked": locked}).run_exchange(ask("openai_chat")))
    assert result.client.status == 429
    assert result.client.headers["retry-after"] == "25"


@pytest.mark.rule("M15")
def test_the_log_and_a_header_name_what_failed_before_another_target_answered() -> None:
    lost = ScriptedUpstream(refusal(404, error("no such model")))
    result = run(Bench({"lost": lost, "good": ScriptedUpstream(GOOD)}).run_exchange(ask("openai_chat")))
    assert result.client.status == 200
    failed = str(result.record.line()["failed"])
    assert failed.startswith("lost/")
    assert failed.endswith(" (not_found 404)")
    assert result.client.headers["x-dragoman-failed"] == failed


def test_without_one_that_may_pass_the_last_failure_is_reported() -> None:
    lost = ScriptedUpstream(refusal(404, error("no such model")))
    locked = ScriptedUpstream(refusal(403, error("not for you")))
    result = run(Bench({"lost": lost, "locked": locked}).run_exchange(ask("openai_chat")))
    assert result.client.status == 502
    assert "not for you" in str(result.client.json())


def test_a_target_that_cannot_take_the_request_leaves_it_to_one_that_can() -> None:
    question = ask("anthropic", body={"top_k": 5})
    foreign, own = ScriptedUpstream(GOOD), ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    bench = Bench({"foreign": foreign, "own": own}, [provider("own", "anthropic")], strict=True)
    result = run(bench.run_exchange(question))
    assert result.client.status == 200
    assert foreign.calls == []


def test_a_route_that_must_not_lose_anything_refuses_what_would_be_lost() -> None:
    result = run(
        Bench({"up": ScriptedUpstream(GOOD)}, strict=True).run_exchange(ask("anthropic", body={"top_k": 5}))
    )
    assert result.client.status == 400
    assert "top_k" in str(result.client.json())


@pytest.mark.rule("R128")
def test_silence_before_the_first_word_lets_another_target_take_over() -> None:
    limits = Timeouts(first_byte=30, idle=60)
    slow, good = ScriptedUpstream(Script(pieces=[Wait(1000), *CHAT_STREAM])), ScriptedUpstream(GOOD)
    bench = Bench({"slow": slow, "good": good}, [provider("slow", timeouts=limits)], ping=0)
    result = run(bench.run_exchange(ask("openai_chat")))
    assert result.client.body == b"".join(CHAT_STREAM)
    assert good.called_at == [pytest.approx(30, abs=1)]
    assert slow.answers[0].closed_at == pytest.approx(30, abs=1)


@pytest.mark.rule("R128", "H72")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_silence_in_the_middle_of_a_reply_ends_it_as_a_failure(dialect: str) -> None:
    limits = Timeouts(first_byte=30, idle=60)
    slow = ScriptedUpstream(Script(pieces=[CHAT_START, chat_text("go"), Wait(1000), *CHAT_STREAM]))
    result = run(
        Bench({"slow": slow}, [provider("slow", timeouts=limits)], ping=0).run_exchange(ask(dialect))
    )
    assert result.record.ending == "truncated"
    assert result.record.seconds == pytest.approx(60, abs=1.5)
    assert "timeout: provider slow timed out" in str(result.record.line()["error"])


@pytest.mark.rule("R128")
def test_a_reply_that_takes_too_long_altogether_is_ended() -> None:
    trickle = [piece for _ in range(200) for piece in (Wait(5), chat_text("x"))]
    upstream = ScriptedUpstream(Script(pieces=[CHAT_START, *trickle]))
    limits = Timeouts(total=100)
    result = run(
        Bench({"up": upstream}, [provider("up", timeouts=limits)], ping=0).run_exchange(ask("anthropic"))
    )
    assert result.record.seconds == pytest.approx(100, abs=5)
    assert "took longer than 100 s" in str(result.record.line()["error"])


def test_a_failure_in_the_middle_of_a_reply_is_remembered() -> None:
    bad = ScriptedUpstream(Script(pieces=[CHAT_START, chat_text("go"), Break()]))
    good = ScriptedUpstream(GOOD)
    bench = Bench({"bad": bad, "good": good})

    async def scenario() -> None:
        await bench.run_exchange(ask("openai_chat"))
        result = await bench.run_exchange(ask("openai_chat"))
        assert result.client.headers["x-dragoman-target"] == "good/model"

    run(scenario())


def test_a_stream_that_states_much_before_its_first_word_is_committed_to() -> None:
    chatter = [b": " + b"x" * 100_000 + b"\n\n"] * 20
    upstream = ScriptedUpstream(Script(pieces=[CHAT_START, *chatter, Break()]))
    other = ScriptedUpstream(GOOD)
    result = run(Bench({"up": upstream, "other": other}).run_exchange(ask("openai_chat")))
    assert other.calls == []
    assert result.record.ending == "truncated"


def test_an_opened_block_is_the_first_word() -> None:
    bad = ScriptedUpstream(Script(pieces=[ANTHROPIC_START, ANTHROPIC_OPEN, Break()]))
    providers = [provider("bad", "anthropic")]
    result = run(
        Bench({"bad": bad, "good": ScriptedUpstream(GOOD)}, providers).run_exchange(ask("anthropic"))
    )
    assert b"event: error" in result.client.body


def test_a_whole_reply_without_bound_is_cut() -> None:
    endless = [b" " * 1024 * 1024] * 70
    upstream = ScriptedUpstream(Script(pieces=endless, headers=PLAIN))
    bench = Bench({"up": upstream}, [provider("up", retries=0)])
    result = run(bench.run_exchange(ask("openai_chat", stream=False)))
    assert result.client.status == 502
    assert not upstream.answers[0].is_read_to_end


def test_an_error_without_bound_is_cut() -> None:
    upstream = ScriptedUpstream(
        Script(status=400, pieces=[b"x" * 1024 * 1024] * 5, headers={"content-type": "text/plain"})
    )
    result = run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    assert result.client.status == 400
    assert len(result.client.body) < 10_000
