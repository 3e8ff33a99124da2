"""The identity of the client that sends a request, read from its headers."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

#: Characters of a name or an id that clients choose. Longer ones are cut.
MAX_LENGTH = 200

#: All clients that `AGENTS` does not contain.
OTHER_AGENT = "other"

#: The first product of a `user-agent`: its name, and its version after the slash. The vendors' SDKs write
#: their language before the version: `OpenAI/Python 3.49.0`.
_PRODUCT = re.compile(r"([^/\s]+)(?:/(?:[A-Za-z]+ )?([^\s/;,()]+))?")


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The client of one request. Empty values are unknown.

    `session` is the agent's id of the conversation, `sub_agent` the id of the sub-agent that sends the
    request. Clients choose both, and they are only unique together with `agent`.
    """

    #: The name of the agent in `AGENTS`, or the product name of an unknown client.
    agent: str = ""
    version: str = ""
    session: str = ""
    sub_agent: str = ""

    @property
    def is_sub_agent(self) -> bool:
        return bool(self.sub_agent)

    @property
    def known_agent(self) -> str:
        """The name in `AGENTS`, or `other`: a value of a bounded set, for metrics and statistics."""
        return self.agent if self.agent in AGENTS else OTHER_AGENT

    @property
    def part(self) -> str:
        return "sub-agent" if self.sub_agent else "main"


class AgentHeaders(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent identifies itself in the headers of its requests."""

    #: The beginnings of the product name in `user-agent`, in lower case.
    products: tuple[str, ...]
    #: Headers with the id of the session, in the order of preference.
    session: tuple[str, ...] = ()
    #: The header with the id of the session that has started this one, if sub-agents have their own.
    parent_session: str = ""
    #: Returns the id of the sub-agent; empty for the main agent.
    find_sub_agent: Callable[[Mapping[str, str]], str] = lambda headers: ""


def _find_claude_sub_agent(headers: Mapping[str, str]) -> str:
    return headers.get("x-claude-code-agent-id", "")


def _find_codex_sub_agent(headers: Mapping[str, str]) -> str:
    """Codex names the agent of a thread by a path; the main agent is `/main`."""
    subject = headers.get("x-openai-subagent", "")
    if subject:
        return subject
    try:
        turn = msgspec.json.decode(headers.get("x-codex-turn-metadata", "{}"))
    except (ValueError, RecursionError):
        return ""
    name = turn.get("agent_name", "") if isinstance(turn, dict) else ""
    return name if isinstance(name, str) and name not in ("", "/main", "/root") else ""


def _find_opencode_sub_agent(headers: Mapping[str, str]) -> str:
    """A sub-agent of OpenCode is a session with a parent."""
    if not headers.get("x-parent-session-id"):
        return ""
    return headers.get("x-session-id") or headers.get("x-session-affinity") or "sub-agent"


#: By the name that logs, metrics and rules use.
AGENTS: Mapping[str, AgentHeaders] = {
    "claude-code": AgentHeaders(
        products=("claude-cli", "claude-code"),
        session=("x-claude-code-session-id",),
        find_sub_agent=_find_claude_sub_agent,
    ),
    "codex": AgentHeaders(
        products=("codex",), session=("session-id", "thread-id"), find_sub_agent=_find_codex_sub_agent
    ),
    "gemini-cli": AgentHeaders(products=("geminicli",)),
    "opencode": AgentHeaders(
        products=("opencode",),
        session=("x-session-id", "x-session-affinity"),
        parent_session="x-parent-session-id",
        find_sub_agent=_find_opencode_sub_agent,
    ),
}

#: Headers in which any client may send the id of its session.
SESSION_HEADERS = tuple(dict.fromkeys(name for each in AGENTS.values() for name in each.session))


def identify_client(headers: Mapping[str, str]) -> ClientIdentity:
    """The identity of the client with these headers, whose names are in lower case."""
    agent, version, rules = _read_product(headers.get("user-agent", "")[: 4 * MAX_LENGTH])
    session = ""
    for name in (rules.parent_session, *rules.session):
        session = headers.get(name, "")
        if session:
            break
    return ClientIdentity(
        agent=agent,
        version=version,
        session=session[:MAX_LENGTH],
        sub_agent=rules.find_sub_agent(headers)[:MAX_LENGTH],
    )


# Bounded, because clients choose the names.
@lru_cache(maxsize=256)
def _read_product(user_agent: str) -> tuple[str, str, AgentHeaders]:
    """The name of the agent, its version, and how it identifies itself."""
    found = _PRODUCT.match(user_agent.strip())
    product, version = (found[1], found[2] or "") if found else ("", "")
    name = product.lower()
    for agent, rules in AGENTS.items():
        if name.startswith(rules.products):
            return agent, version[:MAX_LENGTH], rules
    return product[:MAX_LENGTH], version[:MAX_LENGTH], _UNKNOWN


_UNKNOWN = AgentHeaders(products=(), session=SESSION_HEADERS)
