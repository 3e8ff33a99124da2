"""The messages of a turn as one reply that the caller can read."""

from typing import Any

import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.fit.ids import ENCODED, SAFE
from dragoman.upstream.claude_code.reply_joiner import CallerCall, ReplyJoiner, write_calls
from tests.sse import collect_sse

Json = dict[str, Any]

#: Ids as Anthropic gives them.
FIRST, SECOND = "toolu_01A09q90qw90lq917835lq9", "toolu_01T1x1fJ34qAmk2tNTrN7Up6"


def message(*blocks: Json, tokens: int = 10, reason: str = "end_turn") -> list[Json]:
    events: list[Json] = [
        {
            "type": "message_start",
            "message": {"id": "msg_1", "usage": {"input_tokens": tokens, "output_tokens": 1}},
        }
    ]
    for index, block in enumerate(blocks):
        start: Json
        if block["type"] == "text":
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": '{"a": 1}'}
        events += [
            {"type": "content_block_start", "index": index, "content_block": start},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens}},
        {"type": "message_stop"},
    ]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(call_id: str, name: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name}


def joined(joiner: ReplyJoiner, *messages: list[Json]) -> Json:
    """The reply as a whole body, by way of our own reader of Anthropic streams."""
    stream = b"".join(joiner.feed(event) for events in messages for event in events) + joiner.finish()
    return dict(collect_sse(dialect_named("anthropic"), stream))


def new(*, one_at_a_time: bool = False, last: bool = False) -> ReplyJoiner:
    allows = frozenset({"calculate", "mcp__x__y"})
    return ReplyJoiner("alias", allowed=allows, one_at_a_time=one_at_a_time, is_last=last)


@pytest.mark.rule("R93")
def test_only_our_own_prefix_comes_off_a_name() -> None:
    joiner = new()
    body = joined(joiner, message(use(FIRST, "mcp__gateway__mcp__x__y"), reason="tool_use"))
    assert (body["model"], body["stop_reason"]) == ("alias", "tool_use")
    assert body["content"] == [{**use(FIRST, "mcp__x__y"), "input": {"a": 1}}]
    assert joiner.sent == [CallerCall(FIRST, "mcp__x__y", {"a": 1}, FIRST)]


@pytest.mark.rule("C18")
@pytest.mark.parametrize("call_id", ["call_0", "dgi_Y2FsbF8w", "functions.calculate:0", "toolu_" + "x" * 99])
def test_an_id_that_may_come_again_or_cannot_be_carried_is_replaced(call_id: str) -> None:
    shown = []
    for _ in range(2):
        joiner = new()
        body = joined(joiner, message(use(call_id, "mcp__gateway__calculate"), reason="tool_use"))
        assert [call.inner_id for call in joiner.sent] == [call_id]
        assert [block["id"] for block in body["content"]] == [call.id for call in joiner.sent]
        shown += [call.id for call in joiner.sent]
    assert len({call_id, *shown}) == 3
    assert all(SAFE.fullmatch(one) and not ENCODED.fullmatch(one) for one in shown)


@pytest.mark.rule("R94")
def test_messages_are_joined_their_tokens_added_up_and_denied_calls_left_out() -> None:
    joiner = new()
    body = joined(
        joiner,
        message(text("First."), use("c1", "Bash"), use("c2", "mcp__gateway__other"), reason="tool_use"),
        message(text("Second."), tokens=5),
    )
    assert [block["text"] for block in body["content"]] == ["First.", "Second."]
    assert body["stop_reason"] == "end_turn"
    assert (body["usage"]["input_tokens"], body["usage"]["output_tokens"]) == (15, 15)
    assert joiner.denied == [("c1", "Bash"), ("c2", "mcp__gateway__other")]
    assert joiner.calls == []


def test_one_at_a_time_shows_the_first_call_and_holds_the_others() -> None:
    joiner = new(one_at_a_time=True)
    calls = (use(FIRST, "mcp__gateway__calculate"), use(SECOND, "mcp__gateway__calculate"))
    body = joined(joiner, message(*calls, reason="tool_use"))
    assert [block["id"] for block in body["content"]] == [FIRST]
    assert ([call.id for call in joiner.sent], [call.id for call in joiner.held]) == ([FIRST], [SECOND])


def test_beyond_the_last_round_no_call_is_shown() -> None:
    joiner = new(last=True)
    body = joined(
        joiner, message(text("Once more."), use("c1", "mcp__gateway__calculate"), reason="tool_use")
    )
    assert [block["type"] for block in body["content"]] == ["text"]
    assert (joiner.excess_calls, body["stop_reason"]) == (1, "end_turn")


def test_a_message_that_is_begun_again_leaves_no_block_open() -> None:
    joiner = new()
    body = joined(joiner, message(text("Half."))[:3], message(text("Whole.")))
    assert [block["text"] for block in body["content"]] == ["Half.", "Whole."]


def test_a_turn_without_a_word_is_still_a_reply() -> None:
    assert joined(new())["content"] == []


@pytest.mark.rule("R98")
def test_calls_that_are_asked_for_again_keep_their_ids_and_cost_nothing() -> None:
    calls = [CallerCall("c1", "calculate", {"a": 1}), CallerCall("c2", "calculate", {})]
    body: Json = dict(collect_sse(dialect_named("anthropic"), write_calls(calls, "alias", "msg_2")))
    assert body["content"] == [call.block for call in calls]
    assert (body["stop_reason"], body["usage"]["output_tokens"]) == ("tool_use", 0)


@pytest.mark.rule("R107", "D10")
def test_a_call_is_sent_when_it_is_complete() -> None:
    joiner = new()
    *begun, stop, _, _ = message(use(FIRST, "mcp__gateway__calculate"), reason="tool_use")
    assert b"content_block" not in b"".join(map(joiner.feed, begun))
    sent = joiner.feed(stop)
    assert [sent.count(name) for name in (b"block_start", b"block_delta", b"block_stop")] == [2, 2, 2]


def test_a_call_whose_message_broke_off_is_dropped() -> None:
    joiner = new()
    body = joined(joiner, message(use(FIRST, "mcp__gateway__calculate"))[:3], message(text("Whole.")))
    assert [block["type"] for block in body["content"]] == ["text"]
    assert joiner.calls == []
