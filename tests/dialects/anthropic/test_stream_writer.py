"""The writer writes replies of every dialect as legal Anthropic events."""

import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.hub.blocks import (
    Citation,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Refusal,
    ReplyBlock,
    Text,
    ToolCall,
)
from dragoman.hub.errors import Failure, FailureKind
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    FailedEnding,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    StopCause,
    TextDelta,
    UsageReported,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.usage import Usage
from tests.dialects.anthropic.replies import payloads, stream_of, write
from tests.sse import collect_sse

START = ReplyStarted(id="chatcmpl-123", model="gpt-x")
USED = UsageReported(Usage(input=42, output=18))
END = ReplyFinished(cause="end", raw_cause="stop")


def write_payloads(*events: ReplyEvent, context: ClientContext | None = None) -> list[Json]:
    """The payloads of a legal stream."""
    stream = write(events, context or ClientContext(upstream="openai_chat"))
    assert DIALECT.check_stream(stream) == []
    return payloads(stream)


def kinds(written: list[Json]) -> list[object]:
    return [payload["type"] for payload in written]


def block(index: int, opened: ReplyBlock, *deltas: ReplyEvent) -> list[ReplyEvent]:
    return [BlockOpened(index, opened), *deltas, BlockClosed(index)]


TRANSCRIPT = b"""\
event: message_start
data: {"type":"message_start","message":{"id":"msg_123abcde","type":"message","role":"assistant",\
"model":"claude-sonnet-4-5-20250929","content":[],"stop_reason":null,"stop_sequence":null,\
"usage":{"input_tokens":40,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" read it."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"call_abc",\
"name":"Read","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"fi"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"le_pa"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta",\
"partial_json":"th\\":\\"x.py\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},\
"usage":{"input_tokens":42,"output_tokens":18}}

event: message_stop
data: {"type":"message_stop"}

"""


@pytest.mark.rule(
    "R44", "R45", "R47", "R49", "R50", "R51", "R52", "R54", "R55", "R56", "R58", "C1", "C7", "C8", "C9", "C10"
)
def test_text_and_a_call_are_written_byte_for_byte_like_the_reference_transcript() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(id="chatcmpl-123abcde", model="gpt-x"),
        *block(0, Text(text=""), TextDelta(0, "Let me"), TextDelta(0, " read it.")),
        *block(
            1,
            ToolCall(id="call_abc", name="Read"),
            ArgumentsDelta(1, '{"fi'),
            ArgumentsDelta(1, "le_pa"),
            ArgumentsDelta(1, 'th":"x.py"}'),
        ),
        USED,
        ReplyFinished(cause="tool_calls", raw_cause="tool_calls"),
    ]
    context = ClientContext(upstream="openai_chat", model="claude-sonnet-4-5-20250929", input_estimate=40)
    assert write(events, context) == TRANSCRIPT


@pytest.mark.rule("C9")
def test_the_client_reads_the_model_name_that_it_asked_for() -> None:
    written = write_payloads(START, USED, END, context=ClientContext(model="claude-sonnet"))
    assert message_of(written)["model"] == "claude-sonnet"


def message_of(written: list[Json]) -> Json:
    message = written[0]["message"]
    assert isinstance(message, dict)
    return message


def test_without_a_name_the_upstreams_model_is_reported() -> None:
    assert message_of(write_payloads(START, USED, END))["model"] == "gpt-x"


def test_ids_of_other_dialects_are_dressed_and_own_ids_kept() -> None:
    foreign = write_payloads(ReplyStarted(id="chatcmpl-ABCDEFGH"), USED, END)
    same_dialect = write_payloads(
        ReplyStarted(id="gen_odd"), USED, END, context=ClientContext(upstream="anthropic")
    )
    assert [message_of(written)["id"] for written in (foreign, same_dialect)] == ["msg_ABCDEFGH", "gen_odd"]


@pytest.mark.rule("R136")
def test_an_id_that_is_missing_is_made_from_the_seed() -> None:
    written = [
        write_payloads(ReplyStarted(), USED, END, context=ClientContext(ids=IdSource("seed")))
        for _ in range(2)
    ]
    assert message_of(written[0])["id"] == message_of(written[1])["id"]


