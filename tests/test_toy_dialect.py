"""A new dialect is one folder and one line in the registry: a fifth one serves, and is served.

The toy dialect lives in `tests/toy_dialect`. Nothing in `src` knows it: the fixture below is the line in the
registry. Everything runs over real sockets.
"""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from dragoman import StreamTranslator, translate_error, translate_reply, translate_request
from dragoman.config.config import Config, Route
from dragoman.config.load import load
from dragoman.config.provider import TargetName
from dragoman.config.settings import Secret, ServerSettings
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.dialects.registry import DIALECTS, dialect_named
from dragoman.doctor.examine import examine
from dragoman.doctor.probes import PROBES
from dragoman.exchange import watchdog
from dragoman.governance.settings import read_governance
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.errors import ConfigError
from dragoman.hub.events import ReplyFailed
from dragoman.hub.fold import Reply, fold
from tests.exchange.sample_replies import CHAT_HEAD, CHAT_START, CHAT_STREAM, CHAT_WHOLE, chat_text, data
from tests.server.running import Connected, Got, config_for, running
from tests.toy_dialect import DIALECT
from tests.upstream.byte_server import (
    LAST_CHUNK,
    Answer,
    ByteServer,
    Close,
    Pause,
    chunk,
    reply,
    run,
    stream_head,
)

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
LS: Json = {"tool": "ls", "about": "Lists files.", "schema": SCHEMA}
HELLO: Json = {"model": "any", "lines": [{"by": "user", "text": "say hello"}], "tools": [LS]}

