"""Streams of this dialect, also from upstreams that follow the protocol only partly."""

import pytest

from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.blocks import HostedCall, Opaque, Reasoning, Refusal, Text, ToolCall
from dragoman.hub.errors import FailureKind
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
)
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.seal import Seal
from tests.dialects.openai_responses.replies import (
    added,
    arguments_delta,
    arguments_done,
    call,
    completed,
    created,
    done,
    failure,
    finish,
    message,
    opened,
    read,
    recorded,
    reply_of,
    stream_of,
    text_delta,
)


def only_call(*payloads: Json) -> ToolCall:
    reply = reply_of(*payloads)
    (block,) = reply.blocks
    assert isinstance(block, ToolCall)
    assert finish(reply).cause == "tool_calls"
    return block


def shapes(events: list[ReplyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


WHOLE = '{"path":"a.txt"}'


@pytest.mark.rule("R61", "R62", "R63", "R65")
@pytest.mark.parametrize(
    "deltas",
    [[], [WHOLE], ['{"pa', 'th":', '"a.txt', '"}']],
    ids=["no delta", "one delta", "many deltas"],
)
def test_a_call_opens_when_added_grows_by_deltas_and_closes_when_done(deltas: list[str]) -> None:
    stream = stream_of(
        created(),
        added(call()),
        *[arguments_delta(delta) for delta in deltas],
        arguments_done(WHOLE),
        done(call(arguments=WHOLE, status="completed")),
        completed(call(arguments=WHOLE)),
    )
    events = read(stream)
    expected = deltas or [WHOLE]
    assert events[0] == ReplyStarted(id="resp_1", model="gpt-x")
    assert isinstance(events[1], BlockOpened)
    assert events[2 : 2 + len(expected)] == [ArgumentsDelta(0, text) for text in expected]
    assert shapes(events[2 + len(expected) :]) == ["BlockClosed", "ReplyFinished"]
    assert finish(reply_of(created(), done(call(arguments=WHOLE)), completed())).cause == "tool_calls"


@pytest.mark.rule("R62")
def test_arguments_come_from_whichever_event_has_them() -> None:
    sources = [
        [added(call()), arguments_done(WHOLE), done(call()), completed()],
        [added(call()), done(call(arguments=WHOLE)), completed()],
        [done(call(arguments=WHOLE)), completed()],
        [added(call()), completed(call(arguments=WHOLE))],
        [completed(call(arguments=WHOLE))],
        [added(call(arguments=WHOLE)), completed()],
        [arguments_delta(WHOLE), added(call()), done(call(arguments=WHOLE)), completed()],
        [arguments_delta(WHOLE), done(call(arguments=WHOLE)), completed()],
    ]
    for payloads in sources:
        block = only_call(created(), *payloads)
        assert (block.id, block.name, block.arguments) == ("call_0", "tool_0", WHOLE)


@pytest.mark.rule("R66", "C12", "P63")
def test_interleaved_parallel_calls_are_kept_apart() -> None:
    reply = reply_of(
        created(),
        added(call(0), 0),
        added(call(1), 1),
        arguments_delta('{"a":', 0),
        arguments_delta('{"b":', 1),
        arguments_delta("1}", 0),
        arguments_delta("2}", 1),
        arguments_done('{"b":2}', 1),
        done(call(1, '{"b":2}'), 1),
        arguments_done('{"a":1}', 0),
        done(call(0, '{"a":1}'), 0),
        completed(),
    )
    assert [(b.id, b.arguments) for b in reply.blocks if isinstance(b, ToolCall)] == [
        ("call_0", '{"a":1}'),
        ("call_1", '{"b":2}'),
    ]


@pytest.mark.rule("C12")
def test_a_call_that_only_the_last_event_names_is_reported() -> None:
    reply = reply_of(
        created(),
        added(call(0), 0),
        arguments_delta("{}", 0),
        done(call(0, "{}"), 0),
        completed(call(0, "{}"), call(1, WHOLE)),
    )
    assert [b.id for b in reply.blocks if isinstance(b, ToolCall)] == ["call_0", "call_1"]


@pytest.mark.rule("P66", "P62")
def test_items_are_reported_once_if_the_last_event_repeats_or_omits_them() -> None:
    items = [added(call(0), 0), done(call(0, "{}"), 0), added(call(1), 1), done(call(1, "{}"), 1)]
    for last in (completed(), completed(call(0, "{}"), call(1, "{}"))):
        reply = reply_of(created(), *items, last)
        assert len(reply.blocks) == 2
        assert finish(reply).cause == "tool_calls"


def test_ids_that_change_in_the_stream_do_not_split_an_item() -> None:
    renamed = {**call(0, WHOLE), "id": "fc_other"}
    reply = reply_of(
        created(),
        added(call(0)),
        {**arguments_delta(WHOLE), "item_id": "fc_third"},
        done(renamed),
        completed({**renamed, "id": "fc_fourth"}),
    )
    (block,) = reply.blocks
    assert isinstance(block, ToolCall)
    assert (block.id, block.arguments) == ("call_0", WHOLE)


def test_parallel_calls_with_the_same_index_are_distinguished_by_id() -> None:
    reply = reply_of(
        created(),
        added(call(0), 0),
        added(call(1), 0),
        {**arguments_delta("{}", 0), "output_index": 0},
        {**arguments_delta(WHOLE, 1), "output_index": 0},
        done(call(0, "{}"), 0),
        done(call(1, WHOLE), 0),
        completed(),
    )
    assert [b.arguments for b in reply.blocks if isinstance(b, ToolCall)] == ["{}", WHOLE]


def test_events_without_item_ids_are_distinguished_by_index() -> None:
    def bare(payload: Json) -> Json:
        return {name: value for name, value in payload.items() if name != "item_id"}

    reply = reply_of(
        created(),
        added(call(0), 0),
        added(call(1), 1),
        bare(arguments_delta("{}", 0)),
        bare(arguments_delta(WHOLE, 1)),
        completed(),
    )
    assert [b.arguments for b in reply.blocks if isinstance(b, ToolCall)] == ["{}", WHOLE]


def test_events_without_id_and_index_belong_to_the_last_item() -> None:
    reply = reply_of(
        created(),
        {"type": "response.output_item.added", "item": {"type": "message", "content": []}},
        {"type": "response.output_text.delta", "delta": "Hel"},
        {"type": "response.output_text.delta", "delta": "lo"},
        completed(),
    )
    assert [b.text for b in reply.blocks if isinstance(b, Text)] == ["Hello"]


@pytest.mark.rule("H16", "R136")
def test_a_call_without_an_id_gets_one() -> None:
    item = {name: value for name, value in call(0, "{}").items() if name != "call_id"}
    reply = reply_of(
        created(), done(item), completed(), source=UpstreamContext(issuer="x", ids=IdSource("seed"))
    )
    (block,) = reply.blocks
    assert isinstance(block, ToolCall)
    assert block.id == IdSource("seed").make("call_")


def test_a_call_that_is_never_named_is_a_loss_and_no_call() -> None:
    losses = Losses()
    source = UpstreamContext(issuer="x", losses=losses)
    reply = reply_of(created(), arguments_delta(WHOLE), completed(), source=source)
    assert reply.blocks == ()
    assert finish(reply).cause == "end"
    assert [loss.reason for loss in losses] == ["a tool call without a name was skipped"]


@pytest.mark.rule("P11")
def test_a_reply_starts_once_even_if_several_events_start_it() -> None:
    announced = [created(), created(), {**created(), "type": "response.in_progress"}]
    events = read(stream_of(*announced, completed()))
    assert shapes(events) == ["ReplyStarted", "ReplyFinished"]


def test_a_reply_without_a_start_event_starts_with_its_end() -> None:
    assert read(stream_of(completed()))[0] == ReplyStarted(id="resp_1", model="gpt-x")


@pytest.mark.rule("R68", "H8")
def test_text_reasoning_and_calls_keep_their_order() -> None:
    events = read(recorded("stream-web-search.sse"))
    assert opened(events) == ["Reasoning", "HostedCall", "HostedResult", "HostedCall", "HostedCall", "Text"]


@pytest.mark.rule("R70", "H80")
def test_unknown_events_are_skipped_and_counted_and_obfuscation_is_not_read() -> None:
    losses = Losses()
    reply = reply_of(
        created(),
        {"type": "response.of_tomorrow", "delta": "?"},
        {**text_delta("Hi."), "obfuscation": "xyz"},
        completed(message("Hi.")),
        source=UpstreamContext(issuer="x", losses=losses),
    )
    assert [b.text for b in reply.blocks if isinstance(b, Text)] == ["Hi."]
    assert [loss.reason for loss in losses] == ["an event of an unknown type was skipped"]


def test_progress_of_hosted_tools_is_no_loss() -> None:
    losses = Losses()
    read(recorded("stream-mcp-call.sse"), source=UpstreamContext(issuer="x", losses=losses))
    assert len(losses) == 0


def test_text_that_only_the_finished_item_has_is_reported() -> None:
    for payloads in (
        [done(message("Hello")), completed()],
        [completed(message("Hello"))],
        [added(message()), done(message("Hello")), completed()],
    ):
        reply = reply_of(created(), *payloads)
        assert [b.text for b in reply.blocks if isinstance(b, Text)] == ["Hello"]


def test_several_parts_of_a_message_are_several_blocks() -> None:
    events = read(recorded("stream-two-messages.sse"))
    closed = [event for event in events if isinstance(event, BlockClosed)]
    assert opened(events) == ["Text", "Text", "Text"]
    assert ["@item" in event.extras for event in closed] == [True, False, True]


@pytest.mark.rule("H49")
def test_a_refusal_is_a_refusal() -> None:
    events = read(recorded("stream-refusal.sse"))
    assert opened(events) == ["Refusal"]
    ending = events[-1]
    assert isinstance(ending, ReplyFinished)
    assert (ending.cause, ending.raw_cause) == ("refusal", "completed")


def test_a_refusal_in_deltas_alone_is_a_refusal() -> None:
    delta = {**text_delta("No."), "type": "response.refusal.delta"}
    reply = reply_of(created(), delta, completed())
    (block,) = reply.blocks
    assert isinstance(block, Refusal)
    assert block.text == "No."
    assert finish(reply).cause == "refusal"


@pytest.mark.rule("R68", "R129")
def test_summaries_are_parts_of_one_block_and_the_seal_comes_at_its_end() -> None:
    reply = reply_of_recording("stream-reasoning.sse", UpstreamContext(issuer="me", model="their-name"))
    thought = reply[0]
    assert isinstance(thought, Reasoning)
    assert thought.parts == ("**Adding**\n\n17 + 25 is 42.", "**Answering**\n\nI will state the sum.")
    assert thought.seal is not None
    assert (thought.seal.issuer, thought.seal.model) == ("me", "their-name")
    assert thought.seal.value.startswith("gAAAAA")
    assert not thought.raw


def reply_of_recording(name: str, source: UpstreamContext) -> tuple[object, ...]:
    return fold(read(recorded(name), source=source)).blocks


def test_reasoning_itself_is_raw_and_a_seal_without_text_is_redacted() -> None:
    raw = reply_of_recording("stream-reasoning-text.sse", UpstreamContext(issuer="x"))[0]
    assert isinstance(raw, Reasoning)
    assert (raw.raw, raw.parts) == (True, ("The user asks for a sum.\n17 + 25 is 42.",))
    sealed = reply_of_recording("stream-reasoning-sealed-only.sse", UpstreamContext(issuer="x"))[0]
    assert isinstance(sealed, Reasoning)
    assert (sealed.redacted, sealed.parts) == (True, ())
    assert sealed.seal is not None
    assert sealed.seal.model == "gpt-5.5"


def test_open_responses_names_for_raw_reasoning_are_understood() -> None:
    delta = {"type": "response.reasoning.delta", "item_id": "rs_0", "output_index": 0, "content_index": 0}
    reply = reply_of(created(), {**delta, "delta": "Hm."}, completed())
    (block,) = reply.blocks
    assert isinstance(block, Reasoning)
    assert (block.raw, block.parts) == (True, ("Hm.",))


def test_reasoning_in_both_forms_is_a_summary_and_the_rest_stays_in_the_extras() -> None:
    item: Json = {
        "id": "rs_0",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Short."}],
        "content": [{"type": "reasoning_text", "text": "Long."}],
        "encrypted_content": "seal",
    }
    reply = reply_of(created(), done(item), completed())
    (block,) = reply.blocks
    assert isinstance(block, Reasoning)
    assert block.parts == ("Short.",)
    assert block.extras["content"] == item["content"]
    assert block.seal == Seal("openai_responses", "gpt-x", "seal")


@pytest.mark.rule("H48")
def test_annotations_become_citations_once() -> None:
    blocks = reply_of_recording("stream-web-search.sse", UpstreamContext(issuer="x"))
    text = blocks[-1]
    assert isinstance(text, Text)
    assert [(c.url, c.start, c.end) for c in text.citations] == [
        ("https://example.org/page-1", 13, 28),
        ("https://example.org/page-2", 37, 53),
    ]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "content_filter"),
        ("max_messages", "end"),
        ("steered", "end"),
        ("of_tomorrow", "other"),
    ],
)
@pytest.mark.rule("R64", "P65")
def test_an_incomplete_response_has_a_reason(reason: str, cause: str) -> None:
    payload = completed(message("Hi."), status="incomplete", incomplete_details={"reason": reason})
    ending = finish(reply_of(created(), {**payload, "type": "response.incomplete"}))
    assert (ending.cause, ending.raw_cause) == (cause, reason)


