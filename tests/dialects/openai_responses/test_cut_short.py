"""Replies that end at a limit or are refused: the status of the last item, and the text of refusals."""

import pytest

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.blocks import Reasoning, Refusal, ReplyBlock, Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    StopCause,
)
from dragoman.hub.fold import Reply, unfold
from dragoman.hub.loss import Losses
from dragoman.hub.seal import TEXT_CARRIER, Seal
from tests.dialects.openai_responses.replies import output_of, types, write
from tests.sse import collect_sse, write_sse

SEAL = Seal("gemini", "g", "c2lnbmVk")
CUT_CALL = ToolCall(id="c1", name="Edit", arguments='{"path":"no')


def stream_of(
    *blocks: ReplyBlock, cause: StopCause, explanation: str = "", losses: Losses | None = None
) -> bytes:
    ending = ReplyFinished(cause=cause, explanation=explanation)
    events = unfold(Reply(started=ReplyStarted(id="m", model="x"), blocks=blocks, ending=ending))
    stream = write(events, ClientContext(upstream="anthropic", losses=Losses() if losses is None else losses))
    assert DIALECT.check_stream(stream) == []
    return stream


def body_of(*blocks: ReplyBlock, cause: StopCause, explanation: str = "") -> Json:
    return collect_sse(DIALECT, stream_of(*blocks, cause=cause, explanation=explanation))


def states(body: Json) -> list[object]:
    return [item.get("status") for item in output_of(body)]


@pytest.mark.rule("P65", "H84")
@pytest.mark.parametrize("cause", ["length", "context_window", "content_filter"])
@pytest.mark.parametrize("last", [Text(text="Once upon a"), CUT_CALL])
def test_the_last_item_of_an_incomplete_response_is_incomplete(last: ReplyBlock, cause: StopCause) -> None:
    body = body_of(Text(text="One."), last, cause=cause)
    assert body["status"] == "incomplete"
    assert states(body) == ["completed", "incomplete"]


@pytest.mark.rule("P65")
def test_cut_arguments_have_no_done_event() -> None:
    assert "function_call_arguments.done" not in types(stream_of(CUT_CALL, cause="length"))
    assert "function_call_arguments.done" in types(stream_of(CUT_CALL, cause="tool_calls"))


@pytest.mark.rule("P65")
def test_a_call_that_was_cut_before_its_first_argument_has_none() -> None:
    (item,) = output_of(body_of(ToolCall(id="c1", name="Edit"), cause="length"))
    assert (item["arguments"], item["status"]) == ("", "incomplete")


@pytest.mark.rule("P65")
@pytest.mark.parametrize("cause", ["end", "tool_calls", "stop_sequence", "pause"])
def test_an_item_is_completed_when_the_response_is(cause: StopCause) -> None:
    body = body_of(Text(text="One."), ToolCall(id="c1", name="Edit", arguments="{}"), cause=cause)
    assert (body["status"], states(body)) == ("completed", ["completed", "completed"])


@pytest.mark.rule("P65")
def test_an_item_that_another_follows_is_done_as_soon_as_the_other_begins() -> None:
    writer = DIALECT.stream_writer(ClientContext(upstream="anthropic"))
    writer.write(ReplyStarted(id="m", model="x"))
    writer.write(BlockOpened(0, ToolCall(id="c1", name="Edit", arguments="{}")))
    assert writer.write(BlockClosed(0)) == ()
    assert types(write_sse(writer, BlockOpened(1, Text(text="x"))))[:3] == [
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
    ]


@pytest.mark.rule("R60", "P65")
def test_an_item_that_was_whole_before_the_reply_failed_is_completed() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(id="m", model="x"),
        BlockOpened(0, Text(text="One.")),
        BlockClosed(0),
        ReplyFailed("failed", Failure(kind="server", message="broke")),
    ]
    stream = write(events, ClientContext(upstream="anthropic"))
    assert DIALECT.check_stream(stream) == []
    assert types(stream)[-4:] == ["content_part.done", "output_item.done", "error", "failed"]


@pytest.mark.rule("H6", "P65")
def test_the_seal_of_a_text_that_was_cut_short_is_a_loss() -> None:
    losses = Losses()
    carrier = Reasoning(seal=SEAL, form=TEXT_CARRIER)
    body = collect_sse(DIALECT, stream_of(Text(text="Once"), carrier, cause="length", losses=losses))
    assert [item["type"] for item in output_of(body)] == ["message"]
    assert [loss.reason for loss in losses] == ["the seal of a text that was cut short"]


@pytest.mark.rule("H6", "P65")
def test_a_sealed_call_is_whole_however_the_reply_ended() -> None:
    sealed = ToolCall(id="c1", name="Edit", arguments="{}", seal=SEAL)
    output = output_of(body_of(sealed, cause="length"))
    assert [(item["type"], item.get("status")) for item in output] == [
        ("function_call", "completed"),
        ("reasoning", None),
    ]


@pytest.mark.rule("H49")
@pytest.mark.parametrize("blocks", [(), (Text(text="I"),), (ToolCall(id="c1", name="f", arguments="{}"),)])
def test_the_explanation_of_a_refusal_is_a_refusal_part(blocks: tuple[ReplyBlock, ...]) -> None:
    body = body_of(*blocks, cause="refusal", explanation="It would harm.")
    last = output_of(body)[-1]
    content = last["content"]
    assert isinstance(content, list)
    assert content[-1] == {"type": "refusal", "refusal": "It would harm."}
    assert (body["status"], last["status"]) == ("completed", "completed")


@pytest.mark.rule("H49")
def test_an_explanation_is_not_added_to_a_refusal_of_the_model() -> None:
    body = body_of(Refusal(text="I will not."), cause="refusal", explanation="It would harm.")
    assert "It would harm." not in str(body)
    assert body["status"] == "completed"


@pytest.mark.rule("H49", "P65")
def test_a_refusal_without_text_is_a_filtered_response() -> None:
    body = body_of(Text(text="I"), cause="refusal")
    assert (body["status"], states(body)) == ("incomplete", ["incomplete"])
