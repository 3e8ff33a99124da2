"""The Agent SDK, and one process of Claude Code as a transport of the SDK.

The SDK's own transport passes the whole environment of the gateway on, with every provider's key. This one
passes a short list of variables. The process ends with the gateway (`launch.py`).
"""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from dragoman.config.provider import Provider
from dragoman.upstream.claude_code import launch
from dragoman.upstream.claude_code.errors import executable_missing, sdk_missing
from dragoman.upstream.claude_code.folders import PID_FILE

#: Name of the MCP server that carries the caller's tools.
MCP_SERVER = "gateway"
#: Bytes of a line. A line is one message.
MAX_LINE = 64 * 1024 * 1024
CHUNK = 256 * 1024

#: Variables of the gateway that Claude Code needs on this machine.
PASSED_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
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
#: Variables by which Claude Code finds its API, passed if the provider has neither address nor key.
CREDENTIAL_VARIABLES = (
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
FIXED_VARIABLES = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # A reply that breaks off is requested again as a stream, so that the caller receives it live.
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    # The caller owns the history and shortens it when it is too long.
    "DISABLE_AUTO_COMPACT": "1",
    # Show every tool to the model, also if there are many.
    "ENABLE_TOOL_SEARCH": "false",
    # Calls wait as long as the session does. The gateway keeps the time.
    "MCP_TOOL_TIMEOUT": "2000000000",
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": "2000000000",
    # Results belong to the caller and reach the model unchanged, also long ones.
    "MAX_MCP_OUTPUT_TOKENS": "100000000",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
    # Answer a transcript that ends with a user message at once.
    "CLAUDE_CODE_RESUME_INTERRUPTED_TURN": "1",
}


class AgentSdk:
    """The names of `claude_agent_sdk` and `mcp` that are used here. Neither is part of the base install."""

    def __init__(self) -> None:
        sdk, server, types = map(_import, ("claude_agent_sdk", "mcp.server.lowlevel", "mcp_types"))
        # Failures reach the caller and the log of the exchange.
        logging.getLogger("claude_agent_sdk").setLevel(logging.CRITICAL)
        self.client: Any = sdk.ClaudeSDKClient
        self.options: Any = sdk.ClaudeAgentOptions
        self.allow: Any = sdk.PermissionResultAllow
        self.deny: Any = sdk.PermissionResultDeny
        self.error: type[Exception] = sdk.ClaudeSDKError
        self.server: Any = server.Server
        self.types: Any = types
        self._bundled = Path(sdk.__file__).parent / "_bundled" / "claude"

    def find_executable(self, configured: str) -> str:
        """Return the path of Claude Code: the configured one, else the one that the SDK brings."""
        path = Path(configured).expanduser() if configured else self._bundled
        if not path.is_file():
            raise executable_missing(configured)
        return str(path)


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise sdk_missing(error.name or name) from None


@cache
def _load_sdk() -> AgentSdk:
    return AgentSdk()


async def load_sdk() -> AgentSdk:
    """Import the SDK in a thread, because the import takes about a second."""
    return await asyncio.to_thread(_load_sdk)


async def find_executable(provider: Provider) -> str:
    """Return the path of Claude Code's executable. Raises an error that names what to install."""
    return (await load_sdk()).find_executable(provider.sessions.command)


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that are fixed when the process starts."""

    model: str
    system: str = ""
    #: Command line arguments for thinking and effort.
    thinking: tuple[str, ...] = ()
    #: Index of the provider's key.
    key: int = 0


def build_environment(
    provider: Provider, folder: Path, settings: ProcessSettings, variables: Mapping[str, str]
) -> dict[str, str]:
    """Build the environment of a process. `variables` is the environment of the gateway."""
    names: tuple[str, ...] = PASSED_VARIABLES
    own: dict[str, str] = {}
    if provider.base_url:
        own["ANTHROPIC_BASE_URL"] = provider.base_url.removesuffix("/v1")
    if provider.keys:
        key = provider.keys[settings.key % len(provider.keys)].reveal().strip()
        own["CLAUDE_CODE_OAUTH_TOKEN" if key.startswith("sk-ant-oat") else "ANTHROPIC_API_KEY"] = key
    if not provider.base_url and not provider.keys:
        names += CREDENTIAL_VARIABLES
    if provider.headers:
        lines = (f"{name}: {value.reveal()}" for name, value in provider.headers.items())
        own["ANTHROPIC_CUSTOM_HEADERS"] = "\n".join(lines)
    if provider.proxy:
        own |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), provider.proxy)
    if hasattr(os, "getuid") and os.getuid() == 0:
        own["IS_SANDBOX"] = "1"
    passed = {name: variables[name] for name in names if name in variables}
    # Claude Code writes the caller's pictures to its temporary folder. They are deleted with the session.
    places = {"HOME": "", "CLAUDE_CONFIG_DIR": "config", "PWD": "work", "TMPDIR": "tmp"}
    own |= {name: str(folder / part) for name, part in places.items()}
    return {**passed, **FIXED_VARIABLES, **own}


def build_command(executable: str, folder: Path, settings: ProcessSettings, resume: str) -> list[str]:
    """Build the command line. `resume` names the transcript to continue from, if there is one."""
    servers = {"mcpServers": {MCP_SERVER: {"type": "sdk", "name": MCP_SERVER}}}
    words = [executable, "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
    words += ["--system-prompt-file", str(folder / "system.txt"), f"--model={settings.model}"]
    words += ["--tools", "", "--setting-sources=", "--disable-slash-commands"]
    words += ["--mcp-config", msgspec.json.encode(servers).decode(), "--strict-mcp-config"]
    words += ["--permission-prompt-tool", "stdio", "--include-partial-messages", *settings.thinking]
    return [*words, f"--resume={resume}"] if resume else words


class ClaudeProcess:
    """One process of Claude Code. The methods are those of a transport of the Agent SDK."""

    def __init__(self, command: list[str], variables: dict[str, str], folder: Path) -> None:
        self._command = command
        self._variables = variables
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._write_lock = asyncio.Lock()

    async def connect(self) -> None:
        """Start the process. Its error output goes to a file in its folder."""
        launcher = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
        with open(os.open(self._folder / "errors.txt", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *launcher,
                *self._command,
                cwd=self._folder / "work",
                env=self._variables,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        (self._folder / PID_FILE).write_text(str(self._process.pid), "ascii")

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    async def write(self, data: str) -> None:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise ConnectionError("Claude Code has ended")
        async with self._write_lock:
            process.stdin.write(data.encode())
            await process.stdin.drain()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Read messages until the process ends, then raise `ConnectionError` with its exit status."""
        if self._process is None or self._process.stdout is None:
            raise ConnectionError("Claude Code was not started")
        begun: list[bytes] = []
        size = 0
        while chunk := await self._process.stdout.read(CHUNK):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                message = _read_message(b"".join((*begun, line)))
                begun, size = [], 0
                if message is not None:
                    yield message
            begun.append(rest)
            size += len(rest)
            if size > MAX_LINE:
                raise ConnectionError("Claude Code sent a line that is too long")
        status = await self._process.wait()
        raise ConnectionError(f"exit status {status}{self._read_last_error()}")

    def _read_last_error(self) -> str:
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
        """Called by the SDK. `kill` has ended the process before, or ends it now."""
        await self.kill()

    async def kill(self) -> None:
        """Kill the process. Its files are deleted with its session, so that it has nothing to finish."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _read_message(line: bytes) -> dict[str, Any] | None:
    """Read one line of output. A line that is no JSON object is the output of a library: None."""
    if not line.startswith(b"{"):
        return None
    try:
        value = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) else None
