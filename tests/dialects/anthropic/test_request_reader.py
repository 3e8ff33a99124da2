"""Requests of Anthropic's clients are understood in full, or refused with the place of the mistake."""

import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import (
    AnyBlock,
    CacheMark,
    Citation,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import OutputFormat, ReasoningSettings, Request, ToolChoice
from dragoman.hub.seal import Seal
from tests.dialects.anthropic.replies import recorded_json


def body(**fields: object) -> Json:
    return {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi."}], **fields}


def read(**fields: object) -> Request:
    return DIALECT.read_request(body(**fields), Losses())


def block(value: Json, role: str = "user") -> AnyBlock:
    """The only block of a message with this content."""
    request = read(messages=[{"role": role, "content": [value]}])
    (found,) = request.messages[0].blocks
    return found


def recorded_request(name: str) -> Request:
    recording = recorded_json(name)["body"]
    assert isinstance(recording, dict)
    return DIALECT.read_request(recording, Losses())


def test_a_text_as_content_is_one_text_block() -> None:
    (message,) = read().messages
    assert message.blocks == (Text(text="Hi.", at="messages[0].content"),)
    assert (message.role, message.at, message.form) == ("user", "messages[0]", "string")


@pytest.mark.rule("R22")
def test_the_system_prompt_is_the_first_message() -> None:
    system = read(system="Be kind.").messages[0]
    assert (system.role, system.form, system.at) == ("system", "top string", "system")
    assert system.blocks == (Text(text="Be kind.", at="system"),)


@pytest.mark.rule("R22", "R23")
def test_a_system_prompt_of_blocks_keeps_them_apart() -> None:
    system = read(system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).messages[0]
    assert [b.text for b in system.blocks if isinstance(b, Text)] == ["a", "b"]
    assert [b.at for b in system.blocks] == ["system[0]", "system[1]"]


@pytest.mark.rule("R22")
@pytest.mark.parametrize("system", ["", [], None])
def test_an_empty_system_prompt_is_no_message(system: object) -> None:
    assert [message.role for message in read(system=system).messages] == ["user"]


@pytest.mark.rule("H38", "P39")
def test_system_messages_stay_where_they_stand_and_keep_what_they_carry() -> None:
    request = recorded_request("request-claude-code-tool-loop.json")
    roles = [message.role for message in request.messages]
    assert roles[0] == "system"
    assert "system" in roles[2:]
    inline = [message for message in request.messages[1:] if message.role == "system"]
    assert all(message.form.startswith("inline") for message in inline)
    assert inline[0].extras["output_config"] == {"effort": "medium"}


def test_a_cache_mark_stands_on_its_block() -> None:
    value: Json = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    found = block(value)
    assert found == Text(text="a", at="messages[0].content[0]", cache=CacheMark(ttl="1h"))


@pytest.mark.rule("R26", "R27", "R30")
def test_the_input_of_a_call_becomes_json_text_in_the_same_order() -> None:
    given = {"z": 1, "a": "é", "n": None, "f": 1.5}
    call = block({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": given}, "assistant")
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"z":1,"a":"é","n":null,"f":1.5}'
    assert (call.id, call.name) == ("toolu_1", "Read")


@pytest.mark.rule("R27")
@pytest.mark.parametrize(
    ("given", "arguments"), [('{"a": 1}', '{"a": 1}'), ("ls", '"ls"'), ("", "{}"), (None, "{}")]
)
def test_an_input_that_is_no_object_is_still_understood(given: object, arguments: str) -> None:
    call = block({"type": "tool_use", "id": "t", "name": "n", "input": given}, "assistant")
    assert isinstance(call, ToolCall)
    assert call.arguments == arguments


def result(**fields: object) -> ToolResult:
    found = block({"type": "tool_result", "tool_use_id": "toolu_1", **fields})
    assert isinstance(found, ToolResult)
    return found


@pytest.mark.rule("R35", "R43")
def test_the_content_of_a_result_may_be_a_text_or_blocks_or_nothing() -> None:
    at = "messages[0].content[0].content"
    assert result(content="ok").content == (Text(text="ok", at=at),)
    assert result(content=[{"type": "text", "text": "ok"}]).content == (Text(text="ok", at=f"{at}[0]"),)
    assert [result(content="").content, result(content=[]).content, result().content] == [(), (), ()]


@pytest.mark.rule("R39", "H21")
def test_a_result_can_be_an_error() -> None:
    assert result(content="boom", is_error=True).is_error
    assert not result(content="fine", is_error=False).is_error


@pytest.mark.rule("H20", "P38", "R36")
def test_an_image_inside_a_result_is_kept() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    (image,) = result(content=[{"type": "image", "source": source}]).content
    assert isinstance(image, Media)
    assert (image.kind, image.media_type, image.data) == ("image", "image/png", "AAAA")


@pytest.mark.rule("H25", "P29")
def test_tools_that_a_search_loaded_are_references() -> None:
    request = recorded_request("request-claude-code-tool-search.json")
    inner = [i for t in request.messages for b in t.blocks if isinstance(b, ToolResult) for i in b.content]
    references = [reference for reference in inner if isinstance(reference, ToolReference)]
    assert references
    assert {reference.name for reference in references} <= {
        tool.name for tool in request.tools if tool.deferred
    }


SOURCES: list[tuple[Json, dict[str, str]]] = [
    ({"type": "base64", "media_type": "application/pdf", "data": "JVBE"}, {"data": "JVBE"}),
    ({"type": "text", "media_type": "text/plain", "data": "words"}, {"text": "words"}),
    ({"type": "url", "url": "https://example.com/a.pdf"}, {"url": "https://example.com/a.pdf"}),
    ({"type": "file", "file_id": "file_1"}, {"file_id": "file_1"}),
    ({"type": "content", "content": "as text"}, {"text": "as text"}),
    ({"type": "content", "content": [{"type": "text", "text": "in blocks"}]}, {"text": "in blocks"}),
]


@pytest.mark.rule("R130", "H45")
@pytest.mark.parametrize(("source", "held"), SOURCES)
def test_documents_of_every_source_are_read(source: Json, held: dict[str, str]) -> None:
    found = block({"type": "document", "source": dict(source), "title": "T"})
    assert isinstance(found, Media)
    assert (found.kind, found.title) == ("document", "T")
    values = {name: getattr(found, name) for name in ("data", "text", "url", "file_id")}
    assert values == {"data": "", "text": "", "url": "", "file_id": "", **held}


def test_thinking_comes_back_with_its_signature_as_a_seal() -> None:
    found = block({"type": "thinking", "thinking": "Hm.", "signature": "sig"}, "assistant")
    assert isinstance(found, Reasoning)
    assert (found.parts, found.seal) == (("Hm.",), Seal("anthropic", "", "sig"))


def test_redacted_thinking_is_a_seal_without_text() -> None:
    found = block({"type": "redacted_thinking", "data": "opaque"}, "assistant")
    assert isinstance(found, Reasoning)
    assert (found.redacted, found.seal) == (True, Seal("anthropic", "", "opaque"))


HOSTED: list[tuple[Json, str, str]] = [
    ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}, "web_search", ""),
    (
        {"type": "server_tool_use", "id": "s", "name": "bash_code_execution", "input": {"command": "ls"}},
        "code_execution",
        "",
    ),
    ({"type": "mcp_tool_use", "id": "s", "name": "add", "server_name": "x", "input": {}}, "mcp", ""),
    (
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "s",
            "content": {
                "type": "web_fetch_result",
                "url": "u",
                "content": {"type": "document", "title": "T", "source": {"type": "text", "data": "page"}},
            },
        },
        "web_fetch",
        "u\nT\npage",
    ),
    (
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "s",
            "content": {
                "type": "code_execution_result",
                "stdout": "1\n",
                "stderr": "oops\n",
                "return_code": 2,
            },
        },
        "code_execution",
        "1\noops\nexit code 2",
    ),
    (
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "s",
            "content": {
                "type": "tool_search_tool_search_result",
                "tool_references": [{"tool_name": "a"}, {"tool_name": "b"}],
            },
        },
        "tool_search",
        "a\nb",
    ),
    (
        {
            "type": "mcp_tool_result",
            "tool_use_id": "s",
            "is_error": False,
            "content": [{"type": "text", "text": "3"}],
        },
        "mcp",
        "3",
    ),
]


