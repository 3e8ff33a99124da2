"""Chat streams become events, whatever the server leaves out, adds or gets wrong."""

import pytest

from dragoman.dialects.interfaces import ClientContext
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.blocks import Citation, Media, Opaque, Reasoning, Refusal, Text
from dragoman.hub.builder import TRUNCATED_MESSAGE
from dragoman.hub.events import (
    BlockOpened,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.hub.loss import Losses
from dragoman.hub.usage import Usage
from tests.dialects.openai_chat.replies import (
    DONE,
    a_request,
    call,
    calls,
    chunk,
    events_of,
    finish,
    frame,
    kinds_of,
    message_of,
    reply_of,
    usage,
    written,
)

HELLO = chunk({"role": "assistant", "content": ""}) + chunk({"content": "Hello."})


def ending(*pieces: bytes) -> ReplyFinished:
    end = events_of(*pieces)[-1]
    assert isinstance(end, ReplyFinished)
    return end


def failing(*pieces: bytes) -> ReplyFailed:
    end = events_of(*pieces)[-1]
    assert isinstance(end, ReplyFailed)
    return end


@pytest.mark.rule("R45")
def test_the_first_chunk_reports_who_answers() -> None:
    started = events_of(HELLO, finish(), DONE)[0]
    assert isinstance(started, ReplyStarted)
    assert (started.id, started.model, started.created) == ("chatcmpl-1", "m", 7)


@pytest.mark.rule("R46", "P9")
def test_empty_pieces_open_nothing() -> None:
    reply = reply_of(
        chunk({"role": "assistant", "content": "", "reasoning_content": "", "refusal": None}),
        chunk({"content": None, "tool_calls": []}),
        chunk(None),
        finish(),
        DONE,
    )
    assert reply.blocks == ()


@pytest.mark.rule("R47")
def test_equal_fragments_are_all_kept() -> None:
    assert reply_of(*([chunk({"content": "ha"})] * 3), finish(), DONE).blocks == (Text(text="hahaha"),)


@pytest.mark.rule("P7", "P8")
def test_one_chunk_with_everything_is_taken_apart_in_order() -> None:
    delta = {
        "tool_calls": [call(0, id="a", name="Read", arguments="{}")],
        "content": "text",
        "reasoning_content": "thought",
    }
    assert kinds_of(reply_of(chunk(delta), finish(), DONE).blocks) == ["Reasoning", "Text", "ToolCall"]


@pytest.mark.rule("H7")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text", "thinking"])
def test_thought_is_found_under_any_name(field: str) -> None:
    block = reply_of(chunk({field: "hm"}), HELLO, finish(), DONE).blocks[0]
    assert block == Reasoning(parts=("hm",), raw=True, form=field)


@pytest.mark.rule("H7")
def test_thought_that_is_reported_twice_in_one_chunk_is_one_thought() -> None:
    delta = {
        "reasoning": "hm",
        "reasoning_content": "hm",
        "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],
    }
    block = reply_of(chunk(delta), finish(), DONE).blocks[0]
    assert isinstance(block, Reasoning)
    assert block.parts == ("hm",)


@pytest.mark.rule("H7")
def test_thought_in_details_alone_is_found() -> None:
    block = reply_of(
        chunk({"reasoning_details": [{"type": "reasoning.summary", "summary": "sum"}]}), finish(), DONE
    ).blocks[0]
    assert isinstance(block, Reasoning)
    assert (block.parts, block.raw) == (("sum",), False)


@pytest.mark.rule("P10", "P42")
def test_a_signature_seals_the_thought_before_it_and_ends_it() -> None:
    reply = reply_of(
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "one", "index": 0}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "signature": "s1", "index": 0}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "two", "index": 1}]}),
        finish(),
        DONE,
    )
    first, second = reply.blocks
    assert isinstance(first, Reasoning)
    assert isinstance(second, Reasoning)
    assert first.seal is not None
    assert first.seal.value == '{"type":"reasoning.text","signature":"s1"}'
    assert (first.parts, second.parts, second.seal) == (("one",), ("two",), None)


