"""Replies of any upstream become chunks that the strictest Chat client reads."""

import pytest

from dragoman.dialects.interfaces import ClientContext
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.blocks import (
    Citation,
    HostedCall,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
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
    StopCause,
    TextDelta,
    UsageReported,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.usage import Usage
from tests.dialects.openai_chat.replies import (
    a_request,
    deltas,
    list_of,
    message_of,
    object_of,
    payloads,
    written,
)
from tests.sse import collect_sse

START = ReplyStarted(id="msg_01ABCDEFGH", model="claude", created=5)


def text_block(text: str, index: int = 0) -> list[ReplyEvent]:
    return [BlockOpened(index, Text(text="")), TextDelta(index, text), BlockClosed(index)]


def called(index: int, arguments: str = "{}", **fields: str) -> list[ReplyEvent]:
    block = ToolCall(id=fields.get("id", f"call_{index}"), name=fields.get("name", "Read"))
    pieces: list[ReplyEvent] = [ArgumentsDelta(index, arguments)] if arguments else []
    return [BlockOpened(index, block), *pieces, BlockClosed(index)]


def reply(*events: ReplyEvent, cause: StopCause = "end", start: ReplyStarted = START) -> list[ReplyEvent]:
    return [start, *events, ReplyFinished(cause=cause)]


def context(request: Request | None = None, **fields: object) -> ClientContext:
    losses = fields.get("losses")
    return ClientContext(
        upstream=str(fields.get("upstream", "anthropic")),
        request=request,
        ids=IdSource("test"),
        model=str(fields.get("model", "")),
        input_estimate=100,
        losses=losses if isinstance(losses, Losses) else Losses(),
    )


def reason_of(stream: bytes) -> object:
    return list_of(collect_sse(DIALECT, stream)["choices"])[0]["finish_reason"]


def test_a_text_is_written_in_the_order_that_clients_expect() -> None:
    stream = written(reply(*text_block("Hi.")))
    assert deltas(stream) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "Hi."},
        {},
    ]
    assert stream.endswith(b"data: [DONE]\n\n")
    assert DIALECT.check_stream(stream) == []


@pytest.mark.rule("R108")
def test_every_chunk_names_the_same_reply() -> None:
    chunks = payloads(written(reply(*text_block("Hi.")), context(model="asked-for")))
    assert {chunk["id"] for chunk in chunks} == {"chatcmpl-01ABCDEFGH"}
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert {chunk["created"] for chunk in chunks} == {5}
    assert {chunk["model"] for chunk in chunks} == {"asked-for"}


def test_an_id_of_this_dialect_is_kept_as_it_is() -> None:
    start = ReplyStarted(id="cmpl 30", model="m")
    assert payloads(written(reply(start=start), context(upstream="openai_chat")))[0]["id"] == "cmpl 30"


@pytest.mark.rule("R107", "C21")
def test_calls_are_numbered_without_gaps_and_named_once() -> None:
    stream = written(reply(*text_block("a"), *called(1, '{"p":1}'), *called(2, ""), cause="tool_calls"))
    fragments = [delta["tool_calls"] for delta in deltas(stream) if "tool_calls" in delta]
    assert fragments == [
        [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "Read", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"p":1}'}}],
        [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "Read", "arguments": ""}}],
        [{"index": 1, "function": {"arguments": "{}"}}],
    ]
    assert DIALECT.check_stream(stream) == []


@pytest.mark.rule("R95", "C3")
def test_an_answer_that_is_only_calls_has_null_content() -> None:
    assert message_of(written(reply(*called(0), cause="tool_calls")))["content"] is None


@pytest.mark.rule("C3")
def test_text_beside_calls_is_kept() -> None:
    stream = written(reply(*text_block("Look."), *called(1), *text_block(" Then.", 2), cause="tool_calls"))
    assert message_of(stream)["content"] == "Look. Then."


def test_an_empty_answer_has_empty_content() -> None:
    assert message_of(written(reply()))["content"] == ""


@pytest.mark.rule("R53")
def test_interleaved_calls_stay_interleaved() -> None:
    first, second = called(0, '{"a":1}'), called(1, '{"b":2}')
    stream = written(reply(first[0], second[0], second[1], first[1], first[2], second[2], cause="tool_calls"))
    calls = list_of(message_of(stream)["tool_calls"])
    assert [object_of(call["function"])["arguments"] for call in calls] == ['{"a":1}', '{"b":2}']
    assert DIALECT.check_stream(stream) == []


def test_a_custom_call_is_free_text() -> None:
    block = ToolCall(id="c", name="patch", kind="custom")
    stream = written(
        reply(BlockOpened(0, block), ArgumentsDelta(0, "a\n"), BlockClosed(0), cause="tool_calls")
    )
    assert list_of(message_of(stream)["tool_calls"]) == [
        {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "a\n"}}
    ]


