"""Replies of any dialect, written for clients of this dialect."""

import msgspec
import pytest

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.blocks import (
    CallKind,
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
from dragoman.hub.errors import Failure, FailureKind
from dragoman.hub.events import (
    BlockOpened,
    FailedEnding,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    StopCause,
    TextDelta,
)
from dragoman.hub.fold import Reply, unfold
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.seal import Seal, SealedItem, read_envelope
from dragoman.hub.usage import Usage
from tests.dialects.openai_responses.replies import output_of, payloads, payloads_of, read, types, write
from tests.sse import collect_sse, explode_sse, write_sse

FOREIGN = Seal("anthropic", "claude-x", "c2lnbmVk")


def reply(*blocks: ReplyBlock, cause: StopCause = "end", usage: Usage | None = None) -> list[ReplyEvent]:
    """The events of a reply from another vendor."""
    if any(isinstance(block, ToolCall) for block in blocks) and cause == "end":
        cause = "tool_calls"
    started = ReplyStarted(id="msg_foreign01", model="claude-x", created=1_700_000_000)
    return list(unfold(Reply(started=started, blocks=blocks, usage=usage, ending=ReplyFinished(cause=cause))))


def written(*blocks: ReplyBlock, context: ClientContext | None = None, cause: StopCause = "end") -> bytes:
    stream = write(reply(*blocks, cause=cause), context or ClientContext(upstream="anthropic"))
    assert DIALECT.check_stream(stream) == []
    return stream


def items(*blocks: ReplyBlock, context: ClientContext | None = None) -> list[Json]:
    return output_of(collect_sse(DIALECT, written(*blocks, context=context)))


def asking(*include: str) -> ClientContext:
    request = Request(dialect="openai_responses", model="m", include=include)
    return ClientContext(upstream="anthropic", request=request)


@pytest.mark.rule("P60", "H79", "P59", "H77", "H78", "P70")
def test_a_text_has_all_events_of_a_message() -> None:
    stream = written(Text(text="Hello"))
    assert types(stream) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [payload["sequence_number"] for payload in payloads(stream)] == list(range(9))
    assert stream.endswith(b"data: [DONE]\n\n")
    (delta,) = payloads_of(stream, "response.output_text.delta")
    assert (delta["delta"], delta["logprobs"], delta["content_index"]) == ("Hello", [], 0)


@pytest.mark.rule("P61", "R57")
def test_a_call_between_texts_is_streamed_between_them() -> None:
    call = ToolCall(id="toolu_1", name="ls", arguments='{"a":1}')
    output = items(Text(text="One."), call, Text(text="Two."))
    assert [item["type"] for item in output] == ["message", "function_call", "message"]
    ids = [str(item["id"]) for item in output]
    assert [item_id.split("_")[0] for item_id in ids] == ["msg", "fc", "msg"]
    assert len(set(ids)) == 3
    assert (output[1]["call_id"], output[1]["name"], output[1]["arguments"]) == ("toolu_1", "ls", '{"a":1}')
    assert "phase" not in output[0]


def test_each_text_of_another_vendor_is_a_message_of_its_own() -> None:
    assert [item["type"] for item in items(Text(text="One."), Text(text="Two."))] == ["message", "message"]


KINDS: list[tuple[CallKind, str, str]] = [
    ("local_shell", "local_shell_call", "action"),
    ("shell", "shell_call", "action"),
    ("apply_patch", "apply_patch_call", "operation"),
    ("tool_search", "tool_search_call", "arguments"),
]


@pytest.mark.parametrize(("kind", "item_type", "field"), KINDS)
@pytest.mark.rule("H26", "H25", "P29")
def test_a_client_run_tool_is_called_by_its_own_item_with_an_object(
    kind: CallKind, item_type: str, field: str
) -> None:
    (item,) = items(ToolCall(id="call_1", name=kind, arguments='{"query":"x"}', kind=kind))
    arguments = item[field]
    assert isinstance(arguments, dict)
    assert arguments["query"] == "x"
    assert (item["type"], item["call_id"], item["status"]) == (item_type, "call_1", "completed")
    assert "name" not in item
    assert (item.get("execution") == "client") == (kind == "tool_search")


@pytest.mark.rule("C15")
def test_arguments_that_are_no_object_are_written_as_text() -> None:
    for text in ('{"query":', "rm -rf", "[1]"):
        (item,) = items(ToolCall(id="call_1", name="tool_search", arguments=text, kind="tool_search"))
        assert item["arguments"] == {"text": text}


@pytest.mark.rule("H22", "P28")
def test_a_free_text_tool_is_called_with_free_text() -> None:
    stream = written(ToolCall(id="call_1", name="apply_patch", arguments='*** "Begin"\n', kind="custom"))
    assert types(stream)[2:6] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    (item,) = output_of(collect_sse(DIALECT, stream))
    assert (item["type"], item["name"], item["input"]) == (
        "custom_tool_call",
        "apply_patch",
        '*** "Begin"\n',
    )
    assert str(item["id"]).startswith("ctc_")


@pytest.mark.rule("H23", "P27")
def test_a_tool_in_a_namespace_is_called_by_namespace_and_bare_name() -> None:
    (item,) = items(ToolCall(id="call_1", name="lookup", namespace="mcp__notes", arguments="{}"))
    assert (item["namespace"], item["name"]) == ("mcp__notes", "lookup")


@pytest.mark.rule("R27", "H35", "H12")
def test_a_call_without_arguments_has_an_empty_object() -> None:
    stream = written(ToolCall(id="call_1", name="ls"))
    assert [
        payload["delta"] for payload in payloads_of(stream, "response.function_call_arguments.delta")
    ] == ["{}"]
    assert output_of(collect_sse(DIALECT, stream))[0]["arguments"] == "{}"


@pytest.mark.rule("H17")
def test_two_calls_with_one_id_get_two() -> None:
    output = items(ToolCall(id="call_1", name="a"), ToolCall(id="call_1", name="b"))
    assert [item["call_id"] for item in output] == ["call_1", "call_1_2"]


@pytest.mark.rule("H5", "R68")
def test_reasoning_of_another_vendor_is_a_summary_in_parts() -> None:
    stream = written(Reasoning(parts=("First.", "Second."), raw=True))
    assert types(stream)[2:12] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    (item,) = output_of(collect_sse(DIALECT, stream))
    assert item["summary"] == [
        {"type": "summary_text", "text": "First."},
        {"type": "summary_text", "text": "Second."},
    ]


@pytest.mark.rule("H1", "P48")
def test_reasoning_without_a_seal_has_an_empty_envelope() -> None:
    thought = Reasoning(parts=("Hm.",))
    (item,) = items(thought, context=asking("reasoning.encrypted_content"))
    assert read_envelope(str(item["encrypted_content"])) == ()
    (unasked,) = items(thought, context=asking())
    assert "encrypted_content" not in unasked


@pytest.mark.rule("H4", "H3", "P45")
def test_a_seal_of_another_vendor_is_in_an_envelope_with_its_reasoning() -> None:
    thought = Reasoning(parts=("Hm.",), seal=FOREIGN)
    (item,) = items(thought, context=asking("reasoning.encrypted_content"))
    assert read_envelope(str(item["encrypted_content"])) == (
        SealedItem(kind="reasoning", seal=FOREIGN, parts=("Hm.",)),
    )
    (redacted,) = items(Reasoning(redacted=True, seal=FOREIGN))
    assert redacted["summary"] == []
    assert read_envelope(str(redacted["encrypted_content"])) == (
        SealedItem(kind="reasoning", seal=FOREIGN, redacted=True),
    )


@pytest.mark.rule("H4")
def test_a_seal_is_sent_only_to_clients_that_request_it() -> None:
    (item,) = items(Reasoning(parts=("Hm.",), seal=FOREIGN), context=asking())
    assert "encrypted_content" not in item


@pytest.mark.rule("H6", "P43")
def test_a_seal_on_a_call_follows_it_in_a_reasoning_item_of_its_own() -> None:
    call = ToolCall(id="call_1", name="ls", arguments="{}", seal=FOREIGN)
    output = items(call, context=asking("reasoning.encrypted_content"))
    assert [item["type"] for item in output] == ["function_call", "reasoning"]
    assert read_envelope(str(output[1]["encrypted_content"])) == (
        SealedItem(kind="call", seal=FOREIGN, call_id="call_1"),
    )
    assert [item["type"] for item in items(call, context=asking())] == ["function_call"]


@pytest.mark.rule("H6")
def test_a_block_that_carries_the_seal_of_another_becomes_an_envelope_for_it() -> None:
    for form, carried in (
        ("carrier:call:call_1", SealedItem(kind="call", seal=FOREIGN, call_id="call_1")),
        ("carrier:text", SealedItem(kind="text", seal=FOREIGN)),
    ):
        carrier = Reasoning(seal=FOREIGN, form=form)
        (item,) = items(carrier, context=asking("reasoning.encrypted_content"))
        assert item["summary"] == []
        assert read_envelope(str(item["encrypted_content"])) == (carried,)
        assert items(carrier, context=asking()) == []


def test_a_seal_of_this_dialect_is_sent_as_it_is() -> None:
    (item,) = items(Reasoning(seal=Seal("openai_responses", "", "gAAA")))
    assert item["encrypted_content"] == "gAAA"


@pytest.mark.rule("H48")
def test_a_cited_page_is_an_annotation_with_offsets() -> None:
    cited = Citation(url="https://example.org", title="A page", quote="…")
    stream = written(Text(text="It is so.", citations=(cited,)))
    (added,) = payloads_of(stream, "response.output_text.annotation.added")
    annotation = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 9,
        "title": "A page",
        "url": "https://example.org",
    }
    assert (added["annotation"], added["annotation_index"]) == (annotation, 0)
    content = output_of(collect_sse(DIALECT, stream))[0]["content"]
    assert isinstance(content, list)
    assert content[0]["annotations"] == [annotation]


