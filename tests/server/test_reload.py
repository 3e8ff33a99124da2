"""Reloads: open streams continue, new requests use the new configuration, an invalid file changes nothing."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.load import load_file
from dragoman.config.model_facts import learned_path
from dragoman.config.settings import Secret, ServerSettings
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ConfigError
from dragoman.server.reload import WATCH_INTERVAL, ConfigReloader
from dragoman.telemetry.log import LOGGER, LogFormatter
from tests.exchange.sample_replies import CHAT_STREAM, CHAT_WHOLE
from tests.server.running import OPERATOR, Connected, Running, config_for, running
from tests.upstream.byte_server import (
    LAST_CHUNK,
    Action,
    ByteServer,
    Pause,
    chunk,
    eventually,
    reply,
    run,
    stream_head,
)

HELLO: dict[str, object] = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}
STREAM = {**HELLO, "stream": True, "stream_options": {"include_usage": True}}
WHOLE = reply(CHAT_WHOLE, "200 OK", "content-type: application/json")


class File:
    """A configuration file that a test writes and the gateway reads."""

    def __init__(self, folder: Path, text: str) -> None:
        self.path = folder / "dragoman.toml"
        self.write(text)

    def write(self, text: str) -> None:
        """As editors do: beside it, then into its place."""
        beside = self.path.with_suffix(".new")
        beside.write_text(text, "utf-8")
        os.replace(beside, self.path)

    def read(self) -> Config:
        return load_file(str(self.path), {})


def toml(url: str, *, port: int = 0, more: str = "", retries: int = 0) -> str:
    return (
        f'default = "up"\n[server]\nport = {port}\n{more}\n[providers.up]\ndialect = "openai_chat"\n'
        f'base_url = "{url}"\napi_key = "sk-upstream-key"\nretries = {retries}\n'
    )


async def reload(gateway: Running) -> dict[str, Any]:
    got = await gateway.ask("POST", "/admin/reload", headers=OPERATOR)
    return {"status": got.status, **got.json()}


async def status(gateway: Running) -> dict[str, Any]:
    return (await gateway.ask("GET", "/admin/status", headers=OPERATOR)).json()


def held(going_on: asyncio.Event) -> list[Action]:
    """A stream that stops in the middle until the test lets it go on."""
    return [
        stream_head(),
        chunk(CHAT_STREAM[0] + CHAT_STREAM[1]),
        Pause(going_on),
        *(chunk(piece) for piece in CHAT_STREAM[2:]),
        LAST_CHUNK,
    ]


@pytest.mark.parametrize("change", ["another address", "the provider is gone", "nothing"])
def test_a_reload_during_a_hundred_open_streams_drops_none(tmp_path: Path, change: str) -> None:
    async def scenario() -> None:
        going_on = asyncio.Event()
        async with ByteServer(held(going_on)) as old, ByteServer([WHOLE]) as new:
            file = File(tmp_path, toml(old.url))
            async with running(file.read(), file.read) as gateway:
                opened: list[Connected] = []
                async with asyncio.TaskGroup() as group:
                    for _ in range(100):
                        group.create_task(stream(gateway, opened, going_on))
                    await eventually(lambda: len(opened) == 100)
                    if change == "another address":
                        file.write(toml(new.url))
                    elif change == "the provider is gone":
                        file.write(toml(new.url).replace("up", "else"))
                    assert (await reload(gateway))["status"] == 200
                    if change != "nothing":
                        assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == 200
                        assert len(new.received) == 1
                    assert (await status(gateway))["exchanges"]["open"] == 100
                    assert old.open == 100
                    going_on.set()
                if change != "nothing":
                    await eventually(lambda: old.open == 0)

    async def stream(gateway: Running, opened: list[Connected], going_on: asyncio.Event) -> None:
        async with gateway.connected() as connection:
            await connection.send("POST", "/v1/chat/completions", STREAM)
            assert (await connection.head())[0] == 200
            body = await connection.chunk()
            opened.append(connection)
            while piece := await connection.chunk():
                body += piece
            assert going_on.is_set()
            assert body == b"".join(CHAT_STREAM)

    run(scenario)


def test_a_provider_that_stays_the_same_keeps_its_connection_and_its_health(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = reply(b'{"error": {"message": "busy"}}', "503 Service Unavailable")
        async with ByteServer([WHOLE], [busy], [WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            async with running(file.read(), file.read) as gateway:
                for expected in (200, 503):
                    assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == expected
                file.write(toml(upstream.url, more="ping = 3"))
                assert (await reload(gateway))["changed"] == {"server": ["ping"]}
                cooling = [target["health"] for target in (await status(gateway))["targets"]]
                assert "cooling" in cooling
                assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == 200
                assert upstream.accepted == 1

    run(scenario)


def test_a_provider_that_changed_begins_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        busy = reply(b'{"error": {"message": "busy"}}', "503 Service Unavailable")
        async with ByteServer([busy], [WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            async with running(file.read(), file.read) as gateway:
                assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == 503
                file.write(toml(upstream.url).replace("sk-upstream-key", "sk-another-key"))
                assert (await reload(gateway))["changed"] == {"providers": ["up"]}
                assert {target["health"] for target in (await status(gateway))["targets"]} == {"unused"}
                assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == 200
                assert upstream.received[1].headers["authorization"] == "Bearer sk-another-key"
                assert upstream.accepted == 2

    run(scenario)


def test_a_bad_file_is_refused_and_the_old_configuration_stays(tmp_path: Path, log: list[str]) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            async with running(file.read(), file.read) as gateway:
                file.write(toml(upstream.url).replace("dialect", "dialekt"))
                refused = await reload(gateway)
                assert refused["status"] == 400
                assert "line 6: providers.up.dialekt: unknown key" in str(refused["error"])
                assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == 200
                shown = (await status(gateway))["config"]
                assert "did you mean" in shown["error"]
                assert (shown["reloads"], shown["refused"]) == (0, 1)
                assert shown["failed_at"] >= shown["loaded_at"]
                file.write(toml(upstream.url))
                assert (await reload(gateway))["changed"] == {}
                shown = (await status(gateway))["config"]
                assert (shown["error"], shown["failed_at"], shown["reloads"]) == ("", 0.0, 1)

    run(scenario)
    (refusal,) = [line for line in log if " reload refused " in line]
    assert "line 6: providers.up.dialekt: unknown key" in refusal
    assert "sk-upstream-key" not in "".join(log)


def test_a_reload_is_logged_with_what_changed_but_no_value(tmp_path: Path, log: list[str]) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            async with running(file.read(), file.read) as gateway:
                changed = toml(upstream.url, port=1, more='keys = ["client-key-1"]\nping = 4', retries=1)
                file.write(changed.replace("sk-upstream-key", "sk-another-key"))
                await reload(gateway)

    run(scenario)
    (line,) = [line for line in log if " reloaded " in line]
    assert 'changed="server (keys, ping), providers (up)" needs_restart=server.port' in line
    assert "client-key-1" not in line
    assert "sk-another-key" not in line


def test_changes_that_need_a_restart_are_reported_and_all_others_apply(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            async with running(file.read(), file.read) as gateway:
                more = 'host = "localhost"\nstate = "elsewhere"\nkeys = ["client-key"]'
                file.write(toml(upstream.url, port=1, more=more))
                report = await reload(gateway)
                assert report["needs_restart"] == ["server.host", "server.port", "server.state"]
                assert report["changed"] == {"server": ["keys"]}
                assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == 401
                with_key = {"x-api-key": "client-key"}
                assert (await gateway.ask("POST", "/v1/chat/completions", HELLO, with_key)).status == 200
                assert (await status(gateway))["config"]["needs_restart"] == report["needs_restart"]

    run(scenario)


def test_the_form_of_the_log_and_who_may_come_in_change_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = File(tmp_path, toml("http://127.0.0.1:9"))
        async with running(file.read(), file.read) as gateway:
            file.write(toml("http://127.0.0.1:9", more='log = "json"\nadmin = "off"'))
            assert (await reload(gateway))["changed"] == {"server": ["log", "admin"]}
            assert msgspec.json.decode(LogFormatter("json").format(logged()))["message"] == "hello"
            form = LOGGER.handlers[0].formatter
            assert isinstance(form, LogFormatter)
            assert form.format(logged()).startswith("{")
            assert (await gateway.ask("GET", "/admin/status", headers=OPERATOR)).status == 403

    before = LOGGER.handlers, LOGGER.level, LOGGER.propagate
    try:
        run(scenario)
    finally:
        LOGGER.handlers, LOGGER.level, LOGGER.propagate = before


def logged() -> logging.LogRecord:
    return logging.LogRecord("dragoman", logging.INFO, "", 0, "hello", None, None)


def test_a_collector_for_traces_needs_a_new_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = File(tmp_path, toml("http://127.0.0.1:9"))
        async with running(file.read(), file.read) as gateway:
            file.write(toml("http://127.0.0.1:9") + '[telemetry]\ntraces = "http://127.0.0.1:4318"\n')
            for _ in range(2):
                assert (await reload(gateway))["needs_restart"] == ["telemetry.traces"]
            file.write(toml("http://127.0.0.1:9"))
            assert (await reload(gateway))["needs_restart"] == []

    run(scenario)


def test_a_gateway_that_strangers_can_reach_cannot_lose_its_keys() -> None:
    async def scenario() -> None:
        server = ServerSettings(port=0, keys=(Secret("client-key"),))
        config = config_for(server=server)
        async with running(config, lambda: config_for(server=ServerSettings(port=0))) as gateway:
            exposed = msgspec.structs.replace(server, host="192.0.2.1")
            gateway.app.gateway.reload(msgspec.structs.replace(config, server=exposed))
            with pytest.raises(ConfigError, match="there is no client key"):
                await gateway.app.reloader.reload("a test")
            assert gateway.app.gateway.config.server.keys

    run(scenario)


@pytest.fixture
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are looked at ten times as often."""
    monkeypatch.setattr("dragoman.server.reload.WATCH_INTERVAL", WATCH_INTERVAL / 10)


