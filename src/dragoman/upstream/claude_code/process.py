"""One process of Claude Code, as the transport that the Agent SDK speaks through.

The SDK's own transport hands on the gateway's whole environment, with every provider's key in it; this one
hands on a short list. The process ends with the gateway, whichever way that ends.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from dragoman.config.model import Provider
from dragoman.upstream.claude_code import launch
from dragoman.upstream.claude_code.folders import PID
from dragoman.upstream.claude_code.naming import SERVER

#: A line is one message; a longer one is nothing that we could use.
MAX_LINE = 64 * 1024 * 1024
CHUNK = 256 * 1024
#: Seconds for each step of ending it: by itself, by request, by force.
PATIENCE = 3.0

#: Variables of the gateway's own that Claude Code needs on this machine.
KEPT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SYSTEMROOT",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "IS_SANDBOX",
)
#: And those by which it finds its API, if the provider names neither address nor key.
CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "AWS_REGION",
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLOUD_ML_REGION",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "GOOGLE_APPLICATION_CREDENTIALS",
)

FIXED = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # A reply that breaks off is asked for again as a stream, so that the caller can hear it.
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    # The caller keeps the history, and shortens it when it is too long.
    "DISABLE_AUTO_COMPACT": "1",
    # Every tool is shown to the model, however many there are.
    "ENABLE_TOOL_SEARCH": "false",
    # Calls wait for as long as the session does; the gateway keeps the time.
    "MCP_TOOL_TIMEOUT": "2000000000",
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": "2000000000",
    # Results are the caller's, and reach the model as they are, however long.
    "MAX_MCP_OUTPUT_TOKENS": "100000000",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
    # A history that ends with the caller's words is answered at once.
    "CLAUDE_CODE_RESUME_INTERRUPTED_TURN": "1",
}


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is started with and cannot change afterwards."""

    model: str
    system: str = ""
    thinking: tuple[str, ...] = ()
    #: Which of the provider's keys.
    key: int = 0


def environment(
    provider: Provider, folder: Path, start: Start, variables: Mapping[str, str]
) -> dict[str, str]:
    names: tuple[str, ...] = KEPT
    own: dict[str, str] = {}
    if provider.base_url:
        own["ANTHROPIC_BASE_URL"] = provider.base_url.removesuffix("/v1")
    if provider.keys:
        key = provider.keys[start.key % len(provider.keys)].reveal().strip()
        own["CLAUDE_CODE_OAUTH_TOKEN" if key.startswith("sk-ant-oat") else "ANTHROPIC_API_KEY"] = key
    if not provider.base_url and not provider.keys:
        names += CREDENTIALS
    if provider.headers:
        lines = (f"{name}: {value.reveal()}" for name, value in provider.headers.items())
        own["ANTHROPIC_CUSTOM_HEADERS"] = "\n".join(lines)
    if provider.proxy:
        own |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), provider.proxy)
    if hasattr(os, "getuid") and os.getuid() == 0:
        own["IS_SANDBOX"] = "1"
    kept = {name: variables[name] for name in names if name in variables}
    home = {"HOME": str(folder), "CLAUDE_CONFIG_DIR": str(folder / "config"), "PWD": str(folder / "work")}
    return {**kept, **FIXED, **own, **home}


def command(executable: str, folder: Path, start: Start, resume: str) -> list[str]:
    servers = {"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}}
    words = [executable, "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
    words += ["--system-prompt-file", str(folder / "system.txt"), f"--model={start.model}"]
    words += ["--tools", "", "--setting-sources=", "--disable-slash-commands"]
    words += ["--mcp-config", msgspec.json.encode(servers).decode(), "--strict-mcp-config"]
    words += ["--permission-prompt-tool", "stdio", "--include-partial-messages", *start.thinking]
    return [*words, f"--resume={resume}"] if resume else words


class Process:
    """What the SDK expects of a transport."""

    def __init__(self, words: list[str], variables: dict[str, str], folder: Path) -> None:
        self._words = words
        self._variables = variables
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._writing = asyncio.Lock()

    async def connect(self) -> None:
        starter = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
        # Whatever it prints stays in its folder, for whoever wonders why it ended.
        with open(os.open(self._folder / "errors.txt", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *starter,
                *self._words,
                cwd=self._folder / "work",
                env=self._variables,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        (self._folder / PID).write_text(str(self._process.pid), "ascii")

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    async def write(self, data: str) -> None:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise ConnectionError("Claude Code has ended")
        async with self._writing:
            process.stdin.write(data.encode())
            await process.stdin.drain()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        if self._process is None or self._process.stdout is None:
            raise ConnectionError("Claude Code was not started")
        begun: list[bytes] = []
        size = 0
        while chunk := await self._process.stdout.read(CHUNK):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                message = _message(b"".join((*begun, line)))
                begun, size = [], 0
                if message is not None:
                    yield message
            begun.append(rest)
            size += len(rest)
            if size > MAX_LINE:
                raise ConnectionError("Claude Code sent a line that is too long")
        status = await self._process.wait()
        raise ConnectionError(f"exit status {status}{self._last_words()}")

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = (self._folder / "errors.txt").read_text("utf-8", "replace").strip().splitlines()
            return f": {lines[-1][:300]}" if lines else ""
        return ""

    def is_ready(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def end_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def close(self) -> None:
        """End it: by the end of its input, else by request, else by force."""
        process = self._process
        if process is None:
            return
        await self.end_input()
        for insist in (None, process.terminate, process.kill):
            if insist is not None:
                with suppress(ProcessLookupError):
                    insist()
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await process.wait()
                return

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()


def _message(line: bytes) -> dict[str, Any] | None:
    """A message, or None for what a library may have printed in between."""
    if not line.startswith(b"{"):
        return None
    try:
        value = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) else None