def test_a_source_without_an_address_is_a_loss() -> None:
    losses = Losses()
    written(
        Text(text="So.", citations=(Citation(quote="so"),)),
        context=ClientContext(upstream="x", losses=losses),
    )
    assert len(losses) == 1


@pytest.mark.rule("H28")
def test_a_web_search_of_another_vendor_is_a_web_search_call() -> None:
    losses = Losses()
    stream = written(
        HostedCall(id="srvtoolu_1", tool="web_search", arguments='{"query":"towers"}'),
        HostedResult(call_id="srvtoolu_1", tool="web_search", text="Found."),
        context=ClientContext(upstream="anthropic", losses=losses),
    )
    assert types(stream)[2:7] == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
    ]
    (item,) = output_of(collect_sse(DIALECT, stream))
    assert item["action"] == {"type": "search", "query": "towers", "queries": ["towers"]}
    assert [loss.reason for loss in losses] == [
        "OpenAI Responses cannot show what another vendor's own tool gave back"
    ]


@pytest.mark.parametrize(
    "block",
    [
        Media(kind="image", media_type="image/png", data="AAAA"),
        HostedCall(id="x", tool="code_execution"),
        Opaque(kind="strange", value={"type": "strange"}),
    ],
)
def test_a_block_that_cannot_be_written_is_a_loss_and_leaves_no_gap(block: ReplyBlock) -> None:
    losses = Losses()
    output = items(block, Text(text="Hi."), context=ClientContext(upstream="gemini", losses=losses))
    assert [item["type"] for item in output] == ["message"]
    assert len(losses) == 1


