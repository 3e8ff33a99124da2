"""The client's own credential goes to its provider alone, whatever fault happens there."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from dragoman.config.config import Config, Route
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import RecordSettings, Secret, ServerSettings, Timeouts
from dragoman.storage.database import FILE_NAME
from dragoman.telemetry.log import LOGGER
from tests.e2e.asking import request
from tests.faults.actions import Action, Send
from tests.faults.replies import frame
from tests.faults.table import FAULTS, Fault
from tests.faults.upstream import FaultyUpstream
from tests.server.running import Running, running

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
CREDENTIAL = "sk-ant-oat01-planted-credential-0123456789"
#: Faults of one address; those that cannot be connected, or in which the client leaves, send nothing back.
NAMES = [name for name, fault in FAULTS.items() if fault.provider == "usual" and not fault.leaves]
REDIRECT = "redirect"
ECHO = "echo"


def redirect(dialect: str, is_stream: bool) -> list[Action]:
    return [Send(frame(False, b"{}", f"location: http://127.0.0.1:{Pair.other_port}/v1", status="307 Go"))]


def echo(dialect: str, is_stream: bool) -> list[Action]:
    body = msgspec.json.encode({"error": {"message": f"the key {CREDENTIAL} is wrong", "type": CREDENTIAL}})
    return [Send(frame(False, body, status="401 No"))]


class Pair:
    """A gateway whose route has a provider that gets the client's credential, and one that does not."""

    other_port = 0

    def __init__(self, gateway: Running, own: FaultyUpstream, other: FaultyUpstream, dialect: str) -> None:
        self.gateway, self.own, self.other = gateway, own, other
        self._dialect = dialect

    async def ask(self, fault: str, headers: dict[str, str], *, stream: bool) -> bytes:
        path, body = request(self._dialect, f"{fault}.1", "hello", stream=stream)
        async with self.gateway.connected() as connection:
            await connection.send("POST", path, body, {**headers, "connection": "close"})
            # Google's clients need a failed stream to break off, so the rest is read as it comes.
            return await connection.reader.read(-1)


@asynccontextmanager
async def open_pair(dialect: str, folder: Path, keys: tuple[Secret, ...] = ()) -> AsyncIterator[Pair]:
    async with FaultyUpstream(dialect) as own, FaultyUpstream(dialect) as other:
        Pair.other_port = other.port
        limits = Timeouts(first_byte=5, idle=5)

        own_provider = Provider(
            name="own",
            dialect=dialect,
            base_url=f"http://127.0.0.1:{own.port}",
            auth="client",
            retries=1,
            timeouts=limits,
        )
        other_provider = Provider(
            name="other",
            dialect=dialect,
            base_url=f"http://127.0.0.1:{other.port}",
            keys=(Secret("sk-other"),),
            timeouts=limits,
        )
        providers = {"own": own_provider, "other": other_provider}
        targets = (TargetName("own", "*"), TargetName("other", "none.1"))
        config = Config(
            server=ServerSettings(port=0, keys=keys, state=str(folder)),
            records=RecordSettings(record="bodies"),
            providers=providers,
            routes=(Route(match="*", targets=targets),),
        )
        async with running(config, state=folder / FILE_NAME) as gateway:
            yield Pair(gateway, own, other, dialect)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(FAULTS, REDIRECT, Fault(answer=redirect))
    monkeypatch.setitem(FAULTS, ECHO, Fault(answer=echo))
    return [*NAMES, REDIRECT, ECHO]


def name_header(dialect: str) -> dict[str, str]:
    return (
        {"x-goog-api-key": CREDENTIAL} if dialect == "gemini" else {"authorization": f"Bearer {CREDENTIAL}"}
    )


@pytest.mark.rule("R120")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_credential_is_seen_at_its_provider_alone(
    dialect: str, faults: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> bytes:
        async with open_pair(dialect, tmp_path) as pair:
            seen = b""
            for fault in faults:
                for stream in (True, False):
                    seen += await pair.ask(fault, name_header(dialect), stream=stream)
            assert pair.own.heads
            assert all(CREDENTIAL in head for head in pair.own.heads)
            assert pair.other.heads, "no fault led to the other provider"
            assert not any(CREDENTIAL in head for head in pair.other.heads)
            return seen

    with caplog.at_level(logging.DEBUG, LOGGER.name):
        seen = asyncio.run(run())
    assert CREDENTIAL.encode() not in seen
    assert CREDENTIAL not in "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and CREDENTIAL.encode() in path.read_bytes()
    ]


@pytest.mark.rule("R120")
def test_the_gateways_own_key_is_not_relayed(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_pair("anthropic", tmp_path, (Secret("gateway-key"),)) as pair:
            headers = {"dragoman-key": "gateway-key", "authorization": f"Bearer {CREDENTIAL}"}
            await pair.ask("none", headers, stream=True)
            assert f"authorization: bearer {CREDENTIAL}\r\n" in pair.own.heads[0]
            assert "gateway-key" not in pair.own.heads[0]
            # The key of the gateway alone is no credential for the provider.
            await pair.ask("none", {"x-api-key": "gateway-key"}, stream=True)
            assert len(pair.own.heads) == 1
            assert len(pair.other.heads) == 1

    asyncio.run(run())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"gateway-key" in path.read_bytes()]


def test_a_refused_credential_is_the_clients_and_cools_no_target(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_pair("anthropic", tmp_path) as pair:
            for _ in range(2):
                await pair.ask("status-401", name_header("anthropic"), stream=False)
            assert len(pair.own.heads) == 2

    asyncio.run(run())
