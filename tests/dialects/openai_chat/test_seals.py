"""Seals go out in fields that Chat clients send back, and come home from there."""

import msgspec
import pytest

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReasoningDelta,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    StopCause,
    TextDelta,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.hub.seal import Seal, SealedItem, read_envelope, write_envelope
from dragoman.providers.profile import TargetFacts
from tests.dialects.openai_chat.replies import (
    DONE,
    chunk,
    deltas,
    events_of,
    finish,
    list_of,
    message_of,
    object_of,
    written,
)

FOREIGN = Seal("anthropic", "claude", "c2lnbmF0dXJl")
GOOGLE = Seal("gemini", "gemini-3", "Z29vZ2xl")


def reply(*events: ReplyEvent, cause: StopCause = "end") -> list[ReplyEvent]:
    return [ReplyStarted(id="x"), *events, ReplyFinished(cause=cause)]


def thought(seal: Seal) -> list[ReplyEvent]:
    return [
        BlockOpened(0, Reasoning()),
        ReasoningDelta(0, "one", 0),
        ReasoningDelta(0, "two", 1),
        SealAttached(0, seal),
        BlockClosed(0),
    ]


def called(seal: Seal, kind: str = "function") -> list[ReplyEvent]:
    block = ToolCall(id="call_1", name="Read", kind="custom" if kind == "custom" else "function")
    return [BlockOpened(0, block), SealAttached(0, seal), ArgumentsDelta(0, "{}"), BlockClosed(0)]


def read(*messages: Json) -> tuple[Message, ...]:
    body = msgspec.json.decode(msgspec.json.encode({"model": "m", "messages": list(messages)}))
    return DIALECT.read_request(object_of(body), Losses()).messages


def sent(messages: tuple[Message, ...], dialect: str = "anthropic") -> list[Json]:
    request = Request(dialect=dialect, model="m", messages=messages)
    return list_of(DIALECT.write_request(request, TargetFacts(dialect="openai_chat"), Losses())["messages"])


@pytest.mark.rule("H1", "H3")
def test_a_foreign_seal_of_thought_is_wrapped_with_its_text() -> None:
    message = message_of(written(reply(*thought(FOREIGN))))
    assert message["reasoning_content"] == "one\n\ntwo"
    (entry,) = list_of(message["reasoning_details"])
    assert (entry["type"], entry["format"], entry["index"]) == ("reasoning.encrypted", "dragoman", 0)
    carried = read_envelope(str(entry["data"]))
    assert carried == (SealedItem(kind="reasoning", seal=FOREIGN, parts=("one", "two")),)


@pytest.mark.rule("H1", "H3")
def test_a_wrapped_thought_comes_home_whole() -> None:
    sent = message_of(written(reply(*thought(FOREIGN))))
    (message,) = read(sent)
    assert message.blocks == (
        Reasoning(parts=("one", "two"), seal=FOREIGN, at="messages[0].reasoning_details[0]"),
    )


@pytest.mark.rule("H3")
def test_redacted_thought_comes_home_redacted() -> None:
    block = Reasoning(redacted=True, seal=FOREIGN)
    message = message_of(written(reply(BlockOpened(0, block), BlockClosed(0))))
    (home,) = read(message)[0].blocks
    assert isinstance(home, Reasoning)
    assert (home.redacted, home.seal) == (True, FOREIGN)


def test_an_envelope_without_text_seals_the_text_of_the_field() -> None:
    data = write_envelope([SealedItem(kind="reasoning", seal=FOREIGN)])
    details = [{"type": "reasoning.encrypted", "data": data, "index": 0}]
    (message,) = read({"role": "assistant", "reasoning_content": "said", "reasoning_details": details})
    (block,) = message.blocks
    assert isinstance(block, Reasoning)
    assert (block.parts, block.seal) == (("said",), FOREIGN)
    assert message.extras == {}


