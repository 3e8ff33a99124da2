"""What each part of a Gemini stream becomes, and how its endings are read."""

import pytest

from dragoman import StreamTranslator
from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.dialects.search_options import find_queries
from dragoman.hub.blocks import Citation, HostedCall, HostedResult, Media, Opaque, Reasoning, Text, ToolCall
from dragoman.hub.events import ReplyFailed, ReplyFinished, ReplyStarted, UsageReported
from dragoman.hub.ids import IdSource
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage
from tests.dialects.gemini.replies import (
    blocks_of,
    chunk,
    frame,
    parts_of,
    read,
    recorded,
    reply_of,
    source,
    through,
)

SEAL = Seal("gemini", "gemini-test", "c2ln")
STOP = chunk(finishReason="STOP")


def finish(stream: bytes) -> ReplyFinished:
    ending = reply_of(stream).ending
    assert isinstance(ending, ReplyFinished)
    return ending


def failure(stream: bytes) -> ReplyFailed:
    ending = reply_of(stream).ending
    assert isinstance(ending, ReplyFailed)
    return ending


def test_the_first_chunk_names_the_reply_and_the_model() -> None:
    stream = frame({"responseId": "r1", "modelVersion": "m1", "createTime": "2026-01-01T00:00:00.5Z"})
    assert read(stream)[0] == ReplyStarted(id="r1", model="m1", created=1_767_225_600)


@pytest.mark.parametrize("time", ["yesterday", 5, "9999-99-99T00:00:00Z", None])
def test_a_time_that_is_none_is_no_time(time: object) -> None:
    assert read(frame({"createTime": time}) + STOP)[0] == ReplyStarted()


def test_a_model_that_is_not_named_is_the_one_that_was_asked() -> None:
    assert read(frame({}) + STOP, UpstreamContext(issuer="gemini", model="asked"))[0] == ReplyStarted(
        model="asked"
    )


@pytest.mark.parametrize("beginning", [b"", b"["])
@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_byte_order_mark_may_come_in_pieces(beginning: bytes, cut: int) -> None:
    events = chunk({"text": "a"}) + STOP
    chunks = [event.removeprefix(b"data: ") for event in events.split(b"\n\n") if event]
    whole = events if not beginning else b"[" + b",".join(chunks) + b"]"
    stream = b"\xef\xbb\xbf" + whole
    assert read([stream[:cut], stream[cut:]]) == read(whole)


@pytest.mark.rule("R129", "P7")
def test_thought_and_text_become_blocks_of_their_own() -> None:
    stream = chunk({"text": "hm", "thought": True}, {"text": "so"}) + chunk({"text": " it is"}) + STOP
    assert blocks_of(stream) == (Reasoning(parts=("hm",)), Text(text="so it is"))


def test_text_after_a_thought_after_text_is_a_third_block() -> None:
    stream = chunk({"text": "a"}, {"text": "b", "thought": True}, {"text": "c"}) + STOP
    assert blocks_of(stream) == (Text(text="a"), Reasoning(parts=("b",)), Text(text="c"))


@pytest.mark.rule("P9")
def test_empty_texts_open_nothing() -> None:
    stream = chunk({"text": ""}, {"text": "", "thought": True}) + STOP
    assert blocks_of(stream) == ()


@pytest.mark.rule("R62", "H12")
def test_a_call_comes_whole_with_its_arguments_in_their_order() -> None:
    stream = (
        chunk({"functionCall": {"id": "c1", "name": "run", "args": {"z": 1, "a": [2.5, "é", None]}}}) + STOP
    )
    assert blocks_of(stream) == (ToolCall(id="c1", name="run", arguments='{"z":1,"a":[2.5,"é",null]}'),)


@pytest.mark.rule("H35")
def test_a_call_without_arguments_has_an_empty_object() -> None:
    (call,) = blocks_of(chunk({"functionCall": {"id": "c1", "name": "run"}}) + STOP)
    assert isinstance(call, ToolCall)
    assert call.arguments == "{}"


