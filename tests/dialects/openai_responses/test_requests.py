"""Requests of this dialect: how they are read, and that they are written as they were received."""

from collections.abc import Sequence

import msgspec
import pytest

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.blocks import (
    AnyBlock,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolDeclarations,
    ToolResult,
)
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.hub.seal import Seal
from dragoman.providers.profile import Profile, build_target_facts
from tests.dialects.openai_responses.replies import OWN

TARGET = build_target_facts(Profile(dialect=OWN), OWN)


def read(body: Json) -> Request:
    """The request, after a look that the same body is written again."""
    losses = Losses()
    request = DIALECT.read_request(msgspec.json.decode(msgspec.json.encode(body)), losses)
    assert DIALECT.write_request(request, TARGET, losses) == body
    assert losses.as_tuple() == ()
    return request


def read_messages(*items: Json) -> Sequence[Message]:
    return read({"model": "m", "input": list(items)}).messages


def only_block(item: Json) -> tuple[str, AnyBlock]:
    (message,) = read_messages(item)
    (block,) = message.blocks
    return message.role, block


def test_an_input_that_is_a_text_is_a_users_message() -> None:
    (message,) = read({"model": "m", "input": "Hi."}).messages
    assert (message.role, message.blocks) == ("user", (Text(text="Hi.", at="input"),))


@pytest.mark.rule("R22")
def test_instructions_are_the_leading_system_message_and_empty_ones_are_none() -> None:
    first, second = read({"model": "m", "instructions": "Be brief.", "input": "Hi."}).messages
    assert (first.role, first.form, second.role) == ("system", "top", "user")
    for nothing in ("", None):
        assert len(read({"model": "m", "instructions": nothing, "input": "Hi."}).messages) == 1


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "Hi."},
        {"role": "user", "content": ""},
        {"type": "message", "role": "user", "content": "Hi."},
        {"type": "message", "role": "user", "content": []},
        {"role": "system", "content": [{"type": "input_text", "text": "Hi."}]},
        {"type": "message", "id": "msg_1", "role": "developer", "content": [], "status": None},
        {"type": "message", "role": "assistant", "content": "Hi.", "phase": "commentary"},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Hi.", "annotations": [], "logprobs": []},
                {"type": "output_text", "text": "Plain."},
                {"type": "input_text", "text": "Unusual."},
                {
                    "type": "output_text",
                    "text": "Cited.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://e.org",
                            "title": "",
                            "start_index": 0,
                            "end_index": 5,
                        },
                        {"type": "file_citation", "file_id": "f", "filename": "n", "index": 3},
                    ],
                },
                {"type": "refusal", "refusal": "No."},
                {"type": "of_tomorrow", "text": "?", "x": [1]},
            ],
        },
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "See:", "prompt_cache_breakpoint": {"mode": "explicit"}},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"},
                {"type": "input_image", "image_url": "https://e.org/a.png"},
                {"type": "input_image", "image_url": "data:image/png;charset=x;base64,AAAA"},
                {"type": "input_image", "image_url": None, "file_id": "file_1", "detail": "auto"},
                {
                    "type": "input_file",
                    "file_data": "data:application/pdf;base64,AAAA",
                    "filename": "a.pdf",
                },
                {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA"},
                {"type": "input_file", "file_data": "AAAA", "filename": "a.pdf"},
                {"type": "input_file", "file_url": "https://e.org/a.pdf"},
                {"type": "input_file", "file_id": "file_2"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav", "x": 1}},
            ],
        },
    ],
)
def test_messages_are_written_as_they_were_read(item: Json) -> None:
    (message,) = read_messages(item)
    assert message.role == item["role"]


@pytest.mark.rule("H46", "H45", "R130")
def test_images_and_files_have_data_an_address_or_an_id() -> None:
    parts = [
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_image", "image_url": "https://e.org/a.png"},
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"},
        {"type": "input_file", "file_url": "https://e.org/a.pdf"},
    ]
    (message,) = read_messages({"role": "user", "content": parts})
    assert [
        (b.kind, b.media_type, b.data, b.url, b.file_id) for b in message.blocks if isinstance(b, Media)
    ] == [
        ("image", "image/png", "AAAA", "", ""),
        ("image", "", "", "https://e.org/a.png", ""),
        ("image", "", "", "", "file_1"),
        ("document", "application/pdf", "BBBB", "", ""),
        ("document", "", "", "https://e.org/a.pdf", ""),
    ]


