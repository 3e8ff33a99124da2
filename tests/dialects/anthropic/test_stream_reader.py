"""Our reader of Anthropic streams makes sense of whatever comes, and ends as the upstream did."""

import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.hub.blocks import HostedCall, HostedResult, Opaque, Reasoning, Text, ToolCall
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.events import ReplyFailed, ReplyFinished, ReplyStarted, TextDelta
from dragoman.hub.fold import Reply, fold
from dragoman.hub.seal import Seal
from tests.dialects.anthropic.replies import (
    MESSAGE_STOP,
    block_delta,
    block_start,
    block_stop,
    message_delta,
    message_start,
    read,
    recorded,
    stream_of,
)


def reply(*events: Json) -> Reply:
    return fold(read(stream_of(*events)))


def finished(*events: Json) -> ReplyFinished:
    ending = reply(*events).ending
    assert isinstance(ending, ReplyFinished)
    return ending


def failed(*events: Json) -> ReplyFailed:
    ending = reply(*events).ending
    assert isinstance(ending, ReplyFailed)
    return ending


def test_the_start_reports_id_and_model() -> None:
    started = reply(message_start(), message_delta(), MESSAGE_STOP).started
    assert started is not None
    assert (started.id, started.model) == ("msg_1", "claude-x")


@pytest.mark.rule("P13")
def test_each_delta_of_a_text_is_an_event_of_its_own() -> None:
    events = read(
        stream_of(
            message_start(),
            block_start(0, type="text", text=""),
            block_delta(0, type="text_delta", text="Hel"),
            block_delta(0, type="text_delta", text="lo"),
            block_stop(0),
            message_delta(),
            MESSAGE_STOP,
        )
    )
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]


@pytest.mark.rule("H60")
def test_usage_counts_the_cached_prompt_as_part_of_the_prompt() -> None:
    usage = fold(read(recorded("stream-text.sse"))).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.cache_write) == (12 + 1024 + 18432, 18432, 1024)


def test_a_later_report_replaces_what_it_names_and_keeps_the_rest() -> None:
    usage: Json = {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 1}
    counts = reply(message_start(usage=usage), message_delta(usage={"output_tokens": 7}), MESSAGE_STOP).usage
    assert counts is not None
    assert (counts.input, counts.output) == (14, 7)


@pytest.mark.parametrize("count", [-1, "7", True, 1.5, None, [], 1e300])
def test_a_count_that_is_no_count_is_not_counted(count: object) -> None:
    usage: Json = {"input_tokens": 10, "output_tokens": count}
    counts = reply(message_start(usage=usage), message_delta(usage={}), MESSAGE_STOP).usage
    assert counts is not None
    assert counts.output is None


@pytest.mark.rule("H1", "P45")
def test_a_signature_is_a_seal_of_its_issuer_for_its_model() -> None:
    events = read(recorded("stream-reasoning.sse"), issuer="some-provider", model="claude-y")
    block = fold(events).blocks[0]
    assert isinstance(block, Reasoning)
    assert block.seal is not None
    assert (block.seal.issuer, block.seal.model) == ("some-provider", "claude-y")


def test_without_a_known_model_a_seal_names_the_model_of_the_reply() -> None:
    block = fold(read(recorded("stream-reasoning.sse"))).blocks[0]
    assert isinstance(block, Reasoning)
    assert block.seal is not None
    assert block.seal.model == "claude-opus-5-5"


@pytest.mark.rule("P10")
def test_thought_and_signature_reported_with_the_start_are_kept() -> None:
    block = reply(
        message_start(),
        block_start(0, type="thinking", thinking="Hm.", signature="sig"),
        block_stop(0),
        message_delta(),
        MESSAGE_STOP,
    ).blocks[0]
    assert block == Reasoning(parts=("Hm.",), seal=Seal("anthropic", "claude-x", "sig"))


def test_the_last_of_several_signatures_holds() -> None:
    block = reply(
        message_start(),
        block_start(0, type="thinking", thinking=""),
        block_delta(0, type="signature_delta", signature="one"),
        block_delta(0, type="signature_delta", signature="two"),
        block_stop(0),
        message_delta(),
        MESSAGE_STOP,
    ).blocks[0]
    assert isinstance(block, Reasoning)
    assert block.seal == Seal("anthropic", "claude-x", "two")


def test_redacted_thinking_is_a_seal_without_text() -> None:
    block = fold(read(recorded("stream-redacted-thinking.sse"))).blocks[0]
    assert isinstance(block, Reasoning)
    assert block.redacted
    assert block.text == ""
    assert block.seal is not None


