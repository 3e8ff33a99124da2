"""A tool choice has the same meaning for every upstream."""

import pytest

from dragoman.pipeline import translate_request
from tests.pipeline.asking import DIALECTS, asking, body_for

Json = dict[str, object]

#: How each dialect writes each choice; the tool is `Read`.
CHOICES: dict[str, dict[str, Json]] = {
    "auto": {
        "anthropic": {"tool_choice": {"type": "auto"}},
        "openai_chat": {"tool_choice": "auto"},
        "openai_responses": {"tool_choice": "auto"},
        "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}},
    },
    "required": {
        "anthropic": {"tool_choice": {"type": "any"}},
        "openai_chat": {"tool_choice": "required"},
        "openai_responses": {"tool_choice": "required"},
        "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
    },
    "none": {
        "anthropic": {"tool_choice": {"type": "none"}},
        "openai_chat": {"tool_choice": "none"},
        "openai_responses": {"tool_choice": "none"},
        "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
    },
    "named": {
        "anthropic": {"tool_choice": {"type": "tool", "name": "Read"}},
        "openai_chat": {"tool_choice": {"type": "function", "function": {"name": "Read"}}},
        "openai_responses": {"tool_choice": {"type": "function", "name": "Read"}},
        "gemini": {
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["Read"]}}
        },
    },
}


@pytest.mark.rule("R15", "C5", "P35")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_is_written_in_the_words_of_the_target(choice: str, source: str, target: str) -> None:
    spellings = CHOICES[choice]
    body = body_for(asking(source, tools=("Read", "Edit")) | spellings[source], source, target)
    assert {key: body.get(key) for key in spellings[target]} == spellings[target]


@pytest.mark.rule("R16")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_no_choice_stays_no_choice(source: str, target: str) -> None:
    body = body_for(asking(source, tools=("Read",)), source, target)
    assert not {"tool_choice", "toolConfig", "parallel_tool_calls"} & body.keys()


@pytest.mark.rule("R14")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_without_tools_there_is_nothing_to_choose(source: str, target: str) -> None:
    if source != target:
        body = body_for(asking(source) | CHOICES["auto"][source], source, target)
        assert not {"tools", "tool_choice", "toolConfig", "parallel_tool_calls"} & body.keys()


ONE_AT_A_TIME: dict[str, Json] = {
    "anthropic": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    "openai_chat": {"parallel_tool_calls": False},
    "openai_responses": {"parallel_tool_calls": False},
}


@pytest.mark.rule("R16", "H31")
@pytest.mark.parametrize("target", ONE_AT_A_TIME)
@pytest.mark.parametrize("source", ONE_AT_A_TIME)
def test_one_call_at_a_time_is_carried_over(source: str, target: str) -> None:
    body = body_for(asking(source, tools=("Read",)) | ONE_AT_A_TIME[source], source, target)
    expected = ONE_AT_A_TIME[target]
    assert {key: body.get(key) for key in expected} == expected


@pytest.mark.rule("H31")
@pytest.mark.parametrize("source", ONE_AT_A_TIME)
def test_one_call_at_a_time_is_a_loss_for_gemini(source: str) -> None:
    request = asking(source, tools=("Read",)) | ONE_AT_A_TIME[source]
    losses = translate_request(request, source=source, target="gemini").losses
    assert any("parallel" in str(loss) for loss in losses)
