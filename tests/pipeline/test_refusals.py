"""What the client's vendor refuses is refused in the client's dialect, for every target."""

import re

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.fit.reasoning import is_off
from dragoman.hub.blocks import Text
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.pipeline import translate_request
from tests.pipeline.asking import DIALECTS, asking, declared

Json = dict[str, object]

#: The dialect, what is added to a plain request (None: the field is left out), and the field that is wrong.
REFUSED: dict[str, tuple[str, Json, str]] = {
    "a tool without a schema": ("anthropic", {"tools": [{"name": "Read"}]}, "tools[0].input_schema"),
    "a custom tool without a schema": (
        "anthropic",
        {"tools": [{"type": "custom", "name": "Read", "description": "It."}]},
        "tools[0].input_schema",
    ),
    "a choice of no tool": ("anthropic", {"tool_choice": {"type": "tool", "name": "Read"}}, "tool_choice"),
    "a choice of another tool": (
        "anthropic",
        {"tools": declared("anthropic", ["Read"]), "tool_choice": {"type": "tool", "name": "Write"}},
        "tool_choice",
    ),
    "thinking without a budget": ("anthropic", {"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    "thinking with a small budget": (
        "anthropic",
        {"thinking": {"type": "enabled", "budget_tokens": 1_023}},
        "thinking.budget_tokens",
    ),
    "Chat: a choice of another tool": (
        "openai_chat",
        {
            "tools": declared("openai_chat", ["Read"]),
            "tool_choice": {"type": "function", "function": {"name": "Write"}},
        },
        "tool_choice",
    ),
    "Chat: an allowed tool that is not declared": (
        "openai_chat",
        {
            "tools": declared("openai_chat", ["Read"]),
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "Write"}}],
                },
            },
        },
        "tool_choice",
    ),
    "Chat: a choice of another function": (
        "openai_chat",
        {"functions": [{"name": "Read"}], "function_call": {"name": "Write"}},
        "function_call",
    ),
    "Responses: a choice of another tool": (
        "openai_responses",
        {
            "tools": declared("openai_responses", ["Read"]),
            "tool_choice": {"type": "function", "name": "Write"},
        },
        "tool_choice",
    ),
    "Responses: an allowed tool that is not declared": (
        "openai_responses",
        {
            "tools": declared("openai_responses", ["Read"]),
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "Write"}],
            },
        },
        "tool_choice",
    ),
    "no input": ("openai_responses", {"input": None, "instructions": "Be brief."}, "input"),
    "empty contents": ("gemini", {"contents": []}, "contents"),
    "a content without parts": ("gemini", {"contents": [{"role": "user"}]}, "contents[0].parts"),
    "a content with empty parts": (
        "gemini",
        {"contents": [{"role": "user", "parts": []}]},
        "contents[0].parts",
    ),
    "Gemini: a choice of another function": (
        "gemini",
        {
            "tools": declared("gemini", ["Read"]),
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["Read", "Write"]}
            },
        },
        "toolConfig.functionCallingConfig",
    ),
}

#: Requests that look similar and that the vendor accepts.
ACCEPTED: dict[str, tuple[str, Json]] = {
    "a choice of a hosted tool": (
        "anthropic",
        {
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "web_search"},
        },
    ),
    "a choice of a tool of a toolset": (
        "anthropic",
        {
            "tools": [*declared("anthropic", ["Read"]), {"type": "browser_toolset_20260801"}],
            "tool_choice": {"type": "tool", "name": "click"},
        },
    ),
    "thinking that adapts": ("anthropic", {"thinking": {"type": "adaptive"}}),
    "thinking that is off": ("anthropic", {"thinking": {"type": "disabled"}}),
    "the smallest budget": (
        "anthropic",
        {"thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 4_096},
    ),
    "Chat: a choice of a custom tool": (
        "openai_chat",
        {
            "tools": [{"type": "custom", "custom": {"name": "free"}}],
            "tool_choice": {"type": "custom", "custom": {"name": "free"}},
        },
    ),
    "a choice of a tool of an MCP server": (
        "openai_responses",
        {
            "tools": [{"type": "mcp", "server_label": "docs", "server_url": "https://example.org"}],
            "tool_choice": {"type": "mcp", "server_label": "docs", "name": "read"},
        },
    ),
    "a choice of a tool that the conversation declares": (
        "openai_responses",
        {
            "input": [
                {
                    "type": "additional_tools",
                    "role": "developer",
                    "tools": declared("openai_responses", ["exec"]),
                },
                {"role": "user", "content": "Hi"},
            ],
            "tool_choice": {"type": "function", "name": "exec"},
        },
    ),
    "an empty message of the model": (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {"role": "model", "parts": []},
                {"role": "user", "parts": [{"text": "Go on"}]},
            ]
        },
    ),
    "contents as one text": ("gemini", {"contents": "Hi"}),
}