@pytest.mark.rule("H28")
@pytest.mark.parametrize(("value", "common_name", "text"), HOSTED)
def test_blocks_of_server_tools_are_reported_by_family_and_readable(
    value: Json, common_name: str, text: str
) -> None:
    found = block(dict(value), "assistant")
    assert isinstance(found, HostedCall | HostedResult)
    assert found.tool == common_name
    assert isinstance(found, HostedCall) or found.text == text


def test_a_search_result_is_kept_whole_and_readable() -> None:
    value: Json = {
        "type": "search_result",
        "source": "https://e.org",
        "title": "Rain",
        "content": [{"type": "text", "text": "All day."}],
    }
    found = block(dict(value))
    assert isinstance(found, Opaque)
    assert (found.kind, found.value, found.text) == ("search_result", value, "Rain https://e.org\nAll day.")


def test_a_block_of_an_unknown_kind_is_kept_whole() -> None:
    value: Json = {"type": "hologram", "depth": 3, "cache_control": {"type": "ephemeral"}}
    assert block(dict(value)) == Opaque(kind="hologram", value=value, at="messages[0].content[0]")


def test_a_tool_defined_in_the_middle_is_a_declaration() -> None:
    definition = {"name": "late", "input_schema": {"type": "object"}}
    value: Json = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    found = block(value, "system")
    assert isinstance(found, ToolDeclarations)
    assert [tool.name for tool in found.tools] == ["late"]
    assert found.tools[0].at == "messages[0].content[0].tool.definition"


