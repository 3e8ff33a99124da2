"""The Responses API over real WebSockets: its checks, its memory and its errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dragoman.accounts.keys import ANONYMOUS, Caller
from dragoman.config.settings import Secret, ServerSettings
from dragoman.pipeline.plan import RequestMetadata
from dragoman.responses.websocket import MAX_WAITING, SocketSession
from dragoman.server.connection import SocketConnection
from dragoman.server.responses_api import MAX_SOCKETS
from tests.exchange.sample_replies import CHAT_STREAM, CHAT_WHOLE
from tests.responses.looped import looped
from tests.server.running import Running, config_for, running
from tests.upstream.byte_server import (
    LAST_CHUNK,
    Action,
    ByteServer,
    Pause,
    chunk,
    eventually,
    reply,
    stream_head,
)

Json = dict[str, object]
HELLO: Json = {"type": "response.create", "model": "any", "input": "say hello", "store": False}
STREAM = (stream_head(), *map(chunk, CHAT_STREAM), LAST_CHUNK)


@asynccontextmanager
async def opened(
    gateway: Running, path: str = "/v1/responses", **headers: str
) -> AsyncIterator[ClientConnection]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"ws://127.0.0.1:{gateway.port}{path}"
    async with connect(url, additional_headers=named, max_size=2**24, proxy=None) as socket:
        yield socket


async def receive_events(socket: ClientConnection) -> list[Json]:
    """Every event up to the last one of a response."""
    events: list[Json] = []
    while True:
        event = msgspec.json.decode(await socket.recv())
        events.append(event)
        if event["type"] in ("response.completed", "response.incomplete", "response.failed"):
            return events
        if event["type"] == "error" and "status" in event:
            return events


async def ask(socket: ClientConnection, **fields: object) -> Json:
    """Ask, and give the response of the last event, or the error."""
    await socket.send(msgspec.json.encode({**HELLO, **fields}).decode())
    last = (await receive_events(socket))[-1]
    answer = last.get("response", last)
    assert isinstance(answer, dict)
    return answer


def text_of(response: Json) -> str:
    output = response["output"]
    assert isinstance(output, list)
    return str(output[-1]["content"][0]["text"])


def error_of(event: Json) -> Json:
    error = event["error"]
    assert isinstance(error, dict)
    return error


@pytest.mark.rule("H81")
@looped
async def test_events_come_as_texts_in_their_order() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        await socket.send(msgspec.json.encode(HELLO).decode())
        events = await receive_events(socket)
        assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        last = events[-1]["response"]
        assert isinstance(last, dict)
        assert (last["store"], text_of(last)) == (False, "hello")


@pytest.mark.rule("H62", "H81")
@looped
async def test_a_connection_keeps_its_last_response_in_memory() -> None:
    async with ByteServer(STREAM) as upstream, running(config_for(upstream.url)) as gateway:
        async with opened(gateway) as socket:
            first = await ask(socket, input="one")
            second = await ask(socket, input="two", previous_response_id=first["id"])
            await ask(socket, input="three", previous_response_id=second["id"])
            messages = msgspec.json.decode(upstream.received[-1].body)["messages"]
            assert [each["content"] for each in messages] == ["one", "good day", "two", "good day", "three"]
            got = await gateway.ask("GET", f"/v1/responses/{second['id']}")
            assert got.status == 404
        async with opened(gateway) as another:
            error = await ask(another, previous_response_id=second["id"])
            assert error_of(error)["code"] == "previous_response_not_found"


@looped
async def test_only_the_last_response_is_remembered_but_every_stored_one_is_found() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        stored = await ask(socket, store=True)
        unstored = await ask(socket, previous_response_id=stored["id"])
        await ask(socket)
        assert error_of(await ask(socket, previous_response_id=unstored["id"]))["code"] == (
            "previous_response_not_found"
        )
        again = await ask(socket, previous_response_id=stored["id"], store=True)
        listed = (await gateway.ask("GET", f"/v1/responses/{again['id']}/input_items")).json()["data"]
        assert isinstance(listed, list)
        assert len(listed) == 3


@looped
async def test_a_warm_up_calls_no_upstream_and_can_be_continued() -> None:
    async with (
        ByteServer(STREAM) as upstream,
        running(config_for(upstream.url)) as gateway,
        opened(gateway) as socket,
    ):
        developer = [{"role": "developer", "content": "be brief"}]
        warm = await ask(socket, input=developer, generate=False)
        assert (warm["status"], warm["output"]) == ("completed", [])
        assert upstream.received == []
        await ask(socket, input="go", previous_response_id=warm["id"])
        messages = msgspec.json.decode(upstream.received[-1].body)["messages"]
        assert [each["content"] for each in messages] == ["be brief", "go"]


@looped
async def test_a_failed_turn_cannot_be_continued() -> None:
    refusal = [reply(b'{"error": {"message": "no"}}', "400 Bad Request")]
    async with (
        ByteServer(STREAM, refusal, STREAM) as upstream,
        running(config_for(upstream.url)) as gateway,
        opened(gateway) as socket,
    ):
        first = await ask(socket)
        error = await ask(socket, previous_response_id=first["id"])
        assert (error["type"], error["status"]) == ("error", 400)
        error = await ask(socket, previous_response_id=first["id"])
        assert error_of(error)["code"] == "previous_response_not_found"
        assert (await ask(socket))["status"] == "completed"


@pytest.mark.rule("S13")
@looped
async def test_a_message_with_too_many_values_is_refused_and_the_connection_stays() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        error = await ask(socket, input=[[]] * 600_000)
        assert (error["type"], error["status"]) == ("error", 413)
        assert (await ask(socket))["status"] == "completed"


@pytest.mark.rule("F21")
@looped
async def test_an_output_of_an_unknown_call_is_refused_and_the_response_is_forgotten() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        first = await ask(socket)
        given = [{"type": "function_call_output", "call_id": "call_x", "output": "a"}]
        error = await ask(socket, input=given, previous_response_id=first["id"])
        assert (error["type"], error["status"]) == ("error", 400)
        assert error_of(error)["param"] == "input[0].call_id"
        error = await ask(socket, previous_response_id=first["id"])
        assert error_of(error)["code"] == "previous_response_not_found"
        assert (await ask(socket))["status"] == "completed"


@pytest.mark.rule("F21")
@looped
async def test_a_refused_request_that_continues_nothing_keeps_the_last_response() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        first = await ask(socket)
        error = await ask(socket, input=7)
        assert (error["type"], error["status"]) == ("error", 400)
        assert (await ask(socket, previous_response_id=first["id"]))["status"] == "completed"


@looped
async def test_an_error_brings_the_headers_that_clients_act_on() -> None:
    refusal = [reply(b'{"error": {"message": "no"}}', "429 Too Many Requests", "retry-after: 2")]
    async with (
        ByteServer(refusal) as upstream,
        running(config_for(upstream.url)) as gateway,
        opened(gateway) as socket,
    ):
        error = await ask(socket)
        assert error["status"] == 429
        headers = error["headers"]
        assert isinstance(headers, dict)
        assert headers["retry-after"] == "2"


@looped
async def test_events_contain_the_stream_id_of_their_request() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        for name in ("left", "right"):
            await socket.send(msgspec.json.encode({**HELLO, "stream_id": name}).decode())
        for name in ("left", "right"):
            assert {event["stream_id"] for event in await receive_events(socket)} == {name}


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("no JSON", None),
        ("[]", None),
        ('"text"', None),
        ("{}", "type"),
        ('{"type": "response.steer"}', "type"),
        ('{"type": 7}', "type"),
        (b'\x00\xff{"type": "response.create"}', None),
        ("[" * 5000, None),
        ('{"type": "response.create", "input": 7}', "input"),
        ('{"type": "response.create", "previous_response_id": []}', "previous_response_id"),
        ('{"type": "response.create", "store": "no", "input": "x"}', "store"),
        ('{"type": "response.create", "model": "any", "input": ["compaction_trigger"]}', "input[0]"),
        ('{"type": "response.create", "model": "any", "input": [{"type": 1}]}', "input[0].type"),
        ('{"type": "response.create", "generate": false, "input": [{"type": 1}]}', "input[0].type"),
        ('{"type": "response.create", "generate": false, "input": [[]]}', "input[0]"),
    ],
)
@looped
async def test_a_message_that_cannot_be_read_is_refused_and_the_next_one_answered(
    message: str | bytes, param: str | None
) -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        await socket.send(message)
        event = msgspec.json.decode(await socket.recv())
        assert (event["type"], event["status"]) == ("error", 400)
        assert event["error"]["param"] == param
        assert (await ask(socket))["status"] == "completed"


@looped
async def test_a_message_larger_than_a_body_may_be_ends_the_connection() -> None:
    server = ServerSettings(port=0, max_body_mb=1)
    async with running(config_for(server=server)) as gateway, opened(gateway) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await ask(socket, input="x" * (1024 * 1024 + 1))
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


@looped
async def test_a_message_that_is_not_utf8_is_refused() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        await socket.send(b"\xff\xfe{", text=True)
        assert msgspec.json.decode(await socket.recv())["status"] == 400
        assert (await ask(socket))["status"] == "completed"


@pytest.mark.parametrize("frame", [b"\xff\xff\xff\xff", b"\x83\x80\x00\x00\x00\x00", b"\x81\x05hello"])
@looped
async def test_an_invalid_frame_ends_only_its_connection(frame: bytes) -> None:
    async with running(config_for()) as gateway:
        async with gateway.connected() as client:
            upgrade = {
                "connection": "Upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
            }
            await client.send("GET", "/v1/responses", headers=upgrade)
            assert (await client.head())[0] == 101
            client.writer.write(frame)
            closing = await client.reader.read()
            assert closing[:1] == b"\x88"
        async with opened(gateway) as socket:
            assert (await ask(socket))["status"] == "completed"


@pytest.mark.rule("H81")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer right", "origin": "https://evil.example"}, 403),
        ({"authorization": "Bearer right", "host": "evil.example"}, 403),
    ],
)
@looped
async def test_a_websocket_passes_the_same_checks_as_a_request(headers: dict[str, str], status: int) -> None:
    server = ServerSettings(port=0, keys=(Secret("right"),))
    async with running(config_for(server=server)) as gateway:
        async with gateway.connected() as client:
            upgrade = {
                "connection": "Upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
            }
            await client.send("GET", "/v1/responses", headers={**upgrade, **headers})
            got = await client.got()
            assert got.status == status
            assert isinstance(got.json()["error"], dict)
        async with opened(gateway, authorization="Bearer right") as socket:
            assert (await ask(socket))["status"] == "completed"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/messages", 426), ("/v1/models", 200), ("/nowhere", 404), ("/v1/responses/x", 404)],
)
@looped
async def test_other_paths_open_no_websocket(path: str, status: int) -> None:
    async with running(config_for()) as gateway:
        with pytest.raises(InvalidStatus) as refused:
            async with opened(gateway, path):
                pass
        assert refused.value.response.status_code == status


@looped
async def test_a_head_too_long_for_a_websocket_is_refused_with_426() -> None:
    async with running(config_for()) as gateway:
        with pytest.raises(InvalidStatus) as refused:
            async with opened(gateway, x_long="x" * 9000):
                pass
        assert refused.value.response.status_code == 426


@looped
async def test_a_gateway_that_closes_opens_no_socket_and_answers_none() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        gateway.app.exchanges.is_closing = True
        error = await ask(socket)
        assert error["status"] == 503
        with pytest.raises(InvalidStatus) as refused:
            async with opened(gateway):
                pass
        assert refused.value.response.status_code == 503


@pytest.mark.rule("R126")
@looped
async def test_a_client_that_leaves_ends_the_upstreams_answer() -> None:
    never = asyncio.Event()
    answer: list[Action] = [stream_head(), *map(chunk, CHAT_STREAM[:2]), Pause(never)]
    async with ByteServer(answer) as upstream, running(config_for(upstream.url)) as gateway:
        async with opened(gateway) as socket:
            await socket.send(msgspec.json.encode(HELLO).decode())
            while b"good" not in msgspec.json.encode(msgspec.json.decode(await socket.recv())):
                pass
        await asyncio.wait_for(upstream.hung_up.wait(), 5)
        await eventually(lambda: not gateway.app.responses.sessions)


@pytest.mark.rule("S2")
@pytest.mark.parametrize("waiting", [1, MAX_WAITING, MAX_WAITING + 1, 40])
@looped
async def test_a_client_that_leaves_with_messages_waiting_frees_its_place(waiting: int) -> None:
    never = asyncio.Event()
    async with ByteServer([Pause(never)]) as upstream, running(config_for(upstream.url)) as gateway:
        async with opened(gateway) as socket:
            await socket.send(msgspec.json.encode(HELLO).decode())
            await eventually(lambda: len(upstream.received) == 1)
            for _ in range(waiting):
                await socket.send(msgspec.json.encode(HELLO).decode())
            socket.transport.abort()
        await asyncio.wait_for(upstream.hung_up.wait(), 5)
        await eventually(lambda: not gateway.app.responses.sessions)
        assert len(upstream.received) == 1


@pytest.mark.rule("S2")
@looped
async def test_a_client_that_sends_too_many_messages_ahead_is_refused() -> None:
    never = asyncio.Event()
    async with ByteServer([Pause(never)]) as upstream, running(config_for(upstream.url)) as gateway:
        async with opened(gateway) as socket:
            await socket.send(msgspec.json.encode(HELLO).decode())
            await eventually(lambda: len(upstream.received) == 1)
            for _ in range(MAX_WAITING + 1):
                await socket.send(msgspec.json.encode(HELLO).decode())
            assert error_of((await receive_events(socket))[-1])["code"] == "too_many_messages"
            with pytest.raises(ConnectionClosed):
                await socket.recv()
        await eventually(lambda: not gateway.app.responses.sessions)


@pytest.mark.rule("S2")
@looped
async def test_messages_that_may_wait_are_answered_in_turn() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        for _ in range(MAX_WAITING):
            await socket.send(msgspec.json.encode(HELLO).decode())
        for _ in range(MAX_WAITING):
            assert (await receive_events(socket))[-1]["type"] == "response.completed"


@pytest.mark.rule("S5")
@looped
async def test_pings_of_a_client_that_does_not_read_are_not_answered() -> None:
    async with running(config_for()) as gateway, opened(gateway) as socket:
        assert (await ask(socket))["status"] == "completed"
        (connection,) = gateway.connections
        assert isinstance(connection, SocketConnection)
        # What the transport does when its buffer is full.
        connection.pause_writing()
        pongs = [asyncio.ensure_future(await socket.ping()) for _ in range(100)]
        await socket.send(msgspec.json.encode(HELLO).decode())
        (session,) = gateway.app.responses.sessions
        await eventually(lambda: session.requests == 2)
        connection.resume_writing()
        assert (await receive_events(socket))[-1]["type"] == "response.completed"
        assert not any(pong.done() for pong in pongs)
        await (await socket.ping())


@looped
async def test_a_draining_gateway_ends_the_reply_truthfully() -> None:
    never = asyncio.Event()
    answer: list[Action] = [stream_head(), *map(chunk, CHAT_STREAM[:2]), Pause(never)]
    async with (
        ByteServer(answer) as upstream,
        running(config_for(upstream.url)) as gateway,
        opened(gateway) as socket,
    ):
        await socket.send(msgspec.json.encode(HELLO).decode())
        while "delta" not in msgspec.json.decode(await socket.recv()):
            pass
        await gateway.app.drain(0)
        assert (await receive_events(socket))[-1]["type"] == "response.failed"


async def anyone() -> Caller:
    return ANONYMOUS


class ListedSocket:
    """Receives the given messages, then waits; `is_open` until it is closed."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)
        self.sent: list[Json] = []
        self.is_open = True

    async def receive(self) -> bytes | None:
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop(0)

    async def send(self, text: bytes) -> None:
        self.sent.append(msgspec.json.decode(text))

    async def close(self) -> None:
        self.is_open = False


