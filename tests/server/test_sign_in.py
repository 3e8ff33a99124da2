"""The sign-in by device code over real sockets, as Claude Code's `/login` does it, and managed settings."""

import hashlib
import time
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import pytest

from dragoman.accounts.device_codes import MAX_ATTEMPTS
from dragoman.accounts.keys import delete_key, revoke_key, rotate_key
from dragoman.config.agents import SignInSettings
from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.settings import Secret, ServerSettings
from dragoman.hub.errors import ConfigError
from dragoman.server.managed_settings import compute_checksum
from dragoman.server.sign_in import DEVICE_GRANT
from tests.server.keyholder import KeyHolder
from tests.server.running import Got, Running, config_for, running
from tests.server.test_app import TURNS
from tests.upstream.byte_server import run

METADATA = "/.well-known/oauth-authorization-server"


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state.db")


async def post(gateway: Running, path: str, **fields: str) -> Got:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return await gateway.ask("POST", path, urlencode(fields).encode(), headers)


async def begin(gateway: Running) -> dict[str, object]:
    got = await post(gateway, "/oauth/device_authorization", surface="claude_code", unknown="field")
    assert got.status == 200
    return got.json()


async def poll(gateway: Running, code: dict[str, object]) -> Got:
    return await post(gateway, "/oauth/token", grant_type=DEVICE_GRANT, device_code=str(code["device_code"]))


async def sign_in(gateway: Running, key: str) -> dict[str, object]:
    code = await begin(gateway)
    got = await post(gateway, "/device", user_code=str(code["user_code"]), key=key, answer="approve")
    assert got.status == 200
    granted = await poll(gateway, code)
    assert granted.status == 200
    return granted.json()


async def turn(gateway: Running, token: object) -> Got:
    path, body = TURNS["anthropic"]
    return await gateway.ask("POST", path, body, {"authorization": f"Bearer {token}"})


def test_a_person_signs_an_agent_in_with_a_client_key(holder: KeyHolder) -> None:
    key = holder.create("ann")

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            base = f"http://127.0.0.1:{gateway.port}"
            metadata = (await gateway.ask("GET", METADATA)).json()
            assert metadata["issuer"] == base
            assert metadata["device_authorization_endpoint"] == f"{base}/oauth/device_authorization"
            code = await begin(gateway)
            assert str(code["verification_uri_complete"]) == f"{base}/device?user_code={code['user_code']}"
            page = await gateway.ask("GET", f"/device?user_code={code['user_code']}")
            assert str(code["user_code"]).encode() in page.body
            assert b'name="key"' in page.body
            assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
            waiting = await poll(gateway, code)
            assert (waiting.status, waiting.json()["error"]) == (400, "authorization_pending")
            wrong = await post(
                gateway, "/device", user_code=str(code["user_code"]), key="dgm_x", answer="approve"
            )
            assert wrong.status == 403
            await post(gateway, "/device", user_code=str(code["user_code"]), key=key, answer="approve")
            granted = await poll(gateway, code)
            tokens = granted.json()
            assert granted.headers["cache-control"] == "no-store"
            assert (tokens["token_type"], tokens["email"]) == ("Bearer", "ann")
            assert key not in granted.body.decode()
            assert (await turn(gateway, tokens["access_token"])).status == 200
            assert (await turn(gateway, tokens["refresh_token"])).status == 401
            again = await poll(gateway, code)
            assert again.json()["error"] == "expired_token"
        assert holder.usage("key")[("ann",)].requests == 1
        stored = holder.path.read_bytes()
        assert str(tokens["access_token"]).encode() not in stored

    run(scenario)


def test_a_sign_in_is_renewed_and_ended(holder: KeyHolder) -> None:
    key = holder.create()

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            tokens = await sign_in(gateway, key)
            refresh = str(tokens["refresh_token"])
            renewed = await post(gateway, "/oauth/token", grant_type="refresh_token", refresh_token=refresh)
            assert renewed.status == 200
            # Sessions in other terminals still have the first token.
            for token in (tokens["access_token"], renewed.json()["access_token"]):
                assert (await turn(gateway, token)).status == 200
            ended = await post(gateway, "/oauth/revoke", token=str(tokens["access_token"]))
            assert ended.status == 200
            for token in (tokens["access_token"], renewed.json()["access_token"]):
                refused = await turn(gateway, token)
                assert refused.status == 401
                assert refused.headers["x-should-retry"] == "false"
            late = await post(gateway, "/oauth/token", grant_type="refresh_token", refresh_token=refresh)
            assert (late.status, late.json()["error"]) == (401, "invalid_grant")
            assert (await turn(gateway, key)).status == 200
            assert (await post(gateway, "/oauth/revoke", token="unknown")).status == 200

    run(scenario)


@pytest.mark.parametrize("change", ["revoke", "rotate", "delete"])
def test_a_sign_in_ends_with_its_key(holder: KeyHolder, change: str) -> None:
    key = holder.create()
    holder.create("other")

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            tokens = await sign_in(gateway, key)
            assert (await turn(gateway, tokens["access_token"])).status == 200
            match change:
                case "revoke":
                    holder.do(lambda connection: revoke_key(connection, "ci", time.time()))
                case "rotate":
                    holder.do(lambda connection: rotate_key(connection, "ci", time.time(), keep=60.0))
                case _:
                    holder.do(lambda connection: delete_key(connection, "ci"))
            gateway.app.gateway.accounts.keys.expire()
            assert (await turn(gateway, tokens["access_token"])).status == 401
            refresh = str(tokens["refresh_token"])
            late = await post(gateway, "/oauth/token", grant_type="refresh_token", refresh_token=refresh)
            assert late.status == 401

    run(scenario)


