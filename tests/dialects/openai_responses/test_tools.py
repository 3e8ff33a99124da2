"""Tool declarations and choices: how they are read, and that they are written as they were received."""

import msgspec
import pytest

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.blocks import Tool, ToolGrammar
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice
from dragoman.providers.profile import Profile, build_target_facts
from tests.dialects.openai_responses.replies import OWN, requests

TARGET = build_target_facts(Profile(dialect=OWN), OWN)
SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string", "encrypted": True}}}


def read(**fields: object) -> Request:
    body: Json = {"model": "m", "input": "Hi.", **fields}
    request = DIALECT.read_request(msgspec.json.decode(msgspec.json.encode(body)), Losses())
    assert DIALECT.write_request(request, TARGET, Losses()) == body
    return request


def only_tool(tool: Json) -> Tool:
    (found,) = read(tools=[tool]).tools
    return found


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "name": "x"},
        {"type": "function", "name": "x", "parameters": None, "strict": None, "description": None},
        {"type": "function", "name": "x", "parameters": SCHEMA, "strict": True, "description": ""},
        {"type": "function", "name": "x", "defer_loading": True, "output_schema": {}, "async": True},
        {"type": "function", "name": "x", "defer_loading": False, "allowed_callers": ["direct"]},
        {"type": "custom", "name": "x"},
        {"type": "custom", "name": "x", "description": "d", "format": {"type": "text"}},
        {"type": "custom", "name": "x", "format": None},
        {
            "type": "custom",
            "name": "x",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/", "x": 1},
        },
        {"type": "custom", "name": "x", "format": {"type": "of_tomorrow", "x": 1}},
        {"type": "local_shell"},
        {"type": "shell", "environment": {"type": "local", "skills": []}},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "apply_patch"},
        {"type": "tool_search", "execution": "client", "description": "d", "parameters": SCHEMA},
        {"type": "tool_search"},
        {"type": "tool_search", "execution": "server", "description": None, "parameters": None},
        {"type": "web_search", "external_web_access": False, "filters": None},
        {"type": "web_search_preview_2025_03_11", "search_context_size": "low"},
        {"type": "mcp", "server_label": "n", "server_url": "https://e.org", "require_approval": "never"},
        {"type": "namespace", "name": "n", "description": "d", "tools": []},
        {"type": "of_tomorrow", "x": [1]},
    ],
)
def test_a_tool_is_written_as_it_was_read(tool: Json) -> None:
    only_tool(tool)


def test_functions_keep_schema_and_strictness() -> None:
    tool = only_tool({"type": "function", "name": "x", "parameters": SCHEMA, "strict": False})
    assert (tool.kind, tool.schema, tool.strict) == ("function", SCHEMA, False)
    assert only_tool({"type": "function", "name": "x", "strict": None}).strict is None
    assert only_tool({"type": "function", "name": "x", "defer_loading": True}).deferred


@pytest.mark.rule("H22")
def test_a_free_text_tool_has_its_grammar() -> None:
    layout = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    tool = only_tool({"type": "custom", "name": "x", "format": layout})
    assert (tool.kind, tool.grammar) == ("custom", ToolGrammar(syntax="lark", definition="start: /.+/"))


@pytest.mark.parametrize(
    ("tool", "kind", "common_name"),
    [
        ({"type": "web_search"}, "hosted", "web_search"),
        ({"type": "web_search_preview"}, "hosted", "web_search"),
        ({"type": "code_interpreter", "container": "c"}, "hosted", "code_execution"),
        ({"type": "file_search", "vector_store_ids": []}, "hosted", "file_search"),
        ({"type": "image_generation"}, "hosted", "image_generation"),
        ({"type": "computer_use_preview"}, "hosted", "computer"),
        ({"type": "mcp", "server_label": "n"}, "hosted", "mcp"),
        ({"type": "shell"}, "shell", "shell"),
        ({"type": "shell", "environment": {"type": "container_auto"}}, "hosted", "shell"),
        ({"type": "tool_search", "execution": "client"}, "tool_search", "tool_search"),
        ({"type": "tool_search"}, "hosted", "tool_search"),
    ],
)
@pytest.mark.rule("H28", "H29", "H30")
def test_tools_are_known_by_who_runs_them_and_by_common_name(tool: Json, kind: str, common_name: str) -> None:
    found = only_tool(tool)
    assert (found.kind, found.common_name) == (kind, common_name)