@pytest.mark.rule("C10", "P51", "H60")
def test_usage_comes_with_its_details() -> None:
    usage = next(e for e in read(recorded("stream-text.sse")) if type(e).__name__ == "UsageReported")
    counts = getattr(usage, "usage", None)
    assert counts is not None
    assert (counts.input, counts.output, counts.cache_read, counts.cache_write, counts.reasoning) == (
        19468,
        24,
        18432,
        1024,
        0,
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("context_length_exceeded", "context_overflow"),
        ("rate_limit_exceeded", "rate_limit"),
        ("slow_down", "rate_limit"),
        ("insufficient_quota", "quota"),
        ("server_is_overloaded", "overloaded"),
        ("server_error", "server"),
        ("invalid_prompt", "invalid_request"),
        ("invalid_image_url", "invalid_request"),
        ("of_tomorrow", "server"),
    ],
)
@pytest.mark.rule("R64", "H72", "P17")
def test_the_code_of_a_failed_response_decides_its_kind(code: str, kind: FailureKind) -> None:
    error = {"code": code, "message": "It broke. Please try again in 1.5s."}
    payload = completed(status="failed", error=error)
    ending = failure(reply_of(created(), {**payload, "type": "response.failed"}))
    assert (ending.ending, ending.failure.kind, ending.failure.code) == ("failed", kind, code)
    assert ending.failure.retry_after == (1.5 if kind in ("rate_limit", "overloaded") else None)


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": None},
        {
            "type": "error",
            "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "Slow down."},
        },
        {"type": "error", "status": 429, "error": {"message": "Slow down."}},
        {"error": {"code": "rate_limit_exceeded", "message": "Slow down."}},
    ],
)
@pytest.mark.rule("R64", "H72")
def test_errors_are_understood_flat_and_nested(payload: Json) -> None:
    ending = failure(reply_of(created(), text_delta("Half"), payload, completed()))
    assert (ending.failure.kind, ending.failure.message) == ("rate_limit", "Slow down.")