def test_a_mere_reference_to_a_tool_stays_as_it_is() -> None:
    value: Json = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "late"}}
    assert isinstance(block(value, "system"), Opaque)


@pytest.mark.rule("H48")
def test_citations_of_a_text_are_read() -> None:
    citation: Json = {
        "type": "web_search_result_location",
        "url": "https://e.org",
        "title": "E",
        "cited_text": "q",
        "encrypted_index": "x",
    }
    found = block({"type": "text", "text": "a", "citations": [citation]}, "assistant")
    assert isinstance(found, Text)
    assert found.citations == (
        Citation(
            url="https://e.org",
            title="E",
            quote="q",
            start=0,
            end=1,
            extras={"type": "web_search_result_location", "encrypted_index": "x"},
        ),
    )


def tool(**fields: object) -> Tool:
    (found,) = read(tools=[fields]).tools
    return found


@pytest.mark.rule("R11", "R12", "R13", "H37")
def test_a_custom_tool_is_a_function() -> None:
    schema: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
    found = tool(
        name="n", description="d", input_schema=dict(schema), strict=True, input_examples=[{"a": "x"}]
    )
    assert found == Tool(
        name="n",
        description="d",
        schema=schema,
        strict=True,
        at="tools[0]",
        extras={"input_examples": [{"a": "x"}]},
    )


@pytest.mark.rule("R12", "R13")
def test_a_tool_may_lack_description_and_schema() -> None:
    found = tool(name="n")
    assert (found.description, found.schema) == (None, None)


@pytest.mark.rule("H25")
def test_a_tool_may_be_deferred() -> None:
    assert tool(name="n", input_schema={}, defer_loading=True).deferred
    assert not tool(name="n", input_schema={}, defer_loading=False).deferred


TYPED = [
    ("bash_20250124", "typed", "bash"),
    ("text_editor_20250728", "typed", "text_editor"),
    ("memory_20250818", "typed", "memory"),
    ("computer_20250124", "typed", "computer"),
    ("computer_toolset_20260801", "typed", "computer_toolset"),
    ("web_search_20250305", "hosted", "web_search"),
    ("web_fetch_20260318", "hosted", "web_fetch"),
    ("code_execution_20260521", "hosted", "code_execution"),
    ("tool_search_tool_regex_20251119", "hosted", "tool_search"),
    ("tool_search_tool_bm25", "hosted", "tool_search"),
    ("mcp_toolset", "hosted", "mcp"),
    ("advisor_20260301", "hosted", "advisor"),
    ("telepathy_20300101", "hosted", "telepathy"),
]