def build(dialect: str, added: Json) -> Json:
    return {name: value for name, value in (asking(dialect) | added).items() if value is not None}


@pytest.mark.rule("F10")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("case", REFUSED)
def test_what_the_vendor_refuses_is_refused_before_it_is_translated(case: str, target: str) -> None:
    source, added, field = REFUSED[case]
    if source == target:
        # Its own server decides.
        translate_request(build(source, added), source=source, target=target, model="m")
        return
    with pytest.raises(ClientProtocolError) as caught:
        translate_request(build(source, added), source=source, target=target, model="m")
    assert caught.value.status == 400
    assert caught.value.path == field
    assert field in str(dialect_named(source).write_error(caught.value.failure))


@pytest.mark.rule("F10")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("case", ACCEPTED)
def test_what_the_vendor_accepts_is_not_refused(case: str, target: str) -> None:
    source, added = ACCEPTED[case]
    body = build(source, added)
    sent = translate_request(body, source=source, target=target, model="m")
    if source == target:
        assert {name: sent.body[name] for name in added} == added
        assert sent.losses == ()
        return
    before, after = read(source, body), read(target, sent.body)
    lost = {re.split(r"[.\[]", loss.path)[0] for loss in sent.losses}
    assert lost <= {"tools", "tool_choice"}
    assert list_user_texts(after) == list_user_texts(before)
    assert is_reasoning_off(after) == is_reasoning_off(before)
    if before.tool_choice is not None:
        is_kept = find_forced_tool(after) == find_forced_tool(before)
        assert is_kept != ("tool_choice" in lost)


def read(dialect: str, body: Json) -> Request:
    return dialect_named(dialect).read_request(
        msgspec.json.decode(msgspec.json.encode(body)), Losses(), model="m", stream=False
    )


def find_forced_tool(request: Request) -> str:
    """The tool that must be called. With one allowed tool, `required` names it."""
    choice = request.tool_choice
    return (choice.name or "".join(choice.allowed)) if choice else ""


def list_user_texts(request: Request) -> list[str]:
    messages = (message for message in request.messages if message.role == "user")
    return [block.text for message in messages for block in message.blocks if isinstance(block, Text)]


def is_reasoning_off(request: Request) -> bool:
    return request.reasoning is not None and is_off(request.reasoning)


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "gemini"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(
            "thread", {"type": "continue", "previous_message_id": "msg_1"}, marks=pytest.mark.rule("F13")
        ),
        pytest.param("safeguards", [{"type": "prompt_injection"}], marks=pytest.mark.rule("F14")),
        pytest.param("safeguards", {"type": None}, marks=pytest.mark.rule("F14")),
    ],
)
def test_what_only_the_vendor_can_do_is_refused_by_name(field: str, value: object, target: str) -> None:
    body = asking("anthropic") | {field: value}
    with pytest.raises(ClientProtocolError) as caught:
        translate_request(body, source="anthropic", target=target)
    assert (caught.value.status, caught.value.path) == (400, field)
    assert field in str(dialect_named("anthropic").write_error(caught.value.failure))
    kept = translate_request(body, source="anthropic", target="anthropic")
    assert (kept.body[field], kept.losses) == (value, ())


@pytest.mark.rule("F13")
@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "gemini"])
def test_a_new_thread_holds_its_whole_conversation_and_is_only_a_loss(target: str) -> None:
    body = asking("anthropic") | {"thread": {"type": "create"}}
    translated = translate_request(body, source="anthropic", target=target)
    assert [loss.path for loss in translated.losses] == ["thread"]


@pytest.mark.rule("F10")
@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "gemini"])
def test_an_earlier_response_is_refused_with_the_code_that_clients_know(target: str) -> None:
    body = asking("openai_responses") | {"previous_response_id": "resp_1"}
    with pytest.raises(ClientProtocolError) as caught:
        translate_request(body, source="openai_responses", target=target)
    assert caught.value.path == "previous_response_id"
    assert caught.value.code == "previous_response_not_found"
