"""Properties of every text: nothing is lost, nothing waits without need, and no cut changes the result."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.harvest import AUTO
from dragoman.governance.harvest import families as known_families
from dragoman.governance.harvest.candidates import build_plan
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.events import BlockClosed, BlockOpened, DeltaRun, ReplyEvent, ReplyStarted, TextDelta
from tests.dialects.strategies import replies
from tests.governance.harvest.case_file import cases, describe
from tests.governance.harvest.running import TOOLS, cuts_of, harvested, reply_of, stage, through

FORMATS = known_families()
FAMILIES = [*FORMATS, AUTO]
WRITTEN = [case.text for case in cases()]
MARKERS = sorted({opener.marker for each in FORMATS.values() for opener in each.openers})
FRAGMENTS = sorted(
    {
        fragment
        for text in WRITTEN
        for fragment in (text, text[: len(text) // 2], text[len(text) // 2 :], text[len(text) // 3 :][:20])
    }
)

families = st.sampled_from(FAMILIES)
#: Texts that are made of what the formats are made of, and therefore go wrong in every possible way.
hostile = st.lists(
    st.one_of(
        st.sampled_from(FRAGMENTS),
        st.sampled_from(MARKERS),
        st.sampled_from(["\n", "```", "`", '"', "'", "<think>", "</think>", "{", "}", "get_time", "> ", " "]),
        st.text(max_size=5),
    ),
    max_size=6,
).map("".join)


@pytest.mark.rule("R90")
@given(family=families, text=hostile, data=st.data())
@settings(max_examples=500)
def test_how_a_text_is_cut_makes_no_difference(family: str, text: str, data: st.DataObject) -> None:
    pieces = data.draw(cuts_of(text))
    assert describe(harvested(family, pieces)) == describe(harvested(family, [text]))
    assert describe(harvested(family, list(text))) == describe(harvested(family, [text]))


@given(family=families, text=hostile, cause=st.sampled_from(["end", "length", "stop_sequence", "refusal"]))
@settings(max_examples=300)
def test_a_reply_without_calls_ends_as_it_did(family: str, text: str, cause: str) -> None:
    reply = harvested(family, [text], cause)
    if not any(isinstance(block, ToolCall) for block in reply.blocks):
        assert describe(reply)[-1] == f"stop {cause}"


@pytest.mark.rule("C20")
@given(family=families, text=hostile)
@settings(max_examples=300)
def test_only_declared_tools_are_called(family: str, text: str) -> None:
    names = {tool.name for tool in TOOLS}
    assert {block.name for block in harvested(family, [text]).blocks if isinstance(block, ToolCall)} <= names


@given(family=families, text=hostile)
@settings(max_examples=300)
def test_without_declared_tools_nothing_is_called(family: str, text: str) -> None:
    reply = harvested(family, [text], tools=())
    assert not any(isinstance(block, ToolCall) for block in reply.blocks)


#: Characters with which a marker, a quotation or the text of another format can begin.
FIRST_CHARACTERS = "".join({marker[0] for marker in MARKERS} | set("◁H~("))
plain_texts = st.text(alphabet=st.characters(exclude_characters=FIRST_CHARACTERS, codec="utf-8"), max_size=60)


@pytest.mark.rule("R82")
@given(
    family=st.sampled_from(
        [name for name in FAMILIES if name == AUTO or build_plan(name, has_tools=True).in_prompt is None]
    ),
    pieces=st.lists(plain_texts, min_size=1, max_size=5),
)
@settings(max_examples=300)
def test_text_without_markers_passes_unchanged_and_at_once(family: str, pieces: list[str]) -> None:
    harvest = stage(family)
    harvest.feed(ReplyStarted())
    harvest.feed(BlockOpened(0, Text(text="")))
    given_out = ""
    for count, piece in enumerate(pieces, 1):
        for event in harvest.feed(TextDelta(0, piece)):
            given_out += event.text if isinstance(event, TextDelta) else ""
        come = "".join(pieces[:count])
        assert come.startswith(given_out)
        waiting = come[len(given_out) :]
        # Only line breaks wait: they may be the layout before a marker.
        assert not waiting.strip("\r\n") or not come.strip()
    for event in harvest.feed(BlockClosed(0)):
        given_out += event.text if isinstance(event, TextDelta) else ""
    assert given_out == "".join(pieces)


@pytest.mark.rule("R82")
@given(pieces=st.lists(st.text(alphabet="<tol_ca\n", max_size=12), min_size=1, max_size=8))
@settings(max_examples=300)
def test_only_what_may_be_a_marker_waits_and_line_breaks_before_it(pieces: list[str]) -> None:
    harvest = stage("hermes")
    through(harvest, [ReplyStarted(), BlockOpened(0, Text(text="")), TextDelta(0, "x")])
    come = given_out = ""
    for piece in pieces:
        come += piece
        for event in harvest.feed(TextDelta(0, piece)):
            given_out += event.text if isinstance(event, TextDelta) else ""
        assert come.startswith(given_out)
        waiting = come[len(given_out) :].lstrip("\n")
        longest = max(length for length in range(12) if come.endswith("<tool_call>"[:length]))
        assert len(waiting) == longest


@given(family=families, events=replies())
@settings(max_examples=300)
def test_any_reply_stays_grammatical(family: str, events: list[ReplyEvent]) -> None:
    through(stage(family), events)


@given(family=families, events=replies(), text=hostile, data=st.data())
@settings(max_examples=300)
def test_a_reply_with_anything_in_its_texts_stays_grammatical(
    family: str, events: list[ReplyEvent], text: str, data: st.DataObject
) -> None:
    pieces = iter(data.draw(cuts_of(text)))
    replaced = [
        TextDelta(event.index, next(pieces, event.text)) if isinstance(event, TextDelta) else event
        for event in events
    ]
    through(stage(family), replaced)


def skimmed(family: str, events: list[ReplyEvent]) -> list[ReplyEvent]:
    """The result if a text is fed only where `skim` does not pass it."""
    harvest = stage(family)
    skim = harvest.skim
    out: list[ReplyEvent] = []
    for event in events:
        if isinstance(event, TextDelta) and skim is not None and skim(event.text):
            out.append(event)
            continue
        after = harvest.feed(event)
        out += after
        if not (isinstance(event, TextDelta) and len(after) == 1 and isinstance(after[0], TextDelta)):
            skim = harvest.skim
    return out


@given(family=families, text=st.one_of(hostile, st.text(max_size=60)), data=st.data())
@settings(max_examples=300)
def test_what_is_skimmed_need_not_be_fed(family: str, text: str, data: st.DataObject) -> None:
    events = reply_of(data.draw(cuts_of(text)))
    assert skimmed(family, events) == through(stage(family), events)


#: Pieces of lines, most of them without any marker.
line_pieces = st.lists(
    st.sampled_from(
        [
            *["a", "a word ", "two\nlines", "x\n", "\n", "\n\n", "\r\n", "  ", "\tb", "- ", "1. ", ")"],
            *["```", "```\n", "~~~", "`", '"', "“", "<", "<b>", "</b>", "[", "{", "<!--", "<tool_call>"],
            *['<tool_call>{"name":"get_time","arguments":{}}', "</tool_call>", "<think>", "</think>"],
        ]
    ),
    min_size=1,
    max_size=24,
)


@given(family=families, pieces=line_pieces, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=9))
@settings(max_examples=500)
def test_runs_of_pieces_pass_as_the_pieces_alone(family: str, pieces: list[str], sizes: list[int]) -> None:
    events = reply_of(pieces)
    harvest = stage(family)
    out: list[ReplyEvent] = []
    at = number = 0
    while at < len(events):
        size = 1
        if isinstance(events[at], TextDelta):
            texts = [
                each.text
                for each in events[at : at + sizes[number % len(sizes)]]
                if isinstance(each, TextDelta)
            ]
            number += 1
            passed = harvest.feed_run(DeltaRun(TextDelta, 0, texts))
            if passed is not None:
                out += [TextDelta(0, text) for text in passed]
                at += len(texts)
                continue
        out += harvest.feed(events[at])
        at += size
    assert out == through(stage(family), events)


def test_a_run_of_lines_needs_no_scan() -> None:
    harvest = stage(AUTO)
    for event in reply_of(["Well."])[:3]:
        harvest.feed(event)
    texts = ["one", " two\n", "- three", "\n", "\n", "  four\nfive\n"]
    assert harvest.feed_run(DeltaRun(TextDelta, 0, texts)) == ["one", " two", "\n- three", "\n\n  four\nfive"]
    assert harvest.feed_run(DeltaRun(TextDelta, 0, ["six", "\n<tool", "x"])) is None
    assert harvest.feed_run(DeltaRun(TextDelta, 0, ["six", "!"])) == ["\nsix", "!"]


@given(family=families, events=replies())
def test_whole_replies_can_be_skimmed(family: str, events: list[ReplyEvent]) -> None:
    assert skimmed(family, events) == through(stage(family), events)


@given(family=families, events=replies(failing=False))
def test_what_a_stage_states_it_passes_it_passes(family: str, events: list[ReplyEvent]) -> None:
    harvest = stage(family)
    for event in events:
        if type(event) in harvest.unchanged_kinds:
            assert harvest.feed(event) == [event]
        else:
            harvest.feed(event)


@pytest.mark.parametrize(
    ("family", "unit"),
    [
        ("hermes", "<tool_call"),
        ("hermes", "<tool_call>"),
        ("hermes", '<tool_call>{"name":"search","arguments":{"query":"'),
        ("hermes", "<tool_call>{"),
        ("hermes", '<think>"'),
        ("glm", "<tool_call>search<arg_key>query</arg_key><arg_value></arg_value>"),
        ("qwen3_coder", "<function=search><parameter=query>"),
        ("qwen3_coder", "<tool_call><function=search><parameter=query></parameter> "),
        ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>"),
        ("mistral", "[TOOL_CALLS]search{"),
        ("llama3", '{"name":"search","parameters":{"query":"}'),
        ("gpt_oss", "<|channel|>"),
        ("gpt_oss", '<|start|>assistant<|channel|>commentary to=functions.search<|message|>{"query":"'),
        (AUTO, "<tool_call>{"),
        (AUTO, "<"),
        (AUTO, "\n"),
        (AUTO, " "),
        (AUTO, "`"),
        (AUTO, '"'),
        (AUTO, "\\"),
    ],
)
def test_a_megabyte_of_hostile_text_is_done_with(family: str, unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    assert harvested(family, [text]).ending is not None
    assert harvested(family, list(text[:30_000])).ending is not None
