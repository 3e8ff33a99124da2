"""What Gemini clients get to read of any reply."""

import pytest

from dragoman.dialects.gemini import DIALECT
from dragoman.dialects.interfaces import ClientContext
from dragoman.hub.blocks import (
    Citation,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    ReplyBlock,
    Text,
    ToolCall,
)
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
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
from dragoman.hub.fold import Reply, unfold
from dragoman.hub.loss import Losses
from dragoman.hub.usage import Usage
from tests.dialects.gemini.replies import asked, dig, frames, last_candidate, parts_of, user, write

STARTED = ReplyStarted(id="msg_01ABCDEFGH", model="m1")


def write_blocks(
    *blocks: ReplyBlock, cause: StopCause = "end", context: ClientContext | None = None
) -> bytes:
    """The stream of a reply of these blocks; legal whatever they are."""
    if cause == "end" and any(isinstance(block, ToolCall) for block in blocks):
        cause = "tool_calls"
    reply = Reply(started=STARTED, blocks=blocks, ending=ReplyFinished(cause=cause))
    stream = write(unfold(reply), context)
    assert DIALECT.check_stream(stream) == []
    return stream


@pytest.mark.rule("H75", "H77", "H78")
def test_a_stream_is_data_lines_and_nothing_else() -> None:
    stream = write_blocks(
        Reasoning(parts=("hm",)), Text(text="a\nb"), ToolCall(id="c1", name="run", arguments="{}")
    )
    lines = stream.split(b"\n")
    assert all(line.startswith(b'data: {"') or not line for line in lines)
    assert stream.endswith(b"\n\n")
    assert b"[DONE]" not in stream


def test_every_chunk_names_the_model_the_reply_and_the_candidate() -> None:
    for payload in frames(write_blocks(Text(text="hello"))):
        assert payload["modelVersion"] == "m1"
        assert payload["responseId"] == "msg_01ABCDEFGH"
        assert dig(payload, "candidates", 0, "index") == 0


@pytest.mark.rule("R6")
def test_the_client_reads_the_model_it_asked_for() -> None:
    (first, *_) = frames(
        write_blocks(Text(text="hello"), context=ClientContext(upstream="anthropic", model="gemini-asked"))
    )
    assert first["modelVersion"] == "gemini-asked"


def test_text_goes_out_piece_by_piece() -> None:
    events: list[ReplyEvent] = [
        STARTED,
        BlockOpened(0, Text(text="")),
        TextDelta(0, "one "),
        TextDelta(0, "two"),
        BlockClosed(0),
        ReplyFinished(cause="end"),
    ]
    texts = [dig(payload, "candidates", 0, "content", "parts") for payload in frames(write(events))[:-1]]
    assert texts == [[{"text": "one "}], [{"text": "two"}]]


@pytest.mark.rule("R129")
def test_thoughts_are_marked_and_their_parts_kept_apart() -> None:
    assert parts_of(write_blocks(Reasoning(parts=("one", "two")), Text(text="so"))) == [
        {"text": "one\n\ntwo", "thought": True},
        {"text": "so"},
    ]


def test_thoughts_are_shown_only_to_clients_that_asked() -> None:
    thought = Reasoning(parts=("secret",))
    silent = ClientContext(upstream="anthropic", request=asked({"contents": [user({"text": "a"})]}))
    config = {"thinkingConfig": {"includeThoughts": True}}
    curious = ClientContext(
        upstream="anthropic", request=asked({"contents": [user({"text": "a"})], "generationConfig": config})
    )
    assert b"secret" not in write_blocks(thought, Text(text="so"), context=silent)
    assert b"secret" in write_blocks(thought, Text(text="so"), context=curious)


@pytest.mark.rule("H12", "H13")
def test_a_call_goes_out_whole_when_it_is_complete() -> None:
    events: list[ReplyEvent] = [
        STARTED,
        BlockOpened(0, ToolCall(id="c1", name="run")),
        ArgumentsDelta(0, '{"a":'),
        ArgumentsDelta(0, " 1}"),
        BlockClosed(0),
        ReplyFinished(cause="tool_calls"),
    ]
    first, last = frames(write(events))
    assert dig(first, "candidates", 0, "content", "parts") == [
        {"functionCall": {"id": "c1", "name": "run", "args": {"a": 1}}}
    ]
    assert dig(last, "candidates", 0) == {"finishReason": "STOP", "index": 0}


