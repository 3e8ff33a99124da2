"""The admin API: its checks and its responses."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from dragoman.config.settings import Secret, ServerSettings
from dragoman.server.admin import ENDPOINTS
from dragoman.server.status import SECTIONS
from tests.exchange.sample_replies import CHAT_STREAM, CHAT_WHOLE
from tests.server.running import ADMIN_TOKEN, OPERATOR, Running, config_for, running
from tests.upstream.byte_server import LAST_CHUNK, Action, ByteServer, Pause, chunk, reply, run, stream_head

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
HELLO: dict[str, object] = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}


async def status(gateway: Running) -> dict[str, Any]:
    got = await gateway.ask("GET", "/admin/status", headers=OPERATOR)
    assert got.status == 200
    assert got.headers["cache-control"] == "no-store"
    return got.json()


@pytest.mark.parametrize("path", [row.path for row in ENDPOINTS] + ["/admin/nothing", "/admin/"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {ADMIN_TOKEN}"},
        {"authorization": f"Bearer {ADMIN_TOKEN}x"},
        {"x-api-key": ADMIN_TOKEN},
        {"x-api-key": "client-key"},
        {"authorization": "Bearer client-key"},
    ],
)
def test_every_admin_endpoint_needs_the_admin_token(path: str, headers: dict[str, str]) -> None:
    async def scenario() -> None:
        config = config_for(server=ServerSettings(port=0, keys=(Secret("client-key"),)))
        async with running(config) as gateway:
            for method in ("GET", "POST", "DELETE"):
                got = await gateway.ask(method, path, headers=headers)
                assert got.status == 401
                assert ADMIN_TOKEN.encode() not in got.body

    run(scenario)


def test_the_admin_token_is_no_client_key() -> None:
    async def scenario() -> None:
        config = config_for(server=ServerSettings(port=0, keys=(Secret("client-key"),)))
        async with running(config) as gateway:
            assert (await gateway.ask("POST", "/v1/messages", HELLO, OPERATOR)).status == 401

    run(scenario)


def test_a_page_in_a_browser_cannot_use_the_admin_api() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            for headers in ({"origin": "https://evil.example"}, {"host": "evil.example"}):
                got = await gateway.ask("GET", "/admin/status", headers={**OPERATOR, **headers})
                assert got.status == 403

    run(scenario)


def test_the_admin_api_can_be_turned_off() -> None:
    async def scenario() -> None:
        async with running(config_for(server=ServerSettings(port=0, admin="off"))) as gateway:
            assert (await gateway.ask("GET", "/admin/status", headers=OPERATOR)).status == 403
        async with running(config_for()) as gateway:
            gateway.app.admin_token = None
            assert (await gateway.ask("GET", "/admin/status", headers=OPERATOR)).status == 403

    run(scenario)


@pytest.mark.parametrize(("wanted", "peer", "expected"), [
    ("local", "192.0.2.7", 403),
    ("local", "", 403),
    ("local", "127.0.0.1", 200),
    ("local", "::1", 200),
    ("local", "::ffff:127.0.0.1", 200),
    ("local", "::ffff:192.0.2.7", 403),
    ("remote", "192.0.2.7", 200),
    ("off", "127.0.0.1", 403),
])  # fmt: skip
def test_who_calls_from_another_machine_must_be_let_in(
    wanted: Literal["local", "remote", "off"], peer: str, expected: int
) -> None:
    sent: list[int] = []

    async def send(message: object) -> None:
        if isinstance(message, dict) and "status" in message:
            sent.append(message["status"])

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def scenario() -> None:
        config = config_for(server=ServerSettings(port=0, admin=wanted))
        async with running(config) as gateway:
            headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {ADMIN_TOKEN}".encode())]
            scope = {
                "type": "http",
                "method": "GET",
                "path": "/admin",
                "query_string": b"",
                "headers": headers,
                "client": (peer, 1) if peer else None,
            }
            await gateway.app(scope, receive, send)
        assert sent == [expected]

    run(scenario)


def test_the_list_of_endpoints_is_complete_and_documented() -> None:
    page = PAGE.read_text("utf-8")

    async def scenario() -> None:
        async with running(config_for()) as gateway:
            got = await gateway.ask("GET", "/admin", headers=OPERATOR)
            listed = msgspec.json.decode(got.body)["endpoints"]
        assert [(row["method"], row["path"]) for row in listed] == [(r.method, r.path) for r in ENDPOINTS]
        rows = [f"| `{row.method} {row.path}` | {row.about} |" for row in ENDPOINTS]
        assert [row for row in rows if row not in page.splitlines()] == []

    run(scenario)


def test_every_section_of_the_status_is_documented() -> None:
    rows = [line.split("`")[1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert [name for name in SECTIONS if name not in rows] == []


def test_unknown_endpoints_and_methods_are_refused() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            for method, path, expected in (
                ("GET", "/admin/nothing", 404),
                ("GET", "/admin/status/more", 404),
                ("POST", "/admin/status", 405),
                ("GET", "/admin/status/", 200),
                ("GET", "/administrator", 404),
            ):
                assert (await gateway.ask(method, path, headers=OPERATOR)).status == expected

    run(scenario)


def test_a_reload_without_a_configuration_to_read_is_refused() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            got = await gateway.ask("POST", "/admin/reload", headers=OPERATOR)
            assert got.status == 400
            assert b"without a configuration" in got.body

    run(scenario)


def test_the_admin_token_is_in_no_log_and_no_answer(log: list[str]) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            bodies = [
                (await gateway.ask(method, f"{path}?token={ADMIN_TOKEN}", b"x", headers=OPERATOR)).body
                for method in ("GET", "POST", "DELETE")
                for path in ("/admin", "/admin/status", "/admin/reload", "/admin/nothing", "/metrics")
            ]
            assert ADMIN_TOKEN.encode() not in b"".join(bodies)
        assert log
        assert ADMIN_TOKEN not in "".join(log)
        assert ADMIN_TOKEN not in repr(gateway.app.admin_token)

    run(scenario)


def test_the_status_shows_open_streams_one_by_one() -> None:
    async def scenario() -> None:
        going_on = asyncio.Event()
        script: list[Action] = [
            stream_head(),
            chunk(CHAT_STREAM[0] + CHAT_STREAM[1]),
            Pause(going_on),
            LAST_CHUNK,
        ]
        async with (
            ByteServer(script) as upstream,
            running(config_for(upstream.url)) as gateway,
            gateway.connected() as connection,
        ):
            before = (await status(gateway))["exchanges"]
            assert (before["open"], before["streams"], before["oldest"]) == (0, 0, [])
            agent = {"user-agent": "agent/1"}
            await connection.send("POST", "/v1/chat/completions", {**HELLO, "stream": True}, agent)
            await connection.head()
            during = (await status(gateway))["exchanges"]
            assert (during["open"], during["streams"]) == (1, 1)
            shown = during["oldest"][0]
            assert (shown["model"], shown["target"], shown["agent"]) == ("any", "up/any", "agent/1")
            assert shown["seconds"] >= shown["first_token"]
            going_on.set()

    run(scenario)


def test_the_status_shows_which_target_cools_down_and_why() -> None:
    async def scenario() -> None:
        busy = reply(b'{"error": {"message": "busy"}}', "503 Service Unavailable")
        async with ByteServer([busy]) as upstream, running(config_for(upstream.url)) as gateway:
            assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == 503
            (cooling,) = (await status(gateway))["targets"]
            assert (cooling["target"], cooling["health"]) == ("up/any", "cooling")
            assert cooling["tries"] == cooling["failed"] > 0
            (cooldown,) = cooling["cooldowns"]
            assert (cooldown["key"], cooldown["reason"], cooldown["failures"]) == (1, "overloaded 503", 1)
            assert 0 < cooldown["seconds"] <= 5

    run(scenario)


@pytest.mark.rule("M16")
def test_the_status_counts_calls_and_failures_of_targets() -> None:
    async def scenario() -> None:
        whole = reply(CHAT_WHOLE, "200 OK", "content-type: application/json")
        missing = reply(b'{"error": {"message": "no"}}', "404 Not Found")
        ready = asyncio.Event()
        answers: tuple[list[Action], list[Action]] = ([Pause(ready), whole], [missing])
        async with ByteServer(*answers) as upstream, running(config_for(upstream.url)) as gateway:

            async def let_time_pass() -> None:
                """The clock of the event loop has steps of a millisecond: the model takes longer."""
                while not upstream.received:
                    await asyncio.sleep(0)
                await asyncio.sleep(0.01)
                ready.set()

            waiting = asyncio.create_task(let_time_pass())
            for _ in range(2):
                await gateway.ask("POST", "/v1/chat/completions", HELLO)
            await waiting
            (target,) = (await status(gateway))["targets"]
            assert (target["target"], target["tries"], target["failed"]) == ("up/any", 2, 1)
            assert target["first_token"] > 0
            # There is no cooldown for a missing model, but the last call failed.
            assert (target["health"], target["last_failure"]) == ("failing", "not_found 404")

    run(scenario)


def test_the_status_identifies_the_gateway() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            about = await status(gateway)
            assert about["gateway"]["state"] == "serving"
            assert (about["config"]["reloads"], about["config"]["error"]) == (0, "")

    run(scenario)