@pytest.mark.rule("H16")
def test_a_call_without_an_id_gets_one_that_is_the_same_each_time() -> None:
    stream = chunk({"functionCall": {"name": "run", "args": {}}}, {"functionCall": {"name": "run"}}) + STOP
    first = [
        b.id
        for b in blocks_of(stream, UpstreamContext(issuer="gemini", ids=IdSource("s")))
        if isinstance(b, ToolCall)
    ]
    again = [
        b.id
        for b in blocks_of(stream, UpstreamContext(issuer="gemini", ids=IdSource("s")))
        if isinstance(b, ToolCall)
    ]
    assert first == again
    assert len({*first}) == 2
    assert all(made.startswith("call_") for made in first)


@pytest.mark.rule("H17")
def test_an_id_that_comes_twice_is_reported_once() -> None:
    call = {"functionCall": {"id": "c1", "name": "run", "args": {}}}
    first, second = blocks_of(chunk(call, call) + STOP)
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert first.id == "c1"
    assert second.id != "c1"


@pytest.mark.rule("P5", "P6", "P64")
def test_stop_after_a_call_means_tool_calls() -> None:
    ending = finish(chunk({"functionCall": {"id": "c1", "name": "run", "args": {}}}, finishReason="STOP"))
    assert (ending.cause, ending.raw_cause) == ("tool_calls", "STOP")


@pytest.mark.rule("H14")
def test_arguments_in_pieces_are_put_together_by_their_paths() -> None:
    call = blocks_of(recorded("stream-partial-arguments.sse"))[0]
    assert isinstance(call, ToolCall)
    assert call.id == "call-0006"
    assert call.arguments == (
        '{"file_path":"a.txt","content":"first line\\nsecond line","mode":420,"backup":false,'
        '"tags":["x","y"],"owner":null}'
    )
    assert call.seal is not None


@pytest.mark.rule("H14")
def test_a_call_whose_last_piece_never_came_is_not_made_whole() -> None:
    piece = {"jsonPath": "$.a", "stringValue": "b", "willContinue": True}
    stream = chunk(
        {"functionCall": {"id": "c1", "name": "run", "partialArgs": [piece], "willContinue": True}}
    )
    (call,) = blocks_of(stream + chunk(finishReason="MAX_TOKENS"))
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"a":"b"'


def test_a_second_call_ends_one_that_was_still_coming() -> None:
    stream = chunk(
        {"functionCall": {"id": "c1", "name": "one", "willContinue": True}},
        {"functionCall": {"id": "c2", "name": "two", "args": {}}},
    )
    assert [b.name for b in blocks_of(stream + STOP) if isinstance(b, ToolCall)] == ["one", "two"]


def test_a_call_without_a_name_is_skipped_and_counted() -> None:
    context = source()
    assert blocks_of(chunk({"functionCall": {"args": {}}}) + STOP, context) == ()
    assert [str(loss) for loss in context.losses] == ["functionCall: a call without a name was skipped"]


def test_arguments_that_came_as_text_are_kept_as_text() -> None:
    (call,) = blocks_of(chunk({"functionCall": {"id": "c", "name": "run", "args": '{"a": 1}'}}) + STOP)
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"a": 1}'


@pytest.mark.rule("H6", "P42")
def test_a_signature_stays_with_its_call() -> None:
    part = {"functionCall": {"id": "c1", "name": "run", "args": {}}, "thoughtSignature": "c2ln"}
    assert blocks_of(chunk(part) + STOP) == (ToolCall(id="c1", name="run", arguments="{}", seal=SEAL),)


@pytest.mark.rule("H6", "P42")
def test_a_signature_on_a_last_empty_text_belongs_to_the_text_before() -> None:
    stream = chunk({"text": "hello"}) + chunk({"text": "", "thoughtSignature": "c2ln"}, finishReason="STOP")
    assert blocks_of(stream) == (Text(text="hello", seal=SEAL),)


@pytest.mark.rule("H6", "P42")
def test_a_signature_on_a_thought_stays_on_the_thought() -> None:
    stream = chunk({"text": "hm", "thought": True, "thoughtSignature": "c2ln"}, {"text": "so"}) + STOP
    assert blocks_of(stream) == (Reasoning(parts=("hm",), seal=SEAL), Text(text="so"))


@pytest.mark.rule("H6")
def test_text_after_a_signature_is_a_block_of_its_own() -> None:
    stream = chunk({"text": "a", "thoughtSignature": "c2ln"}, {"text": "b"}) + STOP
    assert blocks_of(stream) == (Text(text="a", seal=SEAL), Text(text="b"))


