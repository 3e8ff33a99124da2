"""Limits of sessions and sub-agents, and the loop breaker."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.keys import ANONYMOUS, Caller
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.session_limits import (
    MAX_SESSIONS,
    MAX_SUB_AGENTS,
    SessionBook,
    SessionExchange,
    SessionKey,
    SessionStopped,
    check_repeated_calls,
    check_session,
    collect_session_limits,
)
from dragoman.config.agents import SessionLimits
from dragoman.hub.blocks import Text, ToolCall, ToolResult
from dragoman.hub.request import Message, Request

KEY = SessionKey("owner", "claude-code", "s")


def exchange(tokens: int = 0, cost: int = 0, sub_agent: str = "", **more: Any) -> SessionExchange:
    first = SessionExchange(sub_agent, Amount(tokens, cost), True, tokens, 0, "up/m")
    return first._replace(**more)


def called(*names: str, at_end: tuple[str, ...] = ()) -> Request:
    """A conversation with these calls, each with its result, and texts beside the last result."""
    messages = [Message(role="user", blocks=(Text(text="do it"),))]
    for number, name in enumerate(names):
        tool, _, arguments = name.partition(":")
        messages.append(
            Message(role="assistant", blocks=(ToolCall(id=str(number), name=tool, arguments=arguments),))
        )
        texts = tuple(Text(text=text) for text in at_end) if number == len(names) - 1 else ()
        messages.append(Message(role="user", blocks=(ToolResult(call_id=str(number)), *texts)))
    return Request(dialect="anthropic", model="m", messages=tuple(messages))


@pytest.mark.parametrize(
    ("limits", "sub_agent", "message"),
    [
        (
            SessionLimits(cost=0.5),
            "",
            r"this session of claude-code has used \$0\.60 of its limit of \$0\.50",
        ),
        (SessionLimits(tokens=100), "", "this session of claude-code has used 150 tokens"),
        (SessionLimits(sub_agent_tokens=50), "a", "this sub-agent of claude-code has used 60 tokens"),
        (SessionLimits(sub_agent_cost=0.2), "a", r"session_limits\.sub_agent_cost"),
    ],
)
def test_a_limit_that_is_used_refuses_the_next_request(
    limits: SessionLimits, sub_agent: str, message: str
) -> None:
    book = SessionBook()
    book.add(KEY, exchange(90, 400_000))
    book.add(KEY, exchange(60, 200_000, "a"))
    with pytest.raises(SessionStopped, match=message) as stopped:
        check_session(collect_session_limits(limits, ANONYMOUS), book.find(KEY), "claude-code", sub_agent)
    assert stopped.value.status == 400


def test_other_sessions_sub_agents_and_smaller_amounts_pass() -> None:
    book = SessionBook()
    book.add(KEY, exchange(90, 400_000, "a"))
    every = SessionLimits(cost=0.5, tokens=91, sub_agent_cost=0.5, sub_agent_tokens=91, repeated_calls=2)
    for limits, session, sub_agent in (
        (every, "s", "a"),
        (SessionLimits(sub_agent_tokens=90), "s", "b"),
        (SessionLimits(sub_agent_tokens=90), "s", ""),
        (SessionLimits(tokens=1), "other", ""),
    ):
        use = book.find(KEY._replace(session=session))
        check_session(collect_session_limits(limits, ANONYMOUS), use, "claude-code", sub_agent)


@pytest.mark.parametrize(
    ("limits", "is_stopped"),
    [
        (Limits(cost_per_session=500_000), True),
        (Limits(cost_per_session=600_001), False),
        (Limits(tokens_per_session=150), True),
        (Limits(tokens_per_sub_agent=60), True),
        (Limits(tokens_per_sub_agent=61, cost_per_sub_agent=200_001), False),
        (Limits(cost_per_sub_agent=200_000), True),
        (Limits(tokens_per_day=1, cost_per_month=1), False),
    ],
)
def test_a_key_has_limits_of_its_own_beside_those_of_the_configuration(
    limits: Limits, is_stopped: bool
) -> None:
    book = SessionBook()
    book.add(KEY, exchange(90, 400_000))
    book.add(KEY, exchange(60, 200_000, "a"))
    found = collect_session_limits(SessionLimits(cost=9.0), Caller(name="ann", limits=limits))
    if not is_stopped:
        return check_session(found, book.find(KEY), "claude-code", "a")
    with pytest.raises(SessionStopped, match="raise the limit of the key 'ann'"):
        check_session(found, book.find(KEY), "claude-code", "a")


def test_limits_of_sessions_alone_reserve_nothing() -> None:
    # A reservation costs a write to the state for every request.
    assert not Limits(tokens_per_session=1, cost_per_session=1, cost_per_sub_agent=1).has_any
    assert Limits(requests_per_minute=1).has_any
    assert not Limits(requests_per_minute=1).counts_tokens
    for name in ("tokens_per_minute", "tokens_per_day", "tokens_per_month", "cost_per_day", "cost_per_month"):
        assert Limits(**{name: 1}).counts_tokens


def test_the_sums_of_a_session_contain_its_sub_agents() -> None:
    book = SessionBook()
    book.add(KEY, exchange(100, 10, cache_read=30))
    book.add(KEY, exchange(5, 0, "a", target="up/small", is_priced=False))
    use = book.find(KEY)
    assert use is not None
    assert (use.used, use.requests, use.unpriced) == (Amount(105, 10), 2, 1)
    assert (use.input, use.cache_read) == (105, 30)
    # The context is that of the main agent.
    assert (use.target, use.context) == ("up/m", 100)


def test_the_number_of_sessions_and_sub_agents_is_bounded() -> None:
    book = SessionBook()
    for number in range(MAX_SESSIONS):
        book.add(KEY._replace(session=str(number)), exchange(1))
    book.add(KEY._replace(session="0"), exchange(1))
    book.add(KEY, exchange(1))
    assert book.find(KEY._replace(session="1")) is None
    kept = book.find(KEY._replace(session="0"))
    assert kept is not None
    assert kept.requests == 2
    for number in range(MAX_SUB_AGENTS + 5):
        book.add(KEY, exchange(1, sub_agent=f"a{number}"))
    use = book.find(KEY)
    assert use is not None
    assert len(use.sub_agents) == MAX_SUB_AGENTS


@given(st.lists(st.sampled_from(["A:1", "A:2", "B:1"]), max_size=12), st.integers(2, 5))
def test_the_breaker_stops_exactly_the_rows_of_equal_calls_at_the_end(calls: list[str], limit: int) -> None:
    row = 0
    while row < len(calls) and calls[-1 - row] == calls[-1]:
        row += 1
    if row >= limit:
        with pytest.raises(SessionStopped, match="times in a row"):
            check_repeated_calls(called(*calls), limit)
    else:
        check_repeated_calls(called(*calls), limit)
    check_repeated_calls(called(*calls), 0)


def test_a_message_of_a_person_ends_a_row_and_a_note_of_the_agent_does_not() -> None:
    row = ("A:1",) * 4
    check_repeated_calls(called(*row, at_end=("go on",)), 3)
    with pytest.raises(SessionStopped):
        check_repeated_calls(called(*row, at_end=("<system-reminder>note</system-reminder>",)), 3)
