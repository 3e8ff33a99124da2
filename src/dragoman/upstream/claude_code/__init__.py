"""Claude Code as an upstream: it thinks, the caller's own tools act, and a session spans the requests.

Nothing of the Agent SDK is imported until the first request needs it; see `docs/claude-code-backend.md`.
"""

from contextlib import suppress
from pathlib import Path

from dragoman.config.model import Provider
from dragoman.upstream.port import Upstream


def claude_code_upstream(provider: Provider, state: Path) -> Upstream:
    from dragoman.upstream.claude_code.upstream import ClaudeCodeUpstream

    return ClaudeCodeUpstream(provider, state)


def clean_up(state: Path) -> None:
    """End and remove what a gateway that was killed left behind; what cannot be reached stays."""
    from dragoman.upstream.claude_code.folders import clean_up

    with suppress(OSError):
        clean_up(state)


async def installed(provider: Provider) -> str:
    """The path of Claude Code's executable. Raises an error that says what to install."""
    from dragoman.upstream.claude_code.sdk import kit

    return (await kit()).executable(provider.sessions.command)
