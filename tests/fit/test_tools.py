"""Tools of kinds that the target does not know, and what was called by them."""

import pytest

from dragoman.fit.client_tools import DESCRIPTIONS
from dragoman.hub.blocks import (
    Text,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolGrammar,
    ToolKind,
    ToolReference,
    ToolResult,
)
from dragoman.hub.request import Request
from tests.fit.building import (
    DIALECTS,
    FOREIGN,
    build_message,
    call,
    fitted,
    function,
    request,
    result,
    shape,
)

PATCH = Tool(
    name="apply_patch",
    kind="custom",
    description="Edits files.",
    grammar=ToolGrammar(syntax="lark", definition='start: "x"'),
    at="tools[0]",
)
STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def with_tools(*tools: Tool, dialect: str = "elsewhere") -> Request:
    return request(build_message("user", "Hi"), tools=tools, dialect=dialect)


@pytest.mark.rule("H22", "P28")
def test_a_free_text_tool_becomes_a_function_with_one_string() -> None:
    after, losses = fitted(with_tools(PATCH), "openai_chat")
    (tool,) = after.tools
    assert tool.kind == "function"
    assert tool.schema
    assert tool.schema["required"] == ["input"]
    assert tool.description
    assert tool.description.startswith("Edits files.")
    assert 'lark grammar:\nstart: "x"' in tool.description
    assert losses == []


@pytest.mark.rule("H22")
def test_free_text_in_the_history_is_wrapped_like_the_tool() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", ToolCall(id="1", name="apply_patch", kind="custom", arguments='a "b"\n')),
        build_message("tool", ToolResult(call_id="1", kind="custom", content=(Text(text="ok"),))),
        tools=(PATCH,),
    )
    after, _ = fitted(asked, "anthropic")
    wrapped, answer = after.messages[1].blocks[0], after.messages[2].blocks[0]
    assert isinstance(wrapped, ToolCall)
    assert (wrapped.kind, wrapped.arguments) == ("function", '{"input":"a \\"b\\"\\n"}')
    assert isinstance(answer, ToolResult)
    assert answer.kind == "function"


def test_a_target_with_free_text_tools_keeps_them() -> None:
    after, _ = fitted(with_tools(PATCH, dialect="openai_chat"), "openai_responses")
    assert after.tools == (PATCH,)


@pytest.mark.rule("H26", "H25", "P29")
@pytest.mark.parametrize("kind", ["local_shell", "shell", "apply_patch", "tool_search"])
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "gemini"])
def test_tools_that_codex_runs_become_functions_of_that_name(kind: ToolKind, dialect: str) -> None:
    after, losses = fitted(with_tools(Tool(name=kind, kind=kind), dialect="openai_responses"), dialect)
    (tool,) = after.tools
    assert (tool.name, tool.kind) == (kind, "function")
    assert tool.schema == DESCRIPTIONS[kind].schema
    assert tool.description
    assert losses == []


@pytest.mark.rule("H25")
def test_a_tool_search_keeps_its_own_description_and_schema() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"q": {"type": "string"}}}
    search = Tool(name="tool_search", kind="tool_search", description="Finds.", schema=schema)
    after, _ = fitted(with_tools(search, dialect="openai_responses"), "openai_chat")
    assert (after.tools[0].description, after.tools[0].schema) == ("Finds.", schema)


@pytest.mark.rule("H27", "R20")
@pytest.mark.parametrize("common_name", ["bash", "text_editor", "memory", "computer"])
@pytest.mark.parametrize("dialect", ["openai_responses", "openai_chat", "gemini"])
def test_tools_that_claude_was_trained_on_are_described_to_others(common_name: str, dialect: str) -> None:
    tool = Tool(name="its_name", kind="typed", common_name=common_name, extras={"display_width_px": 1024})
    after, _ = fitted(with_tools(tool, dialect="anthropic"), dialect)
    assert (after.tools[0].name, after.tools[0].kind) == ("its_name", "function")
    assert after.tools[0].schema == DESCRIPTIONS[common_name].schema
    assert "1024" in str(after.tools[0].description)


@pytest.mark.rule("H27")
def test_a_tool_that_nothing_is_known_about_is_left_out() -> None:
    tool = Tool(name="b", kind="typed", common_name="browser", at="tools[0]")
    after, losses = fitted(with_tools(tool, dialect="anthropic"), "openai_chat")
    assert after.tools == ()
    assert losses == ["tools[0]: no other model knows the tool 'browser'"]