@pytest.mark.parametrize(
    "entry",
    [{"type": "reasoning.encrypted", "data": "x", "id": "rs_1"}, {"type": "redacted_thinking", "data": "x"}],
)
def test_sealed_thought_without_text_is_redacted(entry: dict[str, object]) -> None:
    field = "thinking_blocks" if entry["type"] == "redacted_thinking" else "reasoning_details"
    block = reply_of(chunk({field: [entry]}), HELLO, finish(), DONE).blocks[0]
    assert isinstance(block, Reasoning)
    assert block.redacted
    assert block.seal is not None


@pytest.mark.rule("H7")
def test_content_in_parts_is_thought_and_text() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Hi."},
        {"type": "refusal", "refusal": "No."},
    ]
    assert kinds_of(reply_of(chunk({"content": parts}), finish(), DONE).blocks) == [
        "Reasoning",
        "Text",
        "Refusal",
    ]


def test_inline_tags_are_left_alone() -> None:
    assert reply_of(chunk({"content": "<think>a</think>b"}), finish(), DONE).blocks == (
        Text(text="<think>a</think>b"),
    )


@pytest.mark.rule("H49")
def test_a_refusal_is_no_text_and_states_why_the_reply_ended() -> None:
    reply = reply_of(chunk({"refusal": "I will"}), chunk({"refusal": " not."}), finish(), DONE)
    assert reply.blocks == (Refusal(text="I will not."),)
    assert isinstance(reply.ending, ReplyFinished)
    assert (reply.ending.cause, reply.ending.raw_cause) == ("refusal", "stop")


@pytest.mark.rule("R55", "P5", "P6", "P21")
@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "end"),
        ("function_call", "end"),
        ("eos", "end"),
        ("end_turn", "end"),
        ("MAX_TOKENS", "length"),
        ("model_length", "context_window"),
        ("something", "other"),
    ],
)
def test_a_finish_reason_without_calls(reason: str, cause: str) -> None:
    assert ending(HELLO, finish(reason), DONE).cause == cause


@pytest.mark.rule("R55", "P5", "P6", "P21")
@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", "something"])
def test_a_finish_reason_with_calls_means_the_calls(reason: str) -> None:
    called = calls(call(0, id="a", name="Read", arguments="{}"))
    end = ending(called, finish(reason), DONE)
    assert (end.cause, end.raw_cause) == ("tool_calls", reason)


@pytest.mark.rule("P22")
@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])
def test_a_matched_stop_string_is_reported(field: str) -> None:
    end = ending(HELLO, chunk({}, finish_reason="stop", **{field: "END"}), DONE)
    assert (end.cause, end.stop_sequence) == ("stop_sequence", "END")


def test_a_matched_stop_token_is_a_natural_end() -> None:
    assert ending(HELLO, chunk({}, finish_reason="stop", stop_reason=151645), DONE).cause == "end"


@pytest.mark.rule("H73")
@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_some_finish_reasons_are_failures(reason: str) -> None:
    assert failing(HELLO, finish(reason), DONE).ending == "failed"


@pytest.mark.rule("R54", "P69")
def test_the_end_without_done_counts_if_there_was_a_finish_reason() -> None:
    assert ending(HELLO, finish()).cause == "end"


@pytest.mark.rule("R54", "P69")
def test_done_without_a_finish_reason_counts() -> None:
    assert ending(HELLO, DONE).cause == "end"
    assert ending(calls(call(0, id="a", name="Read", arguments="{}")), DONE).cause == "tool_calls"


@pytest.mark.rule("R127", "H73", "P16")
def test_neither_finish_reason_nor_done_is_a_truncation() -> None:
    end = failing(HELLO)
    assert (end.ending, end.failure.message) == ("truncated", TRUNCATED_MESSAGE)


@pytest.mark.rule("H73")
def test_done_alone_answers_nothing() -> None:
    assert failing(DONE).ending == "truncated"


@pytest.mark.rule("P16")
def test_the_word_done_inside_a_text_is_text() -> None:
    assert reply_of(chunk({"content": "data: [DONE]\n\n"}), finish(), DONE).blocks == (
        Text(text="data: [DONE]\n\n"),
    )


@pytest.mark.rule("P13")
def test_content_on_and_after_the_finish_chunk_counts() -> None:
    reply = reply_of(
        chunk({"content": "a"}, finish_reason="stop"), chunk({"content": "b"}), DONE, chunk({"content": "c"})
    )
    assert reply.blocks == (Text(text="ab"),)