@pytest.mark.rule("R111", "H35")
def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert parts_of(write_blocks(ToolCall(id="c1", name="run"))) == [
        {"functionCall": {"id": "c1", "name": "run", "args": {}}}
    ]


@pytest.mark.rule("H12", "C15", "R80")
@pytest.mark.parametrize("arguments", ["{'a': 1}", "ls -la", "[1]", "null"])
def test_arguments_that_are_no_object_are_wrapped_and_counted(arguments: str) -> None:
    context = ClientContext(upstream="openai_chat")
    parts = parts_of(write_blocks(ToolCall(id="c1", name="run", arguments=arguments), context=context))
    assert dig(parts, 0, "functionCall", "args") == {"text": arguments}
    assert len(context.losses) == 1


@pytest.mark.rule("H12", "C15")
@pytest.mark.parametrize("arguments", ['{"text": "delete every', '{"te', "{'text': 'delete every", " {"])
def test_arguments_that_broke_off_stand_where_no_tool_looks_for_them(arguments: str) -> None:
    parts = parts_of(write_blocks(ToolCall(id="c1", name="say", arguments=arguments)))
    assert dig(parts, 0, "functionCall", "args") == {"incomplete_arguments": arguments}


def test_free_text_for_a_tool_goes_under_input() -> None:
    call = ToolCall(id="c1", name="patch", arguments="*** Begin", kind="custom")
    assert dig(parts_of(write_blocks(call)), 0, "functionCall", "args") == {"input": "*** Begin"}


@pytest.mark.rule("H71")
def test_interleaved_calls_come_one_after_another() -> None:
    events: list[ReplyEvent] = [
        STARTED,
        BlockOpened(0, ToolCall(id="c1", name="one")),
        BlockOpened(1, ToolCall(id="c2", name="two")),
        ArgumentsDelta(1, "{"),
        ArgumentsDelta(0, "{"),
        ArgumentsDelta(1, "}"),
        ArgumentsDelta(0, "}"),
        BlockClosed(1),
        BlockClosed(0),
        ReplyFinished(cause="tool_calls"),
    ]
    assert [dig(part, "functionCall", "name") for part in parts_of(write(events))] == ["one", "two"]


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("end", "STOP"),
        ("stop_sequence", "STOP"),
        ("length", "MAX_TOKENS"),
        ("context_window", "MAX_TOKENS"),
        ("refusal", "SAFETY"),
        ("content_filter", "SAFETY"),
        ("malformed_call", "MALFORMED_FUNCTION_CALL"),
        ("pause", "OTHER"),
        ("other", "OTHER"),
    ],
)
def test_every_ending_has_a_finish_reason(cause: StopCause, reason: str) -> None:
    assert last_candidate(write_blocks(Text(text="a"), cause=cause))["finishReason"] == reason


@pytest.mark.rule("H85")
@pytest.mark.parametrize("blocks", [(), (Reasoning(parts=("hm",)),)])
def test_an_answer_with_nothing_to_see_is_not_called_a_stop(blocks: tuple[ReplyBlock, ...]) -> None:
    assert last_candidate(write_blocks(*blocks))["finishReason"] == "OTHER"


def test_the_reason_for_a_refusal_is_reported() -> None:
    reply = Reply(started=STARTED, ending=ReplyFinished(cause="refusal", explanation="against the rules"))
    assert last_candidate(write(unfold(reply)))["finishMessage"] == "against the rules"


def test_words_of_another_dialect_are_not_used_as_a_finish_reason() -> None:
    ending = ReplyFinished(cause="length", raw_cause="SAFETY")
    assert last_candidate(write([STARTED, ending]))["finishReason"] == "MAX_TOKENS"


def test_gemini_s_own_word_is_kept_if_it_means_the_cause() -> None:
    context = ClientContext(upstream="gemini")
    kept = write([STARTED, ReplyFinished(cause="content_filter", raw_cause="SPII")], context)
    changed = write(
        [STARTED, ReplyFinished(cause="length", raw_cause="SPII")], ClientContext(upstream="gemini")
    )
    assert last_candidate(kept)["finishReason"] == "SPII"
    assert last_candidate(changed)["finishReason"] == "MAX_TOKENS"


