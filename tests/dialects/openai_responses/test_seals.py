"""Seals of other vendors: the client gets them in an envelope and returns them."""

import pytest

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.blocks import AnyBlock, Reasoning, ReplyBlock, Text, ToolCall
from dragoman.hub.events import ReplyFinished, ReplyStarted
from dragoman.hub.fold import Reply, unfold
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message
from dragoman.hub.seal import Seal, SealedItem, write_envelope
from dragoman.providers.profile import Profile, build_target_facts
from tests.dialects.openai_responses.replies import OWN, output_of, write
from tests.sse import collect_sse

SIGNATURE = Seal("anthropic", "claude-x", "c2lnbmVk")
THOUGHT_SIGNATURE = Seal("gemini", "gemini-x", "dGhvdWdodA")


def read_messages(*items: Json, losses: Losses | None = None) -> tuple[Message, ...]:
    body: Json = {"model": "m", "input": [dict(item) for item in items]}
    return DIALECT.read_request(body, Losses() if losses is None else losses).messages


def blocks(*items: Json) -> list[AnyBlock]:
    return [block for message in read_messages(*items) for block in message.blocks]


def reasoning(*carried: SealedItem, summary: str = "") -> Json:
    parts = [{"type": "summary_text", "text": summary}] if summary else []
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": write_envelope(carried)}


CALL: Json = {"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{}"}
ANSWER: Json = {"role": "assistant", "content": "Hi."}


@pytest.mark.rule("H1", "H4", "P47")
def test_reasoning_in_an_envelope_returns_with_its_text_and_its_seal() -> None:
    item = reasoning(
        SealedItem(kind="reasoning", seal=SIGNATURE, parts=("Exact words.",)), summary="Shortened"
    )
    (block,) = blocks(item)
    assert isinstance(block, Reasoning)
    assert (block.parts, block.seal) == (("Exact words.",), SIGNATURE)


def test_the_clients_summary_is_used_if_the_envelope_has_no_text() -> None:
    (block,) = blocks(reasoning(SealedItem(kind="reasoning", seal=SIGNATURE), summary="Shown."))
    assert isinstance(block, Reasoning)
    assert block.parts == ("Shown.",)


def test_an_empty_envelope_means_reasoning_without_a_seal() -> None:
    (block,) = blocks(reasoning(summary="Shown."))
    assert isinstance(block, Reasoning)
    assert (block.parts, block.seal) == (("Shown.",), None)
    assert read_messages(reasoning()) == ()


@pytest.mark.rule("P46", "P48")
def test_another_vendors_reasoning_without_a_seal_is_not_sent_to_openai() -> None:
    losses = Losses()
    body: Json = {"model": "m", "input": [reasoning(summary="Shown."), dict(ANSWER)]}
    request = DIALECT.read_request(body, losses)
    written = DIALECT.write_request(request, build_target_facts(Profile(dialect=OWN), OWN), losses)
    assert written["input"] == [ANSWER]
    assert [loss.path for loss in losses] == ["input[0]"]


@pytest.mark.rule("H3")
def test_redacted_reasoning_returns_redacted() -> None:
    (block,) = blocks(reasoning(SealedItem(kind="reasoning", seal=SIGNATURE, redacted=True)))
    assert isinstance(block, Reasoning)
    assert (block.redacted, block.parts) == (True, ())


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.rule("H6", "P42")
def test_a_seal_for_a_call_is_put_on_it_before_or_after_it(before: bool) -> None:
    carrier = reasoning(SealedItem(kind="call", seal=THOUGHT_SIGNATURE, call_id="call_1"))
    (block,) = blocks(*([carrier, CALL] if before else [CALL, carrier]))
    assert isinstance(block, ToolCall)
    assert block.seal == THOUGHT_SIGNATURE


@pytest.mark.rule("P42")
def test_a_seal_for_a_text_is_put_on_the_models_last_text() -> None:
    carrier = reasoning(SealedItem(kind="text", seal=THOUGHT_SIGNATURE))
    found = blocks(ANSWER, CALL, carrier)
    assert isinstance(found[0], Text)
    assert found[0].seal == THOUGHT_SIGNATURE
    user: Json = {"role": "user", "content": "Go on."}
    assert all(getattr(block, "seal", None) is None for block in blocks(ANSWER, user, carrier))


def test_a_damaged_envelope_is_a_loss_and_the_text_stays() -> None:
    losses = Losses()
    item = {**reasoning(summary="Shown."), "encrypted_content": "dgm1.broken"}
    (message,) = read_messages(item, losses=losses)
    (block,) = message.blocks
    assert isinstance(block, Reasoning)
    assert (block.parts, block.seal) == (("Shown.",), None)
    assert [loss.path for loss in losses] == ["input[0].encrypted_content"]


@pytest.mark.rule("H1", "H6")
def test_seals_that_we_write_return_complete() -> None:
    sent: tuple[ReplyBlock, ...] = (
        Reasoning(parts=("One.", "Two."), seal=SIGNATURE),
        Text(text="Hi."),
        ToolCall(id="call_1", name="ls", arguments="{}", seal=THOUGHT_SIGNATURE),
    )
    ending = ReplyFinished(cause="tool_calls")
    stream = write(
        unfold(Reply(started=ReplyStarted(), blocks=sent, ending=ending)), ClientContext(upstream="x")
    )
    thought, text, call = blocks(*output_of(collect_sse(DIALECT, stream)))
    assert isinstance(thought, Reasoning)
    assert isinstance(text, Text)
    assert isinstance(call, ToolCall)
    assert (thought.parts, thought.seal) == (("One.", "Two."), SIGNATURE)
    assert (text.text, call.seal) == ("Hi.", THOUGHT_SIGNATURE)