@pytest.mark.parametrize(
    ("idle", "lifetime", "code"),
    [(0.01, 3600.0, ""), (5.0, 0.0, "websocket_connection_limit_reached")],
    ids=["silent", "old"],
)
@looped
async def test_a_silent_or_old_connection_is_closed(idle: float, lifetime: float, code: str) -> None:
    async with running(config_for()) as gateway:
        app = gateway.app
        socket = ListedSocket(*([msgspec.json.encode(HELLO)] if code else []))
        session = SocketSession(
            app.gateway,
            app.responses.service,
            socket,
            RequestMetadata(dialect="openai_responses"),
            anyone,
            app.exchanges.run,
            lambda: False,
            idle=idle,
            lifetime=lifetime,
        )
        await session.run()
        assert not socket.is_open
        assert [error_of(event)["code"] for event in socket.sent] == ([code] if code else [])


@looped
async def test_a_conversation_longer_than_a_body_may_be_is_refused() -> None:
    server = ServerSettings(port=0, max_body_mb=1)
    async with running(config_for(server=server)) as gateway, opened(gateway) as socket:
        first = await ask(socket, input=[{"role": "user", "content": "x" * 700_000}], generate=False)
        error = await ask(socket, input="y" * 400_000, previous_response_id=first["id"])
        assert error["status"] == 413