@pytest.mark.usefixtures("short_interval")
def test_a_reload_by_hand_is_not_done_again_because_the_file_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            read, calls = counting(file.read)
            async with running(file.read(), read) as gateway:
                file.write(toml(upstream.url, retries=3))
                await gateway.app.reloader.reload("a test")
                file.write(toml(upstream.url, retries=4))
                await eventually(lambda: gateway.app.gateway.config.providers["up"].retries == 4)
                assert len(calls) == 2

    run(scenario)


@pytest.mark.usefixtures("short_interval")
def test_a_gateway_without_a_file_loads_one_on_request_and_watches_it_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            async with running(config_for(), file.read) as gateway:
                report = await reload(gateway)
                assert report["config"] == str(file.path)
                assert (await gateway.ask("POST", "/v1/chat/completions", HELLO)).status == 200
                assert len(upstream.received) == 1
                file.write(toml(upstream.url, retries=7))
                await eventually(lambda: gateway.app.gateway.config.providers["up"].retries == 7)

    run(scenario)


@pytest.mark.usefixtures("short_interval")
def test_facts_that_were_learned_are_taken_over_as_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = File(tmp_path, toml("http://127.0.0.1:9"))
        async with running(file.read(), file.read) as gateway:
            text = '[providers.up.models."m"]\nmax_output_tokens = 77\n'
            learned_path(str(file.path)).write_text(text, "utf-8")
            await eventually(lambda: gateway.app.reloader.count == 1)
            assert gateway.app.gateway.config.providers["up"].build_profile("m").facts.max_output_tokens == 77

    run(scenario)


