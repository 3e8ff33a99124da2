"""What the sessions of agents have used, and whether a request of a session may still be sent. Pure.

The sums are in memory: they are lost at a restart, and each gateway has its own. Open requests are not part
of them, so parallel requests can exceed a limit.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from dragoman.accounts.errors import MICRO, format_amount
from dragoman.accounts.keys import Caller
from dragoman.accounts.limits import NOTHING, Amount, Unit, list_session_limits
from dragoman.config.agents import SessionLimits
from dragoman.hub.blocks import Text, ToolCall, ToolResult
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.request import Message, Request

#: Sessions, and sub-agents of one session, that are remembered. The longest unused are forgotten first.
MAX_SESSIONS = 10_000
MAX_SUB_AGENTS = 200
#: Characters of a tool's name in a message.
MAX_QUOTED = 100

K = TypeVar("K")
V = TypeVar("V")


class SessionStopped(DragomanError):
    """A limit of the session, or the loop breaker, refuses the request."""


class SessionKey(NamedTuple):
    """The owner of the session's key, the agent, and the agent's id of the session."""

    owner: str
    agent: str
    session: str


class SessionLimit(NamedTuple):
    """What one session, or one sub-agent, may use, and who can raise it."""

    unit: Unit
    scope: str
    amount: int
    remedy: str


class SessionUse(msgspec.Struct):
    """The sums of one session, with its sub-agents."""

    used: Amount = NOTHING
    requests: int = 0
    #: Requests of models without a known price.
    unpriced: int = 0
    input: int = 0
    cache_read: int = 0
    #: The target, and the tokens of prompt and answer, of the main agent's last exchange.
    target: str = ""
    context: int = 0
    sub_agents: dict[str, Amount] = {}


class SessionExchange(NamedTuple):
    """One exchange of a session that has ended."""

    sub_agent: str
    amount: Amount
    is_priced: bool
    input: int
    cache_read: int
    target: str


class SessionBook:
    """What the sessions have used since the start of the gateway."""

    def __init__(self) -> None:
        self._uses: dict[SessionKey, SessionUse] = {}

    def find(self, key: SessionKey) -> SessionUse | None:
        return self._uses.get(key)

    def add(self, key: SessionKey, exchange: SessionExchange) -> None:
        """Add an exchange to the sums of its session."""
        sub_agent, amount, is_priced, prompt, cache_read, target = exchange
        use = _renew(self._uses, key, MAX_SESSIONS) or SessionUse()
        self._uses[key] = use
        use.used = use.used.plus(amount)
        use.requests += 1
        use.input += prompt
        use.cache_read += cache_read
        if not is_priced:
            use.unpriced += 1
        if sub_agent:
            before = _renew(use.sub_agents, sub_agent, MAX_SUB_AGENTS) or NOTHING
            use.sub_agents[sub_agent] = before.plus(amount)
        else:
            use.target, use.context = target, amount.tokens


def _renew(entries: dict[K, V], key: K, most: int) -> V | None:
    """Take an entry out, so that it is the newest when it is put back. Makes room for a new one."""
    found = entries.pop(key, None)
    if found is None and len(entries) >= most:
        del entries[next(iter(entries))]
    return found


def collect_session_limits(limits: SessionLimits, caller: Caller) -> list[SessionLimit]:
    """The limits of a request: those of the configuration, and those of the client's key."""
    configured: tuple[tuple[Unit, str, int, str], ...] = (
        ("cost", "session", round(limits.cost * MICRO), "cost"),
        ("tokens", "session", limits.tokens, "tokens"),
        ("cost", "sub-agent", round(limits.sub_agent_cost * MICRO), "sub_agent_cost"),
        ("tokens", "sub-agent", limits.sub_agent_tokens, "sub_agent_tokens"),
    )
    found = [
        SessionLimit(unit, scope, amount, f"raise session_limits.{setting} of the gateway")
        for unit, scope, amount, setting in configured
        if amount
    ]
    for unit, scope, amount in list_session_limits(caller.limits):
        found.append(SessionLimit(unit, scope, amount, f"raise the limit of the key {caller.name!r}"))
    return found


def check_session(limits: Iterable[SessionLimit], use: SessionUse | None, agent: str, sub_agent: str) -> None:
    """Raise `SessionStopped` if the session or the sub-agent has used one of its limits."""
    if use is None:
        return
    scopes = {"session": use.used}
    if sub_agent:
        scopes["sub-agent"] = use.sub_agents.get(sub_agent, NOTHING)
    for limit in limits:
        used = getattr(scopes.get(limit.scope, NOTHING), limit.unit)
        if used >= limit.amount:
            spent = (
                f"{format_amount(limit.unit, used)} of its limit of {format_amount(limit.unit, limit.amount)}"
            )
            whose = f"this {limit.scope}{f' of {agent}' if agent else ''}"
            message = f"{whose} has used {spent}; start a new session, or {limit.remedy}"
            raise _build_error(message, "session_limit")


def check_repeated_calls(request: Request, limit: int) -> None:
    """Raise `SessionStopped` if the conversation ends with `limit` equal calls, one after the other.

    A message of a person ends the row, so that the person can go on after an error.
    """
    if not limit:
        return
    last: ToolCall | None = None
    count = 0
    for message in reversed(request.messages):
        if _is_from_person(message):
            return
        for block in reversed(message.blocks):
            if type(block) is not ToolCall:
                continue
            if last is not None and (block.name, block.arguments) != (last.name, last.arguments):
                return
            last = block
            count += 1
            if count >= limit:
                raise _build_error(
                    f"the model called {block.name[:MAX_QUOTED]} {count} times in a row with the same"
                    " arguments, so the gateway stops the loop (session_limits.repeated_calls); write a"
                    " message to go on",
                    "repeated_calls",
                )


def _is_from_person(message: Message) -> bool:
    """Whether the message has a text of a person.

    Agents put notes of their own into user messages, in tags such as `<system-reminder>`. Claude Code joins
    the person's next message with the results before it.
    """
    if message.role != "user":
        return False
    texts = [block.text.lstrip() for block in message.blocks if type(block) is Text]
    has_results = any(type(block) is ToolResult for block in message.blocks)
    return any(text and not (has_results and text.startswith("<")) for text in texts)


def _build_error(message: str, code: str) -> SessionStopped:
    # With status 400 every agent stops at once and shows the message.
    failure = Failure(kind="permission", status=400, message=message, code=code)
    return SessionStopped(message, failure=failure)