@pytest.mark.rule("H6")
def test_a_signature_that_belongs_to_no_words_is_carried_by_an_empty_thought() -> None:
    call = {"functionCall": {"id": "c1", "name": "run", "args": {}}}
    stream = chunk(call) + chunk({"text": "", "thoughtSignature": "c2ln"}, finishReason="STOP")
    assert blocks_of(stream)[1] == Reasoning(seal=SEAL)


@pytest.mark.rule("H6")
def test_the_sentinel_is_no_seal() -> None:
    part = {"functionCall": {"id": "c1", "name": "run", "args": {}}}
    stream = chunk({**part, "thoughtSignature": "skip_thought_signature_validator"}) + STOP
    assert blocks_of(stream) == (ToolCall(id="c1", name="run", arguments="{}"),)


def test_seals_name_the_issuer_that_the_source_names() -> None:
    (text,) = blocks_of(
        chunk({"text": "a", "thoughtSignature": "c2ln"}) + STOP, UpstreamContext(issuer="vertex")
    )
    assert isinstance(text, Text)
    assert text.seal == Seal("vertex", "gemini-test", "c2ln")


def test_code_that_the_server_ran_becomes_a_call_and_its_result() -> None:
    _, call, result, _ = blocks_of(recorded("stream-code-execution.sse"))
    assert isinstance(call, HostedCall)
    assert isinstance(result, HostedResult)
    assert (call.tool, call.id, result.call_id) == ("code_execution", "code-0001", "code-0001")
    assert call.arguments == '{"language":"PYTHON","code":"print(2 ** 10)\\n"}'
    assert (result.text, result.is_error) == ("1024\n", False)


def test_code_without_an_id_and_its_failure_belong_together() -> None:
    call, result, _ = blocks_of(recorded("stream-code-execution-failed.sse"))
    assert isinstance(call, HostedCall)
    assert isinstance(result, HostedResult)
    assert call.id
    assert result.call_id == call.id
    assert result.is_error


def test_a_search_by_the_server_becomes_a_call_and_its_result() -> None:
    call, result, _ = blocks_of(recorded("stream-server-tool-call.sse"))
    assert isinstance(call, HostedCall)
    assert isinstance(result, HostedResult)
    assert (call.tool, call.arguments) == ("web_search", '{"queries":["example tower"]}')
    assert result.text == '{"search_suggestions":"example tower height"}'


@pytest.mark.rule("R130")
def test_an_image_comes_whole() -> None:
    _, image = blocks_of(recorded("stream-inline-image.sse"))
    assert isinstance(image, Media)
    assert (image.kind, image.media_type) == ("image", "image/png")
    assert image.data.startswith("iVBOR")


def test_an_image_that_was_only_thought_of_is_no_part_of_the_answer() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thought": True}
    (block,) = blocks_of(chunk(part) + STOP)
    assert block == Opaque(kind="thought", value=part)


def test_an_unknown_part_is_kept_whole() -> None:
    part: dict[str, object] = {"hologram": {"depth": 3}, "partMetadata": {}}
    assert blocks_of(chunk(part) + STOP) == (Opaque(kind="hologram", value=part),)


def test_names_in_snake_case_are_understood() -> None:
    part = {
        "function_call": {"id": "c1", "name": "run", "args": {"snake_case": 1}},
        "thought_signature": "c2ln",
    }
    stream = frame(
        {
            "candidates": [{"content": {"parts": [part]}, "finish_reason": "STOP"}],
            "usage_metadata": {"prompt_token_count": 3},
            "model_version": "gemini-test",
            "response_id": "r1",
        }
    )
    reply = reply_of(stream)
    assert reply.blocks == (ToolCall(id="c1", name="run", arguments='{"snake_case":1}', seal=SEAL),)
    assert reply.usage is not None
    assert reply.usage.input == 3


@pytest.mark.rule("H60", "R58")
def test_output_counts_answer_and_thoughts() -> None:
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5,
        "toolUsePromptTokenCount": 11,
        "totalTokenCount": 123,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": 1},
            {"modality": "AUDIO", "tokenCount": 9},
        ],
    }
    reply = reply_of(frame({"usageMetadata": usage}) + STOP)
    assert reply.usage == Usage(
        input=100, output=12, cache_read=60, reasoning=5, tool_input=11, audio_input=9, extras=usage
    )