def test_a_key_of_the_configuration_is_its_own_token() -> None:
    config = config_for(server=ServerSettings(port=0, keys=(Secret("configured-key"),)))

    async def scenario() -> None:
        async with running(config) as gateway:
            tokens = await sign_in(gateway, "configured-key")
            assert "refresh_token" not in tokens
            assert (await turn(gateway, tokens["access_token"])).status == 200

    run(scenario)


def test_a_gateway_without_keys_asks_for_none() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            assert b'name="key"' not in (await gateway.ask("GET", "/device")).body
            tokens = await sign_in(gateway, "")
            assert (await turn(gateway, tokens["access_token"])).status == 200

    run(scenario)


def test_a_person_refuses_a_sign_in() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            code = await begin(gateway)
            await post(gateway, "/device", user_code=str(code["user_code"]), answer="deny")
            assert (await poll(gateway, code)).json()["error"] == "access_denied"

    run(scenario)


def test_wrong_attempts_are_limited_and_shown_as_text(holder: KeyHolder) -> None:
    holder.create()

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            page = await gateway.ask("GET", "/device?user_code=%3Cscript%3E")
            assert b"<script>" not in page.body
            for _ in range(MAX_ATTEMPTS):
                assert (await post(gateway, "/device", user_code="BCDF-GHJK", key="x")).status == 400
            assert (await post(gateway, "/device", user_code="BCDF-GHJK", key="x")).status == 429

    run(scenario)


def test_other_machines_need_https() -> None:
    server = ServerSettings(port=0, hosts=("gateway.example.com",), keys=(Secret("k" * 20),))
    host = {"host": "gateway.example.com"}

    async def scenario() -> None:
        plain = config_for(server=server)
        async with running(plain) as gateway:
            assert (await gateway.ask("GET", METADATA, headers=host)).status == 404
            assert (await gateway.ask("GET", METADATA)).status == 200
        public = msgspec.structs.replace(plain, sign_in=SignInSettings(url="https://gateway.example.com"))
        async with running(public) as gateway:
            got = await gateway.ask("GET", METADATA, headers=host)
            assert got.json()["token_endpoint"] == "https://gateway.example.com/oauth/token"
        off = msgspec.structs.replace(plain, sign_in=SignInSettings(enabled=False))
        async with running(off) as gateway:
            assert (await gateway.ask("GET", METADATA)).status == 404

    run(scenario)


@pytest.mark.parametrize(
    ("headers", "base"),
    [
        ({}, "http://127.0.0.1"),
        ({"x-forwarded-proto": "http"}, "http://127.0.0.1"),
        ({"x-forwarded-proto": "https"}, "https://localhost:9443"),
        ({"forwarded": "for=192.0.2.1;Proto=https"}, "https://localhost:9443"),
        ({"host": "localhost:9443"}, "https://localhost:9443"),
    ],
)
def test_a_client_of_a_proxy_with_tls_gets_its_address(headers: dict[str, str], base: str) -> None:
    # nginx replaces the host by that of the gateway, unless it is configured otherwise.
    config = msgspec.structs.replace(config_for(), sign_in=SignInSettings(url="https://localhost:9443"))

    async def scenario() -> None:
        async with running(config) as gateway:
            issuer = str((await gateway.ask("GET", METADATA, headers=headers)).json()["issuer"])
            assert issuer.startswith(base)

    run(scenario)


@pytest.mark.parametrize("url", ["http://gateway.example.com", "gateway.example.com", "https://a/path"])
def test_a_public_address_that_is_not_https_is_a_mistake(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sign_in\.url"):
        load(f'[sign_in]\nurl = "{url}"\n', "dragoman.toml", {})


def managed(text: str) -> Config:
    config = load(text, "dragoman.toml", {})
    return msgspec.structs.replace(config_for(), managed_settings=config.managed_settings)


def test_managed_settings_are_sent_once_and_then_known() -> None:
    config = managed('[managed_settings]\nmodel = "fast"\n[managed_settings.env]\nB = "2"\nA = "é"\n')
    canonical = '{"env":{"A":"é","B":"2"},"model":"fast"}'
    checksum = f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"

    async def scenario() -> None:
        async with running(config) as gateway:
            got = await gateway.ask("GET", "/managed/settings")
            assert got.json()["settings"] == {"model": "fast", "env": {"B": "2", "A": "é"}}
            assert got.json()["checksum"] == checksum
            assert got.headers["etag"] == f'"{checksum}"'
            async with gateway.connected() as connection:
                tag = {"if-none-match": f'"{checksum}"'}
                await connection.send("GET", "/managed/settings", headers=tag)
                assert (await connection.head())[0] == 304
                # The response has no body: the connection is ready for the next request.
                await connection.send("GET", "/health")
                assert (await connection.got()).json()["status"] == "ok"
            other = await gateway.ask("GET", "/managed/settings", headers={"if-none-match": '"sha256:0"'})
            assert other.status == 200
            anything = await gateway.ask("GET", "/managed/settings", headers={"if-none-match": "*"})
            assert anything.status == 200

    run(scenario)


def test_without_managed_settings_there_are_none_and_an_empty_table_is_empty() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            assert (await gateway.ask("GET", "/managed/settings")).status == 404
        async with running(managed("[managed_settings]\n")) as gateway:
            assert (await gateway.ask("GET", "/managed/settings")).json()["settings"] == {}

    run(scenario)


def test_the_checksum_has_the_numbers_of_javascript() -> None:
    assert compute_checksum({"a": [1.0]}) == compute_checksum({"a": [1]})
