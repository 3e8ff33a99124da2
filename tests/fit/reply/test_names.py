"""Calls as the client declared their tools."""

import pytest

from dragoman.hub.blocks import Tool, ToolCall, ToolKind
from dragoman.hub.events import ArgumentsDelta
from dragoman.hub.request import Request
from tests.fit.building import build_message, call, function, request
from tests.fit.reply.running import call_block, calls_in, reply_of, stages_for, through

LONG = "mcp__" + "s" * 80 + "__read"
PATCH = Tool(name="apply_patch", kind="custom", description="Edits.")


def asking(*tools: Tool) -> Request:
    return request(build_message("user", "Hi"), tools=tools, dialect="openai_responses")


def called(asked: Request, name: str, *pieces: str, upstream: str = "openai_chat") -> ToolCall:
    events = reply_of(call_block(0, ToolCall(id="c1", name=name), *pieces), cause="tool_calls")
    (call,) = calls_in(through(stages_for(asked, upstream), events))
    return call


@pytest.mark.rule("R21", "P32")
def test_a_shortened_name_comes_back_whole() -> None:
    assert called(asking(function(LONG)), "mcp__read", "{}") == ToolCall(id="c1", name=LONG, arguments="{}")


@pytest.mark.rule("H23", "P27")
def test_a_flattened_name_comes_back_with_its_namespace() -> None:
    after = called(asking(function("add", namespace="mcp__notes")), "mcp__notes__add", '{"a":', "1}")
    assert (after.namespace, after.name, after.arguments) == ("mcp__notes", "add", '{"a":1}')


def test_an_undeclared_name_is_delivered_as_it_is() -> None:
    assert called(asking(function("Read")), "read").name == "read"


@pytest.mark.rule("H22", "P28")
def test_free_text_comes_out_of_its_wrapping_as_it_arrives() -> None:
    events = reply_of(
        call_block(0, ToolCall(id="c1", name="apply_patch"), '{"inp', 'ut":"*** Be', "gin\\n", '\\u00e9"}'),
        cause="tool_calls",
    )
    out = through(stages_for(asking(PATCH), "openai_chat"), events)
    assert [event.text for event in out if isinstance(event, ArgumentsDelta)] == ["*** Be", "gin\n", "é"]
    (call,) = calls_in(out)
    assert (call.kind, call.arguments) == ("custom", "*** Begin\né")


@pytest.mark.rule("H22")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"patch":"a\\nb"}', "a\nb"),
        ('"a\\nb"', "a\nb"),
        ("", ""),
        ('{"input":{"a":1}}', '{"input":{"a":1}}'),
        ('{"note":"x","input":"y"}', "y"),
    ],
)
def test_models_that_wrap_badly_are_taken_at_their_word(arguments: str, text: str) -> None:
    pieces = [arguments] if arguments else []
    assert called(asking(PATCH), "apply_patch", *pieces).arguments == text
    assert called(asking(PATCH), "apply_patch", *arguments).arguments == text


@pytest.mark.rule("H22")
def test_a_call_that_opens_with_its_arguments_is_unwrapped_too() -> None:
    whole = ToolCall(id="c1", name="apply_patch", arguments='{"input":"x"}')
    events = reply_of(call_block(0, whole), cause="tool_calls")
    (after,) = calls_in(through(stages_for(asking(PATCH), "openai_chat"), events))
    assert after.arguments == "x"


@pytest.mark.rule("H22")
def test_an_upstream_that_knows_free_text_sends_it_bare() -> None:
    asked = request(build_message("user", "Hi"), tools=(PATCH,), dialect="openai_chat")
    bare = ToolCall(id="c1", name="apply_patch", kind="custom")
    events = reply_of(call_block(0, bare, "*** Begin"), cause="tool_calls")
    (after,) = calls_in(through(stages_for(asked, "openai_responses"), events))
    assert (after.kind, after.arguments) == ("custom", "*** Begin")


@pytest.mark.rule("H25", "H26", "P29")
@pytest.mark.parametrize("kind", ["local_shell", "shell", "apply_patch", "tool_search"])
def test_codex_gets_calls_of_the_kind_it_declared(kind: ToolKind) -> None:
    after = called(asking(Tool(name=kind, kind=kind)), kind, '{"a":1}')
    assert (after.kind, after.name, after.arguments) == (kind, kind, '{"a":1}')


@pytest.mark.rule("H26")
def test_a_function_that_is_called_like_a_built_in_is_reported_apart() -> None:
    asked = asking(Tool(name="shell", kind="shell"), function("shell"))
    assert called(asked, "shell").kind == "shell"


@pytest.mark.rule("R21")
def test_a_tool_that_is_only_in_the_history_is_known_too() -> None:
    asked = request(
        build_message("user", "Hi"), build_message("assistant", call("1", LONG)), dialect="anthropic"
    )
    assert called(asked, "mcp__read").name == LONG
