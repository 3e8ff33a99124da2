"""What the stage makes of a reply: numbers, ids, endings, and calls that the upstream made itself."""

import pytest

from dragoman.governance.harvest import HarvestStage
from dragoman.governance.interventions import Intervention
from dragoman.hub.blocks import Citation, Reasoning, Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    DELTAS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    FailedEnding,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
)
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from dragoman.hub.seal import Seal
from tests.governance.harvest.running import TOOLS, harvested, reply_of, stage, through

CALL = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
UNCLOSED = '<tool_call>{"name": "get_time", "arguments": {}}'
BROKEN = Failure(kind="overloaded", message="gone")
SEAL = Seal("gemini", "m", "c2VhbA==")


def text_block(index: int, *pieces: str) -> list[ReplyEvent]:
    deltas = [TextDelta(index, piece) for piece in pieces]
    return [BlockOpened(index, Text(text="")), *deltas, BlockClosed(index)]


def call_block(index: int) -> list[ReplyEvent]:
    opened = BlockOpened(index, ToolCall(id="call_1", name="read_file"))
    return [opened, ArgumentsDelta(index, "{}"), BlockClosed(index)]


def kinds(events: list[ReplyEvent]) -> list[str]:
    return [type(block).__name__ for block in fold(events).blocks]


def texts(events: list[ReplyEvent]) -> list[str]:
    return [block.text for block in fold(events).blocks if isinstance(block, Text)]


@pytest.mark.rule("R75")
def test_text_behind_a_call_of_the_upstreams_own_is_text() -> None:
    events = [ReplyStarted(), *call_block(0), *text_block(1, CALL), ReplyFinished(cause="tool_calls")]
    assert through(stage("hermes"), events) == events


@pytest.mark.rule("R75")
def test_what_waits_when_the_upstream_makes_a_call_is_text() -> None:
    events = [
        ReplyStarted(),
        BlockOpened(0, Text(text="")),
        TextDelta(0, f"So.\n{UNCLOSED}"),
        *call_block(1),
        TextDelta(0, f"</tool_call>{CALL}"),
        BlockClosed(0),
        ReplyFinished(cause="tool_calls"),
    ]
    after = through(stage("hermes"), events)
    assert kinds(after) == ["Text", "ToolCall"]
    assert texts(after) == [f"So.\n{UNCLOSED}</tool_call>{CALL}"]


@pytest.mark.rule("R75")
def test_what_was_harvested_before_the_upstream_makes_a_call_stays() -> None:
    events = [
        ReplyStarted(),
        *text_block(0, CALL),
        *call_block(1),
        *text_block(2, CALL),
        ReplyFinished(cause="tool_calls"),
    ]
    assert kinds(through(stage("hermes"), events)) == ["ToolCall", "ToolCall", "Text"]


def test_reasoning_that_is_open_when_the_upstream_makes_a_call_stays_reasoning() -> None:
    events = [
        ReplyStarted(),
        BlockOpened(0, Text(text="")),
        TextDelta(0, "<think>Hm. <"),
        *call_block(1),
        BlockClosed(0),
        ReplyFinished(cause="tool_calls"),
    ]
    after = through(stage("hermes"), events)
    assert [block.text for block in fold(after).blocks if isinstance(block, Reasoning)] == ["Hm. <"]


def test_once_the_upstream_makes_calls_deltas_need_not_be_shown_to_the_stage() -> None:
    harvest = stage("hermes")
    through(harvest, [ReplyStarted(), *call_block(0)])
    assert harvest.unchanged_kinds >= DELTAS


def test_a_stage_with_nothing_to_look_for_passes_everything() -> None:
    harvest = stage("jamba", tools=())
    events = reply_of(["<tool_calls>", "x"])
    assert harvest.unchanged_kinds >= DELTAS
    assert through(harvest, events) == events


def test_words_in_the_first_block_go_out_as_the_events_they_came_in() -> None:
    harvest = stage("hermes")
    through(harvest, [ReplyStarted(), BlockOpened(0, Text(text="", form="plain"))])
    first, second = TextDelta(0, "Hello"), TextDelta(0, " there")
    assert harvest.feed(first) == [BlockOpened(0, Text(text="", form="plain")), first]
    assert harvest.feed(second)[0] is second


def test_text_that_comes_with_the_opening_is_looked_at_too() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, Text(text=f"So. {CALL}")),
        BlockClosed(0),
        ReplyFinished(cause="end"),
    ]
    assert kinds(through(stage("hermes"), events)) == ["Text", "ToolCall"]


def test_an_empty_text_block_stays() -> None:
    events = reply_of([])
    assert through(stage("hermes"), events) == events


def test_blocks_behind_a_harvested_call_get_new_numbers() -> None:
    events = [
        ReplyStarted(),
        *text_block(0, f"So.\n{CALL}\nThen."),
        BlockOpened(1, Reasoning()),
        ReasoningDelta(1, "Hm."),
        BlockClosed(1),
        *text_block(2, "Hello."),
        ReplyFinished(cause="end"),
    ]
    assert kinds(through(stage("hermes"), events)) == ["Text", "ToolCall", "Text", "Reasoning", "Text"]


