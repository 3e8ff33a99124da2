"""The body of a large request is read in a thread: meanwhile other exchanges go on."""

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.config.settings import Secret
from dragoman.exchange.large_bodies import MAX_INLINE_BODY, MAX_NEW_OBJECTS, collect_rarely
from dragoman.hub.request import Request
from dragoman.pipeline.plan import RequestPlan
from dragoman.pipeline.reply import TranslatedReply
from dragoman.pipeline.target_request import TargetRequest
from tests.exchange import fakes as exchanges
from tests.exchange.fakes import JSON, Script, ScriptedUpstream
from tests.exchange.sample_replies import CHAT_STREAM, CHAT_WHOLE, error
from tests.healing.vendor import Bench, Json, RefusingUpstream, ask, has, provider, write_error
from tests.server.keyholder import KeyHolder
from tests.server.running import config_for, running
from tests.upstream.byte_server import ByteServer, reply
from tests.upstream.byte_server import run as run_sockets

SIZES = pytest.mark.parametrize(
    ("size", "is_beside"), [(1000, False), (MAX_INLINE_BODY, True)], ids=["small", "large"]
)
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each request that is read: whether that happens beside the event loop."""
    threads: list[bool] = []
    property_of_plan: Any = RequestPlan.request

    def recorded(plan: RequestPlan) -> Request:
        if plan._request is None:
            threads.append(threading.current_thread() is not threading.main_thread())
        request: Request = property_of_plan.fget(plan)
        return request

    monkeypatch.setattr(RequestPlan, "request", property(recorded))
    return threads


def build_body(dialect: str, text: str) -> Json:
    if dialect == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    if dialect == "openai_responses":
        return {"input": text}
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 100}


@pytest.mark.rule("S13")
@SIZES
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_session_of_a_large_request_is_found_beside_the_loop(
    dialect: str, size: int, is_beside: bool, threads: list[bool]
) -> None:
    """A provider with several keys: the conversation decides which key is used."""
    upstream = RefusingUpstream(dialect, lambda body: False, 400, b"")
    keys = (Secret("first"), Secret("second"))
    bench = Bench({"up": upstream}, {"up": provider("up", dialect, keys=keys)})
    result = asyncio.run(bench.run_exchange(ask(dialect, build_body(dialect, "x" * size))))
    assert (result.client.status, len(upstream.calls)) == (200, 1)
    assert threads == [is_beside]


@pytest.mark.rule("S13")
@SIZES
def test_the_refused_seals_of_a_large_request_are_found_beside_the_loop(
    size: int, is_beside: bool, threads: list[bool]
) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    body = build_body("anthropic", "x" * size)
    body["messages"] += [
        {"role": "assistant", "content": [thought, {"type": "text", "text": "yes"}]},
        {"role": "user", "content": "go on"},
    ]
    refusal = write_error("messages.1.content.0: Invalid `signature` in `thinking` block")
    upstream = RefusingUpstream("anthropic", has("messages.*.content.*.signature"), 400, refusal)
    bench = Bench({"up": upstream}, {"up": provider("up", "anthropic")})
    result = asyncio.run(bench.run_exchange(ask("anthropic", body)))
    assert (result.client.status, len(upstream.calls)) == (200, 2)
    assert threads == [is_beside]


@pytest.mark.rule("S13")
@SIZES
@pytest.mark.parametrize("limit", ["tokens_per_day", "tokens_per_minute"])
def test_the_usage_of_a_large_request_is_estimated_beside_the_loop(
    limit: str, size: int, is_beside: bool, threads: list[bool], tmp_path: Path
) -> None:
    holder = KeyHolder(tmp_path / "state.db")
    limits: dict[str, Any] = {limit: 10**9}
    key = holder.create(**limits)

    async def scenario() -> None:
        answer = reply(CHAT_WHOLE, "200 OK", "content-type: application/json")
        async with (
            ByteServer([answer]) as upstream,
            running(config_for(upstream.url), state=holder.path) as gateway,
        ):
            body = {"model": "m", **build_body("openai_chat", "x" * size)}
            got = await gateway.ask("POST", "/v1/chat/completions", body, {"x-api-key": key})
            assert got.status == 200

    run_sockets(scenario)
    assert threads == [is_beside]


@pytest.mark.rule("S13")
@SIZES
def test_a_large_background_request_is_checked_beside_the_loop(
    size: int, is_beside: bool, threads: list[bool], tmp_path: Path
) -> None:
    async def scenario() -> None:
        answer = reply(CHAT_WHOLE, "200 OK", "content-type: application/json")
        async with (
            ByteServer([answer]) as upstream,
            running(config_for(upstream.url), state=tmp_path / "state.db") as gateway,
        ):
            body = {"model": "m", "background": True, "input": "x" * size}
            got = await gateway.ask("POST", "/v1/responses", body)
            assert got.status == 200
            path = f"/v1/responses/{got.json()['id']}"
            while (await gateway.ask("GET", path)).json()["status"] != "completed":
                await asyncio.sleep(0.01)

    run_sockets(scenario)
    assert threads == [is_beside]


@pytest.mark.rule("S13")
@SIZES
def test_the_reply_to_a_large_request_is_prepared_beside_the_loop(
    size: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparing a reply reads the whole history: it estimates the tokens and lists the ids of calls."""
    threads: list[bool] = []
    build = TargetRequest._build_translated

    def recorded(target_request: TargetRequest) -> TranslatedReply:
        threads.append(threading.current_thread() is not threading.main_thread())
        return build(target_request)

    monkeypatch.setattr(TargetRequest, "_build_translated", recorded)

    async def scenario() -> None:
        answer = reply(b"".join(CHAT_STREAM), "200 OK", "content-type: text/event-stream")
        async with ByteServer([answer]) as upstream, running(config_for(upstream.url)) as gateway:
            body = {"model": "m", "stream": True, **build_body("anthropic", "x" * size)}
            got = await gateway.ask("POST", "/v1/messages", body)
            assert got.status == 200

    run_sockets(scenario)
    assert threads == [is_beside]


@pytest.mark.rule("S13")
@SIZES
def test_a_large_request_is_freed_in_its_thread_and_read_again_for_another_target(
    size: int, is_beside: bool, threads: list[bool]
) -> None:
    """Freeing it on the loop takes milliseconds, which all other clients wait."""
    bad = ScriptedUpstream(Script(status=500, pieces=[error("no")], headers={"content-type": JSON}))
    upstreams = {"bad": bad, "good": ScriptedUpstream(Script(pieces=CHAT_STREAM))}
    question = exchanges.ask("anthropic", body={"system": "x" * size})
    providers = [exchanges.provider("bad", retries=0)]
    result = asyncio.run(exchanges.Bench(upstreams, providers).run_exchange(question))
    assert (result.client.status, result.record.has_alternatives) == (200, True)
    assert threads == ([True, True] if is_beside else [False])


def test_cycles_are_searched_as_before_when_no_large_request_is_translated() -> None:
    before = gc.get_threshold()
    with collect_rarely():
        with collect_rarely():
            assert gc.get_threshold() == (MAX_NEW_OBJECTS, *before[1:])
        assert gc.get_threshold() == (MAX_NEW_OBJECTS, *before[1:])
    assert gc.get_threshold() == before