CALL = {"type": "tool_use", "id": "toolu_1", "name": "Read"}


def call_of(*events: Json) -> ToolCall:
    block = reply(message_start(), *events, message_delta("tool_use"), MESSAGE_STOP).blocks[-1]
    assert isinstance(block, ToolCall)
    return block


@pytest.mark.rule("R60", "R51")
def test_arguments_are_joined_byte_for_byte() -> None:
    pieces = ['{"a": 1.50, ', '"b": "\\u00e9"', " }"]
    deltas = [block_delta(0, type="input_json_delta", partial_json=piece) for piece in pieces]
    assert call_of(block_start(0, **CALL, input={}), *deltas, block_stop(0)).arguments == "".join(pieces)


@pytest.mark.rule("P1", "P3")
def test_an_input_reported_only_with_the_start_becomes_the_arguments() -> None:
    assert call_of(block_start(0, **CALL, input={"path": "x"}), block_stop(0)).arguments == '{"path":"x"}'


@pytest.mark.rule("P1")
def test_an_input_reported_with_the_start_gives_way_to_deltas() -> None:
    call = call_of(
        block_start(0, **CALL, input={"path": "x"}),
        block_delta(0, type="input_json_delta", partial_json='{"path":"x"}'),
        block_stop(0),
    )
    assert call.arguments == '{"path":"x"}'


def test_an_input_that_is_a_text_is_taken_as_arguments() -> None:
    assert call_of(block_start(0, **CALL, input='{"path": 1}'), block_stop(0)).arguments == '{"path": 1}'


def test_a_call_without_an_id_gets_one() -> None:
    call = call_of(block_start(0, type="tool_use", name="Read", input={}), block_stop(0))
    assert call.id.startswith("toolu_")


@pytest.mark.rule("P21", "P5")
def test_a_reply_with_a_call_never_ends_as_a_mere_answer() -> None:
    ending = finished(
        message_start(),
        block_start(0, **CALL, input={}),
        block_stop(0),
        message_delta("end_turn"),
        MESSAGE_STOP,
    )
    assert (ending.cause, ending.raw_cause) == ("tool_calls", "end_turn")


@pytest.mark.rule("P22")
def test_a_matched_stop_sequence_is_named() -> None:
    ending = fold(read(recorded("stream-stop-sequence.sse"))).ending
    assert isinstance(ending, ReplyFinished)
    assert (ending.cause, ending.stop_sequence) == ("stop_sequence", "END")


@pytest.mark.rule("H49")
def test_a_refusal_is_explained() -> None:
    ending = fold(read(recorded("stream-refusal.sse"))).ending
    assert isinstance(ending, ReplyFinished)
    assert (ending.cause, ending.explanation) == ("refusal", "The rest of this answer was held back.")


def test_a_server_tool_is_a_hosted_call_and_its_result_readable() -> None:
    blocks = fold(read(recorded("stream-web-search.sse"))).blocks
    call, result = blocks[1], blocks[2]
    assert isinstance(call, HostedCall)
    assert isinstance(result, HostedResult)
    assert (call.tool, call.arguments) == ("web_search", '{"query": "height of the example tower"}')
    assert (result.tool, result.call_id, result.is_error) == ("web_search", call.id, False)
    assert result.text.splitlines()[0] == "The example tower https://example.org/page-1"


def test_a_failed_server_tool_is_an_error_result() -> None:
    result = fold(read(recorded("stream-web-search-error.sse"))).blocks[1]
    assert isinstance(result, HostedResult)
    assert (result.is_error, result.text) == (True, "error: max_uses_exceeded")


def test_the_output_of_executed_code_is_readable() -> None:
    result = fold(read(recorded("stream-code-execution.sse"))).blocks[2]
    assert isinstance(result, HostedResult)
    assert (result.tool, result.text) == ("code_execution", "1024")


@pytest.mark.rule("H48")
def test_a_web_citation_names_its_page() -> None:
    block = fold(read(recorded("stream-web-search.sse"))).blocks[4]
    assert isinstance(block, Text)
    citation = block.citations[0]
    assert (citation.url, citation.title) == ("https://example.org/page-1", "The example tower")
    assert citation.quote == "The tower measures 123 metres."


@pytest.mark.rule("H48")
@pytest.mark.parametrize("text_first", [True, False])
def test_a_citation_belongs_to_the_whole_text_whichever_comes_first(text_first: bool) -> None:
    citation = {"type": "web_search_result_location", "url": "https://example.org", "cited_text": "q"}
    deltas = [
        block_delta(0, type="text_delta", text="héllo"),
        block_delta(0, type="citations_delta", citation=citation),
    ]
    block = reply(
        message_start(),
        block_start(0, type="text", text="", citations=[]),
        *(deltas if text_first else reversed(deltas)),
        block_stop(0),
        message_delta(),
        MESSAGE_STOP,
    ).blocks[0]
    assert isinstance(block, Text)
    assert [(cited.start, cited.end) for cited in block.citations] == [(0, 5)]