@pytest.mark.parametrize(
    ("item", "kind", "name", "arguments"),
    [
        (
            {"type": "function_call", "call_id": "c", "name": "ls", "arguments": '{"a": 1e3}', "id": "fc_1"},
            "function",
            "ls",
            '{"a": 1e3}',
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "let x = 1", "id": "ctc_1"},
            "custom",
            "exec",
            "let x = 1",
        ),
        (
            {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
            "local_shell",
            "local_shell",
            '{"type":"exec","command":["ls"]}',
        ),
        (
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}, "environment": None},
            "shell",
            "shell",
            '{"commands":["ls"]}',
        ),
        (
            {
                "type": "apply_patch_call",
                "call_id": "c",
                "status": "completed",
                "operation": {"type": "delete_file", "path": "a"},
            },
            "apply_patch",
            "apply_patch",
            '{"type":"delete_file","path":"a"}',
        ),
        (
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "x"}},
            "tool_search",
            "tool_search",
            '{"query":"x"}',
        ),
    ],
)
def test_calls_are_calls_of_their_kind(item: Json, kind: str, name: str, arguments: str) -> None:
    role, block = only_block(item)
    assert isinstance(block, ToolCall)
    assert (role, block.id, block.kind, block.name) == ("assistant", "c", kind, name)
    assert block.arguments == arguments


@pytest.mark.rule("H23")
def test_a_call_in_a_namespace_keeps_it() -> None:
    item: Json = {
        "type": "function_call",
        "call_id": "c",
        "name": "x",
        "arguments": "{}",
        "namespace": "mcp__n",
        "caller": {"type": "direct"},
    }
    _, block = only_block(item)
    assert isinstance(block, ToolCall)
    assert block.namespace == "mcp__n"


@pytest.mark.parametrize(
    ("item", "text", "is_error"),
    [
        ({"type": "function_call_output", "call_id": "c", "output": "Done."}, "Done.", False),
        ({"type": "function_call_output", "call_id": "c", "output": "", "id": None}, "", False),
        (
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "Done."}],
            },
            "Done.",
            False,
        ),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "Done.", "id": "x"}, "Done.", False),
        ({"type": "local_shell_call_output", "id": "c", "output": "Done.", "status": None}, "Done.", False),
        (
            {
                "type": "shell_call_output",
                "call_id": "c",
                "max_output_length": 10,
                "output": [
                    {"stdout": "out", "stderr": "err", "outcome": {"type": "exit", "exit_code": 1}},
                    {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
                ],
            },
            "out\nerr\n[exit code 1]\n[timeout]",
            False,
        ),
        (
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "No."},
            "No.",
            True,
        ),
    ],
)
def test_outputs_are_results_with_readable_text(item: Json, text: str, is_error: bool) -> None:
    role, block = only_block(item)
    assert isinstance(block, ToolResult)
    assert (role, block.call_id, block.is_error) == ("tool", "c", is_error)
    assert [inner.text for inner in block.content if isinstance(inner, Text)] == [text]


def test_an_output_without_text_is_legal() -> None:
    _, block = only_block({"type": "apply_patch_call_output", "call_id": "c", "status": "completed"})
    assert isinstance(block, ToolResult)
    assert block.content == ()


@pytest.mark.rule("H20", "P38")
def test_images_in_results_are_kept() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    _, block = only_block({"type": "custom_tool_call_output", "call_id": "c", "output": [picture]})
    assert isinstance(block, ToolResult)
    assert [type(inner) for inner in block.content] == [Media]


@pytest.mark.rule("H24", "H25")
def test_tools_declared_in_the_conversation_are_declarations() -> None:
    tool = {"type": "function", "name": "x", "parameters": {"type": "object"}, "strict": False}
    space = {"type": "namespace", "name": "n", "description": "d", "tools": [tool, {**tool, "name": "y"}]}
    role, block = only_block(
        {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [space]}
    )
    assert role == "developer"
    assert isinstance(block, ToolDeclarations)
    assert [(t.namespace, t.name) for t in block.tools] == [("n", "x"), ("n", "y")]
    item = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [tool]}
    role, result = only_block({**item, "status": "completed", "id": "tso_1"})
    assert isinstance(result, ToolResult)
    (declared,) = result.content
    assert isinstance(declared, ToolDeclarations)
    assert (role, result.kind, [t.name for t in declared.tools]) == ("tool", "tool_search", ["x"])


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "gAAA"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "status": None},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            "content": [{"type": "reasoning_text", "text": "long"}],
        },
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "long"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a", "x": 1}]},
        {"type": "reasoning", "summary": [], "encrypted_content": None},
    ],
)
def test_reasoning_is_written_as_it_was_read(item: Json) -> None:
    role, block = only_block(item)
    assert role == "assistant"
    assert isinstance(block, Reasoning)