BODY: Json = {
    "model": "gpt-alias",
    "instructions": "Be brief.",
    "tools": [
        {"type": "function", "name": "ls"},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "x", "strict": False}]},
        {"type": "web_search"},
    ],
    "tool_choice": "required",
    "temperature": 0.5,
    "max_output_tokens": 100,
    "text": {"verbosity": "low"},
    "reasoning": {"effort": "low"},
    "parallel_tool_calls": False,
    "store": False,
    "metadata": {"a": "b"},
    "truncation": None,
    "user": "someone",
    "input": [],
    "stream": True,
}


@pytest.mark.rule("P70", "C9")
def test_the_response_repeats_the_request_with_every_required_field() -> None:
    context = ClientContext(upstream="anthropic", body=BODY, model="gpt-alias", created=1_800_000_000)
    stream = written(Text(text="Hi."), context=context)
    response = collect_sse(DIALECT, stream)
    assert response["tools"] == [
        {"type": "function", "name": "ls", "description": None, "parameters": None, "strict": None},
        {
            "type": "namespace",
            "name": "n",
            "tools": [
                {
                    "type": "function",
                    "name": "x",
                    "description": None,
                    "parameters": None,
                    "strict": False,
                }
            ],
        },
        {"type": "web_search"},
    ]
    expected = {
        "object": "response",
        "model": "gpt-alias",
        "created_at": 1_800_000_000,
        "completed_at": 1_800_000_000,
        "status": "completed",
        "instructions": "Be brief.",
        "tool_choice": "required",
        "temperature": 0.5,
        "top_p": 1.0,
        "max_output_tokens": 100,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": None},
        "parallel_tool_calls": False,
        "store": False,
        "metadata": {"a": "b"},
        "truncation": "disabled",
        "user": "someone",
        "error": None,
        "incomplete_details": None,
        "usage": None,
    }
    assert {name: response[name] for name in expected} == expected
    assert "input" not in response
    (begun,) = payloads_of(stream, "response.created")
    early = begun["response"]
    assert isinstance(early, dict)
    assert (early["id"], early["status"], early["output"], early["completed_at"]) == (
        response["id"],
        "in_progress",
        [],
        None,
    )
    assert str(response["id"]).startswith("resp_")


