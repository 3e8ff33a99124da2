"""Bodies of Chat clients become requests that lose nothing."""

import msgspec
import pytest

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.blocks import (
    CacheMark,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, OutputFormat, ReasoningSettings, Request
from tests.dialects.openai_chat.bodies import PIXEL, call
from tests.dialects.openai_chat.replies import object_of

HELLO = {"role": "user", "content": "hello"}


def read(body: Json) -> Request:
    return DIALECT.read_request(object_of(msgspec.json.decode(msgspec.json.encode(body))), Losses())


def asked(**fields: object) -> Request:
    return read({"model": "m", "messages": [HELLO], **fields})


def build_message(message: Json) -> Message:
    (only,) = asked(messages=[message]).messages
    return only


def blocks(content: object) -> tuple[object, ...]:
    return build_message({"role": "user", "content": content}).blocks


def test_settings_are_read_by_their_names_here() -> None:
    request = asked(
        stream=True,
        stream_options={"include_usage": True},
        max_completion_tokens=9,
        temperature=0.5,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        seed=3,
        n=2,
        stop=["a", "b"],
        logprobs=True,
        top_logprobs=4,
        logit_bias={"1": 2},
        parallel_tool_calls=False,
        reasoning_effort="high",
        verbosity="low",
        service_tier="flex",
        prompt_cache_key="k",
        user="u",
        metadata={"a": "b"},
        store=True,
    )
    assert (request.stream, request.include_usage, request.max_tokens) == (True, True, 9)
    assert (request.temperature, request.top_p, request.seed, request.candidates) == (0.5, 0.9, 3, 2)
    assert (request.presence_penalty, request.frequency_penalty) == (0.1, 0.2)
    assert (request.stop, request.logprobs, request.top_logprobs) == (("a", "b"), True, 4)
    assert (request.logit_bias, request.parallel_calls) == ({"1": 2}, False)
    assert request.reasoning == ReasoningSettings(effort="high")
    assert (request.verbosity, request.service_tier, request.cache_key) == ("low", "flex", "k")
    assert (request.user, request.metadata, request.store) == ("u", {"a": "b"}, True)
    assert request.extras == {}


def test_fields_know_where_the_client_wrote_them() -> None:
    request = asked(max_completion_tokens=9, n=1)
    assert request.path_of("max_tokens") == "max_completion_tokens"
    assert request.path_of("candidates") == "n"
    assert request.path_of("temperature") == "temperature"
    assert asked(safety_identifier="u").path_of("user") == "safety_identifier"


@pytest.mark.rule("C23")
def test_a_stream_is_asked_for_only_by_saying_so() -> None:
    assert not asked().stream
    assert not asked(stream=False).stream
    assert not asked(stream=None).stream


@pytest.mark.rule("H56")
def test_the_newer_cap_wins_and_the_other_is_kept() -> None:
    request = asked(max_tokens=5, max_completion_tokens=9)
    assert request.max_tokens == 9
    assert request.extras == {"max_tokens": 5}


def test_unknown_fields_are_kept() -> None:
    assert asked(prediction={"type": "content"}, top_a=1).extras == {
        "prediction": {"type": "content"},
        "top_a": 1,
    }


def test_an_unknown_effort_is_kept() -> None:
    request = asked(reasoning_effort="ultra")
    assert request.reasoning is None
    assert request.extras == {"reasoning_effort": "ultra"}


@pytest.mark.rule("H57")
def test_output_formats() -> None:
    assert asked(response_format={"type": "json_object"}).output == OutputFormat(kind="json_object")
    schema = {"name": "n", "description": "d", "schema": {"type": "object"}, "strict": True, "x": 1}
    assert asked(response_format={"type": "json_schema", "json_schema": schema}).output == OutputFormat(
        kind="json_schema",
        name="n",
        description="d",
        schema={"type": "object"},
        strict=True,
        extras={"json_schema.x": 1},
    )
    assert asked(response_format={"type": "grammar", "grammar": "g"}).output is None


@pytest.mark.rule("H40", "R91")
@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_and_developer_messages_keep_their_role(role: str) -> None:
    message = build_message({"role": role, "content": "Be brief."})
    assert message.role == role
    assert message.blocks == (Text(text="Be brief.", at="messages[0].content"),)


def test_names_of_speakers_are_kept() -> None:
    assert build_message({"role": "user", "name": "anna", "content": "Hi"}).extras == {"name": "anna"}


@pytest.mark.rule("R130", "H46")
def test_images_are_taken_apart() -> None:
    assert blocks([{"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}]) == (
        Media(
            kind="image",
            media_type="image/png",
            data="iVBORw0KGgo=",
            detail="low",
            at="messages[0].content[0]",
        ),
    )
    assert blocks([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]) == (
        Media(kind="image", url="https://example.org/a.png", at="messages[0].content[0]"),
    )


@pytest.mark.rule("H45", "H47")
def test_files_and_recordings() -> None:
    pdf = {"file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}
    audio = {"data": "UklG", "format": "mp3"}
    at = "messages[0].content"
    assert blocks(
        [
            {"type": "file", "file": pdf},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "input_audio", "input_audio": audio},
        ]
    ) == (
        Media(kind="document", media_type="application/pdf", data="JVBE", title="a.pdf", at=f"{at}[0]"),
        Media(kind="document", file_id="file-1", at=f"{at}[1]"),
        Media(kind="audio", media_type="audio/mpeg", data="UklG", form="mp3", at=f"{at}[2]"),
    )


def test_an_unknown_part_stays_whole() -> None:
    (block,) = blocks([{"type": "hologram", "hologram": {"x": 1}}])
    assert block == Opaque(
        kind="hologram", value={"type": "hologram", "hologram": {"x": 1}}, at="messages[0].content[0]"
    )


@pytest.mark.rule("H59")
def test_cache_marks_are_read_in_both_spellings() -> None:
    marked = blocks(
        [
            {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
            {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
        ]
    )
    assert [block.cache for block in marked if isinstance(block, Text)] == [
        CacheMark(ttl="30m", extras={"mode": "explicit"}),
        CacheMark(extras={"type": "ephemeral"}),
    ]


def test_an_assistants_message_is_thought_then_words_then_calls() -> None:
    message = build_message(
        {
            "role": "assistant",
            "tool_calls": [call()],
            "content": "Look.",
            "refusal": "No.",
            "reasoning_content": "hm",
        }
    )
    assert message.blocks == (
        Reasoning(parts=("hm",), raw=True, at="messages[0].reasoning_content", form="reasoning_content"),
        Text(text="Look.", at="messages[0].content"),
        Refusal(text="No.", at="messages[0].refusal"),
        ToolCall(id="c", name="Read", arguments="{}", at="messages[0].tool_calls[0]"),
    )


def test_a_custom_call_carries_free_text() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    (block,) = build_message({"role": "assistant", "content": None, "tool_calls": [custom]}).blocks
    assert block == ToolCall(
        id="c", name="patch", arguments="*** Begin", kind="custom", at="messages[0].tool_calls[0]"
    )


@pytest.mark.parametrize("content", [None, ""])
def test_no_content_is_no_block(content: object) -> None:
    assert build_message({"role": "assistant", "content": content}).blocks == ()


@pytest.mark.rule("R96")
def test_a_tool_message_is_a_result() -> None:
    message = build_message(
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "done"}]}
    )
    assert message.role == "tool"
    assert message.blocks == (
        ToolResult(
            call_id="c",
            content=(Text(text="done", at="messages[0].content[0]"),),
            at="messages[0]",
            form="parts",
        ),
    )


def test_old_functions_and_their_results_belong_together() -> None:
    request = asked(
        functions=[{"name": "Read", "parameters": {"type": "object"}}],
        function_call={"name": "Read"},
        messages=[
            {"role": "assistant", "content": None, "function_call": {"name": "Read", "arguments": "{}"}},
            {"role": "function", "name": "Read", "content": "text"},
        ],
    )
    (made,), (result,) = request.messages[0].blocks, request.messages[1].blocks
    assert isinstance(made, ToolCall)
    assert isinstance(result, ToolResult)
    assert made.id == result.call_id
    assert result.name == "Read"
    assert request.tools[0].name == "Read"
    assert request.tool_choice is not None
    assert (request.tool_choice.mode, request.tool_choice.name) == ("named", "Read")
    assert request.form == "functions"


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        ({"messages": [HELLO]}, "model", "a string, got nothing"),
        ({"model": "m", "messages": []}, "messages", "at least one message"),
        ({"model": "m"}, "messages", "an array, got nothing"),
        ({"model": 5, "messages": [HELLO]}, "model", "a string, got a number"),
        ({"model": "m", "messages": ["x"]}, "messages[0]", "an object, got a string"),
        ({"model": "m", "messages": [{"content": "x"}]}, "messages[0].role", "a string, got nothing"),
        (
            {"model": "m", "messages": [{"role": "user", "content": 5}]},
            "messages[0].content",
            "a string or an array",
        ),
        (
            {"model": "m", "messages": [{"role": "user", "content": [5]}]},
            "messages[0].content[0]",
            "an object",
        ),
        (
            {"model": "m", "messages": [{"role": "tool", "content": ""}]},
            "messages[0].tool_call_id",
            "a string",
        ),
        ({"model": "m", "messages": [HELLO], "temperature": "hot"}, "temperature", "a number, got a string"),
        ({"model": "m", "messages": [HELLO], "stop": [1]}, "stop[0]", "a string, got a number"),
        ({"model": "m", "messages": [HELLO], "stream": "yes"}, "stream", "a boolean, got a string"),
        (
            {"model": "m", "messages": [HELLO], "tools": [{"type": "function"}]},
            "tools[0].function",
            "an object",
        ),
        ({"model": "m", "messages": [HELLO], "tools": [{}]}, "tools[0].type", "a string, got nothing"),
    ],
)
def test_mistakes_are_named_by_place_and_type(body: Json, path: str, expected: str) -> None:
    with pytest.raises(ClientProtocolError) as refusal:
        read(body)
    assert refusal.value.path == path
    assert f"expected {expected}" in str(refusal.value)


def test_a_mistake_never_repeats_what_was_sent() -> None:
    with pytest.raises(ClientProtocolError) as refusal:
        read({"model": "m", "messages": [{"role": "secret-role", "content": "x"}]})
    assert "secret" not in str(refusal.value)
