"""What the HTTP client sends, to whom, and what it never sends."""

import socket

import msgspec
import pytest

from dragoman.config.provider import Provider
from dragoman.config.settings import Secret
from dragoman.hub.errors import ClientProtocolError, ConfigError, UpstreamFailed
from dragoman.upstream.http.upstream import HttpUpstream
from tests.upstream.byte_server import (
    ByteServer,
    reply,
    run,
)
from tests.upstream.http.calling import CALL, body_of, upstream_of


def test_a_reply_comes_with_status_headers_and_body() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"hello", "201 Created", "X-Thing: yes", "X-Thing: no")]) as server:
            answer = await upstream_of(server).send(CALL)
            assert answer.status == 201
            assert answer.headers["x-thing"] == "yes"
            assert await body_of(answer) == b"hello"

    run(scenario)


@pytest.mark.rule("M7")
def test_a_refused_connection_is_reported_with_its_address_and_without_a_password() -> None:
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
            assert caught.value.failure.kind == "unreachable"
            assert "password" not in caught.value.message
            assert f"at http://127.0.0.1:{port} (no server listens there)" in caught.value.message
            assert "is the server running?" in caught.value.message

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
            assert server.received[0].headers[name] == value

    run(scenario)


@pytest.mark.rule("P57")
def test_an_oauth_token_of_anthropic_is_a_bearer() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "anthropic", keys=["sk-ant-oat-1"]).send(CALL))
            assert server.received[0].headers["authorization"] == "Bearer sk-ant-oat-1"
            assert "x-api-key" not in server.received[0].headers

    run(scenario)


def test_each_call_takes_the_key_that_was_chosen_for_it() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            upstream = upstream_of(server, keys=["one", "two"])
            for number in (1, 0, 1):
                call = msgspec.structs.replace(CALL, key=number)
                await body_of(await upstream.send(call))
            keys = [received.headers["authorization"] for received in server.received]
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
            headers = server.received[0].headers
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
            assert server.received[0].headers["anthropic-version"] == "2023-06-01"

    run(scenario)


def test_configured_headers_overrule_all_others() -> None:
    async def scenario() -> None:
        headers = {"Anthropic-Beta": Secret("ours"), "User-Agent": Secret("mine")}
        call = msgspec.structs.replace(CALL, headers={"anthropic-beta": "theirs"})
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "anthropic", headers=headers).send(call))
            assert server.received[0].headers["anthropic-beta"] == "ours"
            assert server.received[0].headers["user-agent"] == "mine"

    run(scenario)


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b"])
def test_no_header_can_be_injected_by_a_client(value: str) -> None:
    async def scenario() -> None:
        call = msgspec.structs.replace(CALL, headers={"anthropic-beta": value})
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server, "anthropic").send(call))
            assert "anthropic-beta" not in server.received[0].headers
            assert "x-evil" not in server.received[0].headers

    run(scenario)


def test_a_configured_value_that_is_no_header_value_is_refused() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as server:
            with pytest.raises(ConfigError, match="x-team") as caught:
                await upstream_of(server, headers={"x-team": Secret("secret\nvalue")}).send(CALL)
            assert "secret" not in str(caught.value)
            assert server.received == []

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
            assert server.received[0].line == line

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
            assert server.received[0].line == f"POST /v1beta/{path}:generateContent HTTP/1.1"

    run(scenario)


@pytest.mark.parametrize("model", ["../files", "a/../b", "a//b", "/x"])
def test_a_model_that_is_a_path_is_refused(model: str) -> None:
    async def scenario() -> None:
        call = msgspec.structs.replace(CALL, model=model)
        async with ByteServer([reply(b"x")]) as server:
            with pytest.raises(ClientProtocolError):
                await upstream_of(server, "gemini").send(call)
            assert server.received == []

    run(scenario)


def test_a_large_body_arrives_whole() -> None:
    async def scenario() -> None:
        body = bytes(range(256)) * 4096 * 33
        async with ByteServer([reply(b"x")]) as server:
            await body_of(await upstream_of(server).send(msgspec.structs.replace(CALL, body=body)))
            assert server.received[0].body == body

    run(scenario)


def test_a_plain_request_goes_through_a_proxy_with_its_whole_address() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"x")]) as proxy:
            address = f"http://user:pass%20word@127.0.0.1:{proxy.port}"
            upstream = upstream_of(proxy, proxy=address, base_url="http://127.0.0.1:1/v1")
            assert await body_of(await upstream.send(CALL)) == b"x"
            received = proxy.received[0]
            assert received.line == "POST http://127.0.0.1:1/v1/chat/completions HTTP/1.1"
            assert received.headers["host"] == "127.0.0.1:1"
            assert received.headers["proxy-authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="

    run(scenario)


def test_a_proxy_that_refuses_is_a_failure_without_its_password() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(b"", "407 Proxy Authentication Required")]) as proxy:
            address = f"http://user:password@127.0.0.1:{proxy.port}"
            upstream = upstream_of(proxy, proxy=address, base_url="https://127.0.0.1:1")
            with pytest.raises(UpstreamFailed, match="cannot be reached") as caught:
                await upstream.send(CALL)
            assert "password" not in str(caught.value)
            assert proxy.received[0].line == "CONNECT 127.0.0.1:1 HTTP/1.1"
            assert proxy.received[0].headers["proxy-authorization"].startswith("Basic ")
            assert "authorization" not in proxy.received[0].headers

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
