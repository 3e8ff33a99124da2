"""The gateway over real sockets: requests as agents and SDKs send them, and their responses."""

import asyncio
import gzip
import zlib

import msgspec
import pytest
import zstandard

from dragoman.config.find import identify_config
from dragoman.config.settings import Secret, ServerSettings
from tests.exchange.sample_replies import CHAT_STREAM, CHAT_WHOLE
from tests.server.running import config_for, running
from tests.upstream.byte_server import LAST_CHUNK, Action, ByteServer, Pause, chunk, reply, run, stream_head

HELLO: dict[str, object] = {
    "model": "any",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "say hello"}],
}
GEMINI_HELLO: dict[str, object] = {"contents": [{"role": "user", "parts": [{"text": "say hello"}]}]}

#: One turn in each dialect.
TURNS: dict[str, tuple[str, dict[str, object]]] = {
    "anthropic": ("/v1/messages?beta=true", HELLO),
    "openai_chat": ("/v1/chat/completions", HELLO),
    "openai_responses": ("/v1/responses", {"model": "any", "input": "say hello"}),
    "gemini v1beta": ("/v1beta/models/any:generateContent", GEMINI_HELLO),
    "gemini v1": ("/v1/models/any:generateContent", GEMINI_HELLO),
    "gemini v1alpha": ("/v1alpha/models/any:generateContent?key=x", GEMINI_HELLO),
    "gemini without a version": ("/models/any:generateContent", GEMINI_HELLO),
}


@pytest.mark.rule("R1", "R3", "P72", "F19")
@pytest.mark.parametrize("turn", TURNS)
def test_every_dialect_is_served_on_one_port(turn: str) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            path, body = TURNS[turn]
            got = await gateway.ask("POST", path, body)
            assert got.status == 200
            assert b"hello" in got.body
            assert got.headers["content-type"] == "application/json"

    run(scenario)


@pytest.mark.rule("F18")
@pytest.mark.parametrize("turn", ["anthropic", "openai_chat", "openai_responses"])
def test_a_request_without_a_model_is_invalid_and_not_a_missing_endpoint(turn: str) -> None:
    path, body = TURNS[turn]
    config = msgspec.structs.replace(config_for(), default=())

    async def scenario() -> None:
        async with running(config) as gateway:
            unnamed = {name: value for name, value in body.items() if name != "model"}
            for sent in (unnamed, {**unnamed, "stream": True}):
                got = await gateway.ask("POST", path, sent)
                error = got.json()["error"]
                assert got.status == 400
                assert isinstance(error, dict)
                assert error["type"] == "invalid_request_error"
                assert str(error["message"]).startswith("model: ")

    run(scenario)


@pytest.mark.rule("R3", "P72")
@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/v1/messages", {**HELLO, "stream": True}, "text/event-stream"),
        ("/v1/chat/completions", {**HELLO, "stream": True}, "text/event-stream"),
        ("/v1/responses", {"model": "any", "input": "say hello", "stream": True}, "text/event-stream"),
        ("/v1beta/models/any:streamGenerateContent?alt=sse", GEMINI_HELLO, "text/event-stream"),
        ("/v1/models/any:streamGenerateContent?key=x&alt=sse", GEMINI_HELLO, "text/event-stream"),
        ("/v1beta/models/any:streamGenerateContent", GEMINI_HELLO, "application/json"),
        ("/v1beta/models/any:streamGenerateContent?alt=json", GEMINI_HELLO, "application/json"),
    ],
)
def test_every_dialect_is_streamed(path: str, body: dict[str, object], kind: str) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            got = await gateway.ask("POST", path, body)
            assert got.status == 200
            assert got.headers["content-type"].startswith(kind)
            assert got.headers["transfer-encoding"] == "chunked"
            assert b"hello" in got.body
            is_array = kind == "application/json"
            assert got.body.startswith(b"[{") if is_array else got.body.endswith(b"\n\n")
            if is_array:
                assert len(msgspec.json.decode(got.body)) > 1

    run(scenario)


@pytest.mark.rule("R113", "H69", "P53")
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/messages/count_tokens?beta=true", HELLO, "input_tokens"),
        ("/v1beta/models/any:countTokens", GEMINI_HELLO, "totalTokens"),
    ],
)
def test_tokens_can_be_counted(path: str, body: dict[str, object], field: str) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            got = await gateway.ask("POST", path, body)
            assert got.status == 200
            count = got.json()[field]
            assert isinstance(count, int)
            assert count > 0

    run(scenario)


