"""The Agent SDK and MCP, imported when they are first needed; neither is part of the base install."""

import asyncio
import logging
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.config.model import Provider
from dragoman.upstream.claude_code.errors import command_missing, sdk_missing


class Kit:
    """The few things of both packages that are used here."""

    def __init__(self) -> None:
        sdk, server, types = map(_module, ("claude_agent_sdk", "mcp.server.lowlevel", "mcp_types"))
        # What goes wrong is told to the caller, and logged with the exchange.
        logging.getLogger("claude_agent_sdk").setLevel(logging.CRITICAL)
        self.client: Any = sdk.ClaudeSDKClient
        self.options: Any = sdk.ClaudeAgentOptions
        self.allow: Any = sdk.PermissionResultAllow
        self.deny: Any = sdk.PermissionResultDeny
        self.error: type[Exception] = sdk.ClaudeSDKError
        self.server: Any = server.Server
        self.types: Any = types
        self.bundled = Path(sdk.__file__).parent / "_bundled" / "claude"

    def executable(self, named: str) -> str:
        path = Path(named).expanduser() if named else self.bundled
        if not path.is_file():
            raise command_missing(named)
        return str(path)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise sdk_missing(error.name or name) from None


@cache
def _kit() -> Kit:
    return Kit()


async def kit() -> Kit:
    """The kit; its modules take a second to import, which is spent beside the loop."""
    return await asyncio.to_thread(_kit)


async def find_executable(provider: Provider) -> str:
    """Return the path of Claude Code's executable. Raises an error that names what to install."""
    return (await kit()).executable(provider.sessions.command)