def test_of_many_counts_the_last_one_wins_and_the_first_comes_early() -> None:
    stream = frame({"usageMetadata": {"promptTokenCount": 5}}) + frame(
        {"usageMetadata": {"promptTokenCount": 6, "candidatesTokenCount": 2}}
    )
    events = read(stream + STOP)
    reported = [event.usage for event in events if isinstance(event, UsageReported)]
    assert [(usage.input, usage.output) for usage in reported] == [(5, None), (6, 2)]
    assert isinstance(events[1], UsageReported)


@pytest.mark.parametrize("count", [-1, 1.5, "7", True, None, [1]])
def test_counts_that_are_none_are_not_reported(count: object) -> None:
    reply = reply_of(frame({"usageMetadata": {"promptTokenCount": count}}) + STOP)
    assert reply.usage is not None
    assert reply.usage.input is None


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("OTHER", "other"),
        ("LANGUAGE", "other"),
        ("A_NEW_ONE", "other"),
    ],
)
@pytest.mark.rule("R54")
def test_a_finish_reason_is_reported_in_our_words_and_in_its_own(reason: str, cause: str) -> None:
    ending = finish(chunk({"text": "a"}) + chunk(finishReason=reason, finishMessage="because"))
    assert (ending.cause, ending.raw_cause, ending.explanation) == (cause, reason, "because")


@pytest.mark.rule("H49")
def test_a_blocked_prompt_is_an_answer_that_was_filtered() -> None:
    ending = finish(recorded("stream-blocked-prompt.sse"))
    assert (ending.cause, ending.raw_cause) == ("content_filter", "PROHIBITED_CONTENT")


