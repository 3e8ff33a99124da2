"""The HTTP client, against a server that says exactly what a test wants said."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
import pytest

from dragoman.config.model import Provider, Secret, Timeouts
from dragoman.hub.errors import ClientProtocolError, ConfigError, UpstreamFailed
from dragoman.upstream import connection as connection_module
from dragoman.upstream.http import HttpUpstream
from dragoman.upstream.port import Answer, Call
from tests.upstream.byte_server import (
    LAST_CHUNK,
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

CALL = Call(body=b'{"x":1}', model="m", stream=True)


def upstream_of(
    server: ByteServer,
    dialect: str = "openai_chat",
    *,
    keys: Sequence[str] = (),
    timeouts: Timeouts | None = None,
    path: str = "",
    headers: dict[str, Secret] | None = None,
    proxy: str = "",
    base_url: str = "",
) -> HttpUpstream:
    return HttpUpstream(
        Provider(
            name="up",
            dialect=dialect,
            base_url=base_url or server.url + path,
            keys=tuple(Secret(key) for key in keys),
            timeouts=timeouts or Timeouts(),
            headers=headers or {},
            proxy=proxy,
        )
    )


async def body_of(answer: Answer) -> bytes:
    return b"".join([piece async for piece in answer.pieces()])


async def failure_of(awaiting: AsyncIterator[bytes]) -> str:
    with pytest.raises(UpstreamFailed) as caught:
        async for _ in awaiting:
            pass
    return caught.value.failure.message


def test_a_reply_comes_with_status_headers_and_body() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"hello", "201 Created", "X-Thing: yes", "X-Thing: no")]) as server:
            answer = await upstream_of(server).send(CALL)
            assert answer.status == 201
            assert answer.headers["x-thing"] == "yes"
            assert await body_of(answer) == b"hello"

    run(scenario)


def test_pieces_come_as_they_are_sent() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()
        head, last = [stream_head(), chunk(b"one"), chunk(b"two")], [chunk(b"three"), LAST_CHUNK]
        async with ByteServer([*head, Pause(go_on), *last]) as server:
            answer = await upstream_of(server).send(CALL)
            pieces = answer.pieces()
            got = b""
            while got != b"onetwo":
                got += await anext(pieces)
            go_on.set()
            assert await anext(pieces) == b"three"
            with pytest.raises(StopAsyncIteration):
                await anext(pieces)

    run(scenario)


@pytest.mark.rule("P74")
def test_one_connection_serves_many_calls() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), chunk(b"x"), LAST_CHUNK]) as server:
            upstream = upstream_of(server)
            for _ in range(20):
                assert await body_of(await upstream.send(CALL)) == b"x"
            assert server.accepted == 1
            await upstream.close()
            await eventually(lambda: server.open == 0)

    run(scenario)


@pytest.mark.rule("P74")
def test_calls_at_once_have_connections_of_their_own_and_share_them_later() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            for _ in range(3):
                answers = await asyncio.gather(*(upstream.send(CALL) for _ in range(10)))
                assert await asyncio.gather(*map(body_of, answers)) == [b"x"] * 10
            assert server.accepted == 10

    run(scenario)


def test_a_connection_is_free_as_soon_as_its_reply_has_come_whole() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server)
            first = await upstream.send(CALL)
            second = await upstream.send(CALL)
            assert await body_of(second) == b"x"
            assert await body_of(first) == b"x"
            assert server.accepted == 1

    run(scenario)


@pytest.mark.rule("R126", "P58")
def test_an_answer_that_is_let_go_is_cancelled_at_the_upstream() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), chunk(b"x"), Pause(asyncio.Event())]) as server:
            answer = await upstream_of(server).send(CALL)
            answer.close()
            await eventually(server.hung_up.is_set)

    run(scenario)


def test_whoever_waits_for_an_answer_that_is_let_go_is_told() -> None:
    async def scenario() -> None:
        async with ByteServer([stream_head(), Pause(asyncio.Event())]) as server:
            answer = await upstream_of(server).send(CALL)
            asyncio.get_running_loop().call_later(0.005, answer.close)
            assert "was hung up on" in await failure_of(answer.pieces())

    run(scenario)


@pytest.mark.rule("R126")
def test_a_call_that_is_cancelled_before_its_head_came_is_cancelled_at_the_upstream() -> None:
    async def scenario() -> None:
        async with ByteServer([Pause(asyncio.Event())]) as server:
            sending = asyncio.ensure_future(upstream_of(server).send(CALL))
            await eventually(lambda: len(server.heard) == 1)
            sending.cancel()
            await eventually(server.hung_up.is_set)
            assert sending.cancelled() or sending.cancelling()

    run(scenario)


def test_an_idle_connection_that_the_server_closed_is_replaced_unnoticed() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x"), Close()], [reply(b"y")]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            await eventually(lambda: server.open == 0)
            assert await body_of(await upstream.send(CALL)) == b"y"
            assert server.accepted == 2

    run(scenario)


def test_a_connection_that_closes_just_as_it_is_used_again_is_replaced_unnoticed() -> None:
    async def scenario() -> None:
        # The second request is read, but answered by nothing but the end of the connection.
        async with ByteServer([reply(b"x")], [Close()], [reply(b"y")]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            assert await body_of(await upstream.send(CALL)) == b"y"
            assert [heard.connection for heard in server.heard] == [1, 1, 2]

    run(scenario)


def test_a_new_connection_that_closes_without_an_answer_is_a_failure() -> None:
    async def scenario() -> None:
        async with ByteServer([Close()]) as server:
            with pytest.raises(UpstreamFailed, match="closed the connection") as caught:
                await upstream_of(server).send(CALL)
            assert caught.value.failure.kind == "overloaded"
            assert server.accepted == 1

    run(scenario)


@pytest.mark.parametrize(
    "script",
    [
        [stream_head(), chunk(b"x"), Close()],
        [stream_head(), chunk(b"x"), Close(rudely=True)],
        [stream_head(), Bytes(b"9\r\nx"), Close()],
        [Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nx"), Close()],
        [stream_head(), chunk(b"x"), Bytes(b"zz\r\n")],
    ],
    ids=["closed", "reset", "inside a chunk", "too short", "bad chunk"],
)
@pytest.mark.rule("H73")
def test_a_reply_that_breaks_off_is_a_failure(script: Sequence[Bytes | Close]) -> None:
    async def scenario() -> None:
        async with ByteServer(script) as server:
            answer = await upstream_of(server).send(CALL)
            assert "provider up" in await failure_of(answer.pieces())

    run(scenario)


def test_a_reply_without_a_length_ends_with_its_connection() -> None:
    async def scenario() -> None:
        body = [Bytes(b"HTTP/1.1 200 OK\r\n\r\none "), Bytes(b"two")]
        async with ByteServer([*body, Close()]) as server:
            upstream = upstream_of(server)
            assert await body_of(await upstream.send(CALL)) == b"one two"
            assert await body_of(await upstream.send(CALL)) == b"one two"
            assert server.accepted == 2

    run(scenario)


def test_a_server_that_wants_its_connection_closed_gets_it_closed() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x", "200 OK", "connection: close")]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            await body_of(await upstream.send(CALL))
            assert server.accepted == 2

    run(scenario)


def test_interim_answers_are_passed_over() -> None:
    async def scenario() -> None:
        interim = Bytes(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        async with ByteServer([interim, reply(b"x")]) as server:
            answer = await upstream_of(server).send(CALL)
            assert answer.status == 200
            assert "link" not in answer.headers
            assert await body_of(answer) == b"x"

    run(scenario)


@pytest.mark.parametrize(
    "garbage", [b"<html>", b"HTTP/2 200\r\n\r\n", b"\x00" * 100, b"HTTP/1.1 101 x\r\nupgrade: h2c\r\n\r\n"]
)
def test_what_is_not_http_is_a_failure(garbage: bytes) -> None:
    async def scenario() -> None:
        async with ByteServer([Bytes(garbage), Close()]) as server:
            with pytest.raises(UpstreamFailed):
                await upstream_of(server).send(CALL)

    run(scenario)


def test_a_head_without_end_is_a_failure() -> None:
    async def scenario() -> None:
        endless = [Bytes(b"HTTP/1.1 200 OK\r\n"), *[Bytes(b"x-more: " + b"x" * 10_000 + b"\r\n")] * 30]
        async with ByteServer([*endless, Pause(asyncio.Event())]) as server:
            with pytest.raises(UpstreamFailed, match="too large"):
                await upstream_of(server).send(CALL)

    run(scenario)


def test_a_server_that_answers_twice_is_not_asked_again_over_that_connection() -> None:
    async def scenario() -> None:
        twice = Bytes(
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\ny"
        )
        async with ByteServer([twice]) as server:
            upstream = upstream_of(server)
            assert await body_of(await upstream.send(CALL)) == b"x"
            assert await body_of(await upstream.send(CALL)) == b"x"
            assert server.accepted == 2

    run(scenario)


def test_a_server_that_speaks_unasked_is_hung_up_on() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()
        async with ByteServer([reply(b"x"), Pause(go_on), reply(b"again"), Pause(asyncio.Event())]) as server:
            upstream = upstream_of(server)
            await body_of(await upstream.send(CALL))
            go_on.set()
            await eventually(server.hung_up.is_set)

    run(scenario)


def test_a_reply_that_nobody_reads_stops_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "HIGH_WATER", 1000)

    async def scenario() -> None:
        piece = b"x" * 100_000
        sent = [Bytes(b"%x\r\n%b\r\n" % (len(piece), piece)) for _ in range(400)]
        async with ByteServer([stream_head(), *sent, LAST_CHUNK]) as server:
            answer = await upstream_of(server).send(CALL)
            await asyncio.sleep(0.02)
            assert isinstance(answer, connection_module.Reply)
            assert answer.size < 2_000_000
            assert len(await body_of(answer)) == 400 * len(piece)

    run(scenario)


def test_no_answer_in_time_is_a_timeout() -> None:
    async def scenario() -> None:
        async with ByteServer([Pause(asyncio.Event())]) as server:
            with pytest.raises(UpstreamFailed, match="no answer within") as caught:
                await upstream_of(server, timeouts=Timeouts(first_byte=0.01)).send(CALL)
            assert caught.value.failure.kind == "timeout"
            assert caught.value.failure.http_status == 504
            await eventually(server.hung_up.is_set)

    run(scenario)


def test_nobody_listening_is_told_without_an_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        async def scenario() -> None:
            upstream = HttpUpstream(
                Provider(
                    name="up",
                    dialect="openai_chat",
                    base_url=f"http://user:password@127.0.0.1:{port}",
                    proxy="",
                )
            )
            with pytest.raises(UpstreamFailed, match="cannot be reached") as caught:
                await upstream.send(CALL)
            assert caught.value.failure.kind == "overloaded"
            assert "password" not in caught.value.message
            assert str(port) not in caught.value.message

        run(scenario)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("X-Gzip", gzip.compress)],
)
def test_a_compressed_reply_is_inflated(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    packed = compress(b"hello " * 1000)

    async def scenario() -> None:
        async with ByteServer([reply(packed, "200 OK", f"content-encoding: {encoding}")]) as server:
            assert await body_of(await upstream_of(server).send(CALL)) == b"hello " * 1000

    run(scenario)


def test_a_bomb_comes_in_pieces_of_bounded_size() -> None:
    packed = gzip.compress(b"\0" * 50_000_000)

    async def scenario() -> None:
        async with ByteServer([reply(packed, "200 OK", "content-encoding: gzip")]) as server:
            answer = await upstream_of(server).send(CALL)
            sizes = [len(piece) async for piece in answer.pieces()]
            assert sum(sizes) == 50_000_000
            assert max(sizes) <= 1024 * 1024

    run(scenario)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("br", b"xxx"), ("gzip", b"xxx"), ("gzip", gzip.compress(b"hello" * 100)[:-9])],
    ids=["unknown", "damaged", "cut"],
)
def test_what_cannot_be_inflated_is_a_failure(encoding: str, body: bytes) -> None:
    async def scenario() -> None:
        async with ByteServer([reply(body, "200 OK", f"content-encoding: {encoding}")]) as server:
            answer = await upstream_of(server).send(CALL)
            assert "provider up" in await failure_of(answer.pieces())

    run(scenario)


@pytest.mark.rule("R124", "H86")
@pytest.mark.parametrize(
    ("dialect", "name", "value"),
    [
        ("anthropic", "x-api-key", "sk-one"),
        ("openai_chat", "authorization", "Bearer sk-one"),
        ("openai_responses", "authorization", "Bearer sk-one"),
        ("gemini", "x-goog-api-key", "sk-one"),
    ],
)
def test_a_key_goes_where_the_dialect_wants_it(dialect: str, name: str, value: str) -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, dialect, keys=["sk-one\n"]).send(CALL))
            assert server.heard[0].headers[name] == value

    run(scenario)


@pytest.mark.rule("P57")
def test_an_oauth_token_of_anthropic_is_a_bearer() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "anthropic", keys=["sk-ant-oat-1"]).send(CALL))
            assert server.heard[0].headers["authorization"] == "Bearer sk-ant-oat-1"
            assert "x-api-key" not in server.heard[0].headers

    run(scenario)


def test_each_call_takes_the_key_that_was_chosen_for_it() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server, keys=["one", "two"])
            for number in (1, 0, 1):
                call = msgspec.structs.replace(CALL, key=number)
                await body_of(await upstream.send(call))
            keys = [heard.headers["authorization"] for heard in server.heard]
            assert keys == ["Bearer two", "Bearer one", "Bearer two"]

    run(scenario)


@pytest.mark.rule("R120", "H86", "P55")
def test_only_headers_of_the_dialect_go_on() -> None:
    async def scenario() -> None:
        call = msgspec.structs.replace(
            CALL,
            headers={
                "anthropic-beta": "a,b",
                "anthropic-version": "2026-10-21",
                "x-api-key": "the-clients-own",
                "authorization": "Bearer the-clients-own",
                "cookie": "a=b",
                "connection": "upgrade",
                "transfer-encoding": "chunked",
                "host": "elsewhere",
                "x-stainless-lang": "js",
            },
        )
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "anthropic", keys=["ours"]).send(call))
            headers = server.heard[0].headers
            assert headers["anthropic-beta"] == "a,b"
            assert headers["anthropic-version"] == "2026-10-21"
            assert headers["x-api-key"] == "ours"
            assert headers["host"] == f"127.0.0.1:{server.port}"
            expected = {"host", "content-type", "accept", "accept-encoding", "user-agent", "x-api-key"}
            assert set(headers) == expected | {"anthropic-beta", "anthropic-version", "content-length"}

    run(scenario)


def test_a_version_is_named_for_clients_that_name_none() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "anthropic").send(CALL))
            assert server.heard[0].headers["anthropic-version"] == "2023-06-01"

    run(scenario)


def test_configured_headers_overrule_all_others() -> None:
    async def scenario() -> None:
        headers = {"Anthropic-Beta": Secret("ours"), "User-Agent": Secret("mine")}
        call = msgspec.structs.replace(CALL, headers={"anthropic-beta": "theirs"})
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "anthropic", headers=headers).send(call))
            assert server.heard[0].headers["anthropic-beta"] == "ours"
            assert server.heard[0].headers["user-agent"] == "mine"

    run(scenario)


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b"])
def test_no_header_can_be_injected_by_a_client(value: str) -> None:
    async def scenario() -> None:
        call = msgspec.structs.replace(CALL, headers={"anthropic-beta": value})
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "anthropic").send(call))
            assert "anthropic-beta" not in server.heard[0].headers
            assert "x-evil" not in server.heard[0].headers

    run(scenario)


def test_a_configured_value_that_is_no_header_value_is_refused() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            with pytest.raises(ConfigError, match="x-team") as caught:
                await upstream_of(server, headers={"x-team": Secret("secret\nvalue")}).send(CALL)
            assert "secret" not in str(caught.value)
            assert server.heard == []

    run(scenario)


@pytest.mark.rule("R2")
@pytest.mark.parametrize(
    ("dialect", "path", "line"),
    [
        ("anthropic", "", "POST /v1/messages HTTP/1.1"),
        ("openai_chat", "/v1", "POST /v1/chat/completions HTTP/1.1"),
        ("openai_chat", "/v1/", "POST /v1/chat/completions HTTP/1.1"),
        ("openai_chat", "/api/paas/v4", "POST /api/paas/v4/chat/completions HTTP/1.1"),
        ("openai_chat", "/v1beta/openai", "POST /v1beta/openai/chat/completions HTTP/1.1"),
        ("openai_responses", "/x?api-version=2", "POST /x/v1/responses?api-version=2 HTTP/1.1"),
        ("gemini", "", "POST /v1beta/models/m:streamGenerateContent?alt=sse HTTP/1.1"),
        ("gemini", "/v1?a=b", "POST /v1/models/m:streamGenerateContent?a=b&alt=sse HTTP/1.1"),
    ],
)
def test_addresses_are_joined_without_doubling_the_version(dialect: str, path: str, line: str) -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, dialect, path=path).send(CALL))
            assert server.heard[0].line == line

    run(scenario)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("tunedModels/x", "tunedModels/x"),
        ("a b?c#d:e%f", "models/a%20b%3Fc%23d%3Ae%25f"),
        ("x\r\nhost: y", "models/x%0D%0Ahost%3A%20y"),
    ],
)
def test_a_model_cannot_escape_from_its_place_in_the_address(model: str, path: str) -> None:
    async def scenario() -> None:
        call = msgspec.structs.replace(CALL, model=model, stream=False)
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "gemini").send(call))
            assert server.heard[0].line == f"POST /v1beta/{path}:generateContent HTTP/1.1"

    run(scenario)


@pytest.mark.parametrize("model", ["../files", "a/../b", "a//b", "/x"])
def test_a_model_that_is_a_path_is_refused(model: str) -> None:
    async def scenario() -> None:
        call = msgspec.structs.replace(CALL, model=model)
        async with ByteServer([reply(b"x")]) as server:
            with pytest.raises(ClientProtocolError):
                await upstream_of(server, "gemini").send(call)
            assert server.heard == []

    run(scenario)


def test_a_large_body_arrives_whole() -> None:
    async def scenario() -> None:
        body = bytes(range(256)) * 4096 * 33
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server).send(msgspec.structs.replace(CALL, body=body)))
            assert server.heard[0].body == body

    run(scenario)


def test_a_plain_request_goes_through_a_proxy_with_its_whole_address() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as proxy:
            address = f"http://user:pass%20word@127.0.0.1:{proxy.port}"
            upstream = upstream_of(proxy, proxy=address, base_url="http://127.0.0.1:1/v1")
            assert await body_of(await upstream.send(CALL)) == b"x"
            heard = proxy.heard[0]
            assert heard.line == "POST http://127.0.0.1:1/v1/chat/completions HTTP/1.1"
            assert heard.headers["host"] == "127.0.0.1:1"
            assert heard.headers["proxy-authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="

    run(scenario)


def test_a_proxy_that_refuses_is_a_failure_without_its_password() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"", "407 Proxy Authentication Required")]) as proxy:
            address = f"http://user:password@127.0.0.1:{proxy.port}"
            upstream = upstream_of(proxy, proxy=address, base_url="https://127.0.0.1:1")
            with pytest.raises(UpstreamFailed, match="cannot be reached") as caught:
                await upstream.send(CALL)
            assert "password" not in str(caught.value)
            assert proxy.heard[0].line == "CONNECT 127.0.0.1:1 HTTP/1.1"
            assert proxy.heard[0].headers["proxy-authorization"].startswith("Basic ")
            assert "authorization" not in proxy.heard[0].headers

    run(scenario)


@pytest.mark.parametrize("address", ["", "ftp://x", "http://", "x", "http://[::1", "http://x:99999999"])
def test_an_address_that_is_none_is_a_mistake_in_the_configuration(address: str) -> None:
    with pytest.raises(ConfigError, match=r"providers\.up\.base_url"):
        HttpUpstream(Provider(name="up", dialect="openai_chat", base_url=address))


def test_an_upstream_shows_no_secret() -> None:
    upstream = HttpUpstream(
        Provider(
            name="up",
            dialect="openai_chat",
            base_url="http://user:password@127.0.0.1:1",
            keys=(Secret("sk-secret"),),
        )
    )
    assert "password" not in repr(vars(upstream))
    assert "sk-secret" not in repr(vars(upstream))