@pytest.mark.rule("P14", "C8", "R58")
@pytest.mark.parametrize(
    "pieces",
    [
        [finish(), usage(prompt_tokens=5, completion_tokens=2, total_tokens=7)],
        [
            frame(
                {
                    "choices": [{"delta": {}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
                }
            )
        ],
        [chunk({}, finish_reason="stop", usage={"prompt_tokens": 5, "completion_tokens": 2})],
        [finish(), frame({"choices": [], "x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}})],
        [usage(input_tokens=5, output_tokens=2), finish()],
    ],
    ids=["own-chunk", "finish-chunk", "in-choice", "groq", "early-and-renamed"],
)
def test_usage_is_found_wherever_it_stands(pieces: list[bytes]) -> None:
    reply = reply_of(HELLO, *pieces, DONE)
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.output) == (5, 2)


@pytest.mark.rule("H60", "P50", "P51")
def test_usage_details_and_their_other_names() -> None:
    counts = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_cache_hit_tokens": 6,
        "created_cache_tokens": 3,
        "completion_tokens_details": {"reasoning_tokens": 2, "accepted_prediction_tokens": 1},
    }
    reply = reply_of(HELLO, finish(), frame({"choices": [], "usage": counts}), DONE)
    assert reply.usage == Usage(
        input=10,
        output=4,
        cache_read=6,
        cache_write=3,
        reasoning=2,
        extras={
            "prompt_cache_hit_tokens": 6,
            "created_cache_tokens": 3,
            "completion_tokens_details": {"accepted_prediction_tokens": 1},
        },
    )


def test_usage_that_repeats_is_reported_once() -> None:
    piece = frame({"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 1}})
    events = events_of(piece, piece, finish(), DONE)
    assert sum(isinstance(event, UsageReported) for event in events) == 1


@pytest.mark.rule("H72", "P17")
@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"error": {"message": "broke", "type": "server_error", "code": None}}, "broke"),
        ({"error": "broke"}, "broke"),
        ({"error": {"message": "broke"}, "choices": [{"delta": {"content": "x"}}]}, "broke"),
        ({"object": "error", "message": "broke", "code": 500}, "broke"),
        ({"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "broke"}}]}, "broke"),
        ({"x_groq": {"id": "r", "error": "broke"}, "choices": []}, "broke"),
    ],
)
def test_an_error_in_any_shape_ends_the_reply(payload: dict[str, object], message: str) -> None:
    end = failing(HELLO, frame(payload), DONE)
    assert (end.ending, end.failure.message) == ("failed", message)


def test_a_named_error_event_ends_the_reply() -> None:
    assert failing(HELLO, b"event: error\ndata: out of memory\n\n").failure.message == "out of memory"
    assert failing(HELLO, b'event: error\ndata: {"message":"x"}\n\n').failure.message == "x"


@pytest.mark.rule("H72")
def test_an_error_without_a_stream_before_it_needs_no_start() -> None:
    assert len(events_of(frame({"error": {"message": "x", "code": 429}}))) == 1


@pytest.mark.rule("R127")
def test_a_whole_reply_instead_of_a_stream_is_read() -> None:
    body = {"id": "chatcmpl-1", "choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}
    raw = frame(body).removeprefix(b"data: ").strip()
    assert reply_of(raw).blocks == (Text(text="Hi."),)


@pytest.mark.rule("R127")
def test_a_whole_error_instead_of_a_stream_is_a_failure() -> None:
    assert failing(b'{"error":{"message":"no"}}').failure.message == "no"
    assert failing(b'{"detail":"not here"}').failure.message == "not here"
    assert failing(b'{"choices":[]}').failure.message == "the upstream's reply has no choices"


@pytest.mark.rule("R59")
def test_a_broken_frame_is_skipped_and_reported() -> None:
    losses = Losses()
    reply = reply_of(HELLO, b"data: {broken\n\n", finish(), DONE, losses=losses)
    assert reply.blocks == (Text(text="Hello."),)
    assert len(losses) == 1


@pytest.mark.rule("R51")
def test_wrong_types_are_ignored() -> None:
    reply = reply_of(
        chunk({"content": 5, "tool_calls": {"a": 1}, "refusal": [], "reasoning_content": {}}),
        chunk("text"),
        chunk({"tool_calls": [5, {"index": "x", "function": 7}]}),
        chunk({"content": "Hi."}, finish_reason=7),
        frame({"choices": [None, 4], "usage": "none"}),
        finish(),
        DONE,
    )
    assert reply.blocks == (Text(text="Hi."),)


@pytest.mark.rule("H48")
def test_annotations_become_citations_of_the_block_they_stand_on() -> None:
    note = {
        "type": "url_citation",
        "url_citation": {"start_index": 8, "end_index": 11, "url": "https://example.org", "title": "T"},
    }
    reply = reply_of(
        chunk({"content": "before"}),
        calls(call(0, id="a", name="Read", arguments="{}")),
        chunk({"content": "after it", "annotations": [note]}),
        finish(),
        DONE,
    )
    last = reply.blocks[-1]
    assert isinstance(last, Text)
    assert last.citations == (Citation(url="https://example.org", title="T", start=2, end=5),)


def test_annotations_of_an_unknown_type_or_without_a_text_reach_clients_of_this_dialect() -> None:
    odd, late = {"type": "file_citation", "file_citation": {}}, {"type": "late"}
    events = events_of(
        chunk({"content": "a", "annotations": [odd, 5]}),
        calls(call(0, id="a", name="Read", arguments="{}")),
        chunk({"annotations": [late]}),
        finish(),
        DONE,
    )
    stream = written(events, ClientContext(upstream="openai_chat"))
    assert message_of(stream)["annotations"] == [odd, late]
    assert DIALECT.check_stream(stream) == []


def test_too_many_answers_end_the_reply() -> None:
    many = [chunk({"role": "assistant", "content": "x"}, index=index) for index in range(200)]
    assert isinstance(events_of(*many, finish(), DONE)[-1], ReplyFailed)


def test_generated_images_are_media() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    reply = reply_of(chunk({"content": "Here."}), chunk({"images": [image]}), finish(), DONE)
    assert reply.blocks[1] == Media(kind="image", media_type="image/png", data="iVBO")


@pytest.mark.rule("H51")
def test_further_answers_are_kept_apart() -> None:
    pieces = [
        chunk({"role": "assistant", "content": "one"}),
        chunk({"role": "assistant", "content": "two"}, index=1),
        chunk({}, index=1, finish_reason="stop"),
        finish(),
        DONE,
    ]
    for request in (None, a_request(candidates=2)):
        first, second = reply_of(*pieces, request=request).blocks
        assert first == Text(text="one")
        assert isinstance(second, Opaque)
        assert second.kind == "choice"


@pytest.mark.rule("P20")
def test_a_client_that_asked_for_one_answer_gets_all_choices_as_one() -> None:
    reply = reply_of(
        chunk({"role": "assistant", "content": "one "}),
        chunk({"role": "assistant", "content": "two"}, index=1),
        finish(),
        DONE,
        request=a_request(),
    )
    assert reply.blocks == (Text(text="one two"),)


def test_what_is_unknown_is_kept_by_where_it_stood() -> None:
    first = {"id": "x", "service_tier": "flex", "choices": [{"delta": {"role": "assistant"}}]}
    last = {"id": "x", "provider": "P", "choices": [{"delta": {}, "finish_reason": "stop", "native": "eos"}]}
    events = events_of(
        frame(first),
        chunk({"audio": {"id": "a", "data": "AA"}}),
        chunk({"audio": {"data": "BB"}}),
        frame(last),
        DONE,
    )
    started, end = events[0], events[-1]
    assert isinstance(started, ReplyStarted)
    assert isinstance(end, ReplyFinished)
    assert started.extras["chunk"] == {"service_tier": "flex"}
    assert end.extras == {
        "delta": {"audio": {"id": "a", "data": "AABB"}},
        "choice": {"native": "eos"},
        "chunk": {"provider": "P"},
    }


def test_text_streams_as_it_comes() -> None:
    events = events_of(chunk({"content": "a"}), chunk({"content": "b"}), finish(), DONE)
    assert [event for event in events if isinstance(event, TextDelta | BlockOpened)] == [
        BlockOpened(0, Text(text="")),
        TextDelta(0, "a"),
        TextDelta(0, "b"),
    ]