def test_reasoning_keeps_its_parts_and_its_seal() -> None:
    part = {"type": "summary_text", "text": "a"}
    item: Json = {"type": "reasoning", "summary": [part], "encrypted_content": "s"}
    _, block = only_block(item)
    assert isinstance(block, Reasoning)
    assert (block.parts, block.raw, block.seal) == (("a",), False, Seal(OWN, "", "s"))
    _, sealed = only_block({"type": "reasoning", "summary": [], "encrypted_content": "s"})
    assert isinstance(sealed, Reasoning)
    assert sealed.redacted


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "msg_1"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "s"},
        {"type": "compaction_trigger"},
        {"type": "configuration_update", "reasoning": {"effort": "high"}},
        {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "wait"}},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "n", "tools": []},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
        {"type": "tool_search_call", "execution": "server", "call_id": None, "arguments": {}, "id": "t"},
        {"type": "of_tomorrow", "anything": [1, {"a": None}]},
    ],
)
def test_items_that_only_this_dialect_knows_are_opaque(item: Json) -> None:
    _, block = only_block(item)
    assert isinstance(block, Opaque)
    assert (block.kind, block.value) == (item["type"], item)


@pytest.mark.rule("H28", "H30")
def test_hosted_items_can_be_read_by_others() -> None:
    items: list[Json] = [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://e.org"}]},
        },
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "1+1",
            "outputs": [{"type": "logs", "logs": "2"}],
            "status": "completed",
        },
        {
            "type": "file_search_call",
            "id": "fs_1",
            "queries": ["q"],
            "results": [{"filename": "a", "text": "b"}],
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "x",
            "server_label": "n",
            "arguments": "{}",
            "error": "boom",
        },
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"},
    ]
    found = read_messages(*items)
    calls = [b for message in found for b in message.blocks if isinstance(b, HostedCall)]
    results = [b for message in found for b in message.blocks if isinstance(b, HostedResult)]
    assert [block.tool for block in calls] == ["web_search", "code_execution", "file_search", "mcp"]
    assert [(block.text, block.is_error) for block in results] == [
        ("https://e.org", False),
        ("2", False),
        ("a\nb", False),
        ("boom", True),
    ]
    picture = found[-1].blocks[0]
    assert isinstance(picture, Media)
    assert (picture.kind, picture.media_type, picture.data) == ("image", "image/png", "AAAA")


@pytest.mark.rule("R129", "H10")
def test_reasoning_settings_are_read_and_later_ones_count() -> None:
    wish = read({"model": "m", "input": "x", "reasoning": {"effort": "low", "summary": "auto"}}).reasoning
    assert wish is not None
    assert (wish.effort, wish.show, wish.style) == ("low", True, "auto")
    update = {"type": "configuration_update", "reasoning": {"effort": "high"}}
    asked: list[Json] = [
        {},
        {"reasoning": {"effort": "low"}},
        {"reasoning": {"summary": "auto"}},
        {"reasoning": None},
    ]
    for settings in asked:
        updated = read({"model": "m", "input": [update], **settings}).reasoning
        assert updated is not None
        assert updated.effort == "high"


def test_an_unknown_effort_stays_in_the_extras() -> None:
    wish = read({"model": "m", "input": "x", "reasoning": {"effort": "ultra", "context": "all"}}).reasoning
    assert wish is not None
    assert wish.effort is None


