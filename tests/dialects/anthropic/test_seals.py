"""Seals leave through fields that Anthropic's clients echo, and come back to what they belong to."""

import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.hub.blocks import AnyBlock, Reasoning, Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
    UsageReported,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.hub.seal import Seal, SealedItem, read_envelope, write_envelope
from dragoman.hub.usage import Usage
from dragoman.providers.profile import TargetFacts
from tests.dialects.anthropic.replies import payloads, write
from tests.sse import collect_sse

START = ReplyStarted(id="resp_1234567890", model="gemini-3")
USED = UsageReported(Usage(input=1, output=1))
FOREIGN = Seal("gemini", "gemini-3", "c2VhbA==")
NATIVE = Seal("anthropic", "claude-x", "bmF0aXZl")


def content_after(*events: ReplyEvent, context: ClientContext | None = None) -> list[Json]:
    """What a client would hold of a reply with these blocks."""
    calls = any(isinstance(event, BlockOpened) and isinstance(event.block, ToolCall) for event in events)
    end = ReplyFinished(cause="tool_calls" if calls else "end")
    stream = write([START, *events, USED, end], context or ClientContext(upstream="gemini"))
    assert DIALECT.check_stream(stream) == []
    content = collect_sse(DIALECT, stream)["content"]
    assert isinstance(content, list)
    return content


def sent_back(*messages: list[Json]) -> tuple[Message, ...]:
    """The assistant's messages as our reader finds them when the client sends these contents back."""
    conversation = [
        {"role": "user", "content": "Go."},
        *({"role": "assistant", "content": m} for m in messages),
    ]
    body: Json = {"model": "m", "max_tokens": 1, "messages": conversation}
    return DIALECT.read_request(body, Losses()).messages[1:]


def blocks_back(content: list[Json]) -> tuple[AnyBlock, ...]:
    return sent_back(content)[0].blocks


def thought(index: int, *texts: str, seal: Seal | None = None) -> list[ReplyEvent]:
    deltas = [ReasoningDelta(index, text, part) for part, text in enumerate(texts)]
    sealing = [SealAttached(index, seal)] if seal else []
    return [BlockOpened(index, Reasoning()), *deltas, *sealing, BlockClosed(index)]


@pytest.mark.rule("H2", "R129")
def test_thought_without_a_seal_is_signed_with_an_empty_envelope() -> None:
    (block,) = content_after(*thought(0, "Hm."))
    assert block["signature"] == write_envelope(())
    (back,) = blocks_back([block])
    assert isinstance(back, Reasoning)
    assert (back.parts, back.seal, back.form) == (("Hm.",), None, "")


@pytest.mark.rule("H1", "H4")
def test_a_foreign_seal_travels_in_the_signature_and_comes_back_as_it_was() -> None:
    (block,) = content_after(*thought(0, "Hm.", seal=FOREIGN))
    assert block["thinking"] == "Hm."
    (back,) = blocks_back([block])
    assert isinstance(back, Reasoning)
    assert (back.parts, back.seal) == (("Hm.",), FOREIGN)


def test_several_parts_are_shown_with_a_blank_line_between_and_come_back_as_parts() -> None:
    (block,) = content_after(*thought(0, "First.", "Second.", seal=FOREIGN))
    assert block["thinking"] == "First.\n\nSecond."
    (back,) = blocks_back([block])
    assert isinstance(back, Reasoning)
    assert (back.parts, back.seal) == (("First.", "Second."), FOREIGN)


def test_an_own_seal_is_the_signature_itself() -> None:
    (block,) = content_after(*thought(0, "Hm.", seal=NATIVE), context=ClientContext(upstream="anthropic"))
    assert block == {"type": "thinking", "thinking": "Hm.", "signature": NATIVE.value}


def test_an_own_seal_without_text_stays_a_thinking_block() -> None:
    (block,) = content_after(*thought(0, seal=NATIVE), context=ClientContext(upstream="anthropic"))
    assert block == {"type": "thinking", "thinking": "", "signature": NATIVE.value}


@pytest.mark.rule("H3")
def test_redacted_thought_of_another_vendor_travels_as_redacted_thinking() -> None:
    (block,) = content_after(BlockOpened(0, Reasoning(redacted=True, seal=FOREIGN)), BlockClosed(0))
    assert block["type"] == "redacted_thinking"
    (back,) = blocks_back([block])
    assert isinstance(back, Reasoning)
    assert (back.redacted, back.seal, back.parts) == (True, FOREIGN, ())


def test_a_foreign_seal_without_text_travels_as_redacted_thinking() -> None:
    (block,) = content_after(*thought(0, seal=FOREIGN))
    assert block["type"] == "redacted_thinking"
    (back,) = blocks_back([block])
    assert isinstance(back, Reasoning)
    assert (back.redacted, back.seal) == (False, FOREIGN)


