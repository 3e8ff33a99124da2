"""Anthropic's published client reads our streams as we mean them."""

import anthropic
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.hub.blocks import CacheMark, Media, Reasoning, Text, Tool, ToolCall, ToolResult
from dragoman.hub.events import ReplyEvent, ReplyFailed
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, OutputFormat, ReasoningSettings, Request, ToolChoice
from dragoman.hub.seal import Seal
from dragoman.providers.profile import TargetFacts
from tests.dialects.anthropic.replies import names, pairs, read, recorded, recorded_json, write
from tests.dialects.anthropic.test_properties import legal_arguments
from tests.dialects.strategies import replies
from tests.sdk.anthropic_reader import accumulate, validate_request
from tests.sse import collect_sse

#: The compaction block is a beta that the plain client has no type for.
STEMS = [stem for stem in pairs() if stem != "compaction"]


@pytest.mark.parametrize("stem", STEMS)
def test_the_client_accumulates_recorded_streams_as_the_recorded_replies(stem: str) -> None:
    assert accumulate(recorded(f"stream-{stem}.sse")) == recorded_json(f"reply-{stem}.json")


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.rule("R60", "R90")
def test_the_client_accumulates_what_we_write_as_we_collect_it(stem: str) -> None:
    stream = write(read(recorded(f"stream-{stem}.sse")), ClientContext(upstream="anthropic"))
    assert accumulate(stream) == collect_sse(DIALECT, stream)


@given(st.builds(legal_arguments, replies(failing=False)))
@settings(max_examples=60)
def test_the_client_accumulates_any_reply_as_we_collect_it(events: list[ReplyEvent]) -> None:
    stream = write(events, ClientContext(upstream="openai_chat"))
    accumulated, collected = accumulate(stream), collect_sse(DIALECT, stream)
    # The client fills in what a reply that stopped for no particular reason leaves out.
    assert {name: value for name, value in accumulated.items() if value is not None} == {
        name: value for name, value in collected.items() if value is not None
    }


@given(st.builds(legal_arguments, replies()).filter(lambda events: isinstance(events[-1], ReplyFailed)))
@settings(max_examples=30)
@pytest.mark.rule("H72", "H73")
def test_the_client_raises_on_every_reply_that_failed(events: list[ReplyEvent]) -> None:
    with pytest.raises(anthropic.APIStatusError):
        accumulate(write(events, ClientContext(upstream="openai_chat")))


def test_a_stream_that_breaks_off_without_a_word_is_what_the_client_cannot_notice() -> None:
    assert accumulate(recorded("stream-cut.sse"))["stop_reason"] is None


def test_calls_whose_arguments_are_no_json_make_the_client_raise() -> None:
    stream = recorded("stream-tool-call.sse").replace(b'"{\\"file_p"', b'"ls -la"')
    with pytest.raises(ValueError, match="Unable to parse tool parameter JSON"):
        accumulate(stream)
    assert DIALECT.check_stream(stream) != []


#: One of everything that another dialect's request can hold after it was made to fit.
FOREIGN = Request(
    dialect="openai_responses",
    model="gpt-x",
    max_tokens=100,
    stream=True,
    messages=(
        Message(role="system", blocks=(Text(text="Be kind.", cache=CacheMark()),)),
        Message(
            role="user",
            blocks=(
                Text(text="Look."),
                Media(kind="image", media_type="image/png", data="AAAA"),
                Media(kind="image", url="https://example.com/a.png"),
                Media(kind="document", media_type="application/pdf", data="JVBE", title="T"),
                Media(kind="document", text="words"),
                Media(kind="document", url="https://example.com/a.pdf"),
            ),
        ),
        Message(
            role="assistant",
            blocks=(
                Reasoning(parts=("Hm.",), seal=Seal("anthropic", "", "sig")),
                Reasoning(redacted=True, seal=Seal("anthropic", "", "data")),
                Text(text="I call."),
                ToolCall(id="call_1", name="ls", arguments='{"path": "."}'),
                ToolCall(id="call_2", name="ls", arguments="not json"),
            ),
        ),
        Message(
            role="tool",
            blocks=(
                ToolResult(
                    call_id="call_1",
                    content=(Text(text="a"), Media(kind="image", media_type="image/png", data="AAAA")),
                ),
                ToolResult(call_id="call_2", content=(Text(text="no"),), is_error=True),
            ),
        ),
        Message(role="user", blocks=(Text(text="And?"),)),
    ),
    tools=(
        Tool(name="ls", description="Lists.", schema={"type": "object", "properties": {}}, strict=True),
        Tool(name="bare"),
        Tool(name="web_search", kind="hosted", common_name="web_search"),
        Tool(name="web_fetch", kind="hosted", common_name="web_fetch"),
        Tool(name="code_execution", kind="hosted", common_name="code_execution"),
    ),
    tool_choice=ToolChoice(mode="named", name="ls"),
    parallel_calls=False,
    reasoning=ReasoningSettings(mode="adaptive", effort="high", show=True),
    output=OutputFormat(kind="json_schema", schema={"type": "object"}),
    stop=("END",),
    service_tier="auto",
    user="u-1",
)


@pytest.mark.parametrize(
    "wish",
    [ReasoningSettings(effort="low"), ReasoningSettings(budget=2048), ReasoningSettings(mode="off"), None],
)
def test_what_we_write_for_other_dialects_has_the_types_that_the_client_declares(
    wish: ReasoningSettings | None,
) -> None:
    request = msgspec.structs.replace(FOREIGN, reasoning=wish)
    validate_request(
        DIALECT.write_request(request, TargetFacts(dialect="anthropic", issuer="anthropic"), Losses())
    )


@pytest.mark.parametrize("name", names("request-anthropic-python-*.json"))
def test_requests_of_the_client_itself_have_its_types(name: str) -> None:
    body = recorded_json(name)["body"]
    assert isinstance(body, dict)
    validate_request(body)


def test_a_body_with_a_wrong_type_deep_inside_is_noticed() -> None:
    content: list[Json] = [{"type": "text", "text": 5}]
    with pytest.raises(ValueError, match="text"):
        validate_request({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": content}]})
