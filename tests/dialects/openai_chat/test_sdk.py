"""OpenAI's published client reads what we write."""

from pathlib import Path

import openai
import pytest
from hypothesis import given, settings

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.hub.blocks import Citation, Reasoning, Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
    UsageReported,
)
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage
from tests.dialects.openai_chat.replies import RECORDINGS, events_of, list_of, message_of, object_of, written
from tests.dialects.strategies import replies
from tests.sdk.openai_chat_reader import accumulate, chunks, validate

#: The helper knows no custom calls, not even those that OpenAI itself sends.
UNKNOWN_TO_THE_HELPER = ("custom",)
FAILING = ("cut", "failed", "error-with-status")
STREAMS = [
    path
    for path in sorted(RECORDINGS.glob("stream-*.sse"))
    if not any(word in path.stem for word in (*UNKNOWN_TO_THE_HELPER, *FAILING))
]


def parse_message(stream: bytes) -> Json:
    return object_of(list_of(accumulate(stream)["choices"])[0]["message"])


def check_fields_with_sdk(stream: bytes, fields: tuple[str, ...]) -> None:
    """Check that the SDK accumulates in these fields the same as `collect`."""
    collected, parsed = message_of(stream), parse_message(stream)
    for field in fields:
        assert parsed.get(field) == collected.get(field)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
def test_the_streaming_helper_reads_what_we_write(path: Path, upstream: str) -> None:
    stream = written(events_of(path.read_bytes()), ClientContext(upstream=upstream))
    check_fields_with_sdk(stream, ("role", "content", "refusal", "reasoning_content", "function_call"))
    collected, parsed = (
        message_of(stream).get("tool_calls") or [],
        parse_message(stream).get("tool_calls") or [],
    )
    assert [(c["id"], object_of(c["function"])["name"]) for c in list_of(parsed)] == [
        (c["id"], object_of(c["function"])["name"]) for c in list_of(collected)
    ]
    assert [object_of(c["function"])["arguments"] for c in list_of(parsed)] == [
        object_of(c["function"])["arguments"] for c in list_of(collected)
    ]


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_a_plain_streaming_call_gets_chunks_of_the_declared_type(path: Path) -> None:
    parsed = chunks(written(events_of(path.read_bytes()), ClientContext(upstream="anthropic")))
    for chunk in parsed:
        validate(chunk)
    assert object_of(list_of(parsed[0]["choices"])[0]["delta"])["role"] == "assistant"


def test_custom_calls_reach_a_plain_streaming_call() -> None:
    raw = (RECORDINGS / "stream-custom-tool-call.sse").read_bytes()
    parsed = chunks(written(events_of(raw)))
    fragments = [
        fragment
        for chunk in parsed
        for choice in list_of(chunk["choices"])
        for fragment in list_of(object_of(choice["delta"]).get("tool_calls") or [])
    ]
    text = "".join(str(object_of(fragment["custom"]).get("input", "")) for fragment in fragments)
    assert text.startswith("*** Begin Patch\n")


@pytest.mark.rule("H72", "R127")
def test_a_failure_raises_in_the_application() -> None:
    failure = Failure(kind="overloaded", message="the upstream is gone")
    stream = written([ReplyStarted(id="x"), ReplyFailed("truncated", failure)])
    with pytest.raises(openai.APIError, match="the upstream is gone"):
        accumulate(stream)
    with pytest.raises(openai.APIError, match="the upstream is gone"):
        chunks(stream)


EVERYTHING: list[ReplyEvent] = [
    ReplyStarted(id="x", model="m", created=1),
    BlockOpened(0, Reasoning()),
    ReasoningDelta(0, "one"),
    SealAttached(0, Seal("anthropic", "m", "s")),
    BlockClosed(0),
    BlockOpened(1, Text(text="")),
    TextDelta(1, "Hi."),
    CitationAdded(1, Citation(url="https://example.org", title="T", start=0, end=3)),
    BlockClosed(1),
    BlockOpened(2, ToolCall(id="a", name="Read")),
    SealAttached(2, Seal("gemini", "m", "s")),
    BlockOpened(3, ToolCall(id="b", name="Bash")),
    SealAttached(3, Seal("openai_responses", "m", "s")),
    ArgumentsDelta(3, '{"b":'),
    ArgumentsDelta(2, '{"a":1}'),
    ArgumentsDelta(3, "2}"),
    BlockClosed(2),
    BlockClosed(3),
    UsageReported(Usage(input=5, output=2)),
    ReplyFinished(cause="tool_calls"),
]


def test_fields_beyond_openais_own_survive_the_helper() -> None:
    stream = written(EVERYTHING)
    check_fields_with_sdk(stream, ("content", "reasoning_content", "reasoning_details", "annotations"))
    calls = list_of(parse_message(stream)["tool_calls"])
    assert calls[0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert accumulate(stream)["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def is_whole_and_plain(events: list[ReplyEvent]) -> bool:
    return isinstance(events[-1], ReplyFinished) and not any(
        isinstance(event, BlockOpened) and isinstance(event.block, ToolCall) and event.block.kind == "custom"
        for event in events
    )


@given(events=replies(failing=False).filter(is_whole_and_plain))
@settings(max_examples=60)
def test_the_helper_reads_any_reply(events: list[ReplyEvent]) -> None:
    check_fields_with_sdk(written(events), ("content", "refusal", "reasoning_content", "reasoning_details"))
