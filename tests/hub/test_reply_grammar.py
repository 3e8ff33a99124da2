"""The tables define which event may follow which, and the checker finds the event that breaks them."""

import pytest

from dragoman.hub.blocks import Text, ToolCall, ToolResult
from dragoman.hub.errors import Failure, UpstreamProtocolError
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
)
from dragoman.hub.reply_grammar import GrammarChecker

START = ReplyStarted()
TEXT = BlockOpened(0, Text(text=""))
CALL = BlockOpened(0, ToolCall(id="c", name="Read"))
END = ReplyFinished(cause="end")
FAILED = ReplyFailed("failed", Failure(kind="server", message="x"))

ILLEGAL: dict[str, list[ReplyEvent]] = {
    "a delta before the start": [TextDelta(0, "a")],
    "two starts": [START, START],
    "a delta for a block that never opened": [START, TextDelta(0, "a")],
    "a delta after the close": [START, TEXT, BlockClosed(0), TextDelta(0, "a")],
    "arguments in a text block": [START, TEXT, ArgumentsDelta(0, "{")],
    "a block closed twice": [START, TEXT, BlockClosed(0), BlockClosed(0)],
    "a gap in the numbers": [START, BlockOpened(1, Text(text=""))],
    "a finish with an open block": [START, TEXT, END],
    "anything after the finish": [START, END, TEXT],
    "two finishes": [START, END, END],
    "a finish after a failure": [START, FAILED, END],
    "tool_calls without calls": [START, ReplyFinished(cause="tool_calls")],
    "an answer that holds calls": [START, CALL, BlockClosed(0), END],
    "a tool result in a reply": [START, BlockOpened(0, ToolResult(call_id="c"))],  # type: ignore[arg-type]  # what an untyped reader could build
}


@pytest.mark.rule("R50", "R52", "P2", "P11", "P12")
@pytest.mark.parametrize("name", ILLEGAL)
def test_the_checker_stops_at(name: str) -> None:
    *legal, illegal = ILLEGAL[name]
    checker = GrammarChecker()
    for event in legal:
        checker.check(event)
    with pytest.raises(UpstreamProtocolError):
        checker.check(illegal)


def test_interleaved_calls_are_legal() -> None:
    checker = GrammarChecker()
    second = BlockOpened(1, ToolCall(id="d", name="Edit"))
    deltas = [ArgumentsDelta(0, "{"), ArgumentsDelta(1, "{"), ArgumentsDelta(0, "}")]
    closes = [BlockClosed(1), BlockClosed(0)]
    events: list[ReplyEvent] = [START, CALL, second, *deltas, *closes, ReplyFinished(cause="tool_calls")]
    for event in events:
        checker.check(event)
    assert checker.is_ended


def test_a_failure_may_come_before_the_start_and_may_leave_blocks_open() -> None:
    checker = GrammarChecker()
    checker.check(FAILED)
    assert checker.is_ended
    checker = GrammarChecker()
    events: list[ReplyEvent] = [START, TEXT, FAILED]
    for event in events:
        checker.check(event)
    assert checker.is_ended
