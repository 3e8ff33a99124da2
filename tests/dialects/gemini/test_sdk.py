"""Google's own client reads the streams and replies of the writer."""

import pytest
from google.genai import errors

from dragoman.dialects.interfaces import ClientContext
from dragoman.hub.blocks import Citation, Media, Reasoning, ReplyBlock, Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed, ReplyFinished, ReplyStarted
from dragoman.hub.fold import Reply, unfold
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage
from tests.dialects.gemini.replies import recorded, stems, through, write
from tests.sdk.gemini_reader import accumulate

#: The last one came with several answers, of which only one is translated.
FAILED = ("cut", "failed", "malformed-call")
STREAMS = [stem for stem in stems("stream-", ".sse") if stem not in (*FAILED, "two-candidates")]


def stream_of(*blocks: ReplyBlock, ending: ReplyFinished | ReplyFailed, usage: Usage | None = None) -> bytes:
    reply = Reply(started=ReplyStarted(id="r1", model="m1"), blocks=blocks, usage=usage, ending=ending)
    return write(unfold(reply), ClientContext(upstream="anthropic"))


@pytest.mark.parametrize("stem", STREAMS)
def test_a_recorded_stream_reads_the_same_before_and_after(stem: str) -> None:
    before, after = (
        accumulate(recorded(f"stream-{stem}.sse")),
        accumulate(through(recorded(f"stream-{stem}.sse"))),
    )
    if stem == "partial-arguments":
        # The client shows the pieces; we have put them together.
        before["calls"], after["calls"] = [], []
    assert after == before


def test_a_foreign_reply_reads_as_it_was_meant() -> None:
    stream = stream_of(
        Reasoning(parts=("hm", "so"), seal=Seal("anthropic", "claude", "c2ln")),
        Text(text="größer", citations=(Citation(url="https://example.org/a", title="A"),)),
        Media(kind="image", media_type="image/png", data="AAAA"),
        ToolCall(id="c1", name="run", arguments='{"a":[1,null]}'),
        ToolCall(id="c2", name="run", arguments=""),
        usage=Usage(input=10, output=7, reasoning=3, cache_read=4),
        ending=ReplyFinished(cause="tool_calls"),
    )
    reply = accumulate(stream)
    signatures = reply.pop("signatures")
    assert isinstance(signatures, list)
    assert signatures[0].startswith(b"dgm1.")
    grounding = reply.pop("grounding")
    assert isinstance(grounding, dict)
    assert grounding["grounding_supports"][0]["segment"]["end_index"] == 8
    assert reply == {
        "id": "r1",
        "model": "m1",
        "text": "größer",
        "thoughts": "hm\n\nso",
        "calls": [
            {"id": "c1", "name": "run", "args": {"a": [1, None]}},
            {"id": "c2", "name": "run", "args": {}},
        ],
        "media": [("image/png", b"\x00\x00\x00")],
        "usage": {
            "prompt_token_count": 10,
            "cached_content_token_count": 4,
            "candidates_token_count": 4,
            "thoughts_token_count": 3,
            "total_token_count": 17,
        },
        "finish_reason": "STOP",
    }


@pytest.mark.rule("H76")
@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\r", "\x0b", "\x1c"])
def test_separators_inside_a_text_do_not_break_the_stream(separator: str) -> None:
    text = f"before{separator}after"
    stream = stream_of(
        Text(text=text),
        ToolCall(id="c1", name="run", arguments=f'{{"a":"\\n{separator if ord(separator) > 31 else ""}"}}'),
        ending=ReplyFinished(cause="tool_calls"),
    )
    assert accumulate(stream)["text"] == text


@pytest.mark.rule("H72", "H73")
def test_a_reply_that_broke_off_is_raised() -> None:
    failure = Failure(kind="overloaded", message="Too busy.", status=529)
    stream = stream_of(Text(text="half"), ending=ReplyFailed("truncated", failure))
    with pytest.raises(errors.ServerError, match="Too busy"):
        accumulate(stream)