def test_feedback_that_blocks_nothing_ends_nothing() -> None:
    stream = frame({"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}) + chunk({"text": "a"})
    assert failure(stream).ending == "truncated"


def test_a_reason_that_is_none_ends_nothing() -> None:
    assert failure(chunk({"text": "a"}, finishReason="FINISH_REASON_UNSPECIFIED")).ending == "truncated"


@pytest.mark.rule("H73", "P16")
def test_a_stream_that_just_stops_is_truncated() -> None:
    ending = failure(recorded("stream-cut.sse"))
    assert ending.ending == "truncated"


@pytest.mark.rule("H73")
def test_an_empty_stream_is_truncated() -> None:
    assert failure(b"").ending == "truncated"


@pytest.mark.rule("H72")
def test_an_error_in_the_stream_fails_the_reply_and_keeps_what_was_counted() -> None:
    reply = reply_of(recorded("stream-failed.sse"))
    assert isinstance(reply.ending, ReplyFailed)
    assert (reply.ending.ending, reply.ending.failure.kind) == ("failed", "overloaded")
    assert reply.usage is not None
    assert reply.usage.input == 14


@pytest.mark.rule("H72")
def test_an_error_in_a_list_fails_the_reply_too() -> None:
    error = {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}
    for stream in (frame([error]), b"[" + frame(error).removeprefix(b"data: ") + b"]"):
        assert failure(stream).failure.kind == "rate_limit"


def test_an_html_page_fails_the_reply() -> None:
    assert failure(b"<html><body>502</body></html>").failure.kind == "server"


def test_nothing_follows_an_error() -> None:
    stream = frame({"error": {"code": 500, "message": "No."}}) + chunk({"text": "late"})
    assert blocks_of(stream) == ()


@pytest.mark.rule("H48")
def test_grounding_becomes_citations_by_characters() -> None:
    text, search = blocks_of(recorded("stream-grounding.sse"))
    assert isinstance(search, HostedCall)
    assert find_queries(search) == ("height of the example tower",)
    assert isinstance(text, Text)
    assert [(c.url, text.text[c.start : c.end]) for c in text.citations] == [
        ("https://example.org/page-1", "Der Turm ist 123 Meter hoch."),
        ("https://example.org/page-1", "Er wurde 1931 fertig \u2013 größer als üblich."),
        ("https://example.org/page-2", "Er wurde 1931 fertig \u2013 größer als üblich."),
    ]


def test_sources_of_a_recitation_become_citations() -> None:
    (text,) = blocks_of(recorded("stream-recitation.sse"))
    assert isinstance(text, Text)
    assert text.citations == (Citation(url="https://example.org/poem", start=0, end=17),)


def test_citations_without_an_open_text_are_a_loss() -> None:
    context = source()
    read(chunk(groundingMetadata={"groundingChunks": []}, finishReason="STOP"), context)
    assert [loss.path for loss in context.losses] == ["groundingMetadata"]


@pytest.mark.parametrize(
    "payload",
    [
        {"candidates": "none"},
        {"candidates": [None]},
        {"candidates": [{"content": 5}]},
        {"candidates": [{"content": {"parts": "text"}}]},
        {"candidates": [{"content": {"parts": [None, "text", 5]}}]},
        {"candidates": [{"content": {"parts": [{"text": 5}]}}]},
        {"candidates": [{"content": {"parts": [{"thoughtSignature": 5}]}}]},
        {"candidates": [{"content": {"parts": [{"inlineData": {"data": 5}}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": 5}}]}}]},
        {"candidates": [{"finishReason": 5, "groundingMetadata": 5}]},
        {"promptFeedback": "no", "usageMetadata": [1]},
        {"modelVersion": 5, "responseId": []},
    ],
)
def test_values_of_the_wrong_type_break_nothing(payload: object) -> None:
    assert blocks_of(frame(payload) + chunk({"text": "still here"}) + STOP)[-1] == Text(text="still here")


def test_a_piece_of_arguments_without_a_place_is_skipped_and_counted() -> None:
    context = source()
    call = {"id": "c1", "name": "run", "partialArgs": [{"jsonPath": "nowhere", "numberValue": 1}]}
    assert blocks_of(chunk({"functionCall": call}) + STOP, context) == (
        ToolCall(id="c1", name="run", arguments="{}"),
    )
    assert [loss.path for loss in context.losses] == ["functionCall.partialArgs"]


def test_fields_of_a_text_are_kept_for_gemini_clients() -> None:
    part = {"text": "a", "partMetadata": {"b": 1}}
    call = {"functionCall": {"id": "c1", "name": "run", "args": {}, "mood": "x"}, "partMetadata": {"c": 1}}
    stream = chunk(part, call) + STOP
    assert parts_of(through(stream)) == [part, call]


def test_the_first_words_and_a_count_of_the_wrong_type_do_not_disturb_the_rest() -> None:
    odd = frame({"candidates": [{"content": {"parts": [{"text": "b"}]}, "index": 0}], "usageMetadata": 5})
    assert blocks_of(chunk({"text": "a"}) + odd + STOP) == (Text(text="ab"),)
    thought = chunk({"text": "a", "thought": True}) + chunk({"text": "b", "thought": "no"}) + STOP
    assert blocks_of(thought) == (Reasoning(parts=("a",)), Text(text="b"))


def test_a_body_after_a_comment_is_read_all_the_same() -> None:
    body = frame({"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}).removeprefix(
        b"data: "
    )
    assert failure(b": waiting\n" + body).failure.kind == "overloaded"


@pytest.mark.parametrize(
    "part",
    [
        {"0": None},
        {"functionCall": 5},
        {"inlineData": 5, "text": 5},
        {"inlineData": {"mimeType": "image/png"}},
        {"executableCode": {"code": 5}},
        {"toolCall": {}},
    ],
)
def test_a_part_that_is_empty_is_skipped_and_counted(part: object) -> None:
    context = source()
    assert blocks_of(chunk(part) + STOP, context) == ()
    assert [loss.path for loss in context.losses] == ["parts[0]"]


def test_of_a_part_with_data_of_several_kinds_one_is_reported() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert parts_of(through(chunk({"text": "a", **picture}) + STOP)) == [{"text": "a"}]
    odd = {**picture, "fileData": {"fileUri": "x"}, "thought": "no", "thoughtSignature": "no base64"}
    assert parts_of(through(chunk(odd) + STOP)) == [picture]


def test_an_error_that_is_empty_is_none() -> None:
    stream = frame({"error": None, "promptFeedback": 5}) + chunk({"text": "a"}, finishReason="STOP")
    assert reply_of(through(stream)).blocks == (Text(text="a"),)


def test_later_feedback_does_not_cancel_that_the_prompt_was_blocked() -> None:
    blocked = frame({"promptFeedback": {"blockReason": "SAFETY"}})
    translator = StreamTranslator(source="gemini", target="gemini", model="m")
    stream = translator.feed(blocked + frame({"promptFeedback": {"safetyRatings": []}})) + translator.close()
    assert dialect_named("gemini").check_stream(stream) == []
    assert b'"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[]}' in stream