def test_thought_with_neither_words_nor_seal_is_not_written() -> None:
    assert content_after(*thought(0)) == []


@pytest.mark.rule("H6", "P42", "P43")
def test_the_carrier_of_a_calls_seal_becomes_redacted_thinking_and_seals_the_call_again() -> None:
    content = content_after(
        BlockOpened(0, Reasoning(seal=FOREIGN, form="carrier:call:call_1")),
        BlockClosed(0),
        BlockOpened(1, ToolCall(id="call_1", name="ls")),
        ArgumentsDelta(1, "{}"),
        BlockClosed(1),
    )
    assert [block["type"] for block in content] == ["redacted_thinking", "tool_use"]
    (back,) = blocks_back(content)
    assert isinstance(back, ToolCall)
    assert back.seal == FOREIGN


@pytest.mark.rule("P42")
def test_the_carrier_of_a_texts_seal_waits_for_the_next_block() -> None:
    text: list[ReplyEvent] = [BlockOpened(0, Text(text="Look.")), BlockClosed(0)]
    sealed = Reasoning(seal=FOREIGN, form="carrier:text")
    carrier: list[ReplyEvent] = [BlockOpened(1, sealed), BlockClosed(1)]
    call: list[ReplyEvent] = [BlockOpened(2, ToolCall(id="call_1", name="ls")), BlockClosed(2)]
    content = content_after(*text, *carrier, *call)
    assert [block["type"] for block in content] == ["text", "redacted_thinking", "tool_use"]
    back = blocks_back(content)[0]
    assert isinstance(back, Text)
    assert back.seal == FOREIGN
    assert content_after(*text, *carrier) == [{"type": "text", "text": "Look."}]


def test_a_seal_that_is_an_envelope_already_is_carried_as_it_is() -> None:
    envelope = write_envelope([SealedItem(kind="call", seal=FOREIGN, call_id="call_1")])
    (block,) = content_after(*thought(0, seal=Seal("gemini", "gemini-3", envelope)))
    assert block == {"type": "redacted_thinking", "data": envelope}


def test_a_seal_that_stands_on_a_call_is_carried_before_it() -> None:
    content = content_after(BlockOpened(0, ToolCall(id="call_1", name="ls", seal=FOREIGN)), BlockClosed(0))
    assert [block["type"] for block in content] == ["redacted_thinking", "tool_use"]
    (back,) = blocks_back(content)
    assert isinstance(back, ToolCall)
    assert back.seal == FOREIGN


def test_a_seal_that_reaches_a_call_late_is_carried_after_it() -> None:
    content = content_after(
        BlockOpened(0, ToolCall(id="call_1", name="ls")), SealAttached(0, FOREIGN), BlockClosed(0)
    )
    assert [block["type"] for block in content] == ["tool_use", "redacted_thinking"]
    (back,) = blocks_back(content)
    assert isinstance(back, ToolCall)
    assert back.seal == FOREIGN


def test_the_seal_of_a_text_is_carried_as_soon_as_a_block_follows() -> None:
    content = content_after(
        BlockOpened(0, Text(text="Look.")),
        SealAttached(0, FOREIGN),
        BlockClosed(0),
        BlockOpened(1, ToolCall(id="call_1", name="ls")),
        BlockClosed(1),
    )
    assert [block["type"] for block in content] == ["text", "redacted_thinking", "tool_use"]
    text, call = blocks_back(content)
    assert isinstance(text, Text)
    assert isinstance(call, ToolCall)
    assert (text.seal, call.seal) == (FOREIGN, None)


def test_the_seal_of_the_last_text_is_a_loss_because_the_answer_must_stay_last() -> None:
    context = ClientContext(upstream="gemini")
    content = content_after(
        BlockOpened(0, Text(text="")),
        TextDelta(0, "Done."),
        SealAttached(0, FOREIGN),
        BlockClosed(0),
        context=context,
    )
    assert content == [{"type": "text", "text": "Done."}]
    assert len(context.losses) == 1


@pytest.mark.rule("P18")
def test_thought_that_is_cut_off_is_not_made_to_look_whole() -> None:
    stream = write(
        [
            START,
            BlockOpened(0, Reasoning()),
            ReasoningDelta(0, "Hm", 0),
            ReplyFailed("truncated", Failure(kind="overloaded", message="gone")),
        ]
    )
    assert DIALECT.check_stream(stream) == []
    assert [payload["type"] for payload in payloads(stream)][-2:] == ["content_block_delta", "error"]