@pytest.mark.rule("R46", "P5")
def test_a_text_without_a_word_is_not_written() -> None:
    assert kinds(write_payloads(START, *block(0, Text(text="")), USED, END)) == [
        "message_start",
        "message_delta",
        "message_stop",
    ]


@pytest.mark.rule("R50")
def test_indexes_have_no_gaps_where_blocks_are_left_out() -> None:
    written = write_payloads(
        START,
        *block(0, Text(text="")),
        *block(1, Media(kind="image", url="https://example.com/a.png")),
        *block(2, Text(text=""), TextDelta(2, "Hi")),
        *block(3, Text(text=""), TextDelta(3, "there")),
        USED,
        END,
    )
    assert [payload["index"] for payload in written if payload["type"] == "content_block_start"] == [0, 1]


def test_a_block_that_opens_with_content_states_it() -> None:
    written = write_payloads(
        START,
        *block(0, Text(text="Hi")),
        *block(1, ToolCall(id="c", name="n", arguments='{"a":1}')),
        USED,
        ReplyFinished(cause="tool_calls"),
    )
    assert collect_sse(DIALECT, stream_of(*written))["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "c", "name": "n", "input": {"a": 1}},
    ]


@pytest.mark.rule("R57")
def test_text_after_a_call_is_a_block_of_its_own() -> None:
    written = write_payloads(
        START,
        *block(0, ToolCall(id="c", name="n")),
        *block(1, Text(text=""), TextDelta(1, "Done.")),
        USED,
        ReplyFinished(cause="tool_calls"),
    )
    assert kinds(written).count("content_block_start") == 2


@pytest.mark.rule("C1", "R61", "R62")
def test_a_call_without_arguments_has_one_empty_delta() -> None:
    written = write_payloads(
        START, *block(0, ToolCall(id="c", name="n")), USED, ReplyFinished(cause="tool_calls")
    )
    assert [payload["delta"] for payload in written if payload["type"] == "content_block_delta"] == [
        {"type": "input_json_delta", "partial_json": ""}
    ]


@pytest.mark.rule("R53", "C12", "P4", "H71")
def test_interleaved_calls_are_written_one_after_the_other() -> None:
    written = write_payloads(
        START,
        BlockOpened(0, ToolCall(id="a", name="A")),
        BlockOpened(1, ToolCall(id="b", name="B")),
        ArgumentsDelta(0, '{"x":'),
        ArgumentsDelta(1, '{"y":'),
        ArgumentsDelta(0, "1}"),
        ArgumentsDelta(1, "2}"),
        BlockClosed(0),
        BlockClosed(1),
        USED,
        ReplyFinished(cause="tool_calls"),
    )
    content = collect_sse(DIALECT, stream_of(*written))["content"]
    assert isinstance(content, list)
    assert [call["input"] for call in content] == [{"x": 1}, {"y": 2}]


def test_a_call_with_free_text_is_wrapped_into_an_object() -> None:
    written = write_payloads(
        START,
        *block(
            0,
            ToolCall(id="c", name="apply_patch", kind="custom"),
            ArgumentsDelta(0, '*** "Begin"\n'),
            ArgumentsDelta(0, "é"),
        ),
        USED,
        ReplyFinished(cause="tool_calls"),
    )
    assert collect_sse(DIALECT, stream_of(*written))["content"] == [
        {"type": "tool_use", "id": "c", "name": "apply_patch", "input": {"input": '*** "Begin"\né'}}
    ]


def test_a_call_with_free_text_that_is_cut_off_does_not_look_complete() -> None:
    written = write_payloads(
        START,
        BlockOpened(0, ToolCall(id="c", name="apply_patch", kind="custom")),
        ArgumentsDelta(0, "half a pa"),
        ReplyFailed("truncated", Failure(kind="server", message="gone")),
    )
    pieces = [object_at(payload, "delta")["partial_json"] for payload in written if "delta" in payload]
    assert "".join(map(str, pieces)) == '{"input":"half a pa'


def object_at(payload: Json, name: str) -> Json:
    value = payload[name]
    assert isinstance(value, dict)
    return value


CAUSES: list[tuple[StopCause, str]] = [
    ("end", "end_turn"),
    ("length", "max_tokens"),
    ("refusal", "refusal"),
    ("content_filter", "refusal"),
    ("context_window", "model_context_window_exceeded"),
    ("pause", "pause_turn"),
    ("compaction", "end_turn"),
    ("malformed_call", "end_turn"),
    ("other", "end_turn"),
]


