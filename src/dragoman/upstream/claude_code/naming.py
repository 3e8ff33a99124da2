"""The names that the caller's tools have inside Claude Code: those of an MCP server called `gateway`."""

SERVER = "gateway"
PREFIX = f"mcp__{SERVER}__"


def inner_name(name: str) -> str:
    return PREFIX + name


def outer_name(name: str) -> str | None:
    """The caller's name for a tool; None if it is none of the caller's. Only our own prefix comes off."""
    return name[len(PREFIX) :] if name.startswith(PREFIX) else None
