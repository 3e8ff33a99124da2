"""The published Claude Code with the gateway's part of its contract: sign-in, settings, telemetry, budget."""

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest

from dragoman.accounts import keys as client_keys
from dragoman.accounts.activity import read_activity
from dragoman.accounts.limits import Limits
from tests.e2e.gateway import Gateway
from tests.e2e.person import READY, Person
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
                await terminal.see("Not logged in")
                await terminal.write("/login")
                await terminal.see("Press Enter to connect")
                await terminal.press("Enter")
                await terminal.see("Trust gateway 127.0.0.1")
                await terminal.press("Up", "Enter")
                code = await terminal.see(r"\b([B-Z]{4}-[B-Z]{4})\b")
                await approve(gateway.url, code[1], key)
                await terminal.see("Signed in to Cloud gateway as ann")
                await terminal.press("Up", "Enter")
                await terminal.see("Connected to Cloud gateway")
                await terminal.press("Enter")
                await terminal.see("· Cloud gateway")
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