@pytest.mark.rule("H6", "P42", "P43")
@pytest.mark.parametrize("is_late", [False, True])
def test_googles_seal_rides_on_the_first_fragment_of_its_call_or_follows_it(is_late: bool) -> None:
    opened, sealed, *rest = called(GOOGLE)
    with_seal = BlockOpened(0, ToolCall(id="call_1", name="Read", seal=GOOGLE))
    events = [opened, sealed, *rest] if is_late else [with_seal, *rest]
    fragments = [
        list_of(delta["tool_calls"])[0]
        for delta in deltas(written(reply(*events, cause="tool_calls")))
        if "tool_calls" in delta
    ]
    assert {**fragments[0], **(fragments[1] if is_late else {}), "function": fragments[0]["function"]} == {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "Read", "arguments": ""},
        "extra_content": {"google": {"thought_signature": "Z29vZ2xl"}},
    }


@pytest.mark.rule("H6")
def test_googles_seal_comes_home_as_googles() -> None:
    (message,) = read(message_of(written(reply(*called(GOOGLE), cause="tool_calls"))))
    (call,) = message.blocks
    assert isinstance(call, ToolCall)
    assert call.seal == Seal("gemini", "", "Z29vZ2xl")
    assert call.extras == {}


@pytest.mark.rule("H6")
def test_googles_seal_that_comes_late_goes_in_a_fragment_of_its_own() -> None:
    opened, seal, arguments, closed = called(GOOGLE)
    stream = written(reply(opened, arguments, seal, closed, cause="tool_calls"))
    assert DIALECT.check_stream(stream) == []
    (call,) = list_of(message_of(stream)["tool_calls"])
    assert call["extra_content"] == {"google": {"thought_signature": "Z29vZ2xl"}}


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_another_seal_of_a_call_comes_home_by_the_calls_id(kind: str) -> None:
    stream = written(reply(*called(FOREIGN, kind), cause="tool_calls"))
    assert DIALECT.check_stream(stream) == []
    (message,) = read(message_of(stream))
    (call,) = message.blocks
    assert isinstance(call, ToolCall)
    assert call.seal == FOREIGN


def test_the_seal_of_a_call_may_come_in_the_message_before_it() -> None:
    data = write_envelope([SealedItem(kind="call", seal=FOREIGN, call_id="c1")])
    call = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    messages = read(
        {
            "role": "assistant",
            "content": "Look.",
            "reasoning_details": [{"type": "reasoning.encrypted", "data": data}],
        },
        {"role": "assistant", "tool_calls": [call]},
    )
    (block,) = messages[1].blocks
    assert isinstance(block, ToolCall)
    assert block.seal == FOREIGN


def test_the_seal_of_a_text_comes_home_to_the_text() -> None:
    (message,) = read(
        message_of(
            written(
                reply(
                    BlockOpened(0, Text(text="")),
                    TextDelta(0, "Hi."),
                    SealAttached(0, GOOGLE),
                    BlockClosed(0),
                )
            )
        )
    )
    (block,) = message.blocks
    assert isinstance(block, Text)
    assert block.seal == GOOGLE


def test_a_hostile_envelope_is_an_entry_like_any_other() -> None:
    details = [{"type": "reasoning.encrypted", "data": "dgm1.not-an-envelope"}]
    (block,) = read({"role": "assistant", "content": None, "reasoning_details": details})[0].blocks
    assert isinstance(block, Reasoning)
    assert block.seal is not None
    assert block.seal.issuer == "openai_chat"