@pytest.mark.rule("H70")
@pytest.mark.parametrize(
    ("path", "headers", "field"),
    [
        ("/v1/models?limit=1000", {"anthropic-version": "2023-06-01"}, "has_more"),
        ("/v1/models", {}, "object"),
        ("/v1beta/models", {}, "models"),
        ("/v1/models/any", {}, "owned_by"),
        ("/v1/models/any", {"anthropic-version": "x"}, "display_name"),
        ("/v1beta/models/any", {}, "supportedGenerationMethods"),
    ],
)
def test_models_are_listed_in_three_shapes(path: str, headers: dict[str, str], field: str) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            got = await gateway.ask("GET", path, headers=headers)
            assert got.status == 200
            assert field in got.json()
            name = "request-id" if "anthropic-version" in headers else "x-request-id"
            assert got.headers[name].startswith("req_")

    run(scenario)


def test_a_refusal_names_its_request() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            got = await gateway.ask("GET", "/v1/messages/nothing")
            assert got.json()["request_id"] == got.headers["request-id"]
            got = await gateway.ask("POST", "/v1/models/x", headers={"anthropic-version": "x"})
            assert got.json()["request_id"] == got.headers["request-id"]
            got = await gateway.ask("GET", "/v1/responses/nothing/else")
            assert message_of("/v1/responses", got.json())
            assert b'"code":"unknown_endpoint"' in got.body

    run(scenario)


@pytest.mark.rule("R115")
@pytest.mark.parametrize(("method", "path"), [("HEAD", "/"), ("HEAD", "/api/hello"), ("GET", "/health")])
def test_the_health_paths_answer_every_client(method: str, path: str) -> None:
    async def scenario() -> None:
        async with running(
            config_for(server=ServerSettings(port=0, keys=(Secret("client-key"),)))
        ) as gateway:
            got = await gateway.ask(method, path)
            assert got.status == 200
            assert int(got.headers["content-length"]) > 0
            if method == "GET":
                assert got.json() == {
                    "status": "ok",
                    "service": "dragoman",
                    "open_exchanges": 0,
                    "configuration": identify_config(""),
                }

    run(scenario)


@pytest.mark.rule("H81")
def test_a_websocket_that_cannot_be_opened_is_refused_by_the_one_status_that_codex_understands() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
            got = await gateway.ask("GET", "/v1/responses", headers=upgrade)
            assert got.status == 426
            assert got.headers["connection"] == "close"
            assert "POST" in str(got.json()["error"])

    run(scenario)


#: The shape of an error in each dialect: a field below which its message stands.
def message_of(path: str, got: dict[str, object]) -> object:
    error = got["error"]
    assert isinstance(error, dict)
    if "messages" in path:
        assert got["type"] == "error"
        assert "type" in error
    elif "v1beta" in path:
        assert "status" in error
    else:
        assert "param" in error
    return error["message"]


@pytest.mark.rule("R115")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/messages", 405),
        ("PUT", "/v1/chat/completions", 405),
        ("GET", "/v1/responses", 405),
        ("DELETE", "/v1beta/models/any:generateContent", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/messages/batches", 404),
        ("GET", "/v1beta/cachedContents", 404),
        ("POST", "/nowhere", 404),
        ("OPTIONS", "/v1/messages", 405),
    ],
)
def test_unknown_paths_and_methods_are_refused_in_the_dialect_of_the_path(
    method: str, path: str, status: int
) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            got = await gateway.ask(method, path)
            assert got.status == status
            assert message_of(path, got.json())
            assert ("allow" in got.headers) == (status == 405)
            assert got.headers["request-id" if "messages" in path else "x-request-id"].startswith("req_")

    run(scenario)


@pytest.mark.parametrize(
    "headers",
    [{"x-api-key": "client-key"}, {"authorization": "Bearer client-key"}, {"x-goog-api-key": "client-key"}],
)
def test_a_clients_key_is_accepted_in_every_header(headers: dict[str, str]) -> None:
    async def scenario() -> None:
        async with running(
            config_for(server=ServerSettings(port=0, keys=(Secret("client-key"),)))
        ) as gateway:
            assert (await gateway.ask("POST", "/v1/messages", HELLO, headers)).status == 200
            refused = await gateway.ask("POST", "/v1/messages", HELLO, {"x-api-key": "wrong"})
            assert refused.status == 401
            assert refused.headers["x-should-retry"] == "false"

    run(scenario)


@pytest.mark.rule("H82")
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [10, 3_000_000], ids=["small", "large"])
def test_compressed_requests_are_understood(encoding: str, size: int) -> None:
    pack = gzip.compress if encoding == "gzip" else zstandard.ZstdCompressor().compress
    noise = "".join(chr(33 + (number * 7919) % 90) for number in range(size))
    body = pack(msgspec.json.encode({**HELLO, "system": noise}))

    async def scenario() -> None:
        async with running(config_for()) as gateway:
            got = await gateway.ask("POST", "/v1/messages", body, {"content-encoding": encoding})
            assert got.status == 200

    run(scenario)