@pytest.mark.rule("R136")
def test_the_same_reply_is_written_the_same_twice() -> None:
    blocks = (Reasoning(parts=("Hm.",)), Text(text="Hi."), ToolCall(id="", name="ls"))
    one, two = (written(*blocks, context=ClientContext(ids=IdSource("seed"))) for _ in range(2))
    assert one == two
    assert one != written(*blocks, context=ClientContext(ids=IdSource("other")))


@pytest.mark.rule("P15")
def test_two_streams_at_once_share_nothing() -> None:
    first, second = (DIALECT.stream_writer(ClientContext(ids=IdSource(name))) for name in "ab")
    mixed = [b"", b""]
    for event in reply(Text(text="Hi."), ToolCall(id="c", name="ls")):
        mixed[0] += write_sse(first, event)
        mixed[1] += write_sse(second, event)
    for stream in mixed:
        assert DIALECT.check_stream(stream) == []


@pytest.mark.rule("C10", "P50", "H60")
def test_usage_is_written_with_details_or_not_at_all() -> None:
    usage = Usage(input=100, output=20, cache_read=80)
    response = collect_sse(DIALECT, write(reply(Text(text="Hi."), usage=usage)))
    assert response["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 120,
    }
    assert collect_sse(DIALECT, write(reply(Text(text="Hi."))))["usage"] is None


@pytest.mark.parametrize(
    ("cause", "status", "reason"),
    [
        ("end", "completed", None),
        ("stop_sequence", "completed", None),
        ("pause", "completed", None),
        ("malformed_call", "completed", None),
        ("other", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("context_window", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("refusal", "incomplete", "content_filter"),
    ],
)
@pytest.mark.rule("R55", "P65")
def test_each_cause_ends_the_response_as_what_it_is(
    cause: StopCause, status: str, reason: str | None
) -> None:
    stream = written(Text(text="Hi."), cause=cause)
    response = collect_sse(DIALECT, stream)
    assert types(stream)[-1] == status
    assert response["status"] == status
    assert response["incomplete_details"] == ({"reason": reason} if reason else None)


@pytest.mark.rule("H49")
def test_a_refusal_with_text_is_a_completed_response_with_a_refusal() -> None:
    stream = written(Refusal(text="I will not."), cause="refusal")
    response = collect_sse(DIALECT, stream)
    assert response["status"] == "completed"
    assert output_of(response)[0]["content"] == [{"type": "refusal", "refusal": "I will not."}]


def failed(
    failure: Failure, ending: FailedEnding = "failed", *, events: list[ReplyEvent] | None = None
) -> bytes:
    stream = write([*(events or []), ReplyFailed(ending, failure)])
    assert DIALECT.check_stream(stream) == []
    return stream


HALF: list[ReplyEvent] = [ReplyStarted(id="resp_1"), BlockOpened(0, Text(text="")), TextDelta(0, "Half")]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("rate_limit", "rate_limit_exceeded"),
        ("quota", "insufficient_quota"),
        ("billing", "insufficient_quota"),
        ("context_overflow", "context_length_exceeded"),
        ("overloaded", "server_error"),
        ("server", "server_error"),
        ("timeout", "server_error"),
        ("invalid_request", "invalid_prompt"),
        ("too_large", "invalid_prompt"),
    ],
)
@pytest.mark.rule("H72", "P19", "H65")
def test_a_failure_in_the_stream_has_the_code_that_clients_act_on(kind: FailureKind, code: str) -> None:
    stream = failed(Failure(kind=kind, message="It broke."), events=HALF)
    assert types(stream)[-2:] == ["error", "failed"]
    (error,) = payloads_of(stream, "error")
    assert (error["code"], error["message"], error["param"]) == (code, "It broke.", None)
    assert "error" not in error
    response = collect_sse(DIALECT, stream)
    assert (response["status"], response["error"]) == ("failed", {"code": code, "message": "It broke."})
    (item,) = output_of(response)
    assert item["status"] == "incomplete"
    assert "output_item.done" not in types(stream)
    assert stream.endswith(b"data: [DONE]\n\n")