def test_a_cancelled_response_is_cancelled() -> None:
    ending = failure(reply_of(created(), completed(status="cancelled")))
    assert (ending.ending, ending.failure.kind) == ("cancelled", "cancelled")


@pytest.mark.rule("H73", "R127")
def test_a_stream_without_a_terminal_event_was_cut_off_even_after_its_items() -> None:
    ending = failure(reply_of(created(), added(call()), done(call(arguments="{}"))))
    assert ending.ending == "truncated"
    assert failure(reply_of()).ending == "truncated"


@pytest.mark.rule("P12")
def test_nothing_follows_the_end() -> None:
    events = read(stream_of(created(), completed(), text_delta("late"), completed()))
    assert shapes(events) == ["ReplyStarted", "ReplyFinished"]


@pytest.mark.rule("P16")
def test_the_end_is_an_event_and_not_a_name_in_a_text() -> None:
    text = "data: [DONE] response.completed"
    reply = reply_of(created(), text_delta(text), completed(message(text)))
    assert [b.text for b in reply.blocks if isinstance(b, Text)] == [text]


def test_the_done_marker_is_no_loss_and_no_end() -> None:
    losses = Losses()
    read(recorded("stream-text.sse") + b"data: [DONE]\n\n", source=UpstreamContext(issuer="x", losses=losses))
    assert len(losses) == 0


