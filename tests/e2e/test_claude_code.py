"""Claude Code behind the gateway, with the caller's own tools, end to end on this machine.

The OpenAI SDK calls the gateway, which runs Claude Code, which calls another gateway, behind which is a
scripted model.
"""

import pytest

from tests.e2e.claude_code import CALCULATE, MODEL, Caller
from tests.e2e.stage import Stage
from tests.e2e.upstream.script import Turn, Use


@pytest.fixture
def caller(stage: Stage) -> Caller:
    return Caller(stage)


SUM = (Turn(uses=(Use("calculate", "123 + 456"),)), Turn(text="The result is 579."))


@pytest.mark.rule("R91", "R92", "R93", "R95", "R96", "R99", "R102", "R103", "C18")
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("follow_up", ["bare", "header", "with-tools"])
def test_a_call_and_its_result_are_one_session(caller: Caller, streams: bool, follow_up: str) -> None:
    talk = caller.talk(SUM, streams=streams)
    asked = talk.say("add 123 and 456", tools=[CALCULATE])
    assert (asked.content, asked.finish, asked.model) == (None, "tool_calls", MODEL)
    assert asked.usage.completion_tokens > 0
    assert [(call.function.name, call.function.arguments) for call in asked.calls] == [
        ("calculate", '{"expression":"123 + 456"}')
    ]
    talk.result(asked.calls[0], "579")
    answered = talk.send(
        tools=[CALCULATE] if follow_up == "with-tools" else None,
        session=asked.session if follow_up == "header" else "",
    )
    assert (answered.content, answered.finish, answered.model) == ("The result is 579.", "stop", MODEL)
    assert answered.session == asked.session
    assert '"text":"579"' in talk.last_heard
    assert talk.problems == []