@pytest.mark.rule("H60")
def test_usage_is_reported_in_gemini_s_terms_at_the_end() -> None:
    usage = Usage(input=100, output=12, cache_read=60, reasoning=5)
    events: list[ReplyEvent] = [STARTED, UsageReported(usage), ReplyFinished(cause="other")]
    (last,) = frames(write(events))
    assert last["usageMetadata"] == {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 112,
    }


def test_counts_that_were_not_reported_are_not_written() -> None:
    events: list[ReplyEvent] = [STARTED, UsageReported(Usage()), ReplyFinished(cause="other")]
    assert "usageMetadata" not in frames(write(events))[0]


@pytest.mark.rule("H72", "H73")
@pytest.mark.parametrize("ending", ["failed", "truncated", "cancelled"])
def test_a_reply_that_did_not_reach_its_end_ends_in_an_error(ending: FailedEnding) -> None:
    failure = Failure(kind="overloaded", message="Too busy.", status=529, retry_after=2)
    events: list[ReplyEvent] = [
        STARTED,
        BlockOpened(0, Text(text="")),
        TextDelta(0, "half"),
        ReplyFailed(ending, failure),
    ]
    stream = write(events)
    assert DIALECT.check_stream(stream) == []
    assert frames(stream)[-1] == {
        "error": {
            "code": 503,
            "message": "Too busy.",
            "status": "UNAVAILABLE",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"}],
        }
    }


def test_a_call_that_was_cut_off_is_never_shown() -> None:
    events: list[ReplyEvent] = [
        STARTED,
        BlockOpened(0, ToolCall(id="c1", name="rm")),
        ArgumentsDelta(0, '{"path": "/home'),
        ReplyFailed("truncated", Failure(kind="server", message="Cut.")),
    ]
    assert b"functionCall" not in write(events)


def test_a_reply_that_failed_before_it_began_is_an_error() -> None:
    assert list(frames(write([ReplyFailed("failed", Failure(kind="server", message="No."))]))[0]) == ["error"]


@pytest.mark.rule("H49")
def test_a_refusal_is_text_that_can_be_seen() -> None:
    stream = write_blocks(Refusal(text="I will not."), cause="refusal")
    assert parts_of(stream) == [{"text": "I will not."}]


@pytest.mark.rule("R130")
def test_media_go_out_as_data_or_as_an_address() -> None:
    parts = parts_of(
        write_blocks(
            Media(kind="image", media_type="image/png", data="AAAA"),
            Media(kind="image", url="https://example.org/a.jpg"),
            Media(kind="document", media_type="text/plain", text="words"),
        )
    )
    assert parts == [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.org/a.jpg"}},
        {"inlineData": {"mimeType": "text/plain", "data": "d29yZHM="}},
    ]


@pytest.mark.rule("H46")
@pytest.mark.parametrize(
    ("data", "media_type"),
    [("iVBORw0K", "image/png"), ("/9j/4AAQ", "image/jpeg"), ("R0lGODlh", "image/gif"), ("AAAA", "image/png")],
)
def test_an_image_without_a_type_gets_the_one_it_begins_like(data: str, media_type: str) -> None:
    assert (
        dig(parts_of(write_blocks(Media(kind="image", data=data))), 0, "inlineData", "mimeType") == media_type
    )


def test_a_file_stored_elsewhere_is_a_loss() -> None:
    context = ClientContext(upstream="openai_responses")
    assert parts_of(write_blocks(Media(kind="document", file_id="file_1"), context=context)) == []
    assert len(context.losses) == 1


@pytest.mark.rule("H28")
def test_code_that_another_vendor_ran_is_shown_as_code() -> None:
    call = HostedCall(id="s1", tool="code_execution", arguments='{"code": "print(1)"}')
    result = HostedResult(call_id="s1", tool="code_execution", text="1\n")
    assert parts_of(write_blocks(call, result)) == [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
    ]