def test_a_whole_body_instead_of_a_stream_is_read() -> None:
    body = recorded("reply-tool-call.json")
    events = read(body[:100], body[100:])
    assert opened(events) == ["Text", "ToolCall"]
    assert isinstance(events[-1], ReplyFinished)


def test_an_error_body_or_a_page_instead_of_a_stream_is_a_failure() -> None:
    ending = read(b'{"error": {"message": "No.", "code": "server_is_overloaded"}}')[-1]
    assert (
        ending
        == DIALECT.stream_reader(UpstreamContext(issuer="x")).feed(
            b'data: {"error": {"message": "No.", "code": "server_is_overloaded"}}\n\n'
        )[-1]
    )
    page = read(b"<html><body>Bad gateway</body></html>")[-1]
    assert getattr(page, "ending", "") == "failed"


@pytest.mark.rule("C11")
def test_values_of_a_wrong_type_are_ignored() -> None:
    losses = Losses()
    reply = reply_of(
        {"type": "response.created", "response": [1]},
        {"type": "response.output_item.added", "item": "x", "output_index": {}},
        {"type": "response.output_text.delta", "item_id": ["a"], "delta": 5},
        {"type": "response.output_text.delta", "item_id": {"a": 1}, "output_index": "0", "delta": "Hi"},
        {"type": "response.output_text.annotation.added", "annotation": 3},
        {"type": "response.content_part.done", "part": None},
        {"type": ["list"]},
        {"type": "response.completed", "response": {"output": [1, {"type": 5}], "usage": [], "status": 7}},
        source=UpstreamContext(issuer="x", losses=losses),
    )
    assert [b.text for b in reply.blocks if isinstance(b, Text)] == ["Hi"]
    assert finish(reply).cause == "end"
    assert "a delta that is no text was skipped" in [loss.reason for loss in losses]