@pytest.mark.rule("R73")
@pytest.mark.parametrize("cause", ["end", "other", "stop_sequence"])
def test_the_cause_follows_the_calls(cause: str) -> None:
    harvest = stage("hermes")
    *before, finished = reply_of([CALL], cause)
    through(harvest, before)
    assert isinstance(finished, ReplyFinished)
    (after,) = harvest.feed(
        ReplyFinished(cause=finished.cause, raw_cause="stop", stop_sequence="#", extras={"kept": 1})
    )
    assert after == ReplyFinished(cause="tool_calls", extras={"kept": 1})


@pytest.mark.parametrize("cause", ["length", "content_filter", "refusal", "context_window"])
def test_a_cause_that_reports_a_cut_stays(cause: str) -> None:
    reply = harvested("hermes", [CALL], cause)
    assert isinstance(reply.ending, ReplyFinished)
    assert reply.ending.cause == cause


@pytest.mark.parametrize("cause", ["length", "content_filter", "refusal", "context_window", "pause"])
def test_a_call_without_its_end_is_text_where_the_reply_was_cut_short(cause: str) -> None:
    assert [type(block) for block in harvested("hermes", [UNCLOSED], cause).blocks] == [Text]


@pytest.mark.parametrize("ending", ["failed", "truncated", "cancelled"])
@pytest.mark.parametrize("closed", [True, False])
def test_a_call_without_its_end_is_text_in_a_reply_that_failed(ending: FailedEnding, closed: bool) -> None:
    begun: list[ReplyEvent] = [ReplyStarted(), BlockOpened(0, Text(text="")), TextDelta(0, UNCLOSED)]
    closing: list[ReplyEvent] = [BlockClosed(0)] if closed else []
    failed = ReplyFailed(ending, BROKEN)
    after = through(stage("hermes"), [*begun, *closing, failed])
    assert texts(after) == [UNCLOSED]
    assert after[-1] == failed


def test_what_is_held_back_goes_out_before_a_failure() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, Text(text="")),
        TextDelta(0, "So\n\n<tool_c"),
    ]
    after = through(stage("hermes"), [*events, ReplyFailed("truncated", BROKEN)])
    assert texts(after) == ["So\n\n<tool_c"]


def test_a_call_without_its_end_is_a_call_where_another_block_follows() -> None:
    events = [
        ReplyStarted(),
        *text_block(0, UNCLOSED),
        *text_block(1, "So."),
        ReplyFinished(cause="end"),
    ]
    assert kinds(through(stage("hermes"), events)) == ["ToolCall", "Text"]


def test_an_answer_of_calls_without_a_marker_must_be_the_whole_answer() -> None:
    bare = '{"name": "get_time", "parameters": {}}'
    one = [ReplyStarted(), *text_block(0, bare), ReplyFinished(cause="end")]
    followed = [*one[:-1], *text_block(1, "So."), one[-1]]
    preceded = [ReplyStarted(), *text_block(0, "So."), *text_block(1, bare), one[-1]]
    assert kinds(through(stage("llama3"), one)) == ["ToolCall"]
    assert kinds(through(stage("llama3"), followed)) == ["Text", "Text"]
    assert kinds(through(stage("llama3"), preceded)) == ["Text", "Text"]


def test_reasoning_that_the_upstream_reported_apart_leaves_no_tags_to_look_for() -> None:
    thought: list[ReplyEvent] = [BlockOpened(0, Reasoning()), ReasoningDelta(0, "Hm."), BlockClosed(0)]
    for family in ("hermes", "qwen3_thinking"):
        answer = text_block(1, "<think>is a tag, </think> too.")
        events = [ReplyStarted(), *thought, *answer, ReplyFinished(cause="end")]
        assert texts(through(stage(family), events)) == ["<think>is a tag, </think> too."]


def test_harvested_reasoning_is_thought_itself() -> None:
    (thought, answer) = harvested("hermes", ["<think>Hm.</think>Hello."]).blocks
    assert isinstance(thought, Reasoning)
    assert (thought.raw, thought.text) == (True, "Hm.")
    assert isinstance(answer, Text)


def test_a_call_goes_out_whole() -> None:
    harvest = stage("hermes")
    through(harvest, [ReplyStarted(), BlockOpened(0, Text(text=""))])
    assert harvest.feed(TextDelta(0, CALL)) == []
    opened, arguments, closed = harvest.feed(TextDelta(0, "\n"))
    assert isinstance(opened, BlockOpened)
    assert isinstance(opened.block, ToolCall)
    assert (arguments, closed) == (ArgumentsDelta(0, "{}"), BlockClosed(0))


@pytest.mark.rule("G9")
def test_a_report_states_how_long_a_call_was_held() -> None:
    reports: list[Intervention] = []
    times = iter(range(100))
    harvest = HarvestStage(
        TOOLS, family="hermes", ids=IdSource("seed"), report=reports.append, clock=lambda: float(next(times))
    )
    through(harvest, reply_of(list(CALL)))
    assert [each.held for each in reports] == [1.0]


