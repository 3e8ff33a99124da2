"""Replay, fork, bisect and diff on recorded sessions, with a simulated agent."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.records.comparison import find_divergence, pair_turns
from dragoman.records.replay import (
    RecordedTurn,
    ReplaySession,
    build_fingerprint,
    load_session,
    normalise_request,
)
from tests.exchange.fakes import Script
from tests.exchange.sample_replies import CHAT_FINISH, CHAT_START, CHAT_USAGE, chat_text
from tests.records.recorded_gateway import CLAUDE, RecordedGateway, ask

Messages = list[dict[str, Any]]


def build_turns(replies: list[str]) -> list[RecordedTurn]:
    """The turns of an agent that repeats the history, and asks the next question after each reply."""
    messages: Messages = []
    turns = []
    for number, reply in enumerate(replies, 1):
        messages.append({"role": "user", "content": f"question {number}"})
        request = normalise_request(ask(messages))
        event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": reply}}
        turns.append(
            RecordedTurn(
                number=number,
                client="anthropic",
                sub_agent="",
                request=request,
                fingerprint=build_fingerprint(request),
                status=200,
                headers={"content-type": "text/event-stream"},
                reply=b"event: content_block_delta\ndata: " + msgspec.json.encode(event) + b"\n\n",
            )
        )
        messages.append({"role": "assistant", "content": reply})
    return turns


@given(st.integers(1, 40), st.data())
def test_bisect_finds_a_planted_bad_turn(length: int, draw: st.DataObject) -> None:
    bad = draw.draw(st.integers(1, length))
    replies = [f"reply {number}" for number in range(length)]
    planted = [*replies[: bad - 1], "bad", *replies[bad:]]
    found = find_divergence(build_turns(replies), build_turns(planted))
    assert found is not None
    assert (found.kind, found.first, found.second) == ("reply", bad, bad)
    assert found.differences[0].after == "bad"


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=8))
def test_equal_sessions_do_not_part(replies: list[str]) -> None:
    turns = build_turns(replies)
    assert find_divergence(turns, build_turns(replies)) is None
    assert all(pair.is_reply_equal and not pair.request for pair in pair_turns(turns, build_turns(replies)))
    found = find_divergence(turns, turns[:-1])
    assert found is not None
    assert (found.kind, found.first) == ("end", len(turns))


def test_a_deviation_of_the_agent_is_no_deviation_of_the_model() -> None:
    first, second = build_turns(["a", "b"]), build_turns(["a", "b"])
    changed = normalise_request(ask([{"role": "user", "content": "question 1"}], system="other"))
    second[1] = msgspec.structs.replace(second[1], request=changed, fingerprint=build_fingerprint(changed))
    found = find_divergence(first, second)
    assert found is not None
    assert (found.kind, found.first) == ("request", 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Today's date is 2026-11-18.", "Today's date is 2026-12-01."),
        ("session 0f9c2c1e-7b39-4c6b-8b1c-0b2a7f7b6f11", "session 1a9c2c1e-7b39-4c6b-8b1c-0b2a7f7b6f12"),
        ("cc_version=2.1; cch=a1b2c;", "cc_version=2.1; cch=99f00;"),
        ("Wall time: 0.05 seconds", "Wall time: 1.2 seconds"),
        ("in /var/folders/claude-1234/scratch", "in /var/folders/claude-99/scratch"),
        ("Wednesday, Nov 18, 2026 10:11:12", "Friday, Nov 20, 2026 23:59:00"),
    ],
)
def test_what_an_agent_varies_by_itself_is_no_difference(before: str, after: str) -> None:
    first, second = (
        normalise_request(ask([{"role": "user", "content": text}], metadata={"user_id": text}))
        for text in (before, after)
    )
    assert first == second
    other = normalise_request(ask([{"role": "user", "content": before + " more"}]))
    assert other != first


def send_all(session: ReplaySession, messages: list[Messages]) -> list[int | None]:
    found = [session.answer(ask(each)) for each in messages]
    return [turn.number if turn else None for turn in found]


def test_a_replay_serves_turns_in_any_order_and_again() -> None:
    turns = build_turns(["a", "b", "c"])
    requests = [turn.request["messages"] for turn in turns]
    session = ReplaySession(turns)
    assert send_all(session, [requests[1], requests[0], requests[1], requests[2]]) == [2, 1, 2, 3]
    assert all(request.is_exact for request in session.requests)
    assert session.list_unserved() == []


def test_a_deviation_gets_the_nearest_turn_and_is_reported() -> None:
    turns = build_turns(["a", "b", "c"])
    requests = [turn.request["messages"] for turn in turns]
    session = ReplaySession(turns)
    changed = [*requests[1][:-1], {"role": "user", "content": "question two"}]
    assert send_all(session, [requests[0], changed]) == [1, 2]
    (difference,) = session.requests[1].differences
    assert (difference.path, difference.position) == ("messages[2].content", 9)
    assert session.list_unserved() == [3]


def test_a_strict_replay_refuses_a_deviation() -> None:
    turns = build_turns(["a", "b"])
    session = ReplaySession(turns, is_strict=True)
    assert send_all(session, [[{"role": "user", "content": "something else"}]]) == [None]
    assert session.requests[0].differences


@pytest.mark.parametrize("member", ["tool_use_id", "tool_call_id", "call_id"])
def test_ids_of_calls_are_compared_by_the_order_of_the_calls(member: str) -> None:
    def build(calls: tuple[str, str], results: tuple[str, str]) -> bytes:
        """Two calls of a model, and their results."""
        key = "call_id" if member == "call_id" else "id"
        messages = [{"content": [{"name": "Bash", key: each} for each in calls]}]
        return ask([*messages, {"content": [{member: each, "text": "done"} for each in results]}])

    first = normalise_request(build(("a1", "a2"), ("a1", "a2")))
    assert first == normalise_request(build(("b1", "b2"), ("b1", "b2")))
    assert first != normalise_request(build(("b1", "b2"), ("b2", "b1")))


def test_a_fork_serves_only_the_turns_before() -> None:
    turns = build_turns(["a", "b", "c"])
    requests = [turn.request["messages"] for turn in turns]
    session = ReplaySession(turns, at=2)
    assert send_all(session, requests) == [1, None, None]
    assert [request.is_live for request in session.requests] == [False, True, True]


@given(st.integers(2, 8), st.data())
def test_a_fork_is_compared_with_the_turns_that_it_answers_anew(length: int, draw: st.DataObject) -> None:
    begin = draw.draw(st.integers(2, length))
    bad = draw.draw(st.integers(begin, length))
    replies = [f"reply {number}" for number in range(length)]
    turns = build_turns(replies)
    anew = [
        change_request(turn, number, model="other")
        for number, turn in enumerate(
            build_turns([*replies[: bad - 1], "good", *replies[bad:]])[begin - 1 :], 1
        )
    ]
    for whole, fork in ((turns, anew), (anew, turns)):
        found = find_divergence(whole, fork)
        assert found is not None
        places = {found.first, found.second}
        assert (found.kind, places) == ("reply", {bad, bad - begin + 1})
    pairs = pair_turns(turns, anew)
    assert [pair.second for pair in pairs] == [0] * (begin - 1) + list(range(1, length - begin + 2))
    assert not pairs[begin - 1].request


def test_another_request_of_a_sub_agent_is_found_although_later_requests_are_equal() -> None:
    turns = build_turns(["a", "b", "c", "d"])
    other = [turns[0], change_request(turns[1], 2, temperature=0.5), *turns[2:]]
    found = find_divergence(turns, other)
    assert found is not None
    assert (found.kind, found.first, found.second) == ("request", 2, 2)
    assert [each.path for each in found.differences] == ["temperature"]


def build_agent_turns(name: str, task: str, replies: list[str]) -> list[RecordedTurn]:
    """The turns of a sub-agent with this task."""
    turns = [change_request(turn, turn.number, system=task) for turn in build_turns(replies)]
    return [msgspec.structs.replace(turn, sub_agent=name) for turn in turns]


def interleave(draw: st.DataObject, agents: list[list[RecordedTurn]]) -> list[RecordedTurn]:
    """A session in which these agents run at once: each one's turns stay in their order."""
    order = draw.draw(st.permutations([n for n, turns in enumerate(agents) for _ in turns]))
    left = [iter(turns) for turns in agents]
    return [msgspec.structs.replace(next(left[n]), number=number) for number, n in enumerate(order, 1)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_sub_agents_that_run_at_once_are_compared_by_what_they_were_asked(
    lengths: list[int], draw: st.DataObject
) -> None:
    def build(ids: str, bad: int) -> list[list[RecordedTurn]]:
        return [
            build_agent_turns(
                f"{ids}{n}" if n else "",
                f"task {n}",
                [f"{n} {k}" for k in range(length - 1)] + ["bad" if n == bad else "last"],
            )
            for n, length in enumerate(lengths)
        ]

    first, second = interleave(draw, build("a", -1)), interleave(draw, build("b", -1))
    assert find_divergence(first, second) is None
    bad = draw.draw(st.integers(0, len(lengths) - 1))
    planted = interleave(draw, build("c", bad))
    found = find_divergence(first, planted)
    assert found is not None
    assert found.kind == "reply"
    turn = planted[found.second - 1]
    assert (turn.sub_agent, found.differences[0].after) == (f"c{bad}" if bad else "", "bad")
    # Without one of them the others are still beside their own.
    fewer = [turn for turn in planted if turn.sub_agent != f"c{bad}"] if bad else planted
    pairs = pair_turns(first, fewer)
    assert sorted(pair.first for pair in pairs) == list(range(1, len(first) + 1))
    missing = sum(not pair.second for pair in pairs)
    assert missing == (lengths[bad] if bad else 0)


def change_request(turn: RecordedTurn, number: int, **members: object) -> RecordedTurn:
    request = {**turn.request, **members}
    return msgspec.structs.replace(
        turn, number=number, request=request, fingerprint=build_fingerprint(request)
    )


def test_two_recorded_sessions_part_at_the_planted_turn(tmp_path: Path) -> None:
    def script(text: str) -> Script:
        return Script(pieces=(CHAT_START, chat_text(text), CHAT_FINISH, CHAT_USAGE, b"data: [DONE]\n\n"))

    good = ["one", "two", "three", "four", "five"]
    bad = ["one", "two", "three", "wrong", "five"]
    recorded = RecordedGateway(tmp_path, *(script(text) for text in [*good, *bad]))

    async def run() -> None:
        for name, replies in (("good", good), ("bad", bad)):
            messages: Messages = []
            for number, reply in enumerate(replies):
                messages.append({"role": "user", "content": f"question {number}"})
                await recorded.send(ask(messages), headers={**CLAUDE, "x-claude-code-session-id": name})
                messages.append({"role": "assistant", "content": reply})
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    found = find_divergence(recorded.read(load_session, "good"), recorded.read(load_session, "bad"))
    assert found is not None
    assert (found.kind, found.first, found.second) == ("reply", 4, 4)
    assert (found.differences[0].before, found.differences[0].after) == ("four", "wrong")
