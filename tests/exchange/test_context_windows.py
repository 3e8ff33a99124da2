"""A request that clearly exceeds the context window of its targets is refused before anything is sent."""

import re
from typing import Any

import msgspec
import pytest

from dragoman.config.provider import FactLayer
from dragoman.config.settings import Secret
from tests.exchange.clock import run
from tests.healing.vendor import Bench, Json, RefusingUpstream, ask, provider

WINDOW = 8_000
#: About 50,000 tokens.
LONG = "The quick brown fox jumps over the lazy dog near the river bank. " * 3_500
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")


def build_body(dialect: str, text: str) -> Json:
    if dialect == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    if dialect == "openai_responses":
        return {"input": text}
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 100}


def answer(dialect: str) -> RefusingUpstream:
    return RefusingUpstream(dialect, lambda body: False, 400, b"")


def build_bench(dialect: str, *windows: int, **values: Any) -> tuple[Bench, list[RefusingUpstream]]:
    """One provider for each window; 0: nothing is known."""
    names = [f"p{number}" for number in range(len(windows))]
    providers = {
        name: provider(name, dialect, models={"*": {"context_tokens": window}} if window else {}, **values)
        for name, window in zip(names, windows, strict=True)
    }
    upstreams = [answer(dialect) for _ in names]
    return Bench(dict(zip(names, upstreams, strict=True)), providers), upstreams


#: What makes each agent shorten its conversation: Claude Code, Codex and OpenCode, Gemini CLI.
EXPECTED = {
    "anthropic": rb'"invalid_request_error","message":"prompt is too long: \d+ tokens > 8000 maximum"',
    "openai_chat": rb'"code":"context_length_exceeded"',
    "openai_responses": rb'"code":"context_length_exceeded"',
    "gemini": rb"input token count \(\d+\) exceeds the maximum number of tokens allowed \(8000\)",
}


@pytest.mark.rule("H65")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("upstream_dialect", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_the_client_gets_its_own_overflow_error_and_no_upstream_a_request(
    client: str, upstream_dialect: str, stream: bool
) -> None:
    bench, (upstream,) = build_bench(upstream_dialect, WINDOW)
    result = run(bench.run_exchange(ask(client, build_body(client, LONG), stream=stream)))
    assert upstream.calls == []
    assert result.client.status == 400
    assert re.search(EXPECTED[client], result.client.body), result.client.body
    assert result.record.tries == 0


@pytest.mark.rule("H65")
@pytest.mark.parametrize("windows", [(WINDOW, 200_000), (WINDOW, 0), (200_000, WINDOW), (0, WINDOW)])
def test_a_target_with_a_larger_or_unknown_window_gets_the_request(windows: tuple[int, int]) -> None:
    bench, upstreams = build_bench("openai_chat", *windows)
    result = run(bench.run_exchange(ask("anthropic", build_body("anthropic", LONG))))
    assert result.client.status == 200
    assert [len(upstream.calls) for upstream in upstreams] == [int(window != WINDOW) for window in windows]


def test_the_error_names_the_largest_window() -> None:
    bench, upstreams = build_bench("openai_chat", 4_000, WINDOW, 2_000)
    result = run(bench.run_exchange(ask("anthropic", build_body("anthropic", LONG))))
    assert b"> 8000 maximum" in result.client.body
    assert not any(upstream.calls for upstream in upstreams)


@pytest.mark.parametrize("text", ["hi", LONG[:30_000], "-" * 300_000, " " * 300_000, "\n" * 300_000])
@pytest.mark.parametrize("client", DIALECTS)
def test_a_request_that_may_fit_is_sent(client: str, text: str) -> None:
    """A run of one character has few tokens, and an estimate near the window proves nothing."""
    bench, (upstream,) = build_bench("openai_chat", WINDOW)
    result = run(bench.run_exchange(ask(client, build_body(client, text))))
    assert result.client.status == 200
    assert len(upstream.calls) == 1


def test_media_and_earlier_reasoning_do_not_count() -> None:
    thought = {"type": "thinking", "thinking": LONG, "signature": "c2lnbmVk"}
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "QQ==" * 99_999},
    }
    body = {
        "messages": [
            {"role": "user", "content": [picture]},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "yes"}]},
            {"role": "user", "content": "go on"},
        ],
        "max_tokens": 100,
    }
    bench, (upstream,) = build_bench("anthropic", WINDOW)
    run(bench.run_exchange(ask("anthropic", body)))
    assert len(upstream.calls) == 1


