"""OpenAI's SDK over a WebSocket, and Codex's own provider, which uses nothing else if it can."""

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.agent_scenario import run_scenario
from tests.e2e.clients.client import CLIENT_KEY
from tests.e2e.clients.codex import CODEX_COMPACTING, CODEX_ON_SOCKETS
from tests.e2e.clients.python_tools import GRIPS, functions
from tests.e2e.environment import Environment
from tests.e2e.upstream.reply_writers.registry import DIALECTS
from tests.e2e.upstream.script import Turn, Use

TOOLS: Any = [{"type": "function", "strict": True, **one} for one in functions("parameters")]
THINKS: Any = {"effort": "medium", "summary": "auto"}


#: The SDK opens its connection in a way that its own library wants to see no more.
@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
@pytest.mark.rule("H81")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_sdk_runs_a_tool_loop_over_one_connection(dialect: str, environment: Environment) -> None:
    conversation = environment.upstream.open(
        (
            Turn(text="I look.", reasoning="First a look.", uses=(Use("run", "ls"), Use("run", "pwd"))),
            Turn(text="There is marzipan.", reasoning="That is all."),
        ),
        GRIPS,
    )
    url = environment.gateway_to(dialect).url
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key=CLIENT_KEY, max_retries=0) as client,
        client.responses.connect() as connection,
    ):

        def say(words: Any, previous: str | None) -> Any:
            connection.response.create(
                model="gpt-5.5",
                input=words,
                tools=TOOLS,
                reasoning=THINKS,
                store=False,
                include=["reasoning.encrypted_content"],
                previous_response_id=previous,
            )
            for event in connection:
                if event.type in ("response.completed", "response.failed", "error"):
                    assert event.type == "response.completed", event
                    return event.response
            return None

        first = say(f"This is {conversation.key}. What is there?", None)
        calls = [item for item in first.output if item.type == "function_call"]
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "marzipan"} for call in calls
        ]
        second = say(results, first.id)
    assert len(calls) == 2
    assert second.output_text == "There is marzipan."
    assert conversation.refusals + conversation.problems == []


@pytest.mark.rule("H81")
def test_codex_stays_on_its_websocket(environment: Environment, tmp_path: Path) -> None:
    gateway = environment.gateway("socket", environment.config_to("openai_chat"))
    run = run_scenario(environment, CODEX_ON_SOCKETS[0], gateway.url, CLIENT_KEY, tmp_path / "home")
    closed = [line for line in gateway.log if "socket closed" in line]
    # The warm-up, and one for every turn that reached the upstream.
    assert [f"responses={1 + len(run.conversation.received)} " in line for line in closed] == [True]


#: A command with more text than the conversation before it.
LONG = "seq 1 12000"


@pytest.mark.rule("H64")
@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "openai_chat"])
def test_codex_goes_on_from_a_compacted_conversation(
    dialect: str, environment: Environment, tmp_path: Path
) -> None:
    gateway = environment.gateway_to(dialect)
    steps = (
        Turn(uses=(Use("run", LONG),)),
        Turn(text="Notes: the word was marzipan."),
        Turn(uses=(Use("run", "echo after >> trail.txt"),)),
        Turn(text="It was marzipan."),
    )
    run = run_scenario(environment, CODEX_COMPACTING, gateway.url, CLIENT_KEY, tmp_path / "home", steps=steps)
    conversation = run.conversation
    assert conversation.refusals + conversation.problems == []
    assert run.outcome.exit == 0, run.outcome.output[-500:]
    assert run.outcome.text.strip() == "It was marzipan."
    assert run.trail() == ["after"]
    assert len(conversation.turns) == len(steps)
    last = conversation.turns[-1].raw
    assert b"Notes: the word was marzipan." in last
    assert LONG.encode() not in last
