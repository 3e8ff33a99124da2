"""Anthropic's published client reads our streams as we mean them."""

import anthropic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.base import Audience
from dragoman.hub.events import ReplyEvent, ReplyFailed
from tests.dialects.anthropic.replies import pairs, read, recorded, recorded_json, write
from tests.dialects.anthropic.test_properties import legal_arguments
from tests.dialects.strategies import replies
from tests.sdk.anthropic_reader import accumulate

#: The compaction block is a beta that the plain client has no type for.
STEMS = [stem for stem in pairs() if stem != "compaction"]


@pytest.mark.parametrize("stem", STEMS)
def test_the_client_accumulates_recorded_streams_as_the_recorded_replies(stem: str) -> None:
    assert accumulate(recorded(f"stream-{stem}.sse")) == recorded_json(f"reply-{stem}.json")


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.rule("R60", "R90")
def test_the_client_accumulates_what_we_write_as_we_collect_it(stem: str) -> None:
    stream = write(read(recorded(f"stream-{stem}.sse")), Audience(upstream="anthropic"))
    assert accumulate(stream) == DIALECT.collect(stream)


@given(st.builds(legal_arguments, replies(failing=False)))
@settings(max_examples=60)
def test_the_client_accumulates_any_reply_as_we_collect_it(events: list[ReplyEvent]) -> None:
    stream = write(events, Audience(upstream="openai_chat"))
    told, collected = accumulate(stream), DIALECT.collect(stream)
    # The client fills in what a reply that stopped for no particular reason leaves out.
    assert {name: value for name, value in told.items() if value is not None} == {
        name: value for name, value in collected.items() if value is not None
    }


@given(st.builds(legal_arguments, replies()).filter(lambda events: isinstance(events[-1], ReplyFailed)))
@settings(max_examples=30)
@pytest.mark.rule("H72", "H73")
def test_the_client_raises_on_every_reply_that_failed(events: list[ReplyEvent]) -> None:
    with pytest.raises(anthropic.APIStatusError):
        accumulate(write(events, Audience(upstream="openai_chat")))


def test_a_stream_that_breaks_off_without_a_word_is_what_the_client_cannot_notice() -> None:
    assert accumulate(recorded("stream-cut.sse"))["stop_reason"] is None


def test_calls_whose_arguments_are_no_json_make_the_client_raise() -> None:
    stream = recorded("stream-tool-call.sse").replace(b'"{\\"file_p"', b'"ls -la"')
    with pytest.raises(ValueError, match="Unable to parse tool parameter JSON"):
        accumulate(stream)
    assert DIALECT.check_stream(stream) != []