@pytest.mark.rule("H72", "P19")
@pytest.mark.parametrize(
    ("upstream", "written"), [("openai_responses", "server_is_overloaded"), ("", "server_error")]
)
def test_only_openais_own_overload_is_final_for_codex(upstream: str, written: str) -> None:
    failure = Failure(kind="overloaded", message="Busy.", code="server_is_overloaded")
    stream = write([*HALF, ReplyFailed("failed", failure)], ClientContext(upstream=upstream))
    assert collect_sse(DIALECT, stream)["error"] == {"code": written, "message": "Busy."}


def test_codex_gets_the_time_to_wait_in_the_message() -> None:
    waits = {1.5: "1.5s", 20.0: "20s", 1234567.0: "1234567s"}
    for seconds, text in waits.items():
        failure = Failure(kind="rate_limit", message="Too fast.", retry_after=seconds)
        (error,) = payloads_of(failed(failure, events=HALF), "error")
        assert error["message"] == f"Too fast. Please try again in {text}."
    limit = Failure(kind="rate_limit", message="Please try again in 2s.", retry_after=2.0)
    assert payloads_of(failed(limit, events=HALF), "error")[0]["message"] == limit.message


@pytest.mark.rule("H73", "P18")
def test_codex_retries_after_a_truncated_reply() -> None:
    failure = Failure(kind="overloaded", message="gone")
    assert payloads_of(failed(failure, "truncated", events=HALF), "error")[0]["code"] == "server_error"


def test_finished_items_stay_in_the_output_of_a_failed_response() -> None:
    events = reply(Text(text="Whole."), ToolCall(id="c", name="ls", arguments="{}"))[:-2]
    stream = failed(Failure(kind="server", message="x"), events=events)
    statuses = [item["status"] for item in output_of(collect_sse(DIALECT, stream))]
    assert statuses == ["completed", "incomplete"]


def test_a_call_with_an_object_is_written_whole_or_not_at_all() -> None:
    call = ToolCall(id="c", name="shell", kind="shell", arguments='{"commands":["rm')
    events = reply(call)[:-2]
    assert output_of(collect_sse(DIALECT, failed(Failure(kind="server", message="x"), events=events))) == []


@pytest.mark.rule("R114")
def test_a_failure_before_the_start_is_the_error_body() -> None:
    failure = Failure(kind="rate_limit", message="Too fast.", retry_after=2.0)
    stream = failed(failure)
    assert types(stream) == ["created", "error", "failed"]
    assert collect_sse(DIALECT, stream) == DIALECT.write_error(failure)


@pytest.mark.rule("H50")
def test_phases_and_ids_stay_within_the_dialect() -> None:
    head = {"id": "msg_theirs", "phase": "commentary", "role": "assistant", "status": "in_progress"}
    events = reply(Text(text="Hi.", extras={"@item": head}))
    mine = output_of(collect_sse(DIALECT, write(events, ClientContext(upstream="openai_responses"))))
    theirs = output_of(collect_sse(DIALECT, write(events, ClientContext(upstream="anthropic"))))
    assert (mine[0]["id"], mine[0]["phase"], mine[0]["status"]) == ("msg_theirs", "commentary", "completed")
    assert "phase" not in theirs[0]
    assert theirs[0]["id"] != "msg_theirs"


def test_reasoning_in_both_forms_is_written_in_both() -> None:
    item: Json = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Short."}],
        "content": [{"type": "reasoning_text", "text": "Long."}],
    }
    stream = explode_sse(DIALECT, {"id": "resp_1", "status": "completed", "output": [item]})
    assert DIALECT.check_stream(stream) == []
    assert output_of(collect_sse(DIALECT, stream)) == [item]