def test_items_that_only_this_dialect_knows_are_kept_whole() -> None:
    item: Json = {"id": "cu_1", "type": "computer_call", "call_id": "call_1", "action": {"type": "wait"}}
    reply = reply_of(created(), done(item), completed())
    (block,) = reply.blocks
    assert isinstance(block, Opaque)
    assert (block.kind, block.value) == ("computer_call", item)


def test_the_client_runs_a_tool_search_only_if_the_item_has_its_execution() -> None:
    item = {"id": "tsc_1", "type": "tool_search_call", "call_id": "c", "arguments": {"query": "x"}}
    (mine,) = reply_of(created(), done({**item, "execution": "client"}), completed()).blocks
    (theirs,) = reply_of(created(), done({**item, "execution": "server"}), completed()).blocks
    assert isinstance(mine, ToolCall)
    assert (mine.kind, mine.name, mine.arguments) == ("tool_search", "tool_search", '{"query":"x"}')
    assert isinstance(theirs, Opaque)


def test_the_client_does_not_run_a_shell_in_a_container_of_the_vendor() -> None:
    item = {"id": "sh_1", "type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
    for environment, kind in (({"type": "local"}, ToolCall), ({"type": "container_reference"}, HostedCall)):
        (block,) = reply_of(created(), done({**item, "environment": environment}), completed()).blocks
        assert isinstance(block, kind)


@pytest.mark.rule("P73")
def test_deltas_of_a_long_text_each_become_one_event() -> None:
    deltas = [text_delta(f"{number} ") for number in range(2000)]
    events = read(stream_of(created(), added(message()), *deltas, completed()))
    assert sum(isinstance(event, TextDelta) for event in events) == 2000
