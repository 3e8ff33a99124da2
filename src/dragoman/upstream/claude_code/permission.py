"""Who may call what: exactly the tools that the caller declared in this session. Every decision is kept.

Claude Code has no tools of its own here, and asks before each call; this is what answers. A call of a tool
that does not exist it refuses by itself, and that is written down here too.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.upstream.claude_code.naming import outer_name
from dragoman.upstream.claude_code.sdk import Kit

#: Decisions that a session remembers.
KEPT = 200

_log = logging.getLogger("dragoman.claude_code")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Never the arguments: they may hold anything."""

    tool: str
    call: str
    allowed: bool


class Auth:
    """The permissions of one session."""

    def __init__(self, session: str, names: Callable[[], frozenset[str]]) -> None:
        self.session = session
        self._names = names
        self.audit: deque[Decision] = deque(maxlen=KEPT)
        self._outer: dict[str, str] = {}

    def allows(self, inner: str) -> bool:
        return outer_name(inner) in self._names()

    def decide(self, inner: str, call: str) -> bool:
        """Allowed or not; the first decision about a call is the one that is kept."""
        allowed = self.allows(inner)
        if all(decision.call != call for decision in self.audit):
            self.audit.append(Decision(tool=inner[:200], call=call, allowed=allowed))
            _log.log(
                logging.INFO if allowed else logging.WARNING,
                "session %s: %s %s",
                self.session,
                "allowed" if allowed else "denied",
                inner[:200],
            )
        return allowed

    def shown_as(self, inner_id: str, call: str) -> None:
        """The caller knows a call by another id."""
        self._outer[inner_id] = call
        if len(self._outer) > KEPT:
            del self._outer[next(iter(self._outer))]

    def told(self) -> list[dict[str, object]]:
        """Every decision that is kept, with the id that the caller knows."""
        return [
            {
                "tool": decision.tool,
                "call": self._outer.get(decision.call, decision.call),
                "allowed": decision.allowed,
            }
            for decision in self.audit
        ]

    def callback(self, kit: Kit) -> Any:
        """What Claude Code asks before each call."""

        async def can_use_tool(name: str, arguments: Any, context: Any) -> Any:
            if self.decide(name, context.tool_use_id or ""):
                return kit.allow()
            return kit.deny(message="this tool was not declared by the caller")

        return can_use_tool