ENTRIES: list[Json] = [
    {"type": "reasoning.text", "text": "why", "signature": "s", "format": "anthropic-claude-v1", "id": "r1"},
    {"type": "reasoning.encrypted", "data": "e", "format": "openai-responses-v1", "id": "rs_1"},
    {"type": "thinking", "thinking": "why", "signature": "s"},
    {"type": "redacted_thinking", "data": "d"},
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry["type"]))
def test_a_native_seal_goes_back_to_its_issuer_as_the_entry_it_was(entry: Json) -> None:
    field = "thinking_blocks" if "thinking" in str(entry["type"]) else "reasoning_details"
    events = events_of(chunk({field: [{**entry, "index": 0}]}), finish(), DONE)
    (block,) = [event.block for event in events if isinstance(event, BlockOpened)]
    (sealed,) = [event.seal for event in events if isinstance(event, SealAttached)]
    texts = tuple(event.text for event in events if isinstance(event, ReasoningDelta))
    assert isinstance(block, Reasoning)
    whole = msgspec.structs.replace(block, parts=texts, seal=sealed, form="", extras={})
    (message,) = sent((Message(role="assistant", blocks=(whole, Text(text="So."))),))
    assert message[field] == [{**entry, "index": 0}]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry["type"]))
def test_a_native_seal_reaches_a_client_of_this_dialect_as_the_entry_it_was(entry: Json) -> None:
    field = "thinking_blocks" if "thinking" in str(entry["type"]) else "reasoning_details"
    events = events_of(chunk({field: [{**entry, "index": 0}]}), chunk({"content": "So."}), finish(), DONE)
    stream = written(events, ClientContext(upstream="openai_chat", ids=IdSource("t")))
    assert message_of(stream)[field] == [{**entry, "index": 0}]


@pytest.mark.rule("R25", "H7")
def test_reasoning_goes_back_as_text_only_to_targets_that_want_it() -> None:
    message = Message(
        role="assistant",
        blocks=(Reasoning(parts=("a", "b"), at="here"), ToolCall(id="c", name="Read", arguments="{}")),
    )
    request = Request(dialect="anthropic", model="m", messages=(message,))
    losses = Losses()
    plain = DIALECT.write_request(request, TargetFacts(dialect="openai_chat"), losses)
    assert "reasoning_content" not in list_of(plain["messages"])[0]
    assert [loss.path for loss in losses] == ["here"]
    replayed = DIALECT.write_request(
        request, TargetFacts(dialect="openai_chat", replay_reasoning=True), Losses()
    )
    assert list_of(replayed["messages"])[0]["reasoning_content"] == "a\n\nb"


def test_a_seal_names_the_model_of_the_reply_if_nothing_else_does() -> None:
    entry = {"type": "reasoning.encrypted", "data": "e"}
    events = events_of(chunk({"reasoning_details": [entry]}), finish(), DONE, model="")
    (sealed,) = [event.seal for event in events if isinstance(event, SealAttached)]
    assert (sealed.issuer, sealed.model) == ("openai_chat", "m")


@pytest.mark.parametrize(("seal", "field"), [(GOOGLE, "extra_content"), (FOREIGN, "reasoning_details")])
def test_a_call_that_opens_with_its_seal_carries_it(seal: Seal, field: str) -> None:
    block = ToolCall(id="c", name="Read", arguments="{}", seal=seal)
    stream = written(reply(BlockOpened(0, block), BlockClosed(0), cause="tool_calls"))
    assert field.encode() in stream
    assert DIALECT.check_stream(stream) == []


def test_an_envelope_without_items_leaves_plain_thought() -> None:
    details = [{"type": "reasoning.encrypted", "data": write_envelope([])}]
    (message,) = read({"role": "assistant", "reasoning_content": "said", "reasoning_details": details})
    assert message.blocks == (
        Reasoning(parts=("said",), raw=True, at="messages[0].reasoning_content", form="reasoning_content"),
    )


def test_a_summary_and_what_it_sums_up_reach_a_client_of_this_dialect_as_two_entries() -> None:
    entries = [{"type": "reasoning.summary", "summary": "why"}, {"type": "reasoning.encrypted", "data": "e"}]
    events = events_of(chunk({"reasoning_details": entries}), chunk({"content": "So."}), finish(), DONE)
    stream = written(events, ClientContext(upstream="openai_chat", ids=IdSource("t")))
    sent = [
        {name: entry[name] for name in entry if name != "index"}
        for entry in list_of(message_of(stream)["reasoning_details"])
    ]
    assert sent == entries
