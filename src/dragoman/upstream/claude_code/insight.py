"""What an operator may know about sessions: where they stand, never what was said in them."""

import asyncio

from dragoman.upstream.claude_code.session import Session


def summary(session: Session) -> dict[str, object]:
    return {
        "id": session.id,
        "provider": session.provider.name,
        "state": session.state,
        "model": session.model,
        "process": session.pid,
        "requests": session.requests,
        "waiting": len(session.waiting),
        "overdue": session.is_overdue,
        "seconds": round(asyncio.get_running_loop().time() - session.since, 1),
    }


def details(session: Session) -> dict[str, object]:
    """The summary, its tools, the calls it waits for, and every decision about a call."""
    return {
        **summary(session),
        "rounds": session.rounds,
        "tools": sorted(session.tools.names),
        "calls": [{"id": call.id, "tool": call.name} for call in session.waiting.values()],
        "audit": session.auth.told(),
    }
