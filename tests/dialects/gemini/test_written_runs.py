"""A run of deltas is written as the deltas one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.gemini.stream_writer import GeminiStreamWriter
from dragoman.dialects.interfaces import ClientContext
from dragoman.hub.blocks import Citation, Reasoning, Refusal, ReplyBlock, Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    DeltaRun,
    ReadEvents,
    ReasoningDelta,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    expand_runs,
)
from dragoman.wire.sse import Frame, FrameRun, FrameRuns, encode_sse
from tests.dialects.gemini.replies import asked, user

CITATION = Citation(url="https://a", title="t", start=1, end=3)
THOUGHTS = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
TEXTS = st.lists(st.text(min_size=1, max_size=4) | st.sampled_from(["a", "é", "\u2028", "\n"]), min_size=1)
OPENINGS: list[tuple[ReplyBlock, type[TextDelta | ReasoningDelta | ArgumentsDelta]]] = [
    (Text(text=""), TextDelta),
    (Text(text="first"), TextDelta),
    (Refusal(text=""), TextDelta),
    (Reasoning(), ReasoningDelta),
    (Reasoning(parts=("first",)), ReasoningDelta),
    (ToolCall(id="c", name="run", kind="custom"), ArgumentsDelta),
]
#: The upstream, and the tools of the request: a search makes the writer keep cited texts.
SITUATIONS: list[tuple[str, list[object]]] = [
    ("openai_chat", []),
    ("openai_chat", [{"googleSearch": {}}]),
    ("gemini", []),
]


@st.composite
def replies(draw: st.DrawFn) -> ReadEvents:
    events: ReadEvents = [ReplyStarted(id="r", model="m")]
    for index, (block, kind) in enumerate(draw(st.lists(st.sampled_from(OPENINGS), max_size=4))):
        events.append(BlockOpened(index, block))
        events += [DeltaRun(kind, index, texts) for texts in draw(st.lists(TEXTS, max_size=3))]
        if isinstance(block, Text):
            events.append(CitationAdded(index, CITATION))
        events.append(BlockClosed(index))
    return [*events, ReplyFinished(cause="end")]


def write(upstream: str, tools: list[object], events: ReadEvents) -> bytes:
    request = asked({"contents": [user({"text": "Hi"})], "tools": tools, **THOUGHTS})
    writer = GeminiStreamWriter(ClientContext(upstream=upstream, request=request))
    parts: list[Frame | FrameRun] = []
    for event in events:
        parts += writer.write_run(event) if isinstance(event, DeltaRun) else writer.write(event)
    return encode_sse(FrameRuns(parts))


@pytest.mark.parametrize(("upstream", "tools"), SITUATIONS)
@given(replies())
def test_a_run_is_written_as_its_deltas(upstream: str, tools: list[object], events: ReadEvents) -> None:
    assert write(upstream, tools, events) == write(upstream, tools, [*expand_runs(events)])
