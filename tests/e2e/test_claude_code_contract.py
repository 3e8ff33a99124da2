"""The published Claude Code with the gateway's part of its contract: sign-in, settings, telemetry, budget."""

import asyncio
import re
import shlex
import shutil
import subprocess
import uuid
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import msgspec
import pytest

from dragoman.accounts.activity import read_activity
from tests.cli.test_real_agents import BINARIES, CLIENTS
from tests.e2e.gateway import Gateway
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
#: Nobody waits so long; a loaded machine may.
SECONDS = 90.0


class Person:
    """A person with Claude Code in a project, in a home that has seen neither before."""

    def __init__(self, folder: Path, url: str) -> None:
        self.home, self.project = folder / "home", folder / "project"
        (self.home / ".claude").mkdir(parents=True)
        self.project.mkdir()
        (self.project / "notes.txt").write_text("marigold and heliotrope\n", "utf-8")
        known = {"hasTrustDialogAccepted": True}
        first = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {str(self.project): known}}
        (self.home / ".claude.json").write_bytes(msgspec.json.encode(first))
        login = {"forceLoginMethod": "gateway", "forceLoginGatewayUrl": url}
        (self.home / ".claude" / "settings.json").write_bytes(msgspec.json.encode(login))
        self.variables = {
            "HOME": str(self.home),
            "PATH": f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "IS_SANDBOX": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    async def ask(self, prompt: str, **variables: str) -> tuple[int, str]:
        """`claude -p`: the exit status and what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(str(BINARIES / "claude"), "-p", prompt, "--dangerously-skip-permissions"),
            cwd=self.project,
            env={**self.variables, **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        return process.returncode or 0, out.decode("utf-8", "replace")


class Terminal:
    """Claude Code in a terminal of tmux, on a server of its own."""

    def __init__(self, person: Person) -> None:
        self._name = f"dragoman-{uuid.uuid4().hex[:8]}"
        variables = [f"{name}={value}" for name, value in person.variables.items()]
        command = shlex.join(["env", "-i", *variables, str(BINARIES / "claude")])
        self._tmux("new-session", "-d", "-x", "150", "-y", "45", "-c", str(person.project), command)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._name, "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout

    async def see(self, pattern: str) -> re.Match[str]:
        """Wait until the screen shows the pattern."""
        screen = ""
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    screen = self._tmux("capture-pane", "-p")
                    found = re.search(pattern, screen)
                    if found:
                        return found
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"{pattern!r} is not on the screen:\n{screen}") from None

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    async def write(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)
        # The end of a text that comes at once would be taken for a pasted line.
        await asyncio.sleep(0.5)
        self.press("Enter")

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state" / "state.db")


def test_it_shows_the_gateways_message_when_its_budget_is_spent(tmp_path: Path, holder: KeyHolder) -> None:
    key = holder.create("ann", tokens_per_day=1)

    async def scenario() -> None:
        gateway = Gateway(CONFIG.format(folder=tmp_path), tmp_path / "gateway")
        await gateway.start()
        person = Person(tmp_path, gateway.url)
        access = {
            "ANTHROPIC_BASE_URL": gateway.url,
            "ANTHROPIC_AUTH_TOKEN": key,
            "CLAUDE_CODE_USE_GATEWAY": "1",
        }
        try:
            await person.ask("say hello", **access)
            code, out = await person.ask("say hello", **access)
            assert code != 0
            assert "the key 'ann' has used up its budget of 1 token per day" in out
        finally:
            await gateway.stop()

    asyncio.run(scenario())


@pytest.mark.skipif(shutil.which("tmux") is None, reason="the terminal is tmux")
def test_it_signs_in_and_reports_and_shows_its_usage(tmp_path: Path, holder: KeyHolder) -> None:
    key = holder.create("ann", tokens_per_day=100_000_000)

    async def scenario() -> None:
        gateway = Gateway(CONFIG.format(folder=tmp_path), tmp_path / "gateway")
        await gateway.start()
        person = Person(tmp_path, gateway.url)
        terminal = Terminal(person)
        try:
            await terminal.see("Not logged in")
            await terminal.write("/login")
            await terminal.see("Press Enter to connect")
            terminal.press("Enter")
            await terminal.see("Trust gateway 127.0.0.1")
            terminal.press("Up", "Enter")
            code = await terminal.see(r"\b([B-Z]{4}-[B-Z]{4})\b")
            await approve(gateway.url, code[1], key)
            await terminal.see("Signed in to Cloud gateway as ann")
            terminal.press("Up", "Enter")
            await terminal.see("Connected to Cloud gateway")
            terminal.press("Enter")
            await terminal.see("· Cloud gateway")
            # The screen is there a moment before it takes keys.
            await asyncio.sleep(1)
            await terminal.write("/usage")
            await terminal.see(r"\$0\.00 today")
        finally:
            terminal.close()
        try:
            status, out = await person.ask("read notes.txt")
            assert (status, "marigold and heliotrope" in out) == (0, True), out
            assert str(key) not in (person.home / ".claude.json").read_text("utf-8")
        finally:
            await gateway.stop()

    asyncio.run(scenario())
    reported = dict(holder.do(lambda connection: read_activity(connection, ("key",))))
    assert reported[("ann",)].tools_accepted >= 1


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