@pytest.mark.rule("R129", "H7", "H8")
def test_thought_is_one_string_with_blank_lines_between_its_parts() -> None:
    stream = written(
        reply(
            BlockOpened(0, Reasoning()),
            ReasoningDelta(0, "one", 0),
            ReasoningDelta(0, " more", 0),
            ReasoningDelta(0, "two", 1),
            BlockClosed(0),
            *text_block("Hi.", 1),
            BlockOpened(2, Reasoning()),
            ReasoningDelta(2, "three"),
            BlockClosed(2),
        )
    )
    message = message_of(stream)
    assert message["reasoning_content"] == "one more\n\ntwo\n\nthree"
    assert "reasoning_details" not in message


@pytest.mark.rule("H49")
def test_a_refusal_in_words_ends_with_stop() -> None:
    events = reply(BlockOpened(0, Refusal(text="")), TextDelta(0, "No."), BlockClosed(0), cause="refusal")
    message = message_of(written(events))
    assert (message["refusal"], message["content"]) == ("No.", None)
    assert reason_of(written(events)) == "stop"


@pytest.mark.rule("H49", "R55")
def test_a_refusal_without_words_ends_with_content_filter_and_its_explanation() -> None:
    events = [START, *text_block("So"), ReplyFinished(cause="refusal", explanation="against the rules")]
    assert reason_of(written(events)) == "content_filter"
    assert message_of(written(events))["refusal"] == "against the rules"


@pytest.mark.rule("R55")
@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("end", "stop"),
        ("length", "length"),
        ("stop_sequence", "stop"),
        ("content_filter", "content_filter"),
        ("context_window", "length"),
        ("pause", "stop"),
        ("malformed_call", "stop"),
        ("compaction", "stop"),
        ("other", "stop"),
    ],
)
def test_every_cause_has_a_finish_reason(cause: StopCause, reason: str) -> None:
    assert reason_of(written(reply(*text_block("a"), cause=cause))) == reason


@pytest.mark.rule("P5", "P6", "P21", "P64")
@pytest.mark.parametrize("cause", ["tool_calls", "pause", "other", "malformed_call"])
def test_calls_end_with_tool_calls(cause: StopCause) -> None:
    assert reason_of(written(reply(*called(0), cause=cause))) == "tool_calls"


