"""What headers and the log line of an exchange contain, and what they never contain."""

import msgspec
import pytest

from dragoman.config.provider import Provider
from dragoman.config.settings import Secret
from dragoman.telemetry.redaction import MASK
from tests.exchange.clock import run
from tests.exchange.fakes import JSON, Bench, Break, Script, ScriptedUpstream, Wait, ask, provider
from tests.exchange.sample_replies import (
    ANTHROPIC_OPEN,
    ANTHROPIC_START,
    CHAT_START,
    CHAT_STREAM,
    CHAT_WHOLE,
    DIALECTS,
    anthropic_text,
    chat_text,
    data,
    error,
    event,
)

KEY = "sk-very-secret-key-1234"


@pytest.mark.rule("H86")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [200, 500])
def test_every_answer_names_its_request(dialect: str, status: int) -> None:
    script = Script(pieces=CHAT_STREAM) if status == 200 else Script(status=500, pieces=[error("no")])
    result = run(
        Bench({"up": ScriptedUpstream(script)}, [provider("up", retries=0)]).run_exchange(ask(dialect))
    )
    name = "request-id" if dialect == "anthropic" else "x-request-id"
    assert result.client.headers[name] == "req_1"


@pytest.mark.rule("H86")
def test_an_error_names_our_request_to_the_client_and_the_upstreams_to_the_log() -> None:
    script = Script(status=400, pieces=[error("no")], headers={"x-request-id": "req_theirs"})
    result = run(Bench({"up": ScriptedUpstream(script)}).run_exchange(ask("anthropic")))
    assert result.client.headers["request-id"] == "req_1"
    assert result.client.json()["request_id"] == "req_1"
    assert result.record.line()["upstream_request"] == "req_theirs"


def test_the_headers_name_the_target_and_what_was_lost() -> None:
    question = ask("anthropic", body={"top_k": 5, "container": "x\r\nset-cookie: a=b"})
    result = run(Bench({"up": ScriptedUpstream(Script(pieces=CHAT_STREAM))}).run_exchange(question))
    assert result.client.headers["x-dragoman-target"] == "up/model"
    losses = result.client.headers["x-dragoman-losses"]
    assert losses.startswith("2: ")
    assert "top_k" in losses
    assert "x-dragoman-retries" not in result.client.headers


def test_a_client_that_still_waits_is_reported_nothing_that_may_turn_out_otherwise() -> None:
    slow = ScriptedUpstream(Script(pieces=[Wait(25), Break()]))
    good = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    headers = run(Bench({"slow": slow, "good": good}).run_exchange(ask("openai_chat"))).client.headers
    assert headers["x-request-id"] == "req_1"
    assert not [name for name in headers if name.startswith("x-dragoman")]
    late = ScriptedUpstream(Script(pieces=CHAT_STREAM, after=25))
    headers = run(Bench({"late": late}).run_exchange(ask("openai_chat"))).client.headers
    assert headers["x-dragoman-target"] == "late/model"


def test_no_header_can_be_injected_by_the_name_of_a_model() -> None:
    question = ask("openai_chat", model="x\r\nset-cookie: a=b\x00ü")
    result = run(Bench({"up": ScriptedUpstream(Script(pieces=CHAT_STREAM))}).run_exchange(question))
    assert result.client.headers["x-dragoman-target"] == "up/x??set-cookie: a=b??"


def test_a_header_stays_short_whatever_was_lost() -> None:
    tools = [{"type": "code_execution_20250825", "name": f"code_execution{number}"} for number in range(300)]
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    result = run(Bench({"up": upstream}).run_exchange(ask("anthropic", body={"tools": tools})))
    assert len(result.client.headers["x-dragoman-losses"]) <= 900


def test_the_log_line_reports_how_the_exchange_went() -> None:
    upstream = ScriptedUpstream(
        Script(status=503, pieces=[error("busy")]), Script(pieces=[Wait(2), *CHAT_STREAM])
    )
    question = ask("anthropic", headers={"user-agent": "claude-cli/2.1"}, body={"top_k": 5})
    result = run(Bench({"up": upstream}).run_exchange(question))
    line = result.record.line()
    assert line == {
        "request": "req_1",
        "client": "anthropic",
        "agent": "claude-cli/2.1",
        "model": "model",
        "route": "*",
        "target": "up/model",
        "lane": "translate",
        "stream": True,
        "ending": "finished",
        "cause": "stop",
        "status": 200,
        "input": 12,
        "output": 3,
        "first_token": 2.5,
        "seconds": 2.5,
        "retries": 1,
        "failed": "up/model (overloaded 503)",
        "losses": 1,
        "lost": line["lost"],
    }
    assert "top_k" in str(line["lost"])


def test_what_is_lost_in_the_reply_reaches_the_log() -> None:
    pieces = [CHAT_START, chat_text("good"), b"data: this is no JSON\n\n", *CHAT_STREAM[3:]]
    result = run(Bench({"up": ScriptedUpstream(Script(pieces=pieces))}).run_exchange(ask("anthropic")))
    assert result.record.line()["losses"] == 1
    assert "not JSON" in str(result.record.line()["lost"])