@pytest.mark.rule("R20", "H27", "H28", "P40")
@pytest.mark.parametrize(("kind_name", "kind", "common_name"), TYPED)
def test_tools_with_a_type_have_a_common_name_without_the_date(
    kind_name: str, kind: str, common_name: str
) -> None:
    found = tool(type=kind_name, name="x")
    assert (found.kind, found.common_name, found.form) == (kind, common_name, kind_name)


CHOICES: list[tuple[Json, ToolChoice | None, bool | None]] = [
    ({"type": "auto"}, ToolChoice(mode="auto"), None),
    ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice(mode="required"), False),
    ({"type": "tool", "name": "n"}, ToolChoice(mode="named", name="n"), None),
    ({"type": "none"}, ToolChoice(mode="none"), None),
    ({"type": "auto", "disable_parallel_tool_use": False}, ToolChoice(mode="auto"), True),
    ({"type": "whim"}, None, None),
]


@pytest.mark.rule("R15", "R16", "H31", "P35")
@pytest.mark.parametrize(("given", "choice", "parallel"), CHOICES)
def test_the_choice_among_tools_is_read(
    given: Json, choice: ToolChoice | None, parallel: bool | None
) -> None:
    request = read(tool_choice=dict(given))
    assert (request.tool_choice, request.parallel_calls) == (choice, parallel)


def test_a_choice_of_unknown_type_is_kept() -> None:
    assert read(tool_choice={"type": "whim"}).extras == {"tool_choice": {"type": "whim"}}


WISHES: list[tuple[Json, ReasoningSettings]] = [
    ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, ReasoningSettings(mode="on", budget=2000)),
    ({"thinking": {"type": "disabled"}}, ReasoningSettings(mode="off")),
    (
        {"thinking": {"type": "adaptive", "display": "updates"}, "output_config": {"effort": "high"}},
        ReasoningSettings(mode="adaptive", effort="high", show=True, style="updates"),
    ),
    (
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        ReasoningSettings(mode="adaptive", show=False, style="omitted"),
    ),
    (
        {"thinking": {"type": "between_tools"}},
        ReasoningSettings(mode="adaptive", extras={"type": "between_tools"}),
    ),
    ({"output_config": {"effort": "max"}}, ReasoningSettings(effort="max")),
]


@pytest.mark.rule("R129", "H10")
@pytest.mark.parametrize(("fields", "wish"), WISHES)
def test_the_wish_to_think_is_read(fields: Json, wish: ReasoningSettings) -> None:
    assert read(**fields).reasoning == wish


@pytest.mark.rule("H57")
@pytest.mark.parametrize("name", ["output_config", "output_format"])
def test_a_schema_for_the_answer_is_read_under_its_new_and_old_name(name: str) -> None:
    schema: Json = {"type": "object"}
    output_format: Json = {"type": "json_schema", "schema": dict(schema)}
    request = read(**{name: {"format": output_format} if name == "output_config" else output_format})
    form = "" if name == "output_config" else name
    assert request.output == OutputFormat(kind="json_schema", schema=schema, form=form)
    assert request.path_of("output") == ("output_config.format" if not form else name)


@pytest.mark.rule("H68")
def test_the_end_user_is_read_from_the_metadata() -> None:
    request = read(metadata={"user_id": "u-1"})
    assert (request.user, request.metadata) == ("u-1", None)


def test_settings_are_read() -> None:
    request = read(
        stop_sequences=["END"], temperature=0.5, top_p=1, top_k=40, service_tier="auto", stream=True
    )
    assert (request.stop, request.temperature, request.top_p, request.top_k) == (("END",), 0.5, 1, 40)
    assert (request.service_tier, request.stream, request.max_tokens) == ("auto", True, 10)
    assert request.path_of("stop") == "stop_sequences"


@pytest.mark.rule("H10")
def test_an_effort_is_pointed_at_where_it_stands() -> None:
    thinking = read(thinking={"type": "adaptive"}, output_config={"effort": "max"})
    assert (thinking.path_of("reasoning"), thinking.path_of("effort")) == ("thinking", "output_config.effort")
    assert read(output_config={"effort": "max"}).path_of("reasoning") == "output_config.effort"


