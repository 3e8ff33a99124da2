"""`/metrics` over HTTP: its checks and live values; every metric changes and is documented."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec
import pytest

from dragoman import __version__
from dragoman.accounts import keys as client_keys
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.store import Charges, add_charge, charge
from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import Secret, ServerSettings, TelemetrySettings
from dragoman.exchange.gateway import Gateway
from dragoman.governance.interventions import Intervention
from dragoman.hub.errors import ConfigError
from dragoman.server.app import App
from dragoman.server.metrics import LIVE_METRICS, write_metrics
from dragoman.server.status import build_status
from dragoman.storage.database import StorageError
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from dragoman.storage.sqlite import SqliteStorage
from dragoman.telemetry.instruments import MetricInfo
from dragoman.telemetry.metrics import Metrics
from tests.exchange.fakes import Script, ScriptedUpstream, ask, record_of
from tests.exchange.sample_replies import CHAT_STREAM
from tests.postgres import find_free_port
from tests.server.running import ADMIN_TOKEN, OPERATOR, Running, config_for, running
from tests.telemetry.scrape import Scrape
from tests.upstream.byte_server import LAST_CHUNK, Action, ByteServer, Pause, chunk, reply, run, stream_head

DOCUMENTATION = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text("utf-8")
HELLO: dict[str, object] = {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
STREAM: list[Action] = [stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK]
BUSY = reply(b'{"error": {"message": "busy"}}', "503 Service Unavailable")


def everything() -> list[MetricInfo]:
    counted = [instrument.info for instrument in Metrics(Config).instruments]
    return [*counted, *(look.info for look in LIVE_METRICS)]


NAMES = [info.name for info in everything()]


async def scrape(gateway: Running) -> Scrape:
    got = await gateway.ask("GET", "/metrics", headers=OPERATOR)
    assert got.status == 200
    assert got.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(got.body.decode())


@pytest.mark.parametrize(
    ("telemetry", "headers", "status"),
    [
        (TelemetrySettings(), {}, 401),
        (TelemetrySettings(), {"authorization": "Bearer wrong"}, 401),
        (TelemetrySettings(), {"x-api-key": "client-key"}, 401),
        (TelemetrySettings(), OPERATOR, 200),
        (TelemetrySettings(metrics_key=Secret("scraper-key")), {"authorization": "Bearer scraper-key"}, 200),
        (TelemetrySettings(metrics_key=Secret("scraper-key")), OPERATOR, 200),
        (TelemetrySettings(metrics_key=Secret("scraper-key")), {"authorization": "Bearer scraper"}, 401),
        (TelemetrySettings(metrics="open"), {}, 200),
        (TelemetrySettings(metrics="open"), {"origin": "https://evil.example"}, 403),
        (TelemetrySettings(metrics="off"), OPERATOR, 404),
    ],
)
def test_metrics_are_for_those_who_may_read_them(
    telemetry: TelemetrySettings, headers: dict[str, str], status: int
) -> None:
    async def scenario() -> None:
        config = config_for(server=ServerSettings(port=0, keys=(Secret("client-key"),)))
        async with running(msgspec.structs.replace(config, telemetry=telemetry)) as gateway:
            got = await gateway.ask("GET", "/metrics", headers=headers)
            assert got.status == status
            assert ADMIN_TOKEN.encode() not in got.body

    run(scenario)


def test_the_key_of_a_scraper_opens_nothing_else() -> None:
    async def scenario() -> None:
        config = config_for(server=ServerSettings(port=0, keys=(Secret("client-key"),)))
        telemetry = TelemetrySettings(metrics_key=Secret("scraper-key"))
        async with running(msgspec.structs.replace(config, telemetry=telemetry)) as gateway:
            key = {"authorization": "Bearer scraper-key"}
            assert (await gateway.ask("GET", "/admin/status", headers=key)).status == 401
            assert (await gateway.ask("POST", "/v1/messages", HELLO, key)).status == 401

    run(scenario)


def test_metrics_are_read_and_not_written() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            assert (await gateway.ask("POST", "/metrics", headers=OPERATOR)).status == 405

    run(scenario)


@pytest.mark.parametrize("info", everything(), ids=lambda info: info.name)
def test_every_metric_is_explained_in_the_documentation(info: MetricInfo) -> None:
    labels = ", ".join(f"`{label}`" for label in info.labels)
    assert f"| `{info.name}` | {info.kind} | {labels} | {info.meaning} |" in DOCUMENTATION.splitlines()


def test_the_documentation_explains_no_metric_that_does_not_exist() -> None:
    rows = [line.split("`")[1] for line in DOCUMENTATION.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(NAMES)
    assert len(set(NAMES)) == len(NAMES)


class Keeper(ScriptedUpstream):
    """An upstream that keeps sessions."""

    def __init__(self) -> None:
        super().__init__(Script(pieces=CHAT_STREAM))
        self.counts = {"live": 0, "parked": 0, "spawned": 0, "evicted": 0}

    def count_sessions(self) -> dict[str, int]:
        return self.counts

    def list_sessions(self) -> list[dict[str, object]]:
        return []

    def describe_session(self, session: str) -> dict[str, object] | None:
        return None

    def end_session(self, session: str) -> bool:
        return False


async def talk(gateway: Running) -> None:
    got = await gateway.ask("POST", "/v1/messages", {**HELLO, "top_k": 3, "stream": True}, CLIENT)
    assert got.status == 200


async def fail(gateway: Running) -> None:
    assert (await gateway.ask("POST", "/v1/chat/completions", HELLO, CLIENT)).status == 503


async def stay_out(gateway: Running) -> None:
    assert (await gateway.ask("POST", "/v1/messages", HELLO)).status == 401


async def govern(gateway: Running) -> None:
    """The record of an exchange under governance."""
    record = record_of(ask("anthropic"))
    record.target = TargetName("up", "any")
    record.interventions.reporter(record.target, "openai_chat")(Intervention(kind="repair", held=0.5))
    gateway.app.metrics.count_exchange(record)


async def call_tools(gateway: Running) -> None:
    tools = [{"name": "Read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}]
    body = {**HELLO, "messages": [{"role": "user", "content": "use the Read tool"}], "tools": tools}
    got = await gateway.ask("POST", "/v1/messages", {**body, "tool_choice": {"type": "any"}}, CLIENT)
    assert b"tool_use" in got.body


async def report(gateway: Running) -> None:
    event = {
        "body": {"stringValue": "claude_code.tool_decision"},
        "attributes": [{"key": "decision", "value": {"stringValue": "accept"}}],
    }
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [event]}]}]}
    headers = {**CLIENT, "content-type": "application/json"}
    assert (await gateway.ask("POST", "/v1/logs", body, headers)).status == 200


async def reload(gateway: Running) -> None:
    await gateway.app.reloader.reload("a test")


async def reload_badly(gateway: Running) -> None:
    gateway.app.reloader._read = unreadable
    with suppress(ConfigError):
        await gateway.app.reloader.reload("a test")


def priced(config: Config) -> Config:
    prices = {"any": {"price_input": 1.0, "price_output": 2.0}}
    provider = msgspec.structs.replace(config.providers["up"], models=prices)
    return msgspec.structs.replace(config, providers={"up": provider})


def unreadable() -> Config:
    raise ConfigError("no")


CLIENT = {"x-api-key": "client-key"}
Deed = Callable[[Running], Awaitable[None]]

#: What makes each metric move that is not simply there.
MOVES: dict[str, tuple[list[list[Action]], Deed]] = {
    "dragoman_requests_total": ([STREAM], talk),
    "dragoman_request_seconds": ([STREAM], talk),
    "dragoman_first_token_seconds": ([STREAM], talk),
    "dragoman_tokens_total": ([STREAM], talk),
    "dragoman_attempts_total": ([STREAM], talk),
    "dragoman_losses_total": ([STREAM], talk),
    "dragoman_key_requests_total": ([STREAM], talk),
    "dragoman_key_tokens_total": ([STREAM], talk),
    "dragoman_errors_total": ([[BUSY]], fail),
    "dragoman_retries_total": ([[BUSY]], fail),
    "dragoman_cooldowns_total": ([[BUSY]], fail),
    "dragoman_cooling": ([[BUSY]], fail),
    "dragoman_refusals_total": ([STREAM], stay_out),
    "dragoman_cost_dollars_total": ([STREAM], talk),
    "dragoman_key_cost_dollars_total": ([STREAM], talk),
    "dragoman_agent_requests_total": ([STREAM], talk),
    "dragoman_agent_tokens_total": ([STREAM], talk),
    "dragoman_agent_cost_dollars_total": ([STREAM], talk),
    "dragoman_tool_interventions_total": ([STREAM], govern),
    "dragoman_tool_held_seconds_total": ([STREAM], govern),
    "dragoman_tool_calls_total": ([], call_tools),
    "dragoman_agent_activity_total": ([], report),
    "dragoman_reloads_total": ([STREAM], reload),
    "dragoman_config_ok": ([STREAM], reload_badly),
}
#: Those that have tests of their own below.
LOOKED_AT = {
    "dragoman_open_exchanges",
    "dragoman_open_streams",
    "dragoman_sessions",
    "dragoman_session_events_total",
    "dragoman_key_limit_used_ratio",
    "dragoman_state_ok",
    "dragoman_info",
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
}


def test_every_metric_has_a_test_in_which_it_moves() -> None:
    assert {*MOVES, *LOOKED_AT} == set(NAMES)
    assert LOOKED_AT.isdisjoint(MOVES)


@pytest.mark.rule("R133")
@pytest.mark.parametrize("name", list(MOVES))
def test_a_metric_moves_when_something_happens(name: str) -> None:
    answers, deed = MOVES[name]

    async def scenario() -> None:
        async with ByteServer(*(answers or [STREAM])) as upstream:
            url = upstream.url if answers else ""
            config = priced(
                config_for(url, server=ServerSettings(port=0, keys=(Secret("client-key"),)), retries=1)
            )
            async with running(config, lambda: config) as gateway:
                before = (await scrape(gateway)).of(name)
                await deed(gateway)
                while len(gateway.app.exchanges):
                    # The client has its reply a moment before the exchange is counted.
                    await asyncio.sleep(0)
                assert (await scrape(gateway)).of(name) != before

    run(scenario)


@pytest.mark.rule("R133")
def test_open_exchanges_and_streams_are_counted_while_they_last() -> None:
    async def scenario() -> None:
        going_on = asyncio.Event()
        script: list[Action] = [*STREAM[:2], STREAM[2], Pause(going_on), *STREAM[3:]]
        async with ByteServer(script) as upstream, running(config_for(upstream.url)) as gateway:
            async with gateway.connected() as connection:
                await connection.send("POST", "/v1/chat/completions", {**HELLO, "stream": True})
                await connection.head()
                during = await scrape(gateway)
                going_on.set()
                while await connection.chunk():
                    pass
            after = await scrape(gateway)
        for name in ("dragoman_open_exchanges", "dragoman_open_streams"):
            assert (during.value(name), after.value(name)) == (1, 0)

    run(scenario)


@pytest.mark.rule("R133")
def test_a_database_that_does_not_answer_is_visible() -> None:
    async def scenario() -> None:
        url = f"postgresql://postgres@127.0.0.1:{find_free_port()}/postgres"
        storage = PostgresStorage(PostgresOptions(url=url, timeout=1.0))
        app = App(Gateway(Config(), storage=storage))
        before = Scrape(await write_metrics(app.state))
        with pytest.raises(StorageError):
            await storage.read(lambda transaction: transaction.fetch("SELECT 1"))
        after = Scrape(await write_metrics(app.state))
        assert (before.value("dragoman_state_ok"), after.value("dragoman_state_ok")) == (1, 0)

    run(scenario)


@pytest.mark.rule("R133")
def test_sessions_are_counted_by_state_and_by_what_happened_to_them() -> None:
    async def scenario() -> None:
        keeper = Keeper()
        config = Config(providers={"claude": Provider(name="claude", dialect="embedded")})
        app = App(Gateway(config, upstreams={"claude": keeper}))
        assert app.gateway.snapshot.handles["claude"].upstream is keeper
        before = Scrape(await write_metrics(app.state))
        keeper.counts = {"live": 3, "parked": 2, "spawned": 7, "evicted": 1}
        after = Scrape(await write_metrics(app.state))
        for seen, numbers in ((before, [0, 0, 0, 0]), (after, [3, 2, 7, 1])):
            assert [
                seen.value("dragoman_sessions", provider="claude", state="live"),
                seen.value("dragoman_sessions", provider="claude", state="parked"),
                seen.value("dragoman_session_events_total", provider="claude", event="spawned"),
                seen.value("dragoman_session_events_total", provider="claude", event="evicted"),
            ] == numbers
            assert seen.value("dragoman_session_events_total", event="live") == 0

    run(scenario)


def test_keys_near_their_limits_are_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        storage = SqliteStorage(tmp_path / "state.db")
        gateway = Gateway(Config(), storage=storage, clock=lambda: 1_800_000_000.0)
        app = App(gateway)
        assert "used_ratio{" not in await write_metrics(app.state)
        assert not (tmp_path / "state.db").exists()
        limits = Limits(tokens_per_day=100, cost_per_month=1000)
        made, _ = await storage.run(
            lambda db: client_keys.create_key(db, "ci", gateway.clock(), limits=limits)
        )
        await gateway.accounts.keys.refresh()
        assert (await build_status(app.state))["keys"] == []
        charges: Charges = {}
        add_charge(charges, made.caller.id, Amount(tokens=95, cost=1), gateway.clock())
        await storage.run(lambda db: charge(db, charges))
        seen = Scrape(await write_metrics(app.state))
        assert seen.value("dragoman_key_limit_used_ratio", key="ci", of="tokens", period="day") == 0.95
        assert len(seen.of("dragoman_key_limit_used_ratio")) == 1
        near = {"key": "ci", "of": "tokens", "period": "day", "limit": 100, "used": 95, "share": 0.95}
        assert (await build_status(app.state))["keys"] == [near]
        await storage.run(lambda db: client_keys.revoke_key(db, "ci", gateway.clock()))
        assert (await build_status(app.state))["keys"] == []
        await gateway.close()

    run(scenario)


def test_the_metrics_describe_the_process() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            before = await scrape(gateway)
            async with AsyncExitStack() as stack:
                for _ in range(50):
                    await stack.enter_async_context(gateway.connected())
                assert sum(range(3_000_000)) > 0
                after = await scrape(gateway)
            assert after.value("dragoman_info", version=__version__) == 1
            assert after.value("process_start_time_seconds") == gateway.app.state.started_at
            assert after.value("process_cpu_seconds_total") > before.value("process_cpu_seconds_total") > 0
            assert after.value("process_open_fds") > before.value("process_open_fds") > 0
            assert after.value("process_resident_memory_bytes") > 1_000_000

    run(scenario)