def test_a_refused_exchange_reports_why_in_the_log() -> None:
    upstream = ScriptedUpstream(Script(status=400, pieces=[error("max_tokens is too large")]))
    line = run(Bench({"up": upstream}).run_exchange(ask("openai_chat"))).record.line()
    assert line["ending"] == "failed"
    assert line["status"] == 400
    assert str(line["error"]).startswith("invalid_request: max_tokens is too large (up/")


def with_secrets() -> Provider:
    return msgspec.structs.replace(
        provider("up", keys=[KEY], retries=0), headers={"x-extra": Secret("another-secret-value")}
    )


ECHO = f"Incorrect API key provided: {KEY}, extra another-secret-value"


@pytest.mark.rule("C26", "H86")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [401, 400, 500])
def test_a_key_that_an_error_repeats_reaches_neither_client_nor_log(dialect: str, status: int) -> None:
    upstream = ScriptedUpstream(Script(status=status, pieces=[error(ECHO, code=KEY)]))
    result = run(Bench({"up": upstream}, [with_secrets()]).run_exchange(ask(dialect)))
    seen = f"{result.client.body!r} {result.client.headers} {result.record.line()}"
    assert KEY not in seen
    assert "another-secret-value" not in seen
    assert MASK in seen


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_key_that_an_error_repeats_in_the_middle_of_a_stream_is_hidden(dialect: str) -> None:
    pieces = [CHAT_START, chat_text("good"), data({"error": {"message": ECHO}})]
    result = run(
        Bench({"up": ScriptedUpstream(Script(pieces=pieces))}, [with_secrets()]).run_exchange(ask(dialect))
    )
    seen = f"{result.client.body!r} {result.record.line()}"
    assert KEY not in seen
    assert MASK in seen


def test_a_key_that_a_whole_reply_repeats_in_its_error_is_hidden() -> None:
    upstream = ScriptedUpstream(Script(pieces=[error(ECHO)], headers={"content-type": JSON}))
    result = run(Bench({"up": upstream}, [with_secrets()]).run_exchange(ask("openai_chat", stream=False)))
    assert KEY not in f"{result.client.body!r} {result.record.line()}"


def test_an_answer_may_hold_what_looks_like_the_key() -> None:
    pieces = [CHAT_START, chat_text(KEY), *CHAT_STREAM[3:]]
    upstream = ScriptedUpstream(Script(pieces=pieces))
    result = run(Bench({"up": upstream}, [with_secrets()]).run_exchange(ask("anthropic")))
    assert KEY.encode() in result.client.body


def test_a_refusal_of_the_gateways_key_states_whose_key_it_is() -> None:
    upstream = ScriptedUpstream(Script(status=401, pieces=[error("invalid key")]))
    result = run(Bench({"up": upstream}, [with_secrets()]).run_exchange(ask("openai_chat")))
    assert result.client.status == 502
    assert "provider up refuses the gateway's key: invalid key" in str(result.client.json())


@pytest.mark.rule("H86")
def test_rate_limits_are_passed_on_to_a_client_of_the_same_dialect() -> None:
    headers = {
        "content-type": "text/event-stream",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "openai-organization": "org-secret",
        "set-cookie": "a=b",
        "server": "upstream",
    }
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM, headers=headers))
    result = run(Bench({"up": upstream}).run_exchange(ask("openai_chat")))
    assert result.client.headers["x-ratelimit-remaining-requests"] == "59"
    assert result.client.headers["x-ratelimit-reset-requests"] == "1s"
    assert {"openai-organization", "set-cookie", "server"}.isdisjoint(result.client.headers)


@pytest.mark.rule("H86")
def test_rate_limits_are_translated_for_a_client_of_another_dialect() -> None:
    headers = {
        "content-type": JSON,
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "900",
        "x-ratelimit-reset-tokens": "1m30s",
    }
    upstream = ScriptedUpstream(Script(pieces=[CHAT_WHOLE], headers=headers))
    result = run(Bench({"up": upstream}).run_exchange(ask("anthropic", stream=False)))
    assert result.client.headers["anthropic-ratelimit-tokens-limit"] == "1000"
    assert result.client.headers["anthropic-ratelimit-tokens-remaining"] == "900"
    assert result.client.headers["anthropic-ratelimit-tokens-reset"] == "2027-01-15T08:01:30Z"


@pytest.mark.rule("R108")
def test_ids_of_two_exchanges_differ_and_those_of_one_do_not() -> None:
    pieces = [ANTHROPIC_START.replace(b"msg_upstream1", b""), ANTHROPIC_OPEN, anthropic_text("x")]
    pieces.append(
        event({"type": "content_block_stop", "index": 0})
        + event(
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
        )
        + event({"type": "message_stop"})
    )

    def ids(request_id: str) -> set[str]:
        bench = Bench({"up": ScriptedUpstream(Script(pieces=pieces))}, [provider("up", "anthropic")])
        question = ask("openai_chat")
        question.metadata = msgspec.structs.replace(question.metadata, request_id=request_id)
        body = run(bench.run_exchange(question)).client.body
        frames = [frame[6:] for frame in body.split(b"\n\n") if frame.startswith(b"data: {")]
        return {msgspec.json.decode(frame)["id"] for frame in frames}

    assert len(ids("req_a")) == 1
    assert ids("req_a") == ids("req_a")
    assert ids("req_a") != ids("req_b")
