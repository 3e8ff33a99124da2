"""OpenAI's published client accepts our streams."""

import openai
import pytest
from hypothesis import given, settings

from dragoman.dialects.interfaces import ClientContext
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyEvent, ReplyFailed, ReplyFinished
from tests.dialects.openai_responses.replies import (
    names,
    pairs,
    recorded,
    recorded_json,
    through,
    types,
    write,
)
from tests.dialects.strategies import replies
from tests.sdk.openai_responses_reader import accumulate, events_of, validate
from tests.sse import collect_sse

#: The client's helper gives a response only for replies that were completed.
COMPLETED = [stem for stem in pairs() if recorded_json(f"reply-{stem}.json")["status"] == "completed"]


@pytest.mark.parametrize("stem", COMPLETED)
def test_the_helper_accumulates_recorded_streams_as_the_recorded_replies(stem: str) -> None:
    assert accumulate(recorded(f"stream-{stem}.sse")) == recorded_json(f"reply-{stem}.json")


@pytest.mark.parametrize("stem", COMPLETED)
@pytest.mark.rule("R60", "R90", "P70")
def test_the_helper_accumulates_what_we_write_as_we_collect_it(stem: str) -> None:
    stream, _ = through(recorded(f"stream-{stem}.sse"))
    assert accumulate(stream) == collect_sse(DIALECT, stream) == recorded_json(f"reply-{stem}.json")


@pytest.mark.parametrize("name", names("stream-*.sse"))
@pytest.mark.rule("P59", "P60", "H79")
def test_the_client_delivers_every_event_of_the_declared_types(name: str) -> None:
    stream, _ = through(recorded(name))
    delivered = [str(event["type"]).removeprefix("response.") for event in events_of(stream)]
    assert delivered == types(stream)


@given(replies(failing=False))
@settings(max_examples=60)
@pytest.mark.rule("P70")
def test_any_reply_of_another_vendor_is_accumulated_as_we_collect_it(events: list[ReplyEvent]) -> None:
    stream = write(events, ClientContext(upstream="anthropic", model="gpt-x"))
    collected = collect_sse(DIALECT, stream)
    validate(collected)
    if collected["status"] == "completed":
        assert accumulate(stream) == collected
    else:
        with pytest.raises(RuntimeError, match=r"response\.completed"):
            accumulate(stream)
    assert len(events_of(stream)) == len(types(stream))


@given(replies().filter(lambda events: isinstance(events[-1], ReplyFailed)))
@settings(max_examples=30)
@pytest.mark.rule("H72", "H73")
def test_the_helper_raises_on_every_reply_that_failed(events: list[ReplyEvent]) -> None:
    with pytest.raises((RuntimeError, openai.APIError)):
        accumulate(write(events, ClientContext(upstream="anthropic")))


def test_an_error_before_the_start_reaches_the_application_with_its_message() -> None:
    failure = Failure(kind="overloaded", message="The servers are busy.")
    with pytest.raises(openai.APIError, match="The servers are busy"):
        events_of(write([ReplyFailed("failed", failure)]))


def test_an_error_in_the_stream_is_delivered_and_then_the_failed_response() -> None:
    stream, _ = through(recorded("stream-cut.sse"))
    assert [event["type"] for event in events_of(stream)][-2:] == ["error", "response.failed"]


def test_a_reply_without_content_is_a_completed_response() -> None:
    stream, _ = through(recorded("stream-empty.sse"))
    assert accumulate(stream)["output"] == []
    assert ReplyFinished(cause="end").cause == "end"