@looped
async def test_a_websocket_beyond_the_limit_is_refused_with_426() -> None:
    async with running(config_for()) as gateway, AsyncExitStack() as stack:
        for _ in range(MAX_SOCKETS):
            await stack.enter_async_context(opened(gateway))
        with pytest.raises(InvalidStatus) as refused:
            async with opened(gateway):
                pass
        assert refused.value.response.status_code == 426


@looped
async def test_a_revoked_key_is_refused_over_an_open_connection() -> None:
    server = ServerSettings(port=0, keys=(Secret("right"),))
    async with (
        running(config_for(server=server)) as running_gateway,
        opened(running_gateway, authorization="Bearer right") as socket,
    ):
        assert (await ask(socket))["status"] == "completed"
        gateway = running_gateway.app.gateway
        revoked = msgspec.structs.replace(server, keys=(Secret("another"),))
        gateway.reload(msgspec.structs.replace(gateway.config, server=revoked))
        assert (await ask(socket))["status"] == 401


@looped
async def test_many_connections_are_all_answered() -> None:
    async with ByteServer([reply(CHAT_WHOLE)]) as upstream, running(config_for()) as gateway:
        assert upstream.received == []

        async def one(number: int) -> str:
            async with opened(gateway) as socket:
                for turn in range(3):
                    response = await ask(socket, input=f"say {number}-{turn}")
                return text_of(response)

        answers = await asyncio.gather(*(one(number) for number in range(20)))
        assert answers == [f"{number}-2" for number in range(20)]