@pytest.mark.rule("H23", "P27")
def test_namespaces_are_taken_apart_and_put_together_again() -> None:
    function = {"type": "function", "name": "x", "strict": False}
    spaces = [
        {
            "type": "namespace",
            "name": "a",
            "description": "A.",
            "tools": [function, {**function, "name": "y"}],
        },
        {"type": "namespace", "name": "a", "description": "A again.", "tools": [function], "more": 1},
        function,
        {"type": "namespace", "name": "b", "tools": [{"type": "custom", "name": "z"}]},
    ]
    tools = read(tools=spaces).tools
    assert [(tool.namespace, tool.name) for tool in tools] == [
        ("a", "x"),
        ("a", "y"),
        ("a", "x"),
        ("", "x"),
        ("b", "z"),
    ]


@pytest.mark.rule("P27", "P28", "P29", "H24")
def test_codex_declares_its_tools_in_three_ways() -> None:
    def kinds(name: str) -> set[str]:
        request = DIALECT.read_request(requests()[f"request-codex-{name}.json"], Losses())
        return {tool.kind for tool in request.tools}

    assert kinds("local-model-tool-loop") == {"function", "hosted"}
    assert kinds("gpt-5.5-tool-loop") == {"function", "custom", "tool_search", "hosted"}
    assert kinds("gpt-6.1-sol-tool-loop") == set()


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", ToolChoice(mode="auto")),
        ("none", ToolChoice(mode="none")),
        ("required", ToolChoice(mode="required")),
        ({"type": "function", "name": "x"}, ToolChoice(mode="named", name="x", form="name")),
        (
            {"type": "function", "name": "x", "namespace": "n"},
            ToolChoice(mode="named", name="x", namespace="n", form="name"),
        ),
        ({"type": "custom", "name": "x"}, ToolChoice(mode="named", kind="custom", name="x", form="name")),
        (
            {"type": "web_search_preview"},
            ToolChoice(mode="named", kind="web_search_preview", name="web_search_preview"),
        ),
        ({"type": "apply_patch"}, ToolChoice(mode="named", kind="apply_patch", name="apply_patch")),
        (
            {"type": "mcp", "server_label": "s", "name": "x"},
            ToolChoice(mode="named", kind="mcp", name="x", form="name", extras={"server_label": "s"}),
        ),
    ],
)
@pytest.mark.rule("R15")
def test_choices_are_read_and_written_again(choice: object, expected: ToolChoice) -> None:
    assert read(tool_choice=choice).tool_choice == expected


@pytest.mark.rule("H32")
def test_allowed_tools_are_names_and_come_out_as_they_went_in() -> None:
    tools = [
        {"type": "function", "name": "x"},
        {"type": "mcp", "server_label": "s"},
        {"type": "image_generation"},
    ]
    choice = read(tool_choice={"type": "allowed_tools", "mode": "required", "tools": tools}).tool_choice
    assert choice is not None
    assert (choice.mode, choice.allowed, choice.allowed_mode) == (
        "allowed",
        ("x", "mcp", "image_generation"),
        "required",
    )


@pytest.mark.rule("P30", "H28")
def test_a_hosted_tool_of_another_vendor_becomes_ours_or_a_loss() -> None:
    tools = (
        Tool(name="web_search", kind="hosted", common_name="web_search", form="web_search_20250305"),
        Tool(name="code_execution", kind="hosted", common_name="code_execution"),
        Tool(name="memory", kind="typed", common_name="memory", at="tools[2]"),
    )
    losses = Losses()
    request = Request(dialect="anthropic", model="m", tools=tools)
    body = DIALECT.write_request(request, build_target_facts(Profile(dialect=OWN), "anthropic"), losses)
    assert body["tools"] == [
        {"type": "web_search"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
    ]
    assert [loss.path for loss in losses] == ["tools[2]"]