@pytest.mark.usefixtures("short_interval")
def test_a_changed_function_of_a_rule_is_imported_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        rule = '[[rules]]\nfunction = "mine.py:choose"\ntimeout = 30\n'
        (tmp_path / "mine.py").write_text("def choose(request): return None\n")
        file = File(tmp_path, toml("http://127.0.0.1:9") + rule)
        async with running(file.read(), file.read) as gateway:
            functions = gateway.app.gateway.snapshot.functions
            (tmp_path / "mine.py").write_text("def choose(request): return 'up/other'\n")
            await eventually(lambda: gateway.app.reloader.count == 1)
            assert gateway.app.gateway.snapshot.functions is not functions

    run(scenario)


@pytest.mark.usefixtures("short_interval")
def test_a_step_that_cannot_be_built_refuses_the_file(tmp_path: Path) -> None:
    """The files are watched further, so that a corrected one is noticed."""

    async def scenario() -> None:
        file = File(tmp_path, toml("http://127.0.0.1:9"))
        async with running(file.read(), file.read) as gateway:
            settings = "[steps.force_reasoning]\nsettings = { instruction = 5 }\n"
            file.write(toml("http://127.0.0.1:9") + "steps = ['force_reasoning']\n" + settings)
            await eventually(lambda: gateway.app.reloader.refused == 1)
            assert "steps.force_reasoning" in gateway.app.reloader.error
            file.write(toml("http://127.0.0.1:9", retries=3))
            await eventually(lambda: gateway.app.gateway.config.providers["up"].retries == 3)

    run(scenario)


