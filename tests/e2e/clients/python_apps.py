"""Small agents on the vendors' Python SDKs: each loops until the model calls no more tools."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import anthropic
import msgspec
import openai
from google import genai

from tests.e2e.clients.client import SECONDS_FOR_A_RUN, AgentTask, Client, Outcome
from tests.e2e.clients.python_tools import GRIPS, SYSTEM, Done, functions, use

App = Callable[[AgentTask], Awaitable[str]]


async def messages(task: AgentTask) -> str:
    async with anthropic.AsyncAnthropic(base_url=task.url, api_key=task.key, max_retries=0) as client:
        history: list[Any] = [{"role": "user", "content": task.prompt}]
        while True:
            async with client.messages.stream(
                model=task.model,
                max_tokens=8192,
                system=SYSTEM,
                thinking={"type": "enabled", "budget_tokens": 2048},
                tools=_any(functions("input_schema", task.tool_prefix)),
                messages=history,
            ) as stream:
                reply = await stream.get_final_message()
            history.append({"role": "assistant", "content": reply.content})
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in reply.content if block.type == "text")
            results = [await _message_result(call, task) for call in calls]
            history.append({"role": "user", "content": results})


async def _message_result(call: Any, task: AgentTask) -> dict[str, Any]:
    done = await use(call.name, call.input, task)
    source = {"type": "base64", "media_type": "image/png", "data": done.image}
    content: Any = [{"type": "image", "source": source}] if done.image else done.text
    return {"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": done.failed}


async def chat(task: AgentTask) -> str:
    tools = [
        {"type": "function", "function": one | {"strict": True}}
        for one in functions("parameters", task.tool_prefix)
    ]
    async with openai.AsyncOpenAI(base_url=f"{task.url}/v1", api_key=task.key, max_retries=0) as client:
        history: list[Any] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": task.prompt},
        ]
        while True:
            async with client.chat.completions.stream(
                model=task.model,
                messages=history,
                tools=_any(tools),
                stream_options={"include_usage": True},
            ) as stream:
                completion = await stream.get_final_completion()
            reply = completion.choices[0].message
            history.append(reply)
            if not reply.tool_calls:
                return reply.content or ""
            pictures = []
            for call in reply.tool_calls:
                arguments = msgspec.json.decode(call.function.arguments)
                done = await use(call.function.name, arguments, task)
                history.append({"role": "tool", "tool_call_id": call.id, "content": done.text})
                pictures += _chat_picture(done)
            if pictures:
                history.append({"role": "user", "content": pictures})


def _chat_picture(done: Done) -> list[dict[str, Any]]:
    """Tool messages hold no images here, so that an application shows them afterwards."""
    url = f"data:image/png;base64,{done.image}"
    return [{"type": "image_url", "image_url": {"url": url}}] if done.image else []


async def responses(task: AgentTask) -> str:
    tools = [{"type": "function", "strict": True, **one} for one in functions("parameters", task.tool_prefix)]
    async with openai.AsyncOpenAI(base_url=f"{task.url}/v1", api_key=task.key, max_retries=0) as client:
        items: list[Any] = [{"role": "user", "content": task.prompt}]
        while True:
            async with client.responses.stream(
                model=task.model,
                instructions=SYSTEM,
                input=items,
                tools=_any(tools),
                reasoning={"effort": "medium", "summary": "auto"},
                include=["reasoning.encrypted_content"],
                store=False,
            ) as stream:
                reply = await stream.get_final_response()
            items += reply.output
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return reply.output_text
            items += [await response_result(call, task) for call in calls]


async def response_result(call: Any, task: AgentTask) -> dict[str, Any]:
    done = await use(call.name, msgspec.json.decode(call.arguments), task)
    url = f"data:image/png;base64,{done.image}"
    picture = [{"type": "input_image", "image_url": url, "detail": "auto"}]
    output: Any = picture if done.image else done.text
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


async def gemini(task: AgentTask) -> str:
    """On Google's plain client, in a thread: the one for asyncio leaves connections open when it fails."""
    loop = asyncio.get_running_loop()

    def answer(call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(_gemini_result(call, task), loop).result()

    return await asyncio.to_thread(_gemini, task, answer)


def _gemini(task: AgentTask, answer: Callable[[Any], Any]) -> str:
    options = _any({"base_url": task.url, "timeout": 30_000})
    config = {
        "system_instruction": SYSTEM,
        "tools": [{"function_declarations": functions("parameters_json_schema", task.tool_prefix)}],
        "thinking_config": {"include_thoughts": True, "thinking_level": "high"},
    }
    contents: list[Any] = [genai.types.UserContent(task.prompt)]
    with genai.Client(api_key=task.key, http_options=options) as client:
        while True:
            chunks = client.models.generate_content_stream(
                model=task.model, contents=contents, config=_any(config)
            )
            parts = [part for chunk in chunks for part in _parts(chunk)]
            contents.append(genai.types.Content(role="model", parts=parts))
            calls = [part.function_call for part in parts if part.function_call]
            if not calls:
                return "".join(part.text for part in parts if part.text and not part.thought)
            contents.append(genai.types.Content(role="user", parts=[answer(call) for call in calls]))


def _parts(chunk: Any) -> list[Any]:
    """The parts that belong into the history: an empty text is none, unless it is signed."""
    content = chunk.candidates[0].content if chunk.candidates else None
    parts = content.parts or [] if content else []
    return [part for part in parts if part.text != "" or part.thought_signature]


async def _gemini_result(call: Any, task: AgentTask) -> Any:
    done = await use(call.name, call.args, task)
    response = {"error" if done.failed else "output": done.text}
    result = genai.types.FunctionResponse(id=call.id, name=call.name, response=response)
    if done.image:
        blob = genai.types.FunctionResponseBlob(mime_type="image/png", data=_any(done.image))
        result.parts = [genai.types.FunctionResponsePart(inline_data=blob)]
    return genai.types.Part(function_response=result)


def _any(value: object) -> Any:
    """The SDKs' parameter types are closed; the applications build plain data."""
    return value


APPS: dict[str, App] = {
    "anthropic": messages,
    "openai_chat": chat,
    "openai_responses": responses,
    "gemini": gemini,
}
#: How the SDKs fail: by their own errors, and by those of what they are made of.
FAILURES = (
    anthropic.AnthropicError,
    openai.OpenAIError,
    genai.errors.APIError,
    aiohttp.ClientError,
    OSError,
    RuntimeError,
    TimeoutError,
    ValueError,
)


async def run(client: Client, task: AgentTask) -> Outcome:
    try:
        text = await asyncio.wait_for(APPS[client.dialect](task), SECONDS_FOR_A_RUN)
    except FAILURES as failure:
        return Outcome(exit=1, text="", output=f"{type(failure).__name__}: {failure}")
    return Outcome(exit=0, text=text, output=text)


def application(name: str, dialect: str, model: str, *, carries_seals: bool = True) -> Client:
    return Client(name=name, dialect=dialect, model=model, grips=GRIPS, run=run, carries_seals=carries_seals)


PYTHON_APPS = (
    application("python-anthropic", "anthropic", "some-model"),
    application("python-openai-chat", "openai_chat", "gpt-5.5", carries_seals=False),
    application("python-openai-responses", "openai_responses", "gpt-5.5"),
    application("python-google-genai", "gemini", "gemini-3-pro-preview"),
)