def test_ids_of_a_server_that_has_no_prefixes_get_them() -> None:
    item = {"id": "0123456789", "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "Hi.", "annotations": []}
    stream = explode_sse(DIALECT, {"id": "x", "status": "completed", "output": [{**item, "content": [part]}]})
    assert DIALECT.check_stream(stream) == []
    assert output_of(collect_sse(DIALECT, stream))[0]["id"] == "msg_0123456789"


def test_a_message_of_several_parts_stays_one_whatever_its_id_and_its_parts() -> None:
    parts: list[Json] = [
        {"type": "output_text", "text": "One.", "annotations": [], "logprobs": []},
        {"type": "of_tomorrow", "shape": [1]},
        {"type": "output_text", "text": "Two.", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "No."},
    ]
    for item_id in ("msg_1", "0123456789", None):
        item = {"id": item_id, "type": "message", "role": "assistant", "content": parts}
        stream = explode_sse(DIALECT, {"id": "resp_1", "status": "completed", "output": [item]})
        assert DIALECT.check_stream(stream) == []
        (message,) = output_of(collect_sse(DIALECT, stream))
        assert message["content"] == parts


@pytest.mark.parametrize(
    "item",
    [
        {"id": "ws_1", "type": "web_search_call", "status": "searching", "action": None},
        {"id": "tsc_1", "type": "tool_search_call", "execution": 5, "arguments": "x"},
        {"id": "mcp_1", "type": "mcp_call", "status": "failed", "error": "boom", "name": "x"},
        {"id": "cu_1", "type": "computer_call", "call_id": "c", "status": "completed"},
        {"id": "fc_1", "type": "function_call", "name": "x", "call_id": "c", "status": 5, "arguments": 5},
        {"id": "lsh_1", "type": "local_shell_call", "call_id": "c", "action": "rm"},
        {"id": 5, "type": "reasoning", "summary": "x", "status": []},
        {"type": "message", "role": 5, "content": "x", "status": "queued"},
        {"type": 5},
        {},
    ],
)
@pytest.mark.rule("C11")
def test_a_strange_item_of_this_dialect_still_makes_a_legal_stream(item: Json) -> None:
    stream = explode_sse(DIALECT, {"id": "resp_1", "status": "completed", "output": [item], "store": "x"})
    assert DIALECT.check_stream(stream) == []
    assert types(stream)[-1] == "completed"


def test_a_raw_cause_of_this_dialect_is_written_again() -> None:
    events: list[ReplyEvent] = [ReplyStarted(), ReplyFinished(cause="end", raw_cause="steered")]
    mine = collect_sse(DIALECT, write(events, ClientContext(upstream="openai_responses")))
    theirs = collect_sse(DIALECT, write(events, ClientContext(upstream="gemini")))
    assert mine["incomplete_details"] == {"reason": "steered"}
    assert theirs["status"] == "completed"


@pytest.mark.rule("H71", "R53")
def test_interleaved_calls_come_one_after_another() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, ToolCall(id="a", name="x")),
        BlockOpened(1, ToolCall(id="b", name="y")),
    ]
    rest = reply(ToolCall(id="a", name="x", arguments="1"), ToolCall(id="b", name="y", arguments="2"))
    deltas = [event for event in rest if type(event).__name__ == "ArgumentsDelta"]
    closes = [event for event in rest if type(event).__name__ == "BlockClosed"]
    finish = ReplyFinished(cause="tool_calls")
    stream = write([*events, *reversed(deltas), *closes, finish], ClientContext(upstream="openai_chat"))
    assert DIALECT.check_stream(stream) == []
    assert [item["arguments"] for item in output_of(collect_sse(DIALECT, stream))] == ["1", "2"]


def test_text_with_every_awkward_character_arrives_unchanged() -> None:
    text = 'a"b\\c\n\r\u2028\x00😀%d%b'
    stream = written(Text(text=text))
    assert payloads_of(stream, "response.output_text.delta")[0]["delta"] == text
    assert stream.count(b"\n\n") == len(payloads(stream)) + 1


def test_a_seal_on_a_text_follows_it() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, Text(text="Hi.")),
        SealAttached(0, FOREIGN),
    ]
    rest = reply(Text(text=""))[-2:]
    stream = write([*events, *rest], ClientContext(upstream="gemini"))
    assert DIALECT.check_stream(stream) == []
    carrier = output_of(collect_sse(DIALECT, stream))[1]
    assert read_envelope(str(carrier["encrypted_content"])) == (SealedItem(kind="text", seal=FOREIGN),)


def test_what_is_written_can_be_read_again() -> None:
    blocks = (Reasoning(parts=("Hm.",)), Text(text="Hi."), ToolCall(id="c", name="ls", arguments='{"a":1}'))
    again = [event.block for event in read(written(*blocks)) if isinstance(event, BlockOpened)]
    assert [type(block) for block in again] == [type(block) for block in blocks]
    assert msgspec.json.encode(collect_sse(DIALECT, written(*blocks)))
