"""Client keys over real sockets: valid and invalid keys, allowed models, and the errors."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.accounts import keys as client_keys
from dragoman.accounts.limits import Limits
from dragoman.config.config import Config, Route
from dragoman.config.provider import TargetName
from dragoman.config.settings import Secret, ServerSettings
from dragoman.telemetry.log import set_up_logging
from tests.exchange.sample_replies import CHAT_WHOLE
from tests.server.keyholder import KeyHolder
from tests.server.running import Running, config_for, running
from tests.server.test_app import HELLO, TURNS
from tests.upstream.byte_server import ByteServer, reply, run

CHAT = "/v1/chat/completions"
WHOLE = [reply(CHAT_WHOLE, "200 OK", "content-type: application/json")]

#: Where each client shows its key.
PLACES: dict[str, Callable[[str], dict[str, str]]] = {
    "x-api-key": lambda key: {"x-api-key": key},
    "x-goog-api-key": lambda key: {"x-goog-api-key": key},
    "bearer": lambda key: {"authorization": f"Bearer {key}"},
}


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state.db")


async def until(gateway: Running, status: int, key: str = "", path: str = CHAT) -> None:
    """Ask until the answer has this status; the patience is for busy machines."""
    headers = {"x-api-key": key} if key else {}
    async with asyncio.timeout(5.0):
        while (await gateway.ask("POST", path, HELLO, headers)).status != status:
            await asyncio.sleep(0.02)


def run_with_gateway(holder: KeyHolder, act: Callable[[Running], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            await act(gateway)

    run(scenario)


def test_requests_need_no_key_until_one_exists(holder: KeyHolder) -> None:
    async def act(gateway: Running) -> None:
        assert (await gateway.ask("POST", CHAT, HELLO)).status == 200

    run_with_gateway(holder, act)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("turn", TURNS)
def test_a_stored_key_opens_every_dialect(holder: KeyHolder, turn: str, place: str) -> None:
    key = holder.create()

    async def act(gateway: Running) -> None:
        path, body = TURNS[turn]
        refused = await gateway.ask("POST", path, body, PLACES[place]("dgm_wrong"))
        assert refused.status == 401
        assert b"does not know that client key" in refused.body
        assert (await gateway.ask("POST", path, body, PLACES[place](key))).status == 200

    run_with_gateway(holder, act)


def test_a_key_in_the_address_opens_too(holder: KeyHolder) -> None:
    key = holder.create()

    async def act(gateway: Running) -> None:
        assert (await gateway.ask("POST", f"{CHAT}?key={key}", HELLO)).status == 200
        assert (await gateway.ask("POST", CHAT, HELLO)).status == 401

    run_with_gateway(holder, act)


def test_a_running_gateway_notices_every_change(holder: KeyHolder) -> None:
    async def act(gateway: Running) -> None:
        await until(gateway, 200)
        key = holder.create()
        await until(gateway, 401)
        await until(gateway, 200, key)
        _, fresh = holder.do(lambda connection: client_keys.rotate_key(connection, "ci", time.time()))
        await until(gateway, 401, key)
        await until(gateway, 200, fresh)
        forbidden = holder.do(
            lambda connection: client_keys.change_key(
                connection, "ci", models=("other",), limits=Limits(), expires=0
            )
        )
        assert forbidden.caller.models == ("other",)
        await until(gateway, 403, fresh)
        holder.do(lambda connection: client_keys.revoke_key(connection, "ci", time.time()))
        await until(gateway, 401, fresh)

    run_with_gateway(holder, act)


def test_revoking_the_last_key_opens_no_door_and_deleting_it_does(holder: KeyHolder) -> None:
    key = holder.create()
    holder.do(lambda connection: client_keys.revoke_key(connection, "ci", time.time()))

    async def act(gateway: Running) -> None:
        assert (await gateway.ask("POST", CHAT, HELLO)).status == 401
        refused = await gateway.ask("POST", CHAT, HELLO, {"x-api-key": key})
        assert refused.status == 401
        assert b"the key 'ci' was revoked" in refused.body
        holder.do(lambda connection: client_keys.delete_key(connection, "ci"))
        await until(gateway, 200)

    run_with_gateway(holder, act)


def test_the_error_of_an_expired_key_has_the_date(holder: KeyHolder) -> None:
    key = holder.create(expires=86_400.0)

    async def act(gateway: Running) -> None:
        refused = await gateway.ask("POST", CHAT, HELLO, {"x-api-key": key})
        assert refused.status == 401
        assert b"expired on 1970-01-02 at 00:00 UTC" in refused.body

    run_with_gateway(holder, act)


def test_after_a_rotation_both_keys_count_for_the_time_that_was_given(holder: KeyHolder) -> None:
    old = holder.create()
    _, new = holder.do(lambda connection: client_keys.rotate_key(connection, "ci", time.time(), keep=600))
    gone = holder.create("other")
    holder.do(lambda connection: client_keys.rotate_key(connection, "other", time.time() - 60, keep=30))

    async def act(gateway: Running) -> None:
        for key in (old, new):
            assert (await gateway.ask("POST", CHAT, HELLO, {"x-api-key": key})).status == 200
        refused = await gateway.ask("POST", CHAT, HELLO, {"x-api-key": gone})
        assert refused.status == 401
        assert b"was replaced by a new one" in refused.body

    run_with_gateway(holder, act)


@pytest.mark.rule("R124")
def test_keys_of_the_configuration_work_beside_stored_ones(holder: KeyHolder) -> None:
    stored = holder.create()

    async def scenario() -> None:
        server = ServerSettings(port=0, keys=(Secret("static-key"),))
        async with running(config_for(server=server), state=holder.path) as gateway:
            for key, status in ((stored, 200), ("static-key", 200), ("other", 401)):
                assert (await gateway.ask("POST", CHAT, HELLO, {"x-api-key": key})).status == status
            await gateway.app.gateway.accounts.ledger.flush()
            assert {("ci",), ("config-1",)} == set(holder.usage("key"))

    run(scenario)


@pytest.mark.parametrize("turn", TURNS)
def test_a_model_that_a_key_may_not_use_is_refused_in_the_clients_dialect(
    holder: KeyHolder, turn: str
) -> None:
    key = holder.create(models=("claude-*", "up/*"))

    async def act(gateway: Running) -> None:
        path, body = TURNS[turn]
        got = await gateway.ask("POST", path, body, {"x-api-key": key})
        assert got.status == 403
        assert b"the key 'ci' may not use the model 'any'; it may use: claude-*, up/*" in got.body
        assert got.headers["x-should-retry"] == "false"

    run_with_gateway(holder, act)


def test_a_model_that_a_key_may_not_use_is_refused_before_it_waits_in_the_background(
    holder: KeyHolder,
) -> None:
    key = holder.create(models=("claude-*",))

    async def act(gateway: Running) -> None:
        body = {"model": "any", "input": "say hello", "background": True}
        got = await gateway.ask("POST", "/v1/responses", body, {"x-api-key": key})
        assert got.status == 403

    run_with_gateway(holder, act)


def test_a_key_sees_only_the_models_that_it_may_use(holder: KeyHolder) -> None:
    key = holder.create(models=("a*",))

    async def scenario() -> None:
        config = config_for()
        routes = [("apple", "up/one"), ("pear", "up/two")]
        config = Config(
            server=config.server,
            providers=config.providers,
            routes=tuple(
                Route(match=name, targets=(TargetName(*target.split("/")),)) for name, target in routes
            ),
        )
        async with running(config, state=holder.path) as gateway:
            shown = {"x-api-key": key}
            listed = await gateway.ask("GET", "/v1/models", None, shown)
            assert b'"apple"' in listed.body
            assert b'"pear"' not in listed.body
            assert (await gateway.ask("GET", "/v1/models/apple", None, shown)).status == 200
            assert (await gateway.ask("GET", "/v1/models/pear", None, shown)).status == 403

    run(scenario)


@pytest.mark.rule("C26", "R120")
@pytest.mark.parametrize("place", [*PLACES, "address"])
def test_a_key_reaches_neither_upstream_nor_log_nor_record_nor_file(
    holder: KeyHolder, place: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    key = holder.create()

    async def scenario() -> None:
        async with ByteServer(WHOLE) as upstream:
            async with running(config_for(upstream.url), state=holder.path) as gateway:
                set_up_logging("json")
                headers = PLACES[place](key) if place in PLACES else {}
                path = CHAT if place in PLACES else f"{CHAT}?key={key}"
                assert (await gateway.ask("POST", path, HELLO, headers)).status == 200
                assert (await gateway.ask("POST", path, b"{broken", headers)).status == 400
            assert upstream.received
            assert key not in repr(upstream.received)

    run(scenario)
    output = "".join(capfd.readouterr())
    assert '"key":"ci"' in output
    assert key not in output
    for file in tmp_path.iterdir():
        assert key.encode() not in file.read_bytes()


def test_a_gateway_for_strangers_may_rely_on_stored_keys_alone(holder: KeyHolder) -> None:
    key = holder.create()

    async def scenario() -> None:
        server = ServerSettings(host="127.0.0.1", port=0)
        async with running(config_for(server=server), state=holder.path) as gateway:
            # As if it listened for the world, where no name is strange and no one is trusted.
            gateway.app.gateway.reload(config_for(server=ServerSettings(host="192.0.2.1", port=0)))
            names = {"host": "gateway.example"}
            assert (await gateway.ask("POST", CHAT, HELLO, {**names, "x-api-key": key})).status == 200
            assert (await gateway.ask("POST", CHAT, HELLO, names)).status == 401
            holder.do(lambda connection: client_keys.delete_key(connection, "ci"))
            async with asyncio.timeout(5.0):
                while (await gateway.ask("POST", CHAT, HELLO, names)).status != 403:
                    await asyncio.sleep(0.02)
            assert (await gateway.ask("POST", CHAT, HELLO)).status == 401

    run(scenario)


def test_a_state_file_that_cannot_be_read_refuses_every_request(holder: KeyHolder) -> None:
    holder.create()
    holder.path.write_bytes(b"no database " * 1000)

    async def act(gateway: Running) -> None:
        got = await gateway.ask("POST", "/v1/messages", HELLO)
        assert got.status == 529
        assert str(holder.path).encode() not in got.body

    run_with_gateway(holder, act)