@pytest.mark.rule("H61")
@pytest.mark.parametrize(
    ("request_", "is_told"),
    [
        (None, True),
        (a_request(stream=True), False),
        (a_request(stream=True, include_usage=True), True),
        (a_request(stream=False), True),
    ],
)
def test_usage_is_reported_to_whom_it_may_concern(request_: Request | None, is_told: bool) -> None:
    stream = written(reply(UsageReported(Usage(input=5, output=2))), context(request_))
    chunks = payloads(stream)
    assert all(("usage" in chunk) == is_told for chunk in chunks)
    last = chunks[-1]
    assert (last["choices"] == []) == is_told
    if is_told:
        assert last["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    assert DIALECT.check_stream(stream) == []


@pytest.mark.rule("H60", "P50", "P51")
def test_usage_reports_caches_and_reasoning() -> None:
    usage = Usage(input=10, output=4, cache_read=6, cache_write=1, reasoning=2, extras={"secret": 1})
    assert payloads(written(reply(UsageReported(usage))))[-1]["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }


@pytest.mark.rule("C10")
def test_missing_usage_is_estimated_and_recorded_as_a_loss() -> None:
    losses = Losses()
    stream = written(reply(*text_block("12345678")), context(losses=losses))
    assert payloads(stream)[-1]["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 2,
        "total_tokens": 102,
    }
    assert [loss.path for loss in losses] == ["usage"]


@pytest.mark.rule("H72", "H73", "R127")
@pytest.mark.parametrize("ending", ["failed", "truncated", "cancelled"])
def test_a_reply_that_failed_ends_in_an_error_and_nothing_more(ending: FailedEnding) -> None:
    failure = Failure(kind="rate_limit", message="slow down", retry_after=2.0)
    stream = written([START, *text_block("Hel")[:2], ReplyFailed(ending, failure)])
    assert payloads(stream)[-1] == {
        "error": {
            "message": "slow down",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    }
    assert b"[DONE]" not in stream
    assert DIALECT.check_stream(stream) == []
    assert collect_sse(DIALECT, stream) == DIALECT.write_error(failure)


@pytest.mark.rule("G11")
def test_a_call_is_opened_at_once_even_if_the_reply_then_fails() -> None:
    failure = Failure(kind="server", message="x")
    stream = written([START, called(0)[0], ReplyFailed("failed", failure)])
    assert b'"tool_calls":[{"index":0,"id":' in stream
    assert DIALECT.check_stream(stream) == []


@pytest.mark.rule("D10", "R107")
def test_a_call_that_opens_whole_is_one_chunk() -> None:
    call = ToolCall(id="call_1", name="Read", arguments='{"p":1}')
    stream = written(reply(BlockOpened(0, call), BlockClosed(0), cause="tool_calls"))
    fragments = [delta["tool_calls"] for delta in deltas(stream) if "tool_calls" in delta]
    function = {"name": "Read", "arguments": '{"p":1}'}
    assert fragments == [[{"index": 0, "id": "call_1", "type": "function", "function": function}]]


@pytest.mark.rule("H48")
def test_citations_come_together_with_offsets_into_the_whole_message() -> None:
    citation = Citation(url="https://example.org", title="T", start=0, end=3)
    losses = Losses()
    stream = written(
        reply(
            *text_block("1234"),
            BlockOpened(1, Text(text="")),
            TextDelta(1, "five"),
            CitationAdded(1, citation),
            CitationAdded(1, Citation(quote="no page")),
            BlockClosed(1),
        ),
        context(losses=losses),
    )
    assert message_of(stream)["annotations"] == [
        {
            "type": "url_citation",
            "url_citation": {"start_index": 4, "end_index": 7, "title": "T", "url": "https://example.org"},
        }
    ]
    assert any("citation" in loss.reason for loss in losses)


def test_images_are_reported_and_other_media_is_a_loss() -> None:
    losses = Losses()
    image = Media(kind="image", media_type="image/png", data="iVBO")
    stream = written(
        reply(
            BlockOpened(0, image),
            BlockClosed(0),
            BlockOpened(1, Media(kind="audio", media_type="audio/wav", data="AA")),
            BlockClosed(1),
        ),
        context(losses=losses),
    )
    url = {"url": "data:image/png;base64,iVBO"}
    assert message_of(stream)["images"] == [{"type": "image_url", "image_url": url, "index": 0}]
    assert len([loss for loss in losses if "audio" in loss.reason]) == 1


def test_blocks_that_other_dialects_lack_become_their_text_or_a_loss() -> None:
    losses = Losses()
    stream = written(
        reply(
            BlockOpened(0, Opaque(kind="odd", value={}, text="in words")),
            BlockClosed(0),
            BlockOpened(1, HostedCall(id="h", tool="web_search")),
            BlockClosed(1),
        ),
        context(losses=losses),
    )
    assert message_of(stream)["content"] == "in words"
    assert len([loss for loss in losses if loss.path == ""]) == 2


@pytest.mark.rule("R55")
def test_a_client_of_old_functions_gets_one_function_call() -> None:
    losses = Losses()
    request = a_request(form="functions")
    stream = written(
        reply(*called(0, '{"p":1}'), *called(1), cause="tool_calls"), context(request, losses=losses)
    )
    message = message_of(stream)
    assert message["function_call"] == {"name": "Read", "arguments": '{"p":1}'}
    assert "tool_calls" not in message
    assert reason_of(stream) == "function_call"
    assert len([loss for loss in losses if "further tool call" in loss.reason]) == 1
    assert DIALECT.check_stream(stream) == []


def test_blocks_that_open_with_content_state_it() -> None:
    stream = written(
        reply(
            BlockOpened(0, Reasoning(parts=("a", "b"))),
            BlockClosed(0),
            BlockOpened(1, Text(text="c", citations=(Citation(url="u"),))),
            BlockClosed(1),
            BlockOpened(2, Refusal(text="d")),
            BlockClosed(2),
            BlockOpened(3, ToolCall(id="i", name="n", arguments='{"e":1}')),
            BlockClosed(3),
            cause="tool_calls",
        )
    )
    message = message_of(stream)
    assert (message["reasoning_content"], message["content"], message["refusal"]) == ("a\n\nb", "c", "d")
    calls = list_of(message["tool_calls"])
    assert object_of(calls[0]["function"])["arguments"] == '{"e":1}'


def test_extras_of_another_dialect_are_not_written() -> None:
    start = ReplyStarted(id="x", extras={"chunk": {"secret": 1}, "delta": {"secret": ""}})
    end = ReplyFinished(cause="end", extras={"delta": {"secret": "x"}, "choice": {"secret": 1}})
    assert b"secret" not in written([start, *text_block("a"), end])
    assert b"secret" in written([start, *text_block("a"), end], context(upstream="openai_chat"))


def test_an_upstream_of_this_dialect_keeps_its_own_finish_reason() -> None:
    end = ReplyFinished(cause="length", raw_cause="max_tokens")
    assert reason_of(written([START, *text_block("a"), end], context(upstream="openai_chat"))) == "length"