@pytest.mark.rule("C23")
def test_a_request_streams_only_if_it_reports_it() -> None:
    assert [read().stream, read(stream=False).stream, read(stream=True).stream] == [False, False, True]


def test_fields_that_only_anthropic_knows_are_kept() -> None:
    edits = {"edits": [{"type": "clear_thinking_20251015"}]}
    request = read(context_management=edits, container="c", speed="fast")
    assert request.extras == {"context_management": edits, "container": "c", "speed": "fast"}


MISTAKES: list[tuple[Json, str]] = [
    ({"messages": None}, "messages: expected an array, got null"),
    ({"messages": []}, "messages: expected at least one message, got an empty array"),
    ({"messages": "Hi."}, "messages: expected an array, got a string"),
    ({"messages": ["Hi."]}, "messages[0]: expected an object, got a string"),
    ({"messages": [{"content": "x"}]}, "messages[0].role: expected a string, got nothing"),
    (
        {"messages": [{"role": "tool", "content": "x"}]},
        'messages[0].role: expected "user", "assistant" or "system"',
    ),
    (
        {"messages": [{"role": "user", "content": 5}]},
        "messages[0].content: expected a string or an array of blocks, got a number",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text: expected a string, got nothing",
    ),
    (
        {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
        "messages[0].content[0].type: expected a string, got nothing",
    ),
    (
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": [1]}]}
            ]
        },
        "messages[0].content[0].input: expected an object, got an array",
    ),
    (
        {
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": 1}]}
            ]
        },
        "messages[0].content[0].content: expected a string or an array of blocks, got a number",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
        "messages[0].content[0].source: expected an object, got nothing",
    ),
    ({"max_tokens": None}, "max_tokens: expected an integer, got null"),
    ({"max_tokens": "9"}, "max_tokens: expected an integer, got a string"),
    ({"max_tokens": -1}, "max_tokens: expected an integer of at least 0"),
    ({"model": None}, "model: expected a string, got null"),
    ({"tools": [{"input_schema": {}}]}, "tools[0].name: expected a string, got nothing"),
    (
        {"tools": [{"name": "a", "input_schema": 1}]},
        "tools[0].input_schema: expected an object, got a number",
    ),
    ({"tools": {}}, "tools: expected an array, got an object"),
    ({"tool_choice": "auto"}, "tool_choice: expected an object, got a string"),
    ({"thinking": True}, "thinking: expected an object, got a boolean"),
    ({"stop_sequences": [1]}, "stop_sequences[0]: expected a string, got a number"),
    ({"stream": "yes"}, "stream: expected a boolean, got a string"),
    ({"system": 1}, "system: expected a string or an array of blocks, got a number"),
    ({"cache_control": "x"}, "cache_control: expected an object, got a string"),
    ({"metadata": []}, "metadata: expected an object, got an array"),
    ({"temperature": "hot"}, "temperature: expected a number, got a string"),
]


@pytest.mark.parametrize(("fields", "message"), MISTAKES)
def test_a_mistake_is_refused_with_its_place_and_the_types(fields: Json, message: str) -> None:
    with pytest.raises(ClientProtocolError) as refused:
        read(**fields)
    assert (str(refused.value), refused.value.status) == (message, 400)


@pytest.mark.parametrize("name", ["model", "max_tokens", "messages"])
def test_what_is_required_must_be_there(name: str) -> None:
    incomplete = body()
    del incomplete[name]
    with pytest.raises(ClientProtocolError, match=f"^{name}: expected .* got nothing$"):
        DIALECT.read_request(incomplete, Losses())


@pytest.mark.rule("R113")
def test_counting_tokens_needs_no_cap() -> None:
    incomplete = body()
    del incomplete["max_tokens"]
    assert DIALECT.read_request(DIALECT.counting.read_body(incomplete), Losses()).messages


def test_a_nested_result_is_kept_and_does_not_recurse() -> None:
    inner: Json = {"type": "tool_result", "tool_use_id": "b", "content": "x"}
    (found,) = result(content=[dict(inner)]).content
    assert isinstance(found, HostedResult | Opaque)