def test_a_block_of_an_unknown_kind_is_kept_whole() -> None:
    block = reply(
        message_start(),
        block_start(0, type="hologram", depth=3, note=None),
        block_delta(0, type="hologram_delta", note="said later"),
        block_stop(0),
        message_delta(),
        MESSAGE_STOP,
    ).blocks[0]
    assert block == Opaque(
        kind="hologram", value={"type": "hologram", "depth": 3, "note": "said later"}, text=""
    )


def test_a_compaction_can_be_read_by_everyone() -> None:
    block = fold(read(recorded("stream-compaction.sse"))).blocks[0]
    assert isinstance(block, Opaque)
    assert block.text == "So far: the user asked for a sum and got 42."


@pytest.mark.rule("P2")
def test_a_delta_without_a_start_opens_its_block() -> None:
    blocks = reply(
        message_start(), block_delta(0, type="text_delta", text="Hi."), message_delta(), MESSAGE_STOP
    ).blocks
    assert blocks == (Text(text="Hi."),)


@pytest.mark.rule("P8", "P9")
def test_a_text_delta_in_a_thinking_block_becomes_text() -> None:
    blocks = reply(
        message_start(),
        block_start(0, type="thinking", thinking="", signature=""),
        block_delta(0, type="thinking_delta", thinking="Hm."),
        block_delta(0, type="text_delta", text=""),
        block_delta(0, type="text_delta", text="Hi."),
        block_stop(0),
        message_delta(),
        MESSAGE_STOP,
    ).blocks
    assert blocks == (Reasoning(parts=("Hm.",)), Text(text="Hi."))


def test_missing_indexes_mean_the_block_that_came_last() -> None:
    events: list[Json] = [
        message_start(),
        block_start(0, type="text", text=""),
        block_delta(0, type="text_delta", text="a"),
        block_stop(0),
        block_start(0, type="text", text=""),
        block_delta(0, type="text_delta", text="b"),
        block_stop(0),
        message_delta(),
        MESSAGE_STOP,
    ]
    for payload in events:
        payload.pop("index", None)
    assert reply(*events).blocks == (Text(text="a"), Text(text="b"))


@pytest.mark.rule("P11")
def test_a_second_message_start_is_empty_new() -> None:
    events = read(stream_of(message_start(), message_start(id="msg_2"), message_delta(), MESSAGE_STOP))
    assert [event.id for event in events if isinstance(event, ReplyStarted)] == ["msg_1"]


def test_unknown_events_are_skipped_and_counted() -> None:
    source = UpstreamContext(issuer="anthropic")
    reader = DIALECT.stream_reader(source)
    reader.feed(stream_of({"type": "surprise"}, message_start(), message_delta(), MESSAGE_STOP))
    assert len(source.losses) == 1


@pytest.mark.rule("P12")
def test_nothing_follows_the_end() -> None:
    events = read(
        stream_of(message_start(), message_delta(), MESSAGE_STOP, block_start(0, type="text", text="late"))
    )
    assert isinstance(events[-1], ReplyFinished)


@pytest.mark.rule("C8")
def test_a_reason_to_stop_is_an_end_even_if_the_last_word_is_missing() -> None:
    assert finished(message_start(), message_delta("max_tokens")).cause == "length"


def test_a_stop_without_a_reason_is_an_end() -> None:
    text = [block_start(0, type="text", text=""), block_delta(0, type="text_delta", text="Hi.")]
    assert finished(message_start(), *text, message_delta(None), MESSAGE_STOP).cause == "end"


@pytest.mark.rule("P16")
def test_the_last_word_inside_arguments_is_no_end() -> None:
    ending = failed(
        message_start(),
        block_start(0, **CALL, input={}),
        block_delta(0, type="input_json_delta", partial_json='{"a": "message_stop'),
    )
    assert ending.ending == "truncated"


@pytest.mark.rule("H73", "R127")
def test_an_end_without_a_reason_is_a_cut() -> None:
    ending = failed(message_start(), block_start(0, type="text", text="So"))
    assert (ending.ending, ending.failure.kind) == ("truncated", "overloaded")