#: What toy servers answer here: a text and a call, as a stream and as a body.
ARGUMENTS = '{"path":"src"}'
TOY_EVENTS = (
    data({"begin": {"id": "toy_1", "model": "real"}}),
    data({"text": "Let me "}),
    data({"text": "look."}),
    data({"call": {"id": "c1", "tool": "ls"}}),
    data({"input": ARGUMENTS[:5]}),
    data({"input": ARGUMENTS[5:]}),
    data({"end": "calls", "usage": {"in": 12, "out": 3}}),
)
TOY_STREAM = b"".join(TOY_EVENTS)
TOY_WHOLE = msgspec.json.encode(
    {
        "id": "toy_1",
        "model": "real",
        "parts": [{"text": "Let me look."}, {"call": {"id": "c1", "tool": "ls", "input": ARGUMENTS}}],
        "end": "calls",
        "usage": {"in": 12, "out": 3},
    }
)
CHAT_CALL: Json = {"index": 0, "id": "c1", "type": "function"}
CHAT_CALL_STREAM = (
    CHAT_START,
    *(
        data({**CHAT_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        for delta, reason in (
            ({"tool_calls": [{**CHAT_CALL, "function": {"name": "ls", "arguments": ""}}]}, None),
            ({"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS}}]}, None),
            ({}, "tool_calls"),
        )
    ),
    b"data: [DONE]\n\n",
)

CALLING: Json = {"name": "ls", "description": "Lists files."}
#: For each real dialect the path and body of a turn, whole and streamed.
TURNS: dict[str, tuple[tuple[str, Json], tuple[str, Json]]] = {}
for _name, _path, _body in (
    (
        "anthropic",
        "/v1/messages",
        {
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{**CALLING, "input_schema": SCHEMA}],
        },
    ),
    (
        "openai_chat",
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": "hi"}],
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": {**CALLING, "parameters": SCHEMA}}],
        },
    ),
    (
        "openai_responses",
        "/v1/responses",
        {"input": "hi", "tools": [{"type": "function", **CALLING, "parameters": SCHEMA, "strict": False}]},
    ),
):
    TURNS[_name] = ((_path, {"model": "any", **_body}), (_path, {"model": "any", **_body, "stream": True}))
_GEMINI: Json = {
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    "tools": [{"functionDeclarations": [{**CALLING, "parametersJsonSchema": SCHEMA}]}],
}
TURNS["gemini"] = (
    ("/v1beta/models/any:generateContent", _GEMINI),
    ("/v1beta/models/any:streamGenerateContent?alt=sse", _GEMINI),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The one line in the registry."""
    monkeypatch.setitem(DIALECTS, DIALECT.name, DIALECT)
    yield
    monkeypatch.undo()
    assert DIALECT.name not in DIALECTS


def stream_of(*events: bytes, headers: tuple[str, ...] = ()) -> Answer:
    return [stream_head(*headers), *map(chunk, events), LAST_CHUNK]


def read_reply(dialect: str, got: Got) -> Reply:
    """The client's reply as values, by the client's own dialect; a stream must be legal."""
    assert got.status == 200, got.body
    reader = dialect_named(dialect).stream_reader(UpstreamContext(issuer=dialect))
    if got.headers["content-type"].startswith("text/event-stream"):
        assert dialect_named(dialect).check_stream(got.body) == []
        return fold([*reader.feed(got.body), *reader.close()])
    return fold([*reader.feed_frames(dialect_named(dialect).explode(got.json())), *reader.close()])


def check_looking(answer: Reply) -> None:
    """The reply is the text and the call that the toy server gives."""
    text, call = answer.blocks
    assert isinstance(text, Text)
    assert text.text == "Let me look."
    assert isinstance(call, ToolCall)
    assert (call.name, msgspec.json.decode(call.arguments)) == ("ls", {"path": "src"})
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (12, 3)


async def ask(config: Config, body: Json | bytes, path: str = "/toy/chat", **headers: str) -> Got:
    async with running(config) as gateway:
        return await gateway.ask("POST", path, body, {n.replace("_", "-"): v for n, v in headers.items()})


async def receive(connection: Connected, mark: bytes, going_on: asyncio.Event) -> Got:
    """A stream whose upstream waits until the client has received the mark."""
    status, headers = await connection.head()
    body = b""
    while piece := await connection.chunk():
        body += piece
        if mark in body:
            going_on.set()
    return Got(status, headers, body)


# 1. It is served


def test_a_toy_client_gets_the_stream_of_another_api() -> None:
    async def scenario() -> None:
        async with ByteServer(stream_of(*CHAT_STREAM)) as upstream:
            got = await ask(config_for(upstream.url), {**HELLO, "stream": True})
        assert got.body == b"".join(
            map(
                data,
                (
                    {"begin": {"id": "toy_upstream1", "model": "any"}},
                    {"text": "good"},
                    {"text": " day"},
                    {"end": "done", "usage": {"in": 12, "out": 3}},
                ),
            )
        )
        assert DIALECT.check_stream(got.body) == []
        assert got.headers["x-toy-request"].startswith("req_")
        sent = msgspec.json.decode(upstream.received[0].body)
        assert sent["messages"] == [{"role": "user", "content": "say hello"}]
        assert sent["tools"][0]["function"]["name"] == "ls"

    run(scenario)


def test_a_toy_client_gets_the_whole_reply_of_another_api() -> None:
    async def scenario() -> None:
        async with ByteServer([reply(CHAT_WHOLE)]) as upstream:
            got = await ask(config_for(upstream.url), HELLO)
        assert got.json() == {
            "id": "toy_upstream1",
            "model": "any",
            "parts": [{"text": "good day"}],
            "end": "done",
            "usage": {"in": 12, "out": 3},
        }

    run(scenario)


@pytest.mark.parametrize("streams", [False, True])
def test_a_toy_client_gets_tool_calls_and_returns_their_results(streams: bool) -> None:
    async def scenario() -> None:
        history = [
            *({"by": "system", "text": "be brief"}, {"by": "user", "text": "look"}),
            {"by": "model", "call": {"id": "c0", "tool": "ls", "input": "{}"}},
            {"by": "tool", "of": "c0", "text": "src"},
        ]
        async with ByteServer(stream_of(*CHAT_CALL_STREAM)) as upstream:
            got = await ask(config_for(upstream.url), {**HELLO, "stream": streams, "lines": history})
        (call,) = read_reply("toy", got).blocks
        assert call == ToolCall(id="c1", name="ls", arguments=ARGUMENTS)
        sent = msgspec.json.decode(upstream.received[0].body)["messages"]
        assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
        assert (sent[2]["tool_calls"][0]["id"], sent[3]["tool_call_id"]) == ("c0", "c0")

    run(scenario)


def test_a_toy_client_gets_errors_in_its_form() -> None:
    async def scenario() -> None:
        refusal = b'{"error":{"message":"slow down","type":"rate_limit_error"}}'
        answer = [reply(refusal, "429 Too Many Requests", "retry-after: 7")]
        async with ByteServer(answer) as upstream, running(config_for(upstream.url)) as gateway:
            limited = await gateway.ask("POST", "/toy/chat", HELLO)
            invalid = await gateway.ask("POST", "/toy/chat", {"model": "any", "lines": [{"by": "me"}]})
            missing = await gateway.ask("GET", "/toy/nothing")
        assert (limited.status, limited.headers["retry-after"]) == (429, "7")
        place = f"up/any at {upstream.url}; wait, or add another target to the route"
        assert limited.json() == {"failed": {"kind": "rate_limit", "message": f"slow down ({place})"}}
        assert invalid.status == 400
        assert "lines[0].by" in str(invalid.json()["failed"])
        assert missing.status == 404
        assert "/toy/chat" in str(missing.json()["failed"])
        assert missing.headers["x-toy-request"].startswith("req_")

    run(scenario)


def test_a_toy_client_lists_models_and_counts_tokens() -> None:
    async def scenario() -> None:
        config = msgspec.structs.replace(
            config_for(), routes=(Route(match="small", targets=(TargetName("up", "m"),)),)
        )
        async with running(config) as gateway:
            models = await gateway.ask("GET", "/toy/models")
            model = await gateway.ask("GET", "/toy/models/small")
            count = await gateway.ask("POST", "/toy/count", HELLO)
        assert {"model": "small", "served_by": "up"} in msgspec.json.decode(models.body)["models"]
        assert model.json() == {"model": "small", "served_by": "up"}
        (tokens,) = count.json().values()
        assert isinstance(tokens, int)
        assert tokens > 100

    run(scenario)


def test_a_toy_client_sends_its_key_in_its_own_header() -> None:
    async def scenario() -> None:
        config = config_for(server=ServerSettings(port=0, keys=(Secret("sk-mine"),)))
        assert (await ask(config, HELLO)).json()["failed"]
        assert (await ask(config, HELLO, x_toy_key="sk-mine")).status == 200

    run(scenario)


@pytest.mark.parametrize("streams", [False, True])
def test_a_toy_client_uses_the_embedded_model(streams: bool) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            body = {**HELLO, "stream": streams}
            hello = read_reply("toy", await gateway.ask("POST", "/toy/chat", body))
            calling = {"lines": [{"by": "user", "text": f"call ls {ARGUMENTS}"}]}
            called = read_reply("toy", await gateway.ask("POST", "/toy/chat", {**body, **calling}))
            failing = {"lines": [{"by": "user", "text": "fail with 429"}]}
            failed = await gateway.ask("POST", "/toy/chat", {**body, **failing})
        assert isinstance(hello.blocks[0], Text)
        assert "hello" in hello.blocks[0].text
        (call,) = [block for block in called.blocks if isinstance(block, ToolCall)]
        assert (call.name, msgspec.json.decode(call.arguments)) == ("ls", {"path": "src"})
        assert (failed.status, list(failed.json())) == (429, ["failed"])

    run(scenario)


def test_the_configuration_accepts_the_name_of_a_registered_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'default = "up/*"\n[providers.up]\ndialect = "toy"\nbase_url = "http://127.0.0.1:9"\n'
    assert load(text, "dragoman.toml", {}).providers["up"].wire_dialect == "toy"
    monkeypatch.delitem(DIALECTS, "toy")
    with pytest.raises(ConfigError, match=r'"gemini".* or "claude_code", got "toy"'):
        load(text, "dragoman.toml", {})
    monkeypatch.undo()


# 2. It is used as an upstream


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("client", list(TURNS))
def test_clients_of_every_api_get_replies_of_a_toy_server(client: str, streams: bool) -> None:
    async def scenario() -> None:
        answer = stream_of(*TOY_EVENTS) if streams else [reply(TOY_WHOLE)]
        path, body = TURNS[client][streams]
        async with ByteServer(answer) as upstream:
            got = await ask(config_for(upstream.url, "toy"), body, path)
        check_looking(read_reply(client, got))
        received = upstream.received[0]
        assert received.line == "POST /toy/chat HTTP/1.1"
        assert received.headers["x-toy-key"] == "sk-upstream-key"
        sent = msgspec.json.decode(received.body)
        assert sent["lines"] == [{"by": "user", "text": "hi"}]
        assert (sent["model"], sent.get("stream", False)) == ("any", streams)
        assert [tool["tool"] for tool in sent["tools"]] == ["ls"]

    run(scenario)


def test_a_toy_server_that_ignores_the_wish_for_a_stream_gives_one_all_the_same() -> None:
    async def scenario() -> None:
        path, body = TURNS["anthropic"][True]
        async with ByteServer([reply(TOY_WHOLE, "200 OK", "content-type: application/json")]) as upstream:
            got = await ask(config_for(upstream.url, "toy"), body, path)
        assert got.headers["content-type"].startswith("text/event-stream")
        check_looking(read_reply("anthropic", got))

    run(scenario)


@pytest.mark.parametrize("client", list(TURNS))
def test_clients_of_every_api_get_the_errors_of_a_toy_server(client: str) -> None:
    async def scenario() -> None:
        refusal = b'{"failed":{"kind":"context_overflow","message":"too much text"}}'
        path, body = TURNS[client][0]
        async with ByteServer([reply(refusal, "400 Bad Request")]) as upstream:
            got = await ask(config_for(upstream.url, "toy"), body, path)
        assert got.status == 400
        assert b"too much text" in got.body
        assert dialect_named(client).read_error(400, {}, got.body).kind == "context_overflow"

    run(scenario)


# 3. Toy to toy


def test_a_toy_stream_is_forwarded_byte_for_byte() -> None:
    async def scenario() -> None:
        body = b'{ "lines": [{"by": "user", "text": "hi"}], "model": "real", "stream": true, "own": 1 }'
        answer = TOY_STREAM.replace(b'"text":', b'"text":  ')
        async with ByteServer(stream_of(answer[:30], answer[30:])) as upstream:
            got = await ask(config_for(upstream.url, "toy"), body)
        assert upstream.received[0].body == body
        assert got.body == answer

    run(scenario)


def test_a_whole_toy_reply_is_forwarded_byte_for_byte() -> None:
    async def scenario() -> None:
        body = b'{ "lines": [{"by": "user", "text": "hi"}], "model": "real" }'
        async with ByteServer([reply(TOY_WHOLE.replace(b":", b" : "))]) as upstream:
            got = await ask(config_for(upstream.url, "toy"), body)
        assert upstream.received[0].body == body
        assert got.body == TOY_WHOLE.replace(b":", b" : ")

    run(scenario)


@pytest.mark.parametrize("streams", [False, True])
def test_an_alias_changes_the_models_name_and_nothing_else(streams: bool) -> None:
    async def scenario() -> None:
        line = b'{"by" : "user", "text" : "hi", "own" : 1}'
        body = b'{"model":"alias","lines":[%b],"stream":%b}' % (line, b"true" if streams else b"false")
        answer = stream_of(*TOY_EVENTS) if streams else [reply(TOY_WHOLE)]
        async with ByteServer(answer) as upstream:
            route = Route(match="alias", targets=(TargetName("up", "real"),))
            config = msgspec.structs.replace(config_for(upstream.url, "toy"), routes=(route,))
            got = await ask(config, body)
        assert upstream.received[0].body == body.replace(b"alias", b"real")
        assert got.body == (TOY_STREAM if streams else TOY_WHOLE).replace(b'"real"', b'"alias"')

    run(scenario)


# 4. Endings, pings, limits


@pytest.mark.parametrize("upstream_dialect", ["openai_chat", "toy"])
def test_a_broken_stream_ends_as_a_legal_failed_toy_stream(upstream_dialect: str) -> None:
    async def scenario() -> None:
        begun = TOY_EVENTS[:3] if upstream_dialect == "toy" else (CHAT_START, chat_text("good"))
        answer: Answer = [stream_head(), *map(chunk, begun), chunk(b'data: {"te'), Close()]
        async with ByteServer(answer) as upstream:
            got = await ask(config_for(upstream.url, upstream_dialect), {**HELLO, "stream": True})
        answered = read_reply("toy", got)
        assert isinstance(answered.ending, ReplyFailed)
        assert got.body.count(b'data: {"failed":') == 1
        assert isinstance(answered.blocks[0], Text)

    run(scenario)


@pytest.mark.parametrize("client", ["toy", *TURNS])
def test_a_failure_that_a_toy_server_reports_reaches_clients_of_every_api(client: str) -> None:
    async def scenario() -> None:
        failed = data({"failed": {"kind": "overloaded", "message": "too many guests"}})
        path, body = TURNS[client][True] if client in TURNS else ("/toy/chat", {**HELLO, "stream": True})
        # Gemini CLI is a client that reads errors in streams, so its stream is not broken off.
        headers = {"user-agent": "GeminiCLI"}
        going_on = asyncio.Event()
        answer = [*stream_of(*TOY_EVENTS[:3])[:-1], Pause(going_on), chunk(failed), LAST_CHUNK]
        async with ByteServer(answer) as upstream:
            config = config_for(upstream.url, "toy")
            async with running(config) as gateway, gateway.connected() as connection:
                await connection.send("POST", path, body, headers)
                got = await receive(connection, b"look.", going_on)
        if client == "toy":
            assert got.body == b"".join((*TOY_EVENTS[:3], failed))
        ending = read_reply(client, got).ending
        assert isinstance(ending, ReplyFailed)
        assert "too many guests" in ending.failure.message

    run(scenario)


@pytest.mark.parametrize("upstream_dialect", ["openai_chat", "toy"])
def test_pings_have_the_form_of_the_toy_api(upstream_dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "INTERVAL", 0.01)

    async def scenario() -> None:
        events = TOY_EVENTS if upstream_dialect == "toy" else CHAT_STREAM
        going_on = asyncio.Event()
        begun, rest = stream_of(*events[:3])[:-1], stream_of(*events[3:])[1:]
        async with ByteServer([*begun, Pause(going_on), *rest]) as upstream:
            server = ServerSettings(port=0, ping=0.02)
            config = config_for(upstream.url, upstream_dialect, server=server)
            async with running(config) as gateway, gateway.connected() as connection:
                await connection.send("POST", "/toy/chat", {**HELLO, "stream": True})
                got = await receive(connection, b'data: {"ping":true}\n\n', going_on)
        assert read_reply("toy", got).usage is not None

    run(scenario)


@pytest.mark.parametrize(
    ("source", "sent", "received"),
    [
        ("toy", "x-toy-remaining-tokens: 9", ("x-toy-remaining-tokens", "9")),
        ("openai_chat", "x-ratelimit-limit-requests: 60", ("x-toy-limit-requests", "60")),
        ("openai_chat", "x-ratelimit-reset-tokens: 1m30s", ("x-toy-reset-tokens", "90s")),
    ],
)
def test_a_toy_client_sees_the_rate_limits_of_its_upstream(
    source: str, sent: str, received: tuple[str, str]
) -> None:
    async def scenario() -> None:
        events = TOY_EVENTS if source == "toy" else CHAT_STREAM
        async with ByteServer(stream_of(*events, headers=(sent, "x-toy-account: 4711"))) as upstream:
            got = await ask(config_for(upstream.url, source), {**HELLO, "stream": True})
        assert got.headers[received[0]] == received[1]
        assert "x-toy-account" not in got.headers

    run(scenario)


def test_other_clients_see_the_rate_limits_of_a_toy_server() -> None:
    async def scenario() -> None:
        path, body = TURNS["anthropic"][False]
        async with ByteServer([reply(TOY_WHOLE, "200 OK", "x-toy-remaining-requests: 5")]) as upstream:
            got = await ask(config_for(upstream.url, "toy"), body, path)
        assert got.headers["anthropic-ratelimit-requests-remaining"] == "5"

    run(scenario)


# 5. Everything else that handles requests and replies


def test_the_library_translates_from_and_to_the_toy_api() -> None:
    request = translate_request(HELLO, source="toy", target="anthropic")
    assert isinstance(request.body["messages"], list)
    back = translate_request(request.body, source="anthropic", target="toy")
    assert back.body["lines"] == HELLO["lines"]
    answer = translate_reply(TOY_WHOLE, source="toy", target="openai_chat")
    again = translate_reply(answer.body, source="openai_chat", target="toy").body
    assert (again["parts"], again["end"]) == (msgspec.json.decode(TOY_WHOLE)["parts"], "calls")
    translator = StreamTranslator(source="toy", target="gemini")
    stream = b"".join((*(translator.feed(event) for event in TOY_EVENTS), translator.close()))
    assert dialect_named("gemini").check_stream(stream) == []
    status, _, body = translate_error(429, {}, b'{"error": "slow"}', source="gemini", target="toy")
    assert (status, body) == (429, {"failed": {"kind": "rate_limit", "message": "slow"}})


@pytest.mark.parametrize("client", ["toy", "anthropic"])
def test_the_replies_of_a_toy_server_are_governed(client: str) -> None:
    async def scenario() -> None:
        text = '<tool_call>{"name": "ls", "arguments": {"path": "src"}}</tool_call>'
        end = data({"end": "done", "usage": {"in": 12, "out": 3}})
        path, body = TURNS[client][True] if client in TURNS else ("/toy/chat", {**HELLO, "stream": True})
        async with ByteServer(stream_of(TOY_EVENTS[0], data({"text": text}), end)) as upstream:
            config = config_for(upstream.url, "toy")
            governance = read_governance({"harvest": "auto"})
            provider = msgspec.structs.replace(config.providers["up"], governance=governance)
            got = await ask(msgspec.structs.replace(config, providers={"up": provider}), body, path)
        (call,) = read_reply(client, got).blocks
        assert isinstance(call, ToolCall)
        assert msgspec.json.decode(call.arguments) == {"path": "src"}

    run(scenario)


def test_the_doctor_examines_a_model_of_a_toy_server() -> None:
    async def scenario() -> None:
        answer = [reply(TOY_WHOLE, "200 OK", "content-type: application/json")]
        async with ByteServer(answer) as upstream:
            config = config_for(upstream.url, "toy")
            found = await examine(config, TargetName("up", "real"), probes=PROBES[:2])
        assert upstream.received[0].line == "POST /toy/chat HTTP/1.1"
        states = {finding.name: finding.state for finding in found.findings}
        assert states == {"answers": "works", "streaming": "helped"}

    run(scenario)
