"""Tool names at the target, and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.fit.names import build_name_map, is_legal_name
from dragoman.hub.blocks import Tool, ToolCall, ToolReference, ToolResult
from dragoman.hub.errors import ConfigError
from dragoman.hub.request import Message, ToolChoice
from tests.fit.building import (
    DIALECTS,
    build_message,
    call,
    fitted,
    function,
    request,
    result,
    target_for,
)

LONG = "mcp__" + "a_server_with_a_very_long_name_" * 3 + "__read"


def names_at(dialect: str, *tools: Tool) -> list[str]:
    after, _ = fitted(request(build_message("user", "Hi"), tools=tools), dialect)
    return [tool.name for tool in after.tools]


@pytest.mark.rule("R21")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_legal_name_stays(dialect: str) -> None:
    assert names_at(dialect, function("Read"), function("mcp__notes__add")) == ["Read", "mcp__notes__add"]


@pytest.mark.rule("R21", "P32")
def test_a_long_mcp_name_loses_its_server() -> None:
    assert names_at("openai_chat", function(LONG)) == ["mcp__read"]


@pytest.mark.rule("R21", "H15")
def test_two_long_mcp_names_that_end_alike_are_cut_and_hashed() -> None:
    other = LONG.replace("a_server", "b_server")
    first, second = names_at("openai_chat", function(LONG), function(other))
    assert first != second
    assert first.startswith("mcp__a_server")
    assert len(first) == len(second) == 64


@pytest.mark.rule("H15")
def test_a_shortened_name_does_not_take_the_name_of_another_tool() -> None:
    first, second = names_at("openai_chat", function(LONG), function("mcp__read"))
    assert second == "mcp__read"
    assert first != "mcp__read"


@pytest.mark.rule("F7", "H15")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses"])
def test_characters_that_the_target_refuses_are_replaced_and_the_name_stays_readable(dialect: str) -> None:
    assert names_at(dialect, function("files.read"), function("Read file")) == ["files_read", "Read_file"]


@pytest.mark.rule("F7", "H23", "P27")
@pytest.mark.parametrize(
    ("namespace", "name", "flat"),
    [
        ("repo", "repo.log", "repo__log"),
        ("repo", "repo_log", "repo__log"),
        ("repo", "repo-log", "repo__log"),
        ("repo", "repo/log.all", "repo__log_all"),
        ("repo", "repo__log", "repo__log"),
        ("mcp__repo", "repo.log", "mcp__repo__log"),
        ("mcp__repo__", "repo.log", "mcp__repo__log"),
        ("repo", "repository", "repo__repository"),
        ("repo", "repo", "repo__repo"),
        ("repo", "repo.", "repo__repo_"),
    ],
)
def test_a_namespace_is_not_repeated(namespace: str, name: str, flat: str) -> None:
    for dialect in ("anthropic", "openai_chat"):
        assert names_at(dialect, function(name, namespace=namespace)) == [flat]


@pytest.mark.rule("F7", "H23")
def test_tools_whose_readable_names_are_equal_stay_apart() -> None:
    tools = (function("repo.log", namespace="repo"), function("log", namespace="repo"))
    first, second = names_at("openai_chat", *tools)
    assert first == "repo__log"
    assert second.startswith("repo__log_")


@pytest.mark.rule("H15")
def test_characters_that_the_target_refuses_are_replaced_and_reported_apart_by_a_hash() -> None:
    first, second = names_at("openai_chat", function("files.read"), function("files:read"))
    assert first.startswith("files_read_")
    assert second.startswith("files_read_")
    assert first != second


@pytest.mark.rule("H15")
def test_gemini_takes_dots_and_colons_but_no_digit_first() -> None:
    first, second = names_at("gemini", function("files.read"), function("3d"))
    assert first == "files.read"
    assert second == "_3d"


@pytest.mark.rule("H23", "P27")
def test_namespaces_become_prefixes() -> None:
    tools = (
        function("exec", namespace="functions"),
        function("add", namespace="mcp__notes"),
        function("mcp__notes__list", namespace="mcp__notes"),
    )
    assert names_at("openai_chat", *tools) == ["functions__exec", "mcp__notes__add", "mcp__notes__list"]


@pytest.mark.rule("H15", "H23")
def test_a_flattened_name_does_not_meet_one_that_was_flat() -> None:
    flat, nested = names_at("openai_chat", function("a__b"), function("b", namespace="a"))
    assert flat == "a__b"
    assert nested.startswith("a__b_")


@pytest.mark.rule("R21", "P32", "P35", "H15")
def test_calls_results_references_and_choices_follow_the_tools() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1", LONG)),
        build_message("tool", ToolResult(call_id="1", name=LONG, content=(ToolReference(name=LONG),))),
        tools=(function(LONG),),
        tool_choice=ToolChoice(mode="named", name=LONG),
    )
    after, _ = fitted(asked, "openai_responses")
    assert [
        block.name for each in after.messages for block in each.blocks if isinstance(block, ToolCall)
    ] == ["mcp__read"]
    (answer,) = after.messages[2].blocks
    assert isinstance(answer, ToolResult)
    assert answer.name == "mcp__read"
    assert "Tool mcp__read is loaded." in str(answer.content)
    assert after.tool_choice
    assert after.tool_choice.name == "mcp__read"


@pytest.mark.rule("P35")
def test_allowed_tools_follow_too() -> None:
    choice = ToolChoice(mode="allowed", allowed=("a.b",))
    after, _ = fitted(
        request(build_message("user", "Hi"), tools=(function("a.b"),), tool_choice=choice), "openai_responses"
    )
    assert after.tool_choice
    assert after.tool_choice.allowed == (after.tools[0].name,)


@pytest.mark.rule("R21")
def test_a_call_of_a_tool_that_is_gone_keeps_the_name_it_had_at_the_target() -> None:
    history = (
        build_message("user", "Hi"),
        build_message("assistant", call("1", "a.b")),
        build_message("tool", result("1", "ok")),
    )
    before, _ = fitted(request(*history, tools=(function("a.b"),)), "openai_chat")
    after, _ = fitted(request(*history, tools=()), "openai_chat")
    assert before.messages == after.messages


@pytest.mark.rule("H15")
def test_a_call_that_is_named_like_a_hosted_tool_gets_a_legal_name_too() -> None:
    hosted = Tool(name="a.b", kind="hosted")
    asked = request(
        build_message("assistant", call("1", "a.b")), build_message("tool", result("1")), tools=(hosted,)
    )
    target = target_for("openai_chat")
    assert is_legal_name(build_name_map(asked, target).find("function", "", "a.b")[1], target)


@pytest.mark.rule("H23")
def test_a_call_that_leaves_the_namespace_out_is_known_by_its_declaration() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1", "exec")),
        build_message("tool", result("1", "ok")),
        tools=(function("exec", namespace="functions"),),
    )
    after, _ = fitted(asked, "openai_chat")
    assert isinstance(after.messages[1].blocks[0], ToolCall)
    assert after.messages[1].blocks[0].name == "functions__exec"


def test_a_target_with_namespaces_keeps_them() -> None:
    after, _ = fitted(
        request(build_message("user", "Hi"), tools=(function("exec", namespace="functions"),)),
        "openai_responses",
    )
    assert (after.tools[0].namespace, after.tools[0].name) == ("functions", "exec")


def test_a_limit_that_leaves_no_room_is_the_configurations_fault() -> None:
    with pytest.raises(ConfigError):
        fitted(
            request(build_message("user", "Hi"), tools=(function("a" * 20),)),
            "openai_chat",
            tool_name_limit=4,
        )


any_name = st.one_of(
    st.text(st.sampled_from("ab_.:-/ é9"), max_size=8),
    st.sampled_from([LONG, LONG + "2", "mcp__read", "a__b", "shell", "", "x" * 200]),
)
any_tool = st.builds(
    Tool,
    name=any_name,
    namespace=st.sampled_from(["", "", "a", "mcp__s", "a.b"]),
    kind=st.sampled_from(["function", "custom", "shell", "local_shell"]),
)


@pytest.mark.rule("H15", "H23", "R21")
@settings(max_examples=100)
@given(st.lists(any_tool, max_size=8), st.sampled_from(DIALECTS))
def test_names_are_legal_and_different_and_lead_back(tools: list[Tool], dialect: str) -> None:
    target = target_for(dialect)
    mapping = build_name_map(request(tools=tuple(tools)), target)
    places = {mapping.find(tool.kind, tool.namespace, tool.name) for tool in tools}
    identities = {
        (tool.kind,) if tool.kind in ("shell", "local_shell") else (tool.namespace, tool.name)
        for tool in tools
    }
    assert len(places) == len(identities)
    for tool in tools:
        wire = mapping.find(tool.kind, tool.namespace, tool.name)
        assert is_legal_name(wire[1], target)
        known = mapping.client_names[wire]
        if tool.kind in ("function", "custom"):
            assert (known.namespace, known.name) == (tool.namespace, tool.name)


@pytest.mark.rule("H26")
def test_at_home_built_in_tools_keep_their_names_whatever_the_limit() -> None:
    shell = Tool(name="local_shell", kind="local_shell")
    used = ToolCall(id="1", name="local_shell", kind="local_shell", arguments="{}")
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", used),
        build_message("tool", result("1")),
        tools=(shell, function("a" * 30)),
        dialect="openai_responses",
    )
    after, _ = fitted(asked, "openai_responses", tool_name_limit=20)
    assert [len(tool.name) for tool in after.tools] == [11, 20]
    assert after.tools[0] is shell
    assert after.messages[1].blocks == (used,)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses"])
def test_a_later_call_of_an_undeclared_tool_changes_no_earlier_name(dialect: str) -> None:
    history = [build_message("user", "Hi"), build_message("assistant", call("1", "a.b"))]
    later = [build_message("user", result("1")), build_message("assistant", call("2", "a_b"))]

    def names(*messages: Message) -> list[str]:
        after, _ = fitted(request(*messages, tools=(function("x.y"),)), dialect)
        calls = [block for message in after.messages for block in message.blocks]
        return [each.name for each in (*after.tools, *calls) if isinstance(each, Tool | ToolCall)]

    before, after = names(*history), names(*history, *later)
    assert before == ["x_y", "a_b"]
    assert after[:2] == before
    assert len({*after}) == 3
