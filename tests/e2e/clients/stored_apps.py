"""Small agents on OpenAI's Python SDK that leave the conversation to the gateway.

Each turn sends only what is new and names the response that it continues.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import openai
from openai.types.responses import Response

from tests.e2e.clients.client import SECONDS_FOR_A_RUN, AgentTask, Client, Outcome
from tests.e2e.clients.python_apps import response_result
from tests.e2e.clients.python_tools import GRIPS, SYSTEM, functions

Say = Callable[[openai.AsyncOpenAI, dict[str, Any]], Awaitable[Response]]


async def streamed(client: openai.AsyncOpenAI, turn: dict[str, Any]) -> Response:
    async with client.responses.stream(**turn) as stream:
        return await stream.get_final_response()


async def whole(client: openai.AsyncOpenAI, turn: dict[str, Any]) -> Response:
    reply = await client.responses.create(**turn)
    assert isinstance(reply, Response)
    return reply


async def polled(client: openai.AsyncOpenAI, turn: dict[str, Any]) -> Response:
    """In the background, asked for again and again."""
    reply = await client.responses.create(**turn, background=True)
    assert isinstance(reply, Response)
    while reply.status in ("queued", "in_progress"):
        await asyncio.sleep(0.01)
        reply = await client.responses.retrieve(reply.id)
    return reply


async def resumed(client: openai.AsyncOpenAI, turn: dict[str, Any]) -> Response:
    """In the background, listened to up to a point, and from there on by another connection."""
    seen = -1
    async for event in await client.responses.create(**turn, background=True, stream=True):
        if event.type == "response.created":
            name = event.response.id
        seen = event.sequence_number
        if seen == RESUMED_AFTER:
            break
    reply: Response | None = None
    async for event in await client.responses.retrieve(name, stream=True, starting_after=seen):
        if event.sequence_number != seen + 1:
            raise ValueError(f"event {event.sequence_number} came after {seen}")
        seen = event.sequence_number
        if event.type == "response.completed":
            reply = event.response
    if reply is None:
        raise ValueError("the stream had no end")
    return reply


#: In the middle of the texts of the scenario's turns.
RESUMED_AFTER = 5


def names(response: Response) -> list[str | None]:
    return [item.id for item in response.output]


async def converse(task: AgentTask, say: Say) -> str:
    tools = [{"type": "function", "strict": True, **one} for one in functions("parameters", task.tool_prefix)]
    async with openai.AsyncOpenAI(base_url=f"{task.url}/v1", api_key=task.key, max_retries=0) as client:
        items: Any = task.prompt
        last: str | None = None
        while True:
            reply = await say(
                client,
                {
                    "model": task.model,
                    "instructions": SYSTEM,
                    "input": items,
                    "tools": tools,
                    "reasoning": {"effort": "medium", "summary": "auto"},
                    "previous_response_id": last,
                },
            )
            if reply.previous_response_id != last or not reply.to_dict()["store"]:
                raise ValueError("the response does not say what was asked for")
            kept = await client.responses.retrieve(reply.id)
            if kept.output_text != reply.output_text or names(kept) != names(reply):
                raise ValueError("the stored response is another one")
            last = reply.id
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return reply.output_text
            items = [await response_result(call, task) for call in calls]


SAYS: dict[str, Say] = {
    "stored-streamed": streamed,
    "stored-whole": whole,
    "stored-polled": polled,
    "stored-resumed": resumed,
}


async def run(client: Client, task: AgentTask) -> Outcome:
    try:
        text = await asyncio.wait_for(converse(task, SAYS[client.name]), SECONDS_FOR_A_RUN)
    except (
        openai.OpenAIError,
        OSError,
        RuntimeError,
        TimeoutError,
        ValueError,
        msgspec.MsgspecError,
    ) as failure:
        return Outcome(exit=1, text="", output=f"{type(failure).__name__}: {failure}")
    return Outcome(exit=0, text=text, output=text)


STORED_APPS = tuple(
    Client(name=name, dialect="openai_responses", model="gpt-5.5", grips=GRIPS, run=run) for name in SAYS
)
