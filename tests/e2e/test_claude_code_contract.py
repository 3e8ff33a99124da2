"""The published Claude Code with the gateway's part of its contract: sign-in, settings, telemetry, budget."""

import asyncio
import shlex
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dragoman.accounts import keys as client_keys
from dragoman.accounts.activity import read_activity
from dragoman.accounts.limits import Limits
from tests.e2e.gateway import Gateway
from tests.e2e.person import READY, Person
from tests.e2e.terminal import Terminal
from tests.server.keyholder import KeyHolder

CONFIG = """\
[server]
state = "{folder}/state"

[managed_settings.env]
CLAUDE_CODE_ENABLE_TELEMETRY = "1"
OTEL_METRICS_EXPORTER = "otlp"
OTEL_LOGS_EXPORTER = "otlp"
OTEL_EXPORTER_OTLP_PROTOCOL = "http/protobuf"

[providers.demo]
dialect = "embedded"

[[routes]]
match = "*"
target = "demo/demo"
"""


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state" / "state.db")


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Gateway]:
    gateway = Gateway(CONFIG.format(folder=folder), folder / "gateway")
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()


def build_variables(url: str, key: str) -> dict[str, str]:
    """The variables with which Claude Code knows that its server is a gateway."""
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": key, "CLAUDE_CODE_USE_GATEWAY": "1"}


def test_it_shows_the_gateways_message_when_its_budget_is_spent(tmp_path: Path, holder: KeyHolder) -> None:
    key = holder.create("ann", tokens_per_day=1)

    async def scenario() -> None:
        async with serving(tmp_path) as gateway:
            person, access = Person(tmp_path, {}), build_variables(gateway.url, key)
            await person.ask("say hello", **access)
            code, out = await person.ask("say hello", **access)
            assert code != 0
            assert "the key 'ann' has used up its budget of 1 token per day" in out

    asyncio.run(scenario())


def test_it_signs_in_and_reports_and_shows_its_usage(tmp_path: Path, holder: KeyHolder) -> None:
    key = holder.create("ann", tokens_per_day=100_000_000)

    async def scenario() -> None:
        async with serving(tmp_path) as gateway:
            login = {"forceLoginMethod": "gateway", "forceLoginGatewayUrl": gateway.url}
            person = Person(tmp_path, login)
            async with person.open_terminal() as terminal:
                await sign_in(terminal, gateway.url, key)
                # The screen is there a moment before it takes keys.
                await asyncio.sleep(1)
                await terminal.write("/usage")
                await terminal.see(r"\$0\.00 today")
            status, out = await person.ask("read notes.txt")
            assert (status, "marigold and heliotrope" in out) == (0, True), out
            assert str(key) not in (person.home / ".claude.json").read_text("utf-8")

    asyncio.run(scenario())
    reported = dict(holder.do(lambda connection: read_activity(connection, ("key",))))
    assert reported[("ann",)].tools_accepted >= 1


def write_certificate(folder: Path) -> Path:
    """A certificate for `localhost` that has signed itself, with its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    encoding = serialization.Encoding.PEM
    form, bare = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(certificate.public_bytes(encoding) + private.private_bytes(encoding, form, bare))
    return path


@asynccontextmanager
async def terminating_tls(listener: socket.socket, certificate: Path, url: str) -> AsyncIterator[None]:
    """A proxy with TLS on this socket, before the gateway at `url`. It changes nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(url)
        inner_reader, inner_writer = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(relay(reader, inner_writer), relay(inner_reader, writer))

    server = await asyncio.start_server(serve, sock=listener, ssl=context)
    try:
        yield
    finally:
        server.close()


def test_it_signs_in_through_a_proxy_with_tls(tmp_path: Path, holder: KeyHolder) -> None:
    key = holder.create("ann")
    listener = socket.create_server(("127.0.0.1", 0))
    public = f"https://localhost:{listener.getsockname()[1]}"
    certificate = write_certificate(tmp_path)

    async def scenario() -> None:
        gateway = Gateway(
            CONFIG.format(folder=tmp_path) + f'\n[sign_in]\nurl = "{public}"\n', tmp_path / "gateway"
        )
        await gateway.start()
        try:
            async with terminating_tls(listener, certificate, gateway.url):
                person = Person(tmp_path, {"forceLoginMethod": "gateway", "forceLoginGatewayUrl": public})
                person.variables["NODE_EXTRA_CA_CERTS"] = str(certificate)
                async with person.open_terminal() as terminal:
                    await sign_in(terminal, gateway.url, key)
                status, out = await person.ask("read notes.txt")
                assert (status, "marigold and heliotrope" in out) == (0, True), out
        finally:
            await gateway.stop()

    asyncio.run(scenario())


def fill_budget(holder: KeyHolder, share: float) -> None:
    """Change the budget of the key so that this part of it is used."""
    limits = Limits(tokens_per_day=round(holder.used("ann") / share))
    holder.do(
        lambda connection: client_keys.change_key(connection, "ann", models=(), limits=limits, expires=0)
    )


def test_it_shows_notices_about_its_budget_and_the_status_line(tmp_path: Path, holder: KeyHolder) -> None:
    key = holder.create("ann", tokens_per_day=100_000_000)
    line = shlex.join([sys.executable, "-m", "dragoman", "statusline"])
    notice = "of your usage credits · resets 12am"

    async def scenario() -> None:
        async with serving(tmp_path) as gateway:
            person = Person(tmp_path, {"statusLine": {"type": "command", "command": line}})
            async with person.open_terminal(**build_variables(gateway.url, key)) as terminal:
                await terminal.see(READY)
                # The screen is there a moment before it takes keys.
                await asyncio.sleep(1)
                await terminal.write("say one")
                # The model that answers, the window, the cost, the cache and the budget.
                await terminal.see(r"demo/demo · [0-9.]+k/1M .* · \$0\.00 · cache 0% · 0% of tokens today")
                assert "usage credits" not in terminal.text
                for word, share, percent in (("two", 0.78, "7[78]"), ("three", 0.98, "9[78]")):
                    fill_budget(holder, share)
                    await terminal.write(f"say {word}")
                    await terminal.see(f"● {word}")
                    await terminal.see(f"You've used {percent}% {notice}")
                    # It shows no other notice beside one.
                    await terminal.see(rf"(?s)\A(?!.*{notice})")

    asyncio.run(scenario())


async def sign_in(terminal: Terminal, url: str, key: str) -> None:
    """`/login`, with the approval of the person in the browser at `url`."""
    await terminal.see("Not logged in")
    await terminal.write("/login")
    await terminal.see("Press Enter to connect")
    await terminal.press("Enter")
    await terminal.see("Trust gateway (127.0.0.1|localhost)")
    await terminal.press("Up", "Enter")
    code = await terminal.see(r"\b([B-Z]{4}-[B-Z]{4})\b")
    await approve(url, code[1], key)
    await terminal.see("Signed in to Cloud gateway as ann")
    await terminal.press("Up", "Enter")
    await terminal.see("Connected to Cloud gateway")
    await terminal.press("Enter")
    await terminal.see("· Cloud gateway")


async def approve(url: str, code: str, key: str) -> None:
    """What the browser sends when the person presses the button."""
    form = urlencode({"user_code": code, "key": key, "answer": "approve"})
    headers = {"content-type": "application/x-www-form-urlencoded", "origin": url}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/device", data=form, headers=headers) as got,
    ):
        assert got.status == 200
        assert "Signed in" in await got.text()