@pytest.mark.rule("R55", "R64")
@pytest.mark.parametrize(("cause", "reason"), CAUSES)
def test_every_cause_has_a_stop_reason(cause: StopCause, reason: str) -> None:
    written = write_payloads(START, USED, ReplyFinished(cause=cause, raw_cause="odd"))
    assert object_at(written[-2], "delta")["stop_reason"] == reason


@pytest.mark.rule("P21")
def test_a_reply_with_calls_is_never_written_as_a_mere_answer() -> None:
    written = write_payloads(
        START, *block(0, ToolCall(id="c", name="n")), USED, ReplyFinished(cause="malformed_call")
    )
    assert object_at(written[-2], "delta")["stop_reason"] == "tool_use"


@pytest.mark.rule("P22")
def test_the_matched_stop_sequence_is_reported() -> None:
    written = write_payloads(START, USED, ReplyFinished(cause="stop_sequence", stop_sequence="###"))
    assert written[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "###"}


def test_a_stop_sequence_that_was_not_the_cause_is_not_reported() -> None:
    written = write_payloads(
        START,
        *block(0, ToolCall(id="c", name="n")),
        USED,
        ReplyFinished(cause="tool_calls", stop_sequence="###"),
    )
    assert object_at(written[-2], "delta")["stop_sequence"] is None


def test_an_own_stop_reason_is_repeated_only_while_it_means_the_same() -> None:
    same_dialect = ClientContext(upstream="anthropic")
    kept = write([START, USED, ReplyFinished(cause="other", raw_cause="brand_new")], same_dialect)
    changed = write([START, USED, ReplyFinished(cause="length", raw_cause="end_turn")], same_dialect)
    assert [object_at(payloads(stream)[-2], "delta")["stop_reason"] for stream in (kept, changed)] == [
        "brand_new",
        "max_tokens",
    ]


@pytest.mark.rule("H49")
def test_a_refusal_is_text_and_its_reason_is_reported() -> None:
    written = write_payloads(
        START,
        *block(0, Refusal(text=""), TextDelta(0, "I will not.")),
        USED,
        ReplyFinished(cause="refusal", explanation="against the rules"),
    )
    assert object_at(written[1], "content_block")["type"] == "text"
    assert object_at(written[-2], "delta")["stop_details"] == {
        "type": "refusal",
        "category": None,
        "explanation": "against the rules",
    }


@pytest.mark.rule("C10", "H60", "P50", "R58")
def test_cached_tokens_are_taken_out_of_the_prompt_and_counted_separately() -> None:
    written = write_payloads(
        START, UsageReported(Usage(input=100, output=5, cache_read=60, cache_write=30)), END
    )
    assert written[-2]["usage"] == {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
        "output_tokens": 5,
    }


def test_counts_never_become_negative() -> None:
    written = write_payloads(START, UsageReported(Usage(input=10, output=5, cache_read=60)), END)
    assert object_at(written[-2], "usage")["input_tokens"] == 0


def test_reasoning_tokens_and_searches_are_reported_in_their_own_places() -> None:
    written = write_payloads(START, UsageReported(Usage(input=1, output=9, reasoning=7, web_searches=2)), END)
    usage = object_at(written[-2], "usage")
    assert usage["output_tokens_details"] == {"thinking_tokens": 7}
    assert usage["server_tool_use"] == {"web_search_requests": 2, "web_fetch_requests": 0}


@pytest.mark.rule("C10")
def test_without_usage_the_counts_are_estimates_and_marked_as_such() -> None:
    context = ClientContext(upstream="openai_chat", input_estimate=33)
    written = write_payloads(START, *block(0, Text(text=""), TextDelta(0, "x" * 40)), END, context=context)
    assert written[-2]["usage"] == {"input_tokens": 33, "output_tokens": 10}
    assert [loss.path for loss in context.losses] == ["usage"]


ENDINGS: list[tuple[FailedEnding, FailureKind, str]] = [
    ("failed", "server", "api_error"),
    ("failed", "rate_limit", "rate_limit_error"),
    ("failed", "overloaded", "overloaded_error"),
    ("truncated", "server", "overloaded_error"),
    ("truncated", "overloaded", "overloaded_error"),
    ("cancelled", "cancelled", "overloaded_error"),
]


