"""Every refusal of the table is healed with exactly one retry, in every lane; other errors are not."""

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from tests.exchange.clock import run
from tests.exchange.fakes import ExchangeResult
from tests.healing.messages import CASES, NEVER, UNKNOWN, Case
from tests.healing.requests import RICH
from tests.healing.vendor import Bench, RefusingUpstream, ask, provider, write_error

Json = dict[str, object]


def build_body(dialect: str, changes: Json) -> Json:
    body = RICH[dialect]() | changes
    return {name: value for name, value in body.items() if value is not None}


def name_case(case: Case) -> str:
    text = case.message or dialect_named(case.dialect).read_error(400, {}, case.error).message
    return f"{case.server}: {text[:60]}"


def test_the_table_is_as_large_as_it_should_be() -> None:
    servers = {case.server for case in CASES}
    assert len(CASES) >= 60
    assert servers >= {
        "OpenAI", "Anthropic", "Gemini", "Azure", "OpenRouter", "DeepSeek", "Moonshot", "Zhipu",
        "DashScope", "Mistral", "Groq", "vLLM", "llama.cpp", "Ollama", "LM Studio",
    }  # fmt: skip


#: How many of the refusals the translation of each client's rich request runs into.
LEAST_HEALED = {"openai_chat": 12, "anthropic": 45, "openai_responses": 45, "gemini": 45}

#: A case of `stream_options` is no case of a whole reply: such a request has no such field.
STREAMED_AND_WHOLE = [
    pytest.param(case, stream, id=f"{name_case(case)}, {'streamed' if stream else 'whole'}")
    for case in CASES
    for stream in (True, False)
    if (not case.is_whole_only if stream else "stream_options" not in str(case.error))
]


@pytest.mark.parametrize(("case", "stream"), STREAMED_AND_WHOLE)
def test_a_forwarded_request_heals_with_one_retry(case: Case, stream: bool) -> None:
    body = build_body(case.dialect, case.changes)
    upstream = RefusingUpstream(case.dialect, case.refuses, case.status, case.error)
    bench = Bench({"up": upstream}, {"up": provider("up", case.dialect)})
    result = run(bench.run_exchange(ask(case.dialect, body, stream=stream)))
    assert len(upstream.calls) == 2, result.client.body
    assert case.refuses(upstream.bodies[0])
    assert result.client.status == 200
    assert b"good" in result.client.body
    assert any("refused" in loss.reason for loss in result.record.losses)
    assert "x-dragoman-losses" in result.client.headers
    assert "lost" in result.record.line()


def translate(case: Case, client: str) -> tuple[RefusingUpstream, ExchangeResult]:
    """The rich request of a client of another dialect, and what became of it."""
    upstream = RefusingUpstream(case.dialect, case.refuses, case.status, case.error)
    bench = Bench({"up": upstream}, {"up": provider("up", case.dialect)})
    return upstream, run(bench.run_exchange(ask(client, build_body(client, {}))))


@pytest.mark.parametrize("client", RICH)
def test_translated_requests_heal_with_one_retry(client: str) -> None:
    """Many translations avoid what a server refuses; those that do not must heal, and there are many."""
    others = [case for case in CASES if case.dialect != client]
    healed = 0
    for case in others:
        upstream, result = translate(case, client)
        was_refused = case.refuses(upstream.bodies[0])
        assert len(upstream.calls) == 1 + was_refused, (name_case(case), result.client.body)
        assert result.client.status == 200, name_case(case)
        healed += was_refused
    assert healed >= LEAST_HEALED[client]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("name", "status", "body"), NEVER, ids=[name for name, _, _ in NEVER])
def test_errors_about_money_keys_policies_and_size_are_never_healed(
    name: str, status: int, body: Json, stream: bool
) -> None:
    upstream = RefusingUpstream("openai_chat", lambda body: True, status, msgspec.json.encode(body))
    bench = Bench({"up": upstream}, {"up": provider("up", "openai_chat", retries=0)})
    result = run(bench.run_exchange(ask("openai_chat", build_body("openai_chat", {}), stream=stream)))
    assert len(upstream.calls) == 1
    assert result.client.status >= 400


@pytest.mark.parametrize("message", UNKNOWN)
def test_a_refusal_that_names_nothing_known_reaches_the_client(message: str) -> None:
    upstream = RefusingUpstream("openai_chat", lambda body: True, 400, write_error(message, "some_code"))
    bench = Bench({"up": upstream}, {"up": provider("up", "openai_chat")})
    result = run(bench.run_exchange(ask("openai_chat", build_body("openai_chat", {}))))
    assert len(upstream.calls) == 1
    assert result.client.status == 400
    assert result.client.json()["error"] == {
        "message": f"{message} (up/model at http://upstream.invalid)",
        "type": "invalid_request_error",
        "param": None,
        "code": "some_code",
    }
    assert not result.record.losses


def test_reasoning_that_only_streams_have_is_switched_off_in_whole_replies_alone() -> None:
    """Qwen at DashScope. A streamed request keeps its reasoning, also after the fact is learned."""

    def thinks_whole(body: Json) -> bool:
        return not body.get("stream") and body.get("enable_thinking") is not False

    message = "parameter.enable_thinking must be set to false for non-streaming calls"
    upstream = RefusingUpstream("openai_chat", thinks_whole, 400, write_error(message))
    bench = Bench({"up": upstream}, {"up": provider("up", "openai_chat")})
    for client, stream, calls in (("anthropic", False, 2), ("openai_chat", False, 3), ("anthropic", True, 4)):
        run(bench.run_exchange(ask(client, build_body(client, {}), stream=stream)))
        assert len(upstream.calls) == calls
    whole, streamed = upstream.bodies[2:]
    assert whole["enable_thinking"] is False
    assert "reasoning_effort" not in whole
    assert "enable_thinking" not in streamed
    assert "reasoning_effort" in streamed