@pytest.mark.rule("H82")
def test_a_request_of_33_megabytes_goes_through_and_so_does_its_neighbour() -> None:
    async def scenario() -> None:
        async with (
            ByteServer([reply(CHAT_WHOLE, "200 OK", "content-type: application/json")]) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            large = {**HELLO, "messages": [{"role": "user", "content": "x" * 33 * 1024 * 1024}]}
            got, neighbour = await asyncio.gather(
                gateway.ask("POST", "/v1/chat/completions", large),
                gateway.ask("POST", "/v1/chat/completions", HELLO),
            )
            assert (got.status, neighbour.status) == (200, 200)
            assert max(len(received.body) for received in upstream.received) > 33 * 1024 * 1024

    run(scenario)


def test_a_request_beyond_the_limit_is_refused_before_it_has_come() -> None:
    async def scenario() -> None:
        async with running(config_for(server=ServerSettings(port=0, max_body_mb=1))) as gateway:
            async with gateway.connected() as connection:
                await connection.send("POST", "/v1/messages", b"", {"content-length": "2000000"})
                got = await connection.got()
            assert got.status == 413
            assert message_of("/v1/messages", got.json())

    run(scenario)


def test_a_request_that_grows_beyond_the_limit_is_refused() -> None:
    async def scenario() -> None:
        config = config_for(server=ServerSettings(port=0, max_body_mb=1))
        async with running(config) as gateway, gateway.connected() as connection:
            host = f"127.0.0.1:{gateway.port}"
            head = f"POST /v1/messages HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n"
            connection.writer.write(head.encode())
            for _ in range(30):
                connection.writer.write(b"%x\r\n%b\r\n" % (65536, b"x" * 65536))
            assert (await connection.got()).status == 413

    run(scenario)


def test_a_client_can_ask_again_over_the_same_connection() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway, gateway.connected() as connection:
            for body in (HELLO, {**HELLO, "stream": True}, HELLO):
                await connection.send("POST", "/v1/messages", body)
                assert (await connection.got()).status == 200

    run(scenario)


def test_a_header_that_comes_twice_counts_twice() -> None:
    async def scenario() -> None:
        async with (
            ByteServer([reply(b"{}", "400 Bad Request")]) as upstream,
            running(config_for(upstream.url, "anthropic")) as gateway,
            gateway.connected() as connection,
        ):
            data = msgspec.json.encode(HELLO)
            lines = ["anthropic-beta: one", "anthropic-beta: two", f"content-length: {len(data)}"]
            head = "\r\n".join(["POST /v1/messages HTTP/1.1", f"host: 127.0.0.1:{gateway.port}", *lines])
            connection.writer.write(head.encode() + b"\r\n\r\n" + data)
            await connection.got()
            assert upstream.received[0].headers["anthropic-beta"] == "one, two"

    run(scenario)


@pytest.mark.rule("H86", "R120")
def test_a_streamed_turn_goes_through_with_both_sides_keys_kept_apart() -> None:
    async def scenario() -> None:
        script = [stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK]
        async with ByteServer(script) as upstream, running(config_for(upstream.url)) as gateway:
            headers = {"authorization": "Bearer client-key", "cookie": "a=b", "x-stainless-os": "Linux"}
            question = {**HELLO, "stream": True, "stream_options": {"include_usage": True}}
            got = await gateway.ask("POST", "/v1/chat/completions", question, headers)
            assert got.body == b"".join(CHAT_STREAM)
            received = upstream.received[0].headers
            assert received["authorization"] == "Bearer sk-upstream-key"
            assert {"cookie", "x-stainless-os"}.isdisjoint(received)
            assert "sk-upstream-key" not in str(got.headers)

    run(scenario)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_the_rest_of_a_compressed_stream_comes_after_its_first_content(path: str) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in CHAT_STREAM]
    packed[-1] += packer.flush()

    async def scenario() -> None:
        bodies = []
        for encoding, pieces in (("identity", CHAT_STREAM), ("gzip", packed)):
            first, *rest = [chunk(b"".join(pieces[:2])), *map(chunk, pieces[2:])]
            has_begun = asyncio.Event()
            asyncio.get_running_loop().call_later(0.1, has_begun.set)
            script: list[Action] = [
                stream_head(f"content-encoding: {encoding}"),
                first,
                Pause(has_begun),
                *rest,
                LAST_CHUNK,
            ]
            async with ByteServer(script) as upstream, running(config_for(upstream.url)) as gateway:
                bodies.append((await gateway.ask("POST", path, {**HELLO, "stream": True})).body)
        assert bodies[1] == bodies[0]
        assert b" day" in bodies[0]

    run(scenario)


@pytest.mark.rule("P74")
def test_one_connection_to_the_upstream_serves_many_exchanges() -> None:
    async def scenario() -> None:
        script = [stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK]
        async with ByteServer(script) as upstream, running(config_for(upstream.url)) as gateway:
            for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
                for _ in range(5):
                    body = {**HELLO, "input": "hello", "stream": True}
                    assert (await gateway.ask("POST", path, body)).status == 200
            assert upstream.accepted == 1

    run(scenario)
