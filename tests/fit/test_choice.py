"""The client's tool choice."""

from typing import Any

import pytest

from dragoman.hub.blocks import Tool
from dragoman.hub.request import ReasoningSettings, Request, ToolChoice
from tests.fit.building import build_message, call, fitted, function, request, result

TOOLS = (function("Read"), function("Edit"))
ALL = frozenset({"auto", "required", "none", "named", "allowed"})


def choosing(choice: ToolChoice | None, *tools: Tool, **fields: Any) -> Request:
    return request(build_message("user", "Hi"), tools=tools or TOOLS, tool_choice=choice, **fields)


@pytest.mark.rule("R14")
def test_without_tools_a_choice_that_demands_nothing_goes_without_a_word() -> None:
    asked = request(build_message("user", "Hi"), tool_choice=ToolChoice(mode="auto"), parallel_calls=True)
    after, losses = fitted(asked, "openai_chat")
    assert (after.tool_choice, after.parallel_calls, losses) == (None, None, [])


@pytest.mark.rule("R14", "P40")
def test_a_demand_for_a_tool_that_was_left_out_is_a_loss() -> None:
    search = Tool(name="web_search", kind="hosted", common_name="web_search", at="tools[0]")
    after, losses = fitted(choosing(ToolChoice(mode="named", name="web_search"), search), "openai_chat")
    assert after.tool_choice is None
    assert losses[-1] == "tool_choice: there is no tool to call"


@pytest.mark.rule("R15", "C5")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
@pytest.mark.parametrize(
    "choice", [ToolChoice(mode="required"), ToolChoice(mode="named", name="Edit"), ToolChoice(mode="none")]
)
def test_a_choice_that_the_target_knows_stays(choice: ToolChoice, dialect: str) -> None:
    after, losses = fitted(choosing(choice), dialect)
    assert after.tool_choice == choice
    assert losses == []


@pytest.mark.rule("H32")
def test_tools_that_may_not_be_called_are_not_shown() -> None:
    choice = ToolChoice(mode="allowed", allowed=("Edit",), allowed_mode="required")
    after, losses = fitted(choosing(choice), "anthropic")
    assert [tool.name for tool in after.tools] == ["Edit"]
    assert after.tool_choice == ToolChoice(mode="required")
    assert losses == []


@pytest.mark.rule("H32")
def test_if_no_tool_may_be_called_none_is() -> None:
    after, _ = fitted(choosing(ToolChoice(mode="allowed", allowed=("Gone",))), "anthropic")
    assert after.tool_choice == ToolChoice(mode="none")


@pytest.mark.rule("H32")
def test_a_target_that_knows_a_list_gets_the_list() -> None:
    choice = ToolChoice(mode="allowed", allowed=("Edit",))
    assert fitted(choosing(choice), "gemini")[0].tool_choice == choice


@pytest.mark.rule("H32")
def test_a_target_that_cannot_be_forbidden_to_call_gets_no_tools() -> None:
    after, losses = fitted(choosing(ToolChoice(mode="none")), "openai_chat", choices=ALL - {"none"})
    assert (after.tools, after.tool_choice, losses) == ((), None, [])


@pytest.mark.rule("H32")
def test_unless_its_history_needs_them() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1")),
        build_message("tool", result("1")),
        tools=TOOLS,
        tool_choice=ToolChoice(mode="none"),
    )
    after, losses = fitted(asked, "anthropic", choices=ALL - {"none"})
    assert len(after.tools) == 2
    assert losses == ["tool_choice: the target cannot be forbidden to call tools"]


@pytest.mark.rule("C5")
def test_where_no_tool_can_be_named_the_named_one_is_shown_alone() -> None:
    choice = ToolChoice(mode="named", name="Edit")
    after, losses = fitted(choosing(choice), "openai_chat", choices=ALL - {"named"})
    assert [tool.name for tool in after.tools] == ["Edit"]
    assert after.tool_choice == ToolChoice(mode="required")
    assert losses == []


@pytest.mark.rule("C5")
def test_where_nothing_can_be_forced_the_loss_reports() -> None:
    after, losses = fitted(choosing(ToolChoice(mode="required")), "openai_chat", choices=frozenset({"auto"}))
    assert after.tool_choice is None
    assert losses == ["tool_choice: the target cannot be forced to call a tool"]


def test_a_server_that_knows_no_choice_at_all_is_reported_none() -> None:
    after, losses = fitted(choosing(ToolChoice(mode="auto")), "openai_chat", choices=frozenset())
    assert (after.tool_choice, losses) == (None, [])


@pytest.mark.rule("P35")
def test_a_choice_of_a_free_text_tool_names_the_function_it_became() -> None:
    tool = Tool(name="apply_patch", kind="custom")
    choice = ToolChoice(mode="named", name="apply_patch", kind="custom")
    after, _ = fitted(choosing(choice, tool), "openai_chat")
    assert after.tool_choice == ToolChoice(mode="named", name="apply_patch", kind="function")


@pytest.mark.rule("H9")
def test_a_forced_call_wins_over_reasoning_where_both_cannot_be() -> None:
    asked = choosing(ToolChoice(mode="required"), reasoning=ReasoningSettings(effort="high"))
    after, losses = fitted(asked, "anthropic")
    assert after.tool_choice == ToolChoice(mode="required")
    assert after.reasoning
    assert after.reasoning.mode == "off"
    assert losses == ["reasoning: the target does not reason when a call is forced"]


@pytest.mark.rule("H9")
def test_elsewhere_both_stay() -> None:
    asked = choosing(ToolChoice(mode="required"), reasoning=ReasoningSettings(effort="high"))
    after, losses = fitted(asked, "openai_responses")
    assert after.reasoning == ReasoningSettings(effort="high")
    assert losses == []


@pytest.mark.rule("H31", "R16")
def test_one_call_at_a_time_is_a_loss_where_it_cannot_be_written() -> None:
    after, losses = fitted(choosing(None, parallel_calls=False), "gemini")
    assert after.parallel_calls is None
    assert losses == ["parallel_calls: the target cannot be kept to one call at a time"]
    assert fitted(choosing(None, parallel_calls=True), "gemini")[1] == []
    assert fitted(choosing(None, parallel_calls=False), "anthropic")[0].parallel_calls is False