@pytest.mark.parametrize(
    "extra",
    [
        {"tools": []},
        {"tools": None, "tool_choice": None, "parallel_tool_calls": None},
        {"include": []},
        {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
        {"stream": False},
        {"stream": True, "stream_options": {"include_obfuscation": False}},
        {"store": False, "background": False, "metadata": {}, "truncation": "auto"},
        {"text": {}},
        {"text": {"format": {"type": "text"}}},
        {"text": {"verbosity": "low", "of_tomorrow": 1}},
        {"text": {"format": {"type": "json_object"}, "verbosity": None}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": None}}},
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "n",
                    "schema": {"type": "object"},
                    "strict": True,
                    "description": "d",
                }
            }
        },
        {"reasoning": {}},
        {"reasoning": {"effort": None, "summary": None}},
        {"temperature": 0.2, "top_p": 1, "top_logprobs": 3, "max_output_tokens": 5},
        {"presence_penalty": 0.1, "frequency_penalty": 0.2},
        {"user": "u"},
        {"user": "u", "safety_identifier": "s"},
        {"safety_identifier": "", "prompt_cache_key": "k", "service_tier": "flex"},
        {"previous_response_id": "resp_1"},
        {"conversation": {"id": "conv_1"}, "prompt": {"id": "p"}, "client_metadata": {"a": "b"}},
    ],
)
def test_settings_are_written_as_they_were_read(extra: Json) -> None:
    read({"model": "m", "input": "Hi.", **extra})


@pytest.mark.parametrize("body", [{"model": "m"}, {"input": "x"}, {"model": "m", "input": None}, {}])
def test_what_is_absent_stays_absent(body: Json) -> None:
    read(body)


def test_settings_have_their_place_in_the_hub() -> None:
    request = read(
        {
            "model": "m",
            "input": "x",
            "stream": True,
            "max_output_tokens": 50,
            "parallel_tool_calls": False,
            "prompt_cache_key": "k",
            "safety_identifier": "s",
            "previous_response_id": "resp_1",
            "store": False,
            "include": ["message.output_text.logprobs"],
            "text": {"verbosity": "low", "format": {"type": "json_object"}},
            "metadata": {"a": "b"},
            "service_tier": "flex",
        }
    )
    assert request.stream
    assert request.logprobs
    assert (request.max_tokens, request.parallel_calls, request.cache_key) == (50, False, "k")
    assert (request.user, request.previous_response_id, request.store) == ("s", "resp_1", False)
    assert (request.verbosity, request.service_tier, request.metadata) == ("low", "flex", {"a": "b"})
    assert request.output is not None
    assert request.output.kind == "json_object"
    assert request.path_of("max_tokens") == "max_output_tokens"
    assert request.path_of("user") == "safety_identifier"


@pytest.mark.rule("H49")
def test_a_refusal_in_the_history_is_one() -> None:
    _, block = only_block({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]})
    assert isinstance(block, Refusal)


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({"model": 5}, "model", "expected a string, got a number"),
        ({"input": 5}, "input", "expected a string or an array"),
        ({"input": [5]}, "input[0]", "expected an object, got a number"),
        ({"input": [{}]}, "input[0].type", "expected a string, got nothing"),
        ({"input": [{"role": "nobody", "content": "x"}]}, "input[0].role", "expected user"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content", "expected a string or an array"),
        ({"input": [{"role": "user"}]}, "input[0].content", "expected a string or an array"),
        ({"input": [{"role": "user", "content": [5]}]}, "input[0].content[0]", "expected an object"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
            "input[0].content[0].text",
            "expected a string, got nothing",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0]",
            "expected image_url or file_id to be set",
        ),
        ({"input": [{"type": "function_call", "name": "x"}]}, "input[0].call_id", "expected a string"),
        (
            {"input": [{"type": "function_call", "call_id": "x", "arguments": ""}]},
            "input[0].name",
            "expected a string",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "x"}]},
            "input[0].output",
            "expected a string or an array",
        ),
        ({"input": [{"type": "reasoning", "summary": 5}]}, "input[0].summary", "expected an array"),
        ({"tools": [{"name": "x"}]}, "tools[0].type", "expected a string"),
        ({"tools": [{"type": "function"}]}, "tools[0].name", "expected a string"),
        ({"tools": {}}, "tools", "expected an array, got an object"),
        ({"tool_choice": "maybe"}, "tool_choice", "expected auto, none, required or an object"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name", "expected a string"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "expected text, json_object"),
        ({"include": [1]}, "include[0]", "expected a string"),
        ({"stream": "yes"}, "stream", "expected a boolean, got a string"),
    ],
)
def test_a_wrong_body_is_the_clients_error_at_its_place(body: Json, path: str, message: str) -> None:
    with pytest.raises(ClientProtocolError) as caught:
        DIALECT.read_request(body, Losses())
    assert caught.value.path == path
    assert message in caught.value.message
    assert caught.value.status == 400