def test_calls_get_ids_of_their_own() -> None:
    ids = [block.id for block in harvested("hermes", [CALL * 3]).blocks if isinstance(block, ToolCall)]
    assert len(set(ids)) == 3
    assert all(each.startswith("call_") for each in ids)


def kimi_call(header: str) -> str:
    return f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"


def test_a_header_of_kimi_becomes_the_id_once() -> None:
    section = "<|tool_calls_section_begin|>" + kimi_call("functions.get_time:7") * 2
    first, second = harvested("kimi_k2", [section]).blocks
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert first.id == "functions.get_time:7"
    assert second.id.startswith("call_")


def test_a_header_of_kimi_reduced_to_its_number_means_the_only_tool() -> None:
    section = "<|tool_calls_section_begin|>" + kimi_call("7")
    (only,) = harvested("kimi_k2", [section], tools=TOOLS[3:4]).blocks
    assert isinstance(only, ToolCall)
    assert (only.name, only.id[:5]) == ("get_time", "call_")


def test_a_seal_goes_with_words_that_are_what_they_were() -> None:
    sealed = [*reply_of(["Hello."])[:3], SealAttached(0, SEAL), *reply_of([])[2:]]
    assert through(stage("hermes"), sealed) == sealed


def test_a_seal_on_words_that_were_taken_apart_is_void() -> None:
    sealed = [*reply_of([f"So.\n{CALL}\nThen."])[:3], SealAttached(0, SEAL), *reply_of([])[2:]]
    assert not any(isinstance(event, SealAttached) for event in through(stage("hermes"), sealed))


def test_a_citation_in_words_that_were_taken_apart_keeps_no_offsets() -> None:
    citation = CitationAdded(0, Citation(url="https://example.com", start=2, end=4))
    cited = [*reply_of([f"So.\n{CALL}\nThen."])[:3], citation, *reply_of([])[2:]]
    (after,) = [event for event in through(stage("hermes"), cited) if isinstance(event, CitationAdded)]
    assert after.citation == Citation(url="https://example.com")


def test_a_citation_behind_which_no_words_are_left_goes() -> None:
    cited = [*reply_of([CALL])[:3], CitationAdded(0, Citation(url="u")), *reply_of([])[2:]]
    assert kinds(through(stage("hermes"), cited)) == ["ToolCall"]


def test_every_harvest_is_reported_without_its_words() -> None:
    reports: list[Intervention] = []
    text = f"<think>Hm.</think>{CALL}<tool_call>{{"
    through(stage("hermes", reports=reports), reply_of([text]))
    assert reports == [
        Intervention(kind="harvest", detail=("hermes", "reasoning"), before=3, after=3),
        Intervention(kind="harvest", tool="get_time", detail=("hermes",), before=len(CALL), after=2),
        Intervention(kind="harvest", detail=("hermes",), before=12, ok=False, reason="unfinished"),
    ]


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(KeyError):
        stage("esperanto")


def held(text: str, *, now: list[float], notes: list[Intervention]) -> HarvestStage:
    """A stage that waits for the end of what it has been given."""
    made = HarvestStage(
        TOOLS,
        family="hermes",
        ids=IdSource("seed"),
        report=notes.append,
        limit=2000,
        seconds=5,
        clock=lambda: now[0],
    )
    assert made.feed(ReplyStarted()) == [ReplyStarted()]
    assert made.feed(BlockOpened(0, Text(text=""))) == []
    assert made.feed(TextDelta(0, text)) == []
    return made


def test_what_may_wait_for_the_end_of_a_call_is_bounded() -> None:
    notes: list[Intervention] = []
    begun = '<tool_call>{"name": "get_time", "arguments": {"a": "'
    made = held(begun, now=[0.0], notes=notes)
    out: list[ReplyEvent] = []
    for _ in range(100):
        out += made.feed(TextDelta(0, "x" * 30))
    out += [*made.feed(BlockClosed(0)), *made.feed(ReplyFinished(cause="end"))]
    assert texts([ReplyStarted(), *out]) == [begun + "x" * 3000]
    assert [(note.kind, note.ok, note.reason) for note in notes] == [
        ("harvest", False, "more than may be held")
    ]


def test_what_waits_for_the_end_of_a_call_waits_only_so_long() -> None:
    notes: list[Intervention] = []
    now = [100.0]
    made = held('<tool_call>{"name": ', now=now, notes=notes)
    now[0] = 104.0
    assert made.take_overdue() == []
    now[0] = 106.0
    assert made.take_overdue() == [BlockOpened(0, Text(text="")), TextDelta(0, '<tool_call>{"name": ')]
    assert made.take_overdue() == []
    assert made.feed(TextDelta(0, "x")) == [TextDelta(0, "x")]
    assert [note.reason for note in notes] == ["held for as long as allowed"]