@pytest.mark.rule("H28", "P30", "P40")
def test_a_tool_that_only_its_vendor_runs_is_left_out_and_the_rest_stays() -> None:
    search = Tool(name="web_search", kind="hosted", common_name="web_search", at="tools[0]")
    after, losses = fitted(with_tools(search, function("Read")), "openai_chat")
    assert [tool.name for tool in after.tools] == ["Read"]
    assert losses == ["tools[0]: the target does not run the tool 'web_search' itself"]


@pytest.mark.rule("H28")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "gemini"])
def test_a_tool_that_the_target_runs_too_is_kept(dialect: str) -> None:
    search = Tool(name="web_search", kind="hosted", common_name="web_search", at="tools[0]")
    after, losses = fitted(with_tools(search), dialect)
    assert after.tools[0].kind == "hosted"
    assert losses == []


@pytest.mark.rule("H24", "P27")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "gemini"])
def test_tools_declared_in_the_conversation_move_to_the_front(dialect: str) -> None:
    asked = request(
        build_message("developer", ToolDeclarations(tools=(function("exec", namespace="functions"),))),
        build_message("user", "Hi"),
        tools=(function("Read"),),
        dialect="openai_responses",
    )
    after, _ = fitted(asked, dialect)
    assert [tool.name for tool in after.tools] == ["Read", "functions__exec"]
    assert shape(after.messages) == [["user", "Hi"]]


@pytest.mark.rule("H24", "H25")
def test_tools_that_a_search_found_are_declared_and_the_result_shows_it() -> None:
    found = ToolDeclarations(tools=(function("add", namespace="mcp__notes", deferred=True),))
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", ToolCall(id="1", name="tool_search", kind="tool_search", arguments="{}")),
        build_message("tool", ToolResult(call_id="1", kind="tool_search", content=(found,))),
        dialect="openai_responses",
    )
    after, losses = fitted(asked, "openai_chat")
    assert [(tool.name, tool.deferred) for tool in after.tools] == [("mcp__notes__add", False)]
    assert shape(after.messages)[2] == ["tool", "result 1: Tools loaded: mcp__notes__add."]
    assert losses == []


def test_a_tool_declared_twice_is_sent_once_as_it_came_first() -> None:
    other = function("Read", description="Something else.", at="tools[1]")
    after, losses = fitted(with_tools(function("Read"), function("Read"), other), "openai_chat")
    assert [tool.description for tool in after.tools] == ["It."]
    assert losses == ["tools[1]: another tool of this name was declared before"]


@pytest.mark.rule("H25")
def test_deferred_tools_are_sent_at_once_and_the_placeholder_is_not() -> None:
    placeholder = function("DeferredToolPlaceholder", deferred=True)
    after, losses = fitted(with_tools(placeholder, function("Late", deferred=True)), "openai_chat")
    assert [(tool.name, tool.deferred) for tool in after.tools] == [("Late", False)]
    assert losses == []


@pytest.mark.rule("H25")
def test_a_reference_to_a_loaded_tool_becomes_text() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1")),
        build_message("user", result("1", ToolReference(name="Late"))),
        dialect="anthropic",
    )
    after, _ = fitted(asked, "openai_chat")
    assert shape(after.messages)[2] == ["tool", "result 1: Tool Late is loaded."]


@pytest.mark.rule("H33", "P34")
def test_strict_stays_where_the_schema_already_is_strict() -> None:
    after, losses = fitted(with_tools(function("a", strict=True, schema=STRICT)), "openai_chat")
    assert after.tools[0].strict is True
    assert losses == []


@pytest.mark.rule("H33", "F6")
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_a_strict_tool_keeps_strict_where_closing_its_objects_makes_it_legal(
    source: str, target: str
) -> None:
    inner = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": inner}, "c": {"$ref": "#/$defs/C"}},
        "required": ["a", "c"],
        "$defs": {"C": inner},
    }
    tool = function("a", strict=True, schema=schema)
    after, losses = fitted(with_tools(tool, dialect=source), target)
    if target == "gemini":
        assert losses == ["tool a.strict: the target has no strict tools"]
        return
    closed = {**inner, "additionalProperties": False}
    assert after.tools[0].strict is True
    assert after.tools[0].schema == {
        **schema,
        "properties": {"a": {"type": "array", "items": closed}, "c": {"$ref": "#/$defs/C"}},
        "$defs": {"C": closed},
        "additionalProperties": False,
    }
    assert losses == []