def carrying(*items: SealedItem, thinking: str | None = None) -> Json:
    if thinking is None:
        return {"type": "redacted_thinking", "data": write_envelope(items)}
    return {"type": "thinking", "thinking": thinking, "signature": write_envelope(items)}


def test_one_envelope_can_carry_several_seals() -> None:
    other = Seal("gemini", "gemini-3", "b3RoZXI=")
    items = (
        SealedItem(kind="reasoning", seal=FOREIGN, parts=("A", "B")),
        SealedItem(kind="reasoning", seal=other, redacted=True),
        SealedItem(kind="call", seal=other, call_id="call_1"),
    )
    call: Json = {"type": "tool_use", "id": "call_1", "name": "ls", "input": {}}
    first, second, third = blocks_back([carrying(*items), call])
    assert isinstance(first, Reasoning)
    assert isinstance(second, Reasoning)
    assert isinstance(third, ToolCall)
    assert (first.parts, first.seal) == (("A", "B"), FOREIGN)
    assert (second.redacted, second.seal) == (True, other)
    assert third.seal == other


def test_thought_around_an_envelope_for_a_call_stays_thought() -> None:
    item = SealedItem(kind="call", seal=FOREIGN, call_id="call_1")
    (block,) = blocks_back([carrying(item, thinking="Hm.")])
    assert isinstance(block, Reasoning)
    assert (block.parts, block.seal) == (("Hm.",), None)


def test_a_seal_can_wait_for_its_call_until_the_next_message_of_the_assistant() -> None:
    item = SealedItem(kind="call", seal=FOREIGN, call_id="call_1")
    first, second = sent_back(
        [carrying(item)], [{"type": "tool_use", "id": "call_1", "name": "ls", "input": {}}]
    )
    call = second.blocks[0]
    assert isinstance(call, ToolCall)
    assert (first.blocks, call.seal) == ((), FOREIGN)


def test_an_empty_envelope_in_redacted_thinking_is_nothing() -> None:
    assert blocks_back([carrying()]) == ()


def test_something_that_only_looks_like_an_envelope_is_kept_as_a_signature() -> None:
    (block,) = blocks_back([{"type": "thinking", "thinking": "Hm.", "signature": "dgm1.!!!"}])
    assert isinstance(block, Reasoning)
    assert block.seal == Seal("anthropic", "", "dgm1.!!!")


def written(
    *blocks: AnyBlock, dialect: str = "anthropic", issuer: str = "anthropic"
) -> tuple[list[Json], int]:
    """The content that goes upstream for an assistant message with these blocks, and the number of losses."""
    losses = Losses()
    messages = (
        Message(role="user", blocks=(Text(text="Go."),)),
        Message(role="assistant", blocks=(*blocks, Text(text="."))),
    )
    request = Request(dialect=dialect, model="m", max_tokens=1, messages=messages)
    body = DIALECT.write_request(request, TargetFacts(dialect="anthropic", issuer=issuer), losses)
    body_messages = body["messages"]
    assert isinstance(body_messages, list)
    return body_messages[1]["content"][:-1], len(losses)


@pytest.mark.rule("H1", "P44")
def test_only_seals_that_the_far_end_minted_go_there() -> None:
    signed = Reasoning(parts=("Hm.",), seal=NATIVE)
    assert written(signed) == ([{"type": "thinking", "thinking": "Hm.", "signature": "bmF0aXZl"}], 0)
    assert written(Reasoning(parts=("Hm.",), seal=FOREIGN)) == ([], 1)


def test_a_provider_with_a_name_of_its_own_gets_its_own_seals_back() -> None:
    signed = Reasoning(redacted=True, seal=Seal("bedrock", "claude-x", "AAAA"))
    assert written(signed, issuer="bedrock") == ([{"type": "redacted_thinking", "data": "AAAA"}], 0)


@pytest.mark.rule("P46", "P44")
def test_an_unsigned_thought_is_dropped_and_never_becomes_text() -> None:
    assert written(Reasoning(parts=("Hm.",)), dialect="openai_chat") == ([], 1)
    (unsigned,) = blocks_back([carrying(thinking="Hm.")])
    assert written(unsigned) == ([], 1)


def test_unsigned_thought_of_an_own_client_is_its_own_affair() -> None:
    for block in (
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        {"type": "thinking", "thinking": "Hm."},
    ):
        (unsigned,) = blocks_back([dict(block)])
        assert written(unsigned) == ([block], 0)


def test_what_we_wrap_can_be_unwrapped_by_anyone_who_knows_the_envelope() -> None:
    (block,) = content_after(*thought(0, "Hm.", seal=FOREIGN))
    assert read_envelope(str(block["signature"])) == (SealedItem(kind="reasoning", seal=FOREIGN),)