CATALOGUE = FactLayer(source="catalogue", models={"*": {"context_tokens": WINDOW}}, is_stated=False)


def test_the_catalogue_does_not_bind_a_client_of_the_vendors_own_api() -> None:
    """Such a client knows its model, and the catalogue may be older than the model."""
    upstream = answer("anthropic")
    bench = Bench({"up": upstream}, {"up": provider("up", "anthropic", layers=(CATALOGUE,))})
    assert run(bench.run_exchange(ask("anthropic", build_body("anthropic", LONG)))).client.status == 200
    assert run(bench.run_exchange(ask("openai_chat", build_body("openai_chat", LONG)))).client.status == 400
    assert len(upstream.calls) == 1


def test_a_vendor_that_shortens_conversations_itself_gets_them_whole() -> None:
    body = build_body("openai_responses", LONG) | {"truncation": "auto"}
    bench, (upstream,) = build_bench("openai_responses", WINDOW)
    assert run(bench.run_exchange(ask("openai_responses", body))).client.status == 200
    body["truncation"] = "disabled"
    assert run(bench.run_exchange(ask("openai_responses", body))).client.status == 400
    bench, (other,) = build_bench("openai_chat", WINDOW)
    body["truncation"] = "auto"
    assert run(bench.run_exchange(ask("openai_responses", body))).client.status == 400
    assert (len(upstream.calls), other.calls) == (1, [])


@pytest.mark.rule("H65")
@pytest.mark.parametrize(
    ("field", "allowing", "forbidding"),
    [
        ("transforms", ["middle-out"], []),
        ("plugins", [{"id": "context-compression"}], []),
    ],
)
def test_a_server_that_shortens_on_request_gets_the_conversation_whole(
    field: str, allowing: object, forbidding: object
) -> None:
    bench, (upstream,) = build_bench("openai_chat", WINDOW)
    body = build_body("openai_chat", LONG)
    assert run(bench.run_exchange(ask("openai_chat", body | {field: allowing}))).client.status == 200
    assert run(bench.run_exchange(ask("openai_chat", body | {field: forbidding}))).client.status == 400
    assert len(upstream.calls) == 1


@pytest.mark.rule("H65")
@pytest.mark.parametrize("name", ["anthropic-beta", "Anthropic-Beta"])
@pytest.mark.parametrize("client", DIALECTS)
def test_a_longer_window_that_the_provider_asks_for_is_respected(client: str, name: str) -> None:
    headers = {name: Secret("context-1m-2025-08-07")}
    bench, (upstream,) = build_bench("anthropic", WINDOW, headers=headers)
    assert run(bench.run_exchange(ask(client, build_body(client, LONG)))).client.status == 200
    assert len(upstream.calls) == 1


@pytest.mark.rule("H65")
def test_a_header_of_the_provider_replaces_the_one_of_the_client() -> None:
    bench, (upstream,) = build_bench("anthropic", WINDOW, headers={"anthropic-beta": Secret("other")})
    question = ask("anthropic", build_body("anthropic", LONG))
    question.metadata = msgspec.structs.replace(
        question.metadata, headers={"anthropic-beta": "context-1m-2025-08-07"}
    )
    assert run(bench.run_exchange(question)).client.status == 400
    assert upstream.calls == []


def test_a_longer_window_that_the_client_asks_for_is_respected() -> None:
    bench, (upstream,) = build_bench("anthropic", WINDOW)
    question = ask("anthropic", build_body("anthropic", LONG))
    headers = {"anthropic-beta": "oauth-2025-04-20,context-1m-2025-08-07"}
    question.metadata = msgspec.structs.replace(question.metadata, headers=headers)
    assert run(bench.run_exchange(question)).client.status == 200
    assert len(upstream.calls) == 1


def test_a_request_that_cannot_be_read_gets_the_error_about_its_field() -> None:
    bench, (upstream,) = build_bench("openai_chat", WINDOW)
    body = build_body("openai_chat", LONG) | {"tools": 5}
    result = run(bench.run_exchange(ask("openai_chat", body)))
    assert upstream.calls == []
    assert b"tools" in result.client.body
    assert b"context_length" not in result.client.body