@pytest.mark.rule("F6")
@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_a_strict_tool_without_parameters_stays_strict(schema: dict[str, object] | None) -> None:
    after, losses = fitted(with_tools(function("a", strict=True, schema=schema)), "openai_responses")
    assert after.tools[0].strict is True
    assert after.tools[0].schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert losses == []


@pytest.mark.rule("F6", "H33")
@pytest.mark.parametrize(
    "member",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"b": {}}, "required": ["b"], "additionalProperties": True},
        {"type": "object", "properties": {"b": {}}},
        {"allOf": [{"type": "object", "properties": {"b": {}}, "required": ["b"]}]},
        {
            "type": "object",
            "properties": {"b": {}},
            "required": ["b"],
            "anyOf": [{"type": "object", "properties": {"c": {}}, "required": ["c"]}],
        },
    ],
)
def test_strict_goes_where_closing_would_change_what_the_tool_accepts(member: dict[str, object]) -> None:
    schema = {**STRICT, "properties": {"a": member}}
    del schema["additionalProperties"]
    after, losses = fitted(with_tools(function("a", strict=True, schema=schema)), "openai_responses")
    assert after.tools[0].strict is False
    assert losses == ["tool a.strict: the schema leaves too much open"]


@pytest.mark.rule("R19", "F6")
def test_a_tool_that_is_not_strict_is_not_closed() -> None:
    schema = {name: value for name, value in STRICT.items() if name != "additionalProperties"}
    after, _ = fitted(with_tools(function("a", schema=schema)), "openai_responses")
    assert (after.tools[0].schema, after.tools[0].strict) == (schema, False)


@pytest.mark.rule("H33", "P34")
def test_strict_goes_where_it_would_make_optional_members_required() -> None:
    schema = {**STRICT, "required": []}
    after, losses = fitted(with_tools(function("a", strict=True, schema=schema)), "openai_chat")
    assert after.tools[0].strict is None
    assert after.tools[0].schema == schema
    assert losses == ["tool a.strict: the schema leaves too much open"]


@pytest.mark.rule("H33")
def test_strict_goes_where_the_target_has_no_such_thing() -> None:
    after, losses = fitted(with_tools(function("a", strict=True, schema=STRICT)), "gemini")
    assert after.tools[0].strict is None
    assert losses == ["tool a.strict: the target has no strict tools"]


@pytest.mark.rule("H33", "R19")
def test_a_target_that_is_strict_by_itself_is_reported_not_to_be() -> None:
    after, _ = fitted(with_tools(function("a")), "openai_responses")
    assert after.tools[0].strict is False


@pytest.mark.rule("R13")
@pytest.mark.parametrize(("dialect", "expected"), [("openai_chat", ""), ("gemini", ""), ("anthropic", None)])
def test_a_missing_description_is_as_empty_as_the_target_wants_it(dialect: str, expected: str | None) -> None:
    for given in (None, ""):
        after, _ = fitted(with_tools(function("a", description=given)), dialect)
        assert after.tools[0].description == expected


@pytest.mark.rule("H32")
def test_a_history_of_calls_without_tools_gets_stand_ins_where_tools_are_demanded() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1")),
        build_message("tool", result("1")),
        build_message("user", "Sum up"),
    )
    after, _ = fitted(asked, "anthropic")
    assert [tool.name for tool in after.tools] == ["Read"]
    assert after.tool_choice
    assert after.tool_choice.mode == "none"
    assert fitted(asked, "openai_chat")[0].tools == ()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_at_home_no_tool_is_touched(dialect: str) -> None:
    tools = (
        PATCH,
        Tool(name="shell", kind="shell"),
        Tool(name="bash", kind="typed", common_name="bash"),
        Tool(name="x", kind="hosted", common_name="anything"),
        function("a", namespace="n", deferred=True, strict=True, description=None, schema=None),
    )
    asked = with_tools(*tools, dialect=dialect)
    assert fitted(asked, dialect)[0] is asked


@pytest.mark.rule("H22")
def test_at_home_an_old_server_that_knows_functions_alone_gets_functions_alone() -> None:
    asked = with_tools(PATCH, Tool(name="", kind="local_shell"), dialect="openai_responses")
    after, _ = fitted(asked, "openai_responses", custom_tools=False, client_tools=False)
    assert [(tool.name, tool.kind) for tool in after.tools] == [
        ("apply_patch", "function"),
        ("local_shell", "function"),
    ]
