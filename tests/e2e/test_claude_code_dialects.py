"""Claude Code's sessions through the other APIs that the gateway serves: Messages, Responses and Gemini."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from tests.e2e.claude_code import MODEL, Caller, Talk
from tests.e2e.environment import Environment
from tests.e2e.upstream.script import Turn, Use

PAGE = Path(__file__).resolve().parents[2] / "docs" / "claude-code-backend.md"
SUM = (Turn(text="Let me add.", uses=(Use("calculate", "123 + 456"),)), Turn(text="The result is 579."))
SCHEMA = {
    "type": "object",
    "properties": {"expression": {"type": "string"}},
    "required": ["expression"],
}
ABOUT: Any = {"name": "calculate", "description": "Calculates."}


@pytest.fixture
def talk(environment: Environment) -> Talk:
    return Caller(environment).talk(SUM)


def _same_process(talk: Talk, before: int) -> bool:
    return talk.caller.counts()["spawned"] == before and talk.problems == []


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_through_messages(talk: Talk, streams: bool) -> None:
    history: list[Any] = [{"role": "user", "content": f"{talk.key}: add 123 and 456"}]
    tools: Any = [{**ABOUT, "input_schema": SCHEMA}]
    asked: Any = {"model": MODEL, "max_tokens": 1000, "messages": history}
    with anthropic.Anthropic(base_url=talk.caller.gateway.url, api_key="caller", max_retries=0) as client:

        def send(**more: Any) -> Any:
            if not streams:
                return client.messages.create(**asked, **more)
            with client.messages.stream(**asked, **more) as stream:
                return stream.get_final_message()

        reply = send(tools=tools)
        spawned = talk.caller.counts()["spawned"]
        call = reply.content[-1]
        assert (reply.stop_reason, reply.model, call.name) == ("tool_use", MODEL, "calculate")
        assert call.input == {"expression": "123 + 456"}
        history.append({"role": "assistant", "content": reply.content})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "579"}
        history.append({"role": "user", "content": [result]})
        answer = send()
    assert (answer.stop_reason, answer.content[-1].text) == ("end_turn", "The result is 579.")
    assert answer.usage.output_tokens > 0
    assert _same_process(talk, spawned)


def test_through_responses_with_the_id_of_the_response_before(talk: Talk) -> None:
    tools: Any = [{"type": "function", "strict": False, "parameters": SCHEMA, **ABOUT}]
    url = f"{talk.caller.gateway.url}/v1"
    with openai.OpenAI(base_url=url, api_key="caller", max_retries=0) as client:
        asked = client.responses.create(model=MODEL, input=f"{talk.key}: add 123 and 456", tools=tools)
        spawned = talk.caller.counts()["spawned"]
        call = next(item for item in asked.output if item.type == "function_call")
        assert (call.name, call.arguments) == ("calculate", '{"expression":"123 + 456"}')
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "579"}
        answered = client.responses.create(
            model=MODEL, input=[output], previous_response_id=asked.id, tools=tools
        )
    assert answered.output_text == "The result is 579."
    assert _same_process(talk, spawned)


def test_through_gemini(talk: Talk) -> None:
    options: Any = {"base_url": talk.caller.gateway.url, "timeout": 60_000}
    config: Any = {"tools": [{"function_declarations": [{**ABOUT, "parameters_json_schema": SCHEMA}]}]}
    contents: list[Any] = [genai.types.UserContent(f"{talk.key}: add 123 and 456")]
    with genai.Client(api_key="caller", http_options=options) as client:
        asked = client.models.generate_content(model=MODEL, contents=contents, config=config)
        spawned = talk.caller.counts()["spawned"]
        assert asked.function_calls is not None
        call = asked.function_calls[0]
        assert call.args == {"expression": "123 + 456"}
        assert asked.candidates is not None
        contents.append(asked.candidates[0].content)
        result = genai.types.FunctionResponse(id=call.id, name=call.name, response={"output": "579"})
        contents.append(genai.types.Content(role="user", parts=[genai.types.Part(function_response=result)]))
        answered = client.models.generate_content(model=MODEL, contents=contents, config=config)
    assert answered.text == "The result is 579."
    assert _same_process(talk, spawned)


def test_the_example_in_the_documentation_works_as_it_stands(talk: Talk) -> None:
    code = PAGE.read_text("utf-8").split("```python\n")[1].split("```")[0]
    for given, ours in (
        ("http://127.0.0.1:8484", talk.caller.gateway.url),
        ("my-claude", MODEL),
        ("What is", f"{talk.key}: what is"),
    ):
        assert given in code
        code = code.replace(given, ours)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "The result is 579.\n")
    assert talk.problems == []


@pytest.mark.parametrize("keeps_thoughts", [True, False], ids=["kept", "dropped"])
def test_a_replay_goes_on_with_thoughts_or_without(environment: Environment, keeps_thoughts: bool) -> None:
    caller = Caller(environment)
    ask = Turn(reasoning="Adding comes first.", uses=(Use("calculate", "123 + 456"),))
    talk = caller.talk([ask, SUM[1]], model="narrow")
    history: list[Any] = [{"role": "user", "content": f"{talk.key}: add 123 and 456"}]
    asked: Any = {
        "model": "narrow",
        "max_tokens": 4000,
        "messages": history,
        "tools": [{**ABOUT, "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }
    with anthropic.Anthropic(base_url=caller.gateway.url, api_key="caller", max_retries=0) as client:
        reply = client.messages.create(**asked)
        assert reply.content[0].type == "thinking"
        caller.talk([Turn(text="Thanks.")], model="narrow").say("make room")
        kept = reply.content if keeps_thoughts else reply.content[1:]
        history.append({"role": "assistant", "content": kept})
        result = {"type": "tool_result", "tool_use_id": reply.content[-1].id, "content": "579"}
        history.append({"role": "user", "content": [result]})
        answer = client.messages.create(**asked)
    assert answer.content[-1].type == "text"
    assert answer.content[-1].text == "The result is 579."
    assert ("Adding comes first." in talk.last_received) == keeps_thoughts
    assert talk.problems == []