@pytest.mark.rule("R127", "H72", "H73", "P19")
@pytest.mark.parametrize(("ending", "kind", "type_name"), ENDINGS)
def test_a_failed_reply_ends_in_an_error_and_never_calls_its_half_block_whole(
    ending: FailedEnding, kind: FailureKind, type_name: str
) -> None:
    failure = Failure(kind=kind, message="it broke")
    written = write_payloads(
        START, BlockOpened(0, Text(text="")), TextDelta(0, "So"), ReplyFailed(ending, failure)
    )
    assert kinds(written)[-2:] == ["content_block_delta", "error"]
    assert written[-1]["error"] == {"type": type_name, "message": "it broke"}


def test_a_reply_that_fails_before_it_starts_is_one_error() -> None:
    assert kinds(write_payloads(ReplyFailed("failed", Failure(kind="server", message="no")))) == ["error"]


@pytest.mark.rule("H48")
def test_a_web_citation_of_another_vendor_is_reported_as_a_search_result() -> None:
    page = Citation(url="https://example.com/p", title="A page", quote="as it says", start=0, end=2)
    written = write_payloads(
        START, *block(0, Text(text=""), TextDelta(0, "Hi"), CitationAdded(0, page)), USED, END
    )
    assert object_at(written[3], "delta")["citation"] == {
        "type": "web_search_result_location",
        "url": "https://example.com/p",
        "title": "A page",
        "cited_text": "as it says",
        "encrypted_index": "",
    }


def test_a_citation_without_a_page_is_a_loss() -> None:
    context = ClientContext(upstream="gemini")
    written = write_payloads(
        START,
        *block(0, Text(text=""), TextDelta(0, "Hi"), CitationAdded(0, Citation(title="A book"))),
        USED,
        END,
        context=context,
    )
    assert kinds(written).count("content_block_delta") == 1
    assert len(context.losses) == 1


UNSAYABLE: list[ReplyBlock] = [
    Media(kind="image", media_type="image/png", data="AAAA"),
    HostedCall(id="ws_1", tool="web_search", arguments="{}"),
    HostedResult(call_id="ws_1", tool="web_search", text="found"),
    Opaque(kind="made_up", value={"type": "made_up"}),
]


@pytest.mark.parametrize("unsayable", UNSAYABLE)
def test_what_the_dialect_cannot_express_is_left_out_and_recorded(unsayable: ReplyBlock) -> None:
    context = ClientContext(upstream="openai_responses")
    assert "content_block_start" not in kinds(
        write_payloads(START, *block(0, unsayable), USED, END, context=context)
    )
    assert len(context.losses) == 1


def test_an_unknown_block_of_another_dialect_is_reported_by_its_text() -> None:
    odd = Opaque(kind="made_up", value={"type": "made_up"}, text="said otherwise")
    written = write_payloads(START, *block(0, odd), USED, END)
    assert written[2]["delta"] == {"type": "text_delta", "text": "said otherwise"}


def test_extras_of_another_dialect_are_not_written() -> None:
    written = write_payloads(
        ReplyStarted(id="x", extras={"system_fingerprint": "fp"}),
        *block(0, ToolCall(id="c", name="n", extras={"index": 0}), ArgumentsDelta(0, "{}")),
        UsageReported(Usage(input=1, output=1, extras={"odd": 1})),
        ReplyFinished(cause="tool_calls", extras={"delta": {"odd": 1}, "odd": 2}),
    )
    assert "odd" not in str(written)
    assert "system_fingerprint" not in str(written)
    assert set(object_at(written[1], "content_block")) == {"type", "id", "name", "input"}


@pytest.mark.parametrize("count", [-1, "7", None, [], True])
def test_a_count_of_our_own_stands_where_the_upstream_reported_none(count: object) -> None:
    start = ReplyStarted(id="msg_1", extras={"usage": {"input_tokens": count, "service_tier": "standard"}})
    written = write_payloads(start, USED, END, context=ClientContext(upstream="anthropic", input_estimate=9))
    message = written[0]["message"]
    assert isinstance(message, dict)
    assert message["usage"] == {"input_tokens": 9, "output_tokens": 0, "service_tier": "standard"}