@pytest.mark.rule("H28", "H48")
def test_a_search_is_reported_by_its_query_and_its_citations() -> None:
    call = HostedCall(id="s1", tool="web_search", arguments='{"query": "tower"}')
    result = HostedResult(call_id="s1", tool="web_search", text="found")
    text = Text(
        text="größer",
        citations=(
            Citation(url="https://example.org/a", title="A", start=2, end=6),
            Citation(title="B", quote="q"),
        ),
    )
    stream = write_blocks(call, result, text)
    assert parts_of(stream) == [{"text": "größer"}]
    assert last_candidate(stream)["groundingMetadata"] == {
        "webSearchQueries": ["tower"],
        "groundingChunks": [
            {"web": {"uri": "https://example.org/a", "title": "A"}},
            {"retrievedContext": {"title": "B", "text": "q"}},
        ],
        "groundingSupports": [
            {"segment": {"startIndex": 2, "endIndex": 8, "text": "ößer"}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 0, "endIndex": 8, "text": "größer"}, "groundingChunkIndices": [1]},
        ],
    }


@pytest.mark.rule("H28")
@pytest.mark.parametrize(
    ("block", "losses"),
    [
        (HostedCall(id="s1", tool="web_search", arguments='{"query": "tower"}'), 0),
        (HostedCall(id="s1", tool="web_search", arguments='{"url": "https://example.org"}'), 1),
        (HostedResult(call_id="s1", tool="web_search", text="found"), 1),
        (HostedCall(id="s1", tool="web_fetch", arguments="{}"), 1),
        (HostedResult(call_id="s1", tool="web_fetch", text="found"), 1),
    ],
)
def test_what_another_vendors_tool_did_is_a_loss_where_gemini_has_no_place_for_it(
    block: ReplyBlock, losses: int
) -> None:
    context = ClientContext(upstream="anthropic", losses=Losses())
    write_blocks(block, Text(text="So."), context=context)
    assert len(context.losses) == losses


@pytest.mark.rule("H48")
def test_citations_count_from_the_start_of_the_text_that_the_client_joins() -> None:
    stream = write_blocks(
        ToolCall(id="c1", name="run"),
        Text(text="é, "),
        Text(text="b", citations=(Citation(url="https://example.org/a"),)),
    )
    grounding = last_candidate(stream)["groundingMetadata"]
    assert dig(grounding, "groundingSupports", 0, "segment") == {
        "startIndex": 4,
        "endIndex": 5,
        "partIndex": 1,
    }


@pytest.mark.rule("H48")
def test_unexpected_citations_of_a_text_still_have_their_places() -> None:
    citations = (Citation(url="https://example.org/a", start=1, end=3), Citation(url="", title=""))
    plain = last_candidate(write_blocks(Text(text="plain", citations=citations)))
    foreign = last_candidate(write_blocks(Text(text="größer", citations=citations)))
    assert dig(plain, "groundingMetadata", "groundingSupports", 0, "segment") == {
        "startIndex": 1,
        "endIndex": 3,
    }
    assert dig(foreign, "groundingMetadata", "groundingSupports", 0, "segment") == {
        "startIndex": 0,
        "endIndex": 8,
    }


def test_a_block_that_has_no_words_here_is_a_loss_or_its_text() -> None:
    context = ClientContext(upstream="openai_responses", losses=Losses())
    stream = write_blocks(
        Opaque(kind="compaction", value={}),
        Opaque(kind="compaction", value={}, text="in short"),
        HostedCall(id="s1", tool="mcp"),
        context=context,
    )
    assert parts_of(stream) == [{"text": "in short"}]
    assert len(context.losses) == 2


def test_reasoning_deltas_of_a_later_part_begin_a_new_paragraph() -> None:
    events: list[ReplyEvent] = [
        STARTED,
        BlockOpened(0, Reasoning()),
        ReasoningDelta(0, "a", 0),
        ReasoningDelta(0, "b", 0),
        ReasoningDelta(0, "c", 1),
        BlockClosed(0),
        ReplyFinished(cause="other"),
    ]
    assert parts_of(write(events)) == [{"text": "ab\n\nc", "thought": True}]


@pytest.mark.rule("P9")
def test_empty_deltas_are_not_written() -> None:
    events: list[ReplyEvent] = [
        STARTED,
        BlockOpened(0, Text(text="")),
        TextDelta(0, ""),
        BlockClosed(0),
        BlockOpened(1, Reasoning()),
        ReasoningDelta(1, ""),
        BlockClosed(1),
        ReplyFinished(cause="other"),
    ]
    assert len(frames(write(events))) == 1
