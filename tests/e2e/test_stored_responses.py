"""OpenAI's SDK leaves its conversations to the gateway, which keeps them whatever happens to it."""

from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.e2e.clients.client import CLIENT_KEY
from tests.e2e.clients.python_tools import GRIPS, functions
from tests.e2e.environment import Environment
from tests.e2e.upstream.conversation import Conversation
from tests.e2e.upstream.reply_writers.registry import DIALECTS
from tests.e2e.upstream.script import Fault, Step, Turn, Use

TOOLS: Any = [{"type": "function", "strict": True, **one} for one in functions("parameters")]
THINKS: Any = {"effort": "medium", "summary": "auto"}


def client_of(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=CLIENT_KEY, max_retries=0)


def script(environment: Environment, *steps: Step) -> Conversation:
    return environment.upstream.open(steps, GRIPS)


def say(client: openai.OpenAI, words: Any, **more: Any) -> Response:
    """One streamed turn; the response of its last event."""
    events = client.responses.create(
        model="gpt-5.5", input=words, tools=TOOLS, reasoning=THINKS, stream=True, **more
    )
    *_, last = events
    response = last.response
    assert isinstance(response, Response)
    assert response.status == "completed"
    return response


def outputs_of(reply: Response, text: str) -> list[Any]:
    calls = [item for item in reply.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": call.call_id, "output": text} for call in calls]


@pytest.mark.rule("P67")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_killed_gateway_loses_no_stored_response(dialect: str, environment: Environment) -> None:
    name, config = f"killed-{dialect}", environment.config_to(dialect)
    conversation = script(
        environment,
        Turn(text="I look.", reasoning="First a look.", uses=(Use("run", "ls"),)),
        Turn(text="There is marzipan.", reasoning="That is all."),
    )
    with client_of(environment.gateway(name, config).url) as client:
        first = say(client, f"This is {conversation.key}. What is there?")
    with client_of(environment.restart(name, config).url) as client:
        assert client.responses.retrieve(first.id).to_dict()["output"] == first.to_dict()["output"]
        second = say(client, outputs_of(first, "marzipan"), previous_response_id=first.id)
        assert second.output_text == "There is marzipan."
    with client_of(environment.restart(name, config).url) as client:
        assert client.responses.retrieve(second.id).output_text == "There is marzipan."
        listed = list(client.responses.input_items.list(second.id, order="asc", limit=2))
        assert [listed[0].type, listed[-1].type] == ["message", "function_call_output"]
    assert conversation.refusals + conversation.problems == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_sdk_counts_lists_cancels_and_deletes(dialect: str, environment: Environment) -> None:
    slow = Fault(kind="silence", turn=Turn(text="This takes long."), place="text", seconds=30.0)
    conversation = script(environment, Turn(text="There is marzipan."), slow)
    with client_of(environment.gateway_to(dialect).url) as client:
        question = f"This is {conversation.key}. What is there?"
        first = say(client, question)
        counted = client.responses.input_tokens.count(
            model="gpt-5.5", input="And now?", previous_response_id=first.id
        )
        alone = client.responses.input_tokens.count(model="gpt-5.5", input="And now?")
        assert counted.input_tokens > alone.input_tokens
        (item,) = client.responses.input_items.list(first.id)
        assert item.to_dict()["content"] == [{"type": "input_text", "text": question}]
        running = client.responses.create(
            model="gpt-5.5", input="Go on.", previous_response_id=first.id, tools=TOOLS, background=True
        )
        assert running.status == "queued"
        assert client.responses.cancel(running.id).status == "cancelled"
        assert client.responses.retrieve(running.id).status == "cancelled"
        client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError) as refused:
            say(client, "And now?", previous_response_id=first.id)
        assert refused.value.code == "previous_response_not_found"
    assert conversation.refusals + conversation.problems == []


@pytest.mark.rule("H64")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_sdk_goes_on_from_a_compacted_conversation(dialect: str, environment: Environment) -> None:
    conversation = script(
        environment,
        Turn(text="There is marzipan.", reasoning="Sweet."),
        Turn(text="Notes: it was marzipan."),
        Turn(text="It was marzipan."),
    )
    with client_of(environment.gateway_to(dialect).url) as client:
        question = f"This is {conversation.key}. What is there?"
        first = say(client, question)
        compacted = client.responses.compact(
            model="gpt-5.5", previous_response_id=first.id, extra_body={"tools": TOOLS}
        )
        assert compacted.object == "response.compaction"
        assert [item.type for item in compacted.output] == ["message", "compaction"]
        assert compacted.usage.input_tokens > 0
        # The SDK takes every message in an output for one of the model.
        items: Any = [item.to_dict(warnings=False) for item in compacted.output]
        assert say(client, [*items, {"role": "user", "content": "What was it?"}]).output_text == (
            "It was marzipan."
        )
    assert b"Notes: it was marzipan." in conversation.received[-1].raw
    assert b"There is marzipan." not in conversation.received[-1].raw
    assert conversation.refusals + conversation.problems == []
