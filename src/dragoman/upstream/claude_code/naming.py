"""What the caller's tools and calls are called inside Claude Code, and outside.

Inside, the tools are those of an MCP server called `gateway`, and calls have whatever ids the model behind
Claude Code gives them, perhaps the same in every conversation. Outside, no two calls are alike.
"""

import re
import secrets

SERVER = "gateway"
PREFIX = f"mcp__{SERVER}__"
#: Ids that their maker never gives twice, and that every client can carry.
_UNIQUE = re.compile(r"toolu_[0-9A-Za-z]{20,34}")


def inner_name(name: str) -> str:
    return PREFIX + name


def outer_name(name: str) -> str | None:
    """The caller's name for a tool; None if it is none of the caller's. Only our own prefix comes off."""
    return name[len(PREFIX) :] if name.startswith(PREFIX) else None


def outer_id(inner: str) -> str:
    """The id by which the caller knows a call."""
    return inner if _UNIQUE.fullmatch(inner) else f"toolu_{secrets.token_hex(12)}"
