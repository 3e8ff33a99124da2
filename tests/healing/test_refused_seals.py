"""Seals that another account of the same vendor refuses are removed, and only they."""

import asyncio
from typing import Any

import pytest

from dragoman.config.provider import TargetName
from dragoman.hub.seal import Seal, SealedItem, write_envelope
from tests.exchange.clock import run
from tests.healing.vendor import Bench, Json, RefusingUpstream, ask, find_values, provider, write_error

SEALED = "c2VhbGVkIGJ5IGFjY291bnQgYQ=="
OTHER = "c2VhbGVkIGJ5IGFjY291bnQgYg=="


def claude(*seals: str) -> Json:
    messages: list[Json] = [{"role": "user", "content": "hi"}]
    for seal in seals:
        thought = {"type": "thinking", "thinking": "hm", "signature": seal}
        messages.append({"role": "assistant", "content": [thought, {"type": "text", "text": "hello"}]})
        messages.append({"role": "user", "content": "go on"})
    return {"messages": messages, "max_tokens": 100}


def responses(*seals: str) -> Json:
    items: list[Json] = [{"role": "user", "content": "hi"}]
    for number, seal in enumerate(seals):
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": seal})
        items.append({"role": "assistant", "content": "hello"})
        items.append({"role": "user", "content": "go on"})
    return {"input": items, "include": ["reasoning.encrypted_content"], "store": False}


def gemini(*seals: str) -> Json:
    messages: list[Json] = [{"role": "user", "parts": [{"text": "hi"}]}]
    for seal in seals:
        messages.append({"role": "model", "parts": [{"text": "hello", "thoughtSignature": seal}]})
        messages.append({"role": "user", "parts": [{"text": "go on"}]})
    return {"contents": messages}


def chat(*seals: str) -> Json:
    messages: list[Json] = [{"role": "user", "content": "hi"}]
    for seal in seals:
        thought = {"type": "reasoning.text", "text": "hm", "signature": seal, "format": "anthropic-claude-v1"}
        messages.append({"role": "assistant", "content": "hello", "reasoning_details": [thought]})
        messages.append({"role": "user", "content": "go on"})
    return {"messages": messages}


#: The dialect, how a request carries seals, where they are, and the vendor's refusal.
VENDORS: dict[str, tuple[Any, str, str]] = {
    "anthropic": (
        claude,
        "messages.*.content.*.signature",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "openai_responses": (
        responses,
        "input.*.encrypted_content",
        "The encrypted content c2Vh...YQ== could not be verified.",
    ),
    # OpenRouter relays the refusal of the vendor behind it.
    "openai_chat": (
        chat,
        "messages.*.reasoning_details.*.signature",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "gemini": (gemini, "contents.*.parts.*.thoughtSignature", "Corrupted thought signature."),
}


def build_bench(dialect: str, path: str, message: str) -> tuple[Bench, RefusingUpstream, RefusingUpstream]:
    """Account `a` is overloaded; account `b` refuses the seals of `a`."""
    a = RefusingUpstream(dialect, lambda body: True, 503, write_error("overloaded"))
    b = RefusingUpstream(
        dialect, lambda body: SEALED in list(find_values(body, path)), 400, write_error(message)
    )
    providers = {name: provider(name, dialect, retries=0) for name in ("a", "b")}
    return Bench({"a": a, "b": b}, providers), a, b


@pytest.mark.rule("F15")
@pytest.mark.parametrize("dialect", VENDORS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_seals_of_another_account_are_removed_and_the_request_retried_once(
    dialect: str, stream: bool
) -> None:
    body, path, message = VENDORS[dialect]

    async def scenario() -> None:
        bench, a, b = build_bench(dialect, path, message)
        result = await bench.run_exchange(ask(dialect, body(SEALED), stream=stream))
        assert result.client.status == 200
        assert (len(a.calls), len(b.calls)) == (1, 2)
        assert SEALED in list(find_values(a.bodies[0], path))
        assert SEALED not in str(b.bodies[1])
        assert "seals" in result.client.headers["x-dragoman-losses"]
        # Account a is tried again, then the conversation goes on at b, now with a seal of b: only the refused
        # one stays out.
        await asyncio.sleep(400)
        result = await bench.run_exchange(ask(dialect, body(SEALED, OTHER), stream=stream))
        assert result.client.status == 200
        assert len(b.calls) == 3
        assert list(find_values(b.bodies[2], path)) == [OTHER]
        # Account a still gets its own seals.
        assert list(find_values(a.bodies[1], path)) == [SEALED, OTHER]

    run(scenario())


@pytest.mark.rule("F15")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
def test_seals_that_came_in_an_envelope_are_removed_too(dialect: str) -> None:
    _, path, message = VENDORS[dialect]

    def wrap(value: str) -> str:
        item = SealedItem(kind="reasoning", seal=Seal(dialect, "", value), parts=("hm",))
        return write_envelope([item])

    async def scenario() -> None:
        client = "openai_responses" if dialect == "anthropic" else "anthropic"
        body = responses(wrap(SEALED)) if client == "openai_responses" else claude(wrap(SEALED))
        bench, _, b = build_bench(dialect, path, message)
        result = await bench.run_exchange(ask(client, body))
        assert result.client.status == 200
        assert [SEALED in str(each) for each in b.bodies] == [True, False]

    run(scenario())


@pytest.mark.rule("F15")
def test_thinking_is_switched_off_if_the_calls_being_answered_lose_it() -> None:
    """Anthropic refuses a thinking request whose open calls come without their thinking."""
    _, path, message = VENDORS["anthropic"]
    call = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    body = claude(SEALED)
    body["messages"][1]["content"][1] = call
    body["messages"][2]["content"] = [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}]
    body |= {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 9000}
    body["tools"] = [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]

    async def scenario() -> None:
        bench, _, b = build_bench("anthropic", path, message)
        await bench.run_exchange(ask("anthropic", body))
        assert b.bodies[-1]["thinking"] == {"type": "disabled"}
        assert b.bodies[-1]["messages"][1]["content"] == [call]
        assert not bench.gateway.learned.find(TargetName("b", "model"), "http://upstream.invalid")

    run(scenario())