def counting(read: Callable[[], Config]) -> tuple[Callable[[], Config], list[str]]:
    calls: list[str] = []

    def counted() -> Config:
        calls.append("read")
        return read()

    return counted, calls


@pytest.mark.parametrize("how", ["in place", "renamed into place"])
@pytest.mark.usefixtures("short_interval")
def test_a_change_of_the_file_is_noticed(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            read, calls = counting(file.read)
            async with running(file.read(), read) as gateway:
                reloader = gateway.app.reloader
                text = toml(upstream.url, retries=3)
                if how == "in place":
                    file.path.write_text(text, "utf-8")
                else:
                    file.write(text)
                await eventually(lambda: reloader.count == 1)
                assert gateway.app.gateway.config.providers["up"].retries == 3
                file.write("broken")
                await eventually(lambda: reloader.refused == 1)
                file.path.unlink()
                file.write(toml(upstream.url))
                await eventually(lambda: reloader.count == 2)
                assert len(calls) == 3

    run(scenario)


@pytest.mark.usefixtures("short_interval")
def test_a_change_of_the_file_while_the_gateway_starts_is_noticed(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = File(tmp_path, toml("http://127.0.0.1:9"))
        gateway = Gateway(file.read())
        reloader = ConfigReloader(gateway, file.read)
        file.write(toml("http://127.0.0.1:9", retries=3))
        reloader.start()
        await eventually(lambda: gateway.config.providers["up"].retries == 3)
        reloader.stop()
        await gateway.close()

    run(scenario)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no such signal")
def test_a_signal_reloads(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream:
            file = File(tmp_path, toml(upstream.url))
            async with running(file.read(), file.read) as gateway:
                file.write(toml(upstream.url, retries=5))
                os.kill(os.getpid(), signal.SIGHUP)
                await eventually(lambda: gateway.app.reloader.count == 1)
                file.write("broken")
                os.kill(os.getpid(), signal.SIGHUP)
                await eventually(lambda: gateway.app.reloader.refused == 1)
                assert gateway.app.gateway.config.providers["up"].retries == 5

    run(scenario)


def test_a_terminal_that_closes_ends_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        from dragoman.server import run as running_module

        monkeypatch.setattr(running_module, "has_terminal", lambda: True)
        async with running(config_for()) as gateway:
            monkeypatch.setattr(running_module, "has_terminal", lambda: False)
            os.kill(os.getpid(), signal.SIGHUP)
            await eventually(lambda: gateway.is_stopping)

    run(scenario)
