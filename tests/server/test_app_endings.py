"""How exchanges end over real sockets: clients that leave or are slow, upstreams that fail, shutdown."""

import asyncio
import threading
from typing import Any

import pytest

from dragoman.config.settings import ServerSettings
from dragoman.exchange.large_bodies import MAX_INLINE_BODY
from dragoman.pipeline.plan import RequestPlan
from dragoman.pipeline.target_request import TargetRequest
from dragoman.server import connection as connection_module
from dragoman.server import counting
from tests.exchange.sample_replies import CHAT_START, CHAT_STREAM, chat_text
from tests.server.running import config_for, running, serving
from tests.server.test_app import TURNS
from tests.upstream.byte_server import (
    LAST_CHUNK,
    Action,
    Bytes,
    ByteServer,
    Close,
    Pause,
    chunk,
    eventually,
    reply,
    run,
    stream_head,
)

QUESTION = {"model": "any", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "x"}]}
GEMINI_QUESTION = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
BEGINNING = (stream_head(), chunk(CHAT_START + chat_text("good")))
STREAM = (stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK)


@pytest.mark.rule("R126", "H83", "P58")
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
# The server stops reading while it has a large part of a body that is not taken yet.
@pytest.mark.parametrize("size", [1, 200_000])
def test_a_client_that_leaves_ends_the_upstreams_work_at_once(path: str, size: int) -> None:
    async def scenario() -> None:
        async with (
            ByteServer([*BEGINNING, Pause(asyncio.Event())]) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            async with gateway.connected() as client:
                message = {"role": "user", "content": "x" * size}
                await client.send("POST", path, {**QUESTION, "messages": [message]})
                await client.head()
                assert b"good" in await client.chunk()
            left_at = asyncio.get_running_loop().time()
            await eventually(upstream.hung_up.is_set)
            assert upstream.hung_up_at[0] - left_at < 0.1
            await eventually(lambda: gateway.app.gateway.watchdogs.open == 0)

    run(scenario)


@pytest.mark.rule("R126")
def test_a_client_that_leaves_with_another_request_under_way_ends_the_upstreams_work() -> None:
    async def scenario() -> None:
        words = asyncio.Event()
        more = [action for _ in range(50) for action in (Pause(words), chunk(chat_text("x" * 100)))]
        async with (
            ByteServer([*BEGINNING, *more, Pause(asyncio.Event())]) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            async with gateway.connected() as client:
                await client.send("POST", "/v1/messages", QUESTION)
                client.writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                await client.head()
                assert b"good" in await client.chunk()
            # Data that a client sends later is not read; that it has left shows at the next write.
            words.set()
            await eventually(upstream.hung_up.is_set)
            await eventually(lambda: gateway.app.gateway.watchdogs.open == 0)

    run(scenario)


@pytest.mark.rule("R126")
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_before_the_first_content_ends_the_upstreams_work(stream: bool) -> None:
    async def scenario() -> None:
        async with (
            ByteServer([Pause(asyncio.Event())]) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            async with gateway.connected() as client:
                await client.send("POST", "/v1/messages", {**QUESTION, "stream": stream})
                await eventually(lambda: len(upstream.received) == 1)
            await eventually(upstream.hung_up.is_set)

    run(scenario)


@pytest.mark.rule("R126")
def test_a_client_that_leaves_during_its_second_request_ends_the_upstreams_work() -> None:
    async def scenario() -> None:
        # The upstream does not end its first reply, so the first exchange is still open.
        first: list[Action] = [
            stream_head(),
            *(chunk(piece) for piece in CHAT_STREAM),
            Pause(asyncio.Event()),
        ]
        second: list[Action] = [*BEGINNING, Pause(asyncio.Event())]
        async with (
            ByteServer(first, second) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            async with gateway.connected() as client:
                await client.send("POST", "/v1/messages", QUESTION)
                await client.head()
                while b"message_stop" not in await client.chunk():
                    pass
                await client.chunk()
                await client.send("POST", "/v1/messages", QUESTION)
                await client.head()
                assert b"good" in await client.chunk()
                await eventually(lambda: gateway.app.gateway.watchdogs.open == 1)
            await eventually(lambda: gateway.app.gateway.watchdogs.open == 0)
            await eventually(lambda: len(upstream.hung_up_at) == 2)

    run(scenario)


@pytest.mark.rule("R126")
def test_a_normal_end_is_not_mistaken_for_a_client_that_left() -> None:
    async def scenario() -> None:
        # The upstream keeps the connection open after its reply; the connection must survive that.
        go_on = asyncio.Event()
        stream = [stream_head(), *(chunk(piece) for piece in CHAT_STREAM)]
        async with (
            ByteServer([*stream, Pause(go_on), LAST_CHUNK]) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            got = await gateway.ask("POST", "/v1/messages", QUESTION)
            assert b"message_stop" in got.body
            go_on.set()
            await eventually(lambda: gateway.app.gateway.watchdogs.open == 0)
            await gateway.ask("POST", "/v1/messages", QUESTION)
            assert upstream.accepted == 1

    run(scenario)


@pytest.mark.rule("H72")
def test_a_gemini_client_sees_its_connection_break_behind_the_error() -> None:
    async def scenario() -> None:
        path = "/v1beta/models/any:streamGenerateContent?alt=sse"
        async with (
            ByteServer([*BEGINNING, Close()]) as upstream,
            running(config_for(upstream.url)) as gateway,
            gateway.connected() as client,
        ):
            await client.send("POST", path, GEMINI_QUESTION, {"user-agent": "google-genai-sdk/3.1"})
            await client.head()
            body = await client.reader.read()
            assert b'data: {"error":' in body
            assert not body.endswith(b"0\r\n\r\n")
            assert body.endswith(b"\n\n\r\n")

    run(scenario)


@pytest.mark.rule("H72")
def test_geminis_own_agent_sees_a_clean_end_behind_the_error() -> None:
    async def scenario() -> None:
        path = "/v1beta/models/any:streamGenerateContent?alt=sse"
        async with (
            ByteServer([*BEGINNING, Close()]) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            got = await gateway.ask("POST", path, GEMINI_QUESTION, {"user-agent": "GeminiCLI-tui/0.61.0/m"})
            assert b'data: {"error":' in got.body

    run(scenario)


def test_a_client_that_does_not_read_makes_the_upstream_wait() -> None:
    async def scenario() -> None:
        piece = chunk(chat_text("x" * 100_000))
        async with (
            ByteServer([*BEGINNING, *[piece] * 400, LAST_CHUNK]) as upstream,
            running(config_for(upstream.url)) as gateway,
            gateway.connected() as client,
        ):
            await client.send("POST", "/v1/chat/completions", QUESTION)
            await client.head()
            await asyncio.sleep(0.05)
            # What fits into the buffers on the way is a part of what is on offer.
            assert upstream.sent < 30_000_000
            while await client.chunk():
                pass
            assert upstream.sent > 40_000_000

    run(scenario)


@pytest.mark.rule("R135")
def test_draining_lets_open_streams_finish_and_sends_newcomers_away() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()
        rest = [chunk(piece) for piece in CHAT_STREAM[2:]]
        async with (
            ByteServer([*BEGINNING, Pause(go_on), *rest, LAST_CHUNK]) as upstream,
            serving(config_for(upstream.url)) as gateway,
            gateway.connected() as client,
        ):
            await client.send("POST", "/v1/messages", QUESTION)
            await client.head()
            gateway.stop()
            await eventually(lambda: gateway.app.exchanges.is_closing)
            refused = await gateway.ask("POST", "/v1/messages", QUESTION)
            assert refused.status == 529
            assert refused.headers["retry-after"] == "1"
            assert (await gateway.ask("GET", "/health")).json()["status"] == "closing"
            go_on.set()
            body = await client.rest()
            assert b"message_stop" in body

    run(scenario)


@pytest.mark.rule("R135")
@pytest.mark.parametrize(("drain", "stops"), [(0.05, 1), (3600, 2)], ids=["after its limit", "stopped twice"])
def test_draining_ends_and_sends_an_error_to_open_streams(drain: float, stops: int) -> None:
    async def scenario() -> None:
        async with (
            ByteServer([*BEGINNING, Pause(asyncio.Event())]) as upstream,
            serving(config_for(upstream.url, server=ServerSettings(port=0, drain=drain))) as gateway,
            gateway.connected() as client,
        ):
            await client.send("POST", "/v1/messages", QUESTION)
            await client.head()
            for _ in range(stops):
                gateway.stop()
                await eventually(lambda: gateway.app.exchanges.is_closing)
            body = await client.rest()
            assert b"event: error" in body
            assert b"shutting down" in body
            await eventually(upstream.hung_up.is_set)

    run(scenario)


@pytest.mark.rule("S13")
@pytest.mark.parametrize("turn", ["anthropic", "openai_chat", "openai_responses", "gemini v1beta"])
def test_a_request_with_millions_of_values_is_refused_before_it_is_read(turn: str) -> None:
    path, body = TURNS[turn]
    message: object = {"role": "user", "content": "hi"}
    empty: object = []

    async def scenario() -> None:
        async with ByteServer([]) as upstream, running(config_for(upstream.url)) as gateway:
            for value, times in ((message, 200_000), (empty, 600_000)):
                got = await gateway.ask("POST", path, {**body, "x": [value] * times})
                assert got.status == 413
                assert b"more than 500000 JSON values" in got.body
                assert b'"error"' in got.body
            assert upstream.received == []

    run(scenario)


@pytest.mark.rule("S13")
@pytest.mark.parametrize(("size", "is_beside"), [(1000, False), (MAX_INLINE_BODY, True)])
def test_a_large_request_is_translated_beside_the_loop(
    size: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []
    build = RequestPlan.build_target_request

    def recorded(plan: RequestPlan, *arguments: Any, **named: Any) -> TargetRequest:
        threads.append(threading.current_thread() is not threading.main_thread())
        return build(plan, *arguments, **named)

    async def scenario() -> None:
        async with ByteServer(STREAM) as upstream, running(config_for(upstream.url)) as gateway:
            question = {**QUESTION, "messages": [{"role": "user", "content": "x" * size}]}
            got = await gateway.ask("POST", "/v1/messages", question)
            assert got.status == 200
            assert len(upstream.received[0].body) > size

    monkeypatch.setattr(RequestPlan, "build_target_request", recorded)
    run(scenario)
    assert threads == [is_beside]


@pytest.mark.rule("S13")
@pytest.mark.parametrize(("size", "is_beside"), [(1000, False), (MAX_INLINE_BODY, True)])
def test_the_tokens_of_a_large_request_are_counted_beside_the_loop(
    size: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []
    build = counting.count

    def recorded(*arguments: Any) -> int:
        threads.append(threading.current_thread() is not threading.main_thread())
        return build(*arguments)

    async def scenario() -> None:
        async with ByteServer(STREAM) as upstream, running(config_for(upstream.url)) as gateway:
            question = {**QUESTION, "messages": [{"role": "user", "content": "x " * size}]}
            got = await gateway.ask("POST", "/v1/messages/count_tokens", question)
            assert got.status == 200

    monkeypatch.setattr(counting, "count", recorded)
    run(scenario)
    assert threads == [is_beside]


@pytest.mark.rule("S6")
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("status", [600, 999])
def test_a_status_that_http_does_not_have_becomes_a_failure(path: str, status: int) -> None:
    async def scenario() -> None:
        async with (
            ByteServer([reply(b"{}", f"{status} Odd")]) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            got = await gateway.ask("POST", path, QUESTION)
            assert got.status == 502
            assert f"status {status}".encode() in got.body

    run(scenario)


def test_a_head_that_is_too_large_is_refused() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway, gateway.connected() as client:
            client.writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nx-long: ")
            for _ in range(20):
                client.writer.write(b"x" * 8192)
            status, headers = await client.head()
            assert status == 431
            assert headers["connection"] == "close"

    run(scenario)


def test_a_head_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "HEAD_TIMEOUT", 0.01)

    async def scenario() -> None:
        async with running(config_for()) as gateway:
            async with gateway.connected() as client:
                client.writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n")
                assert (await client.head())[0] == 408
            async with gateway.connected() as silent:
                assert (await silent.head())[0] == 408

    run(scenario)


def test_a_body_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "BODY_TIMEOUT", 0.01)

    async def scenario() -> None:
        async with running(config_for()) as gateway, gateway.connected() as client:
            await client.send("POST", "/v1/messages", b"{", {"content-length": "100"})
            assert (await client.head())[0] == 408

    run(scenario)


def test_a_connection_that_is_kept_open_is_not_taken_for_a_slow_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "HEAD_TIMEOUT", 0.01)
    monkeypatch.setattr(connection_module, "BODY_TIMEOUT", 0.01)

    async def scenario() -> None:
        async with running(config_for()) as gateway, gateway.connected() as client:
            for _ in range(3):
                await client.send("GET", "/health")
                assert (await client.got()).status == 200
                await asyncio.sleep(0.02)

    run(scenario)


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello\r\n\r\n"])
def test_what_is_not_http_is_refused(garbage: bytes) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway, gateway.connected() as client:
            client.writer.write(garbage)
            assert (await client.head())[0] == 400

    run(scenario)


def test_no_connection_is_left_behind() -> None:
    async def scenario() -> None:
        broken: list[Action] = [*BEGINNING, Close()]
        async with (
            ByteServer(
                STREAM, broken, [reply(b"{}", "500 x")], [Bytes(b"garbage"), Close()], STREAM
            ) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            for _ in range(8):
                await gateway.ask("POST", "/v1/messages", QUESTION)
            assert upstream.open <= 1
            assert gateway.app.gateway.watchdogs.open == 0

    run(scenario)