@pytest.mark.rule("P17")
def test_an_error_event_is_a_failure_of_its_kind() -> None:
    error = {"type": "rate_limit_error", "message": "slow down"}
    ending = failed(message_start(), {"type": "error", "error": error})
    assert (ending.ending, ending.failure.kind, ending.failure.message) == (
        "failed",
        "rate_limit",
        "slow down",
    )


def test_a_whole_reply_instead_of_a_stream_is_read() -> None:
    whole, streamed = read(recorded("reply-reasoning.json")), read(recorded("stream-reasoning.sse"))
    assert fold(whole).blocks == fold(streamed).blocks


def test_an_error_body_instead_of_a_stream_is_a_failure() -> None:
    ending = fold(read(b'{"type":"error","error":{"type":"api_error","message":"no"}}')).ending
    assert isinstance(ending, ReplyFailed)
    assert (ending.failure.kind, ending.failure.message) == ("server", "no")


def test_a_page_instead_of_a_stream_is_a_failure() -> None:
    ending = fold(read(b"<html><body>502</body></html>")).ending
    assert isinstance(ending, ReplyFailed)


def test_content_that_comes_with_the_message_start_is_not_lost() -> None:
    content = [{"type": "text", "text": "All at once."}, {**CALL, "input": {"a": 1}}]
    blocks = reply(message_start(content=content), message_delta("tool_use"), MESSAGE_STOP).blocks
    assert blocks == (Text(text="All at once."), ToolCall(id="toolu_1", name="Read", arguments='{"a":1}'))


def test_a_call_that_is_reported_as_two_open_blocks_keeps_both() -> None:
    blocks = reply(
        message_start(),
        block_start(0, **CALL, input={}),
        block_start(1, type="tool_use", id="toolu_2", name="Write", input={}),
        block_delta(0, type="input_json_delta", partial_json="{}"),
        block_delta(1, type="input_json_delta", partial_json='{"b":2}'),
        block_stop(1),
        block_stop(0),
        message_delta("tool_use"),
        MESSAGE_STOP,
    ).blocks
    assert [block.arguments for block in blocks if isinstance(block, ToolCall)] == ["{}", '{"b":2}']


def test_a_held_block_cannot_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplyBuilder, "MAX_CHARACTERS", 100)
    piece = block_delta(0, type="input_json_delta", partial_json="x" * 60)
    start = block_start(0, type="server_tool_use", id="srvtoolu_1", name="web_search", input={})
    ending = failed(message_start(), start, piece, piece, block_stop(0), message_delta(), MESSAGE_STOP)
    assert ending.failure.status == 502


def test_at_most_one_block_is_held() -> None:
    blocks = reply(
        message_start(),
        block_start(0, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        block_start(1, type="server_tool_use", id="srvtoolu_2", name="web_search", input={}),
        block_delta(1, type="input_json_delta", partial_json='{"query":"b"}'),
        block_stop(1),
        message_delta(),
        MESSAGE_STOP,
    ).blocks
    calls = [block for block in blocks if isinstance(block, HostedCall)]
    assert [(call.id, call.arguments) for call in calls] == [
        ("srvtoolu_1", "{}"),
        ("srvtoolu_2", '{"query":"b"}'),
    ]


def losses_of(*events: Json) -> list[str]:
    source = UpstreamContext(issuer="anthropic")
    reader = DIALECT.stream_reader(source)
    reader.feed(stream_of(message_start(), *events, message_delta(), MESSAGE_STOP))
    reader.close()
    return [loss.reason for loss in source.losses]


@pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": 7}, {"name": None}])
def test_a_call_without_a_name_is_skipped_and_reported(name: Json) -> None:
    call = (block_start(0, type="tool_use", id="toolu_1", input={}, **name), block_stop(0))
    assert reply(message_start(), *call, message_delta(), MESSAGE_STOP).blocks == ()
    assert losses_of(*call) == ["a call without a name was skipped"]


@pytest.mark.parametrize("kind", [{}, {"type": ""}, {"type": 7}, {"type": ["text"]}])
def test_a_block_without_a_type_is_skipped_and_reported(kind: Json) -> None:
    nameless = (block_start(0, **kind), block_stop(0))
    assert reply(message_start(), *nameless, message_delta(), MESSAGE_STOP).blocks == ()
    assert losses_of(*nameless) == ["a content block without a type was skipped"]


def test_an_id_that_is_no_text_gives_way_to_one_of_ours() -> None:
    call = block_start(0, type="tool_use", id=7, name="Read", input={})
    (block,) = reply(message_start(), call, block_stop(0), message_delta(), MESSAGE_STOP).blocks
    assert isinstance(block, ToolCall)
    assert block.id.startswith("toolu_")
    assert block.extras == {}
