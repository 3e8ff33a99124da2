"""Small applications on the vendors' SDKs: each leads its SDK through the loop that the script plays.

They are run by the recorder in the interpreter that has the SDKs, one at a time, by name. Each answers the
calls with the same made-up results, then asks a second question, so that the last request has a history.
"""

import asyncio
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from tools.record.clients import FIRST_PROMPT, SECOND_PROMPT
from tools.record.sdk_tools import (
    CHAT_TOOLS,
    GEMINI_TOOLS,
    MESSAGES_TOOLS,
    RESPONSES_TOOLS,
    SYSTEM,
    result_of,
)

URL = os.environ.get("RECORDING_URL", "")
KEY = "sk-recording"
PROMPTS = (FIRST_PROMPT, SECOND_PROMPT)


def anthropic_messages() -> None:
    client: Any = importlib.import_module("anthropic").Anthropic(base_url=URL, api_key=KEY)
    messages: list[Any] = []
    for prompt in PROMPTS:
        messages.append({"role": "user", "content": prompt})
        calls: list[Any] = [None]
        while calls:
            with client.messages.stream(
                model="claude-sonnet-4-5",
                max_tokens=4096,
                system=SYSTEM,
                thinking={"type": "enabled", "budget_tokens": 2048},
                tools=MESSAGES_TOOLS,
                messages=messages,
            ) as stream:
                reply = stream.get_final_message()
            messages.append({"role": "assistant", "content": reply.content})
            calls = [block for block in reply.content if block.type == "tool_use"]
            if calls:
                messages.append({"role": "user", "content": [_message_result(call) for call in calls]})


def _message_result(call: Any) -> dict[str, Any]:
    text, failed, image = result_of(call.input)
    source = {"type": "base64", "media_type": "image/png", "data": image}
    content: Any = [{"type": "image", "source": source}] if image else text
    return {"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": failed}


def openai_chat() -> None:
    client: Any = importlib.import_module("openai").OpenAI(base_url=f"{URL}/v1", api_key=KEY)
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    for prompt in PROMPTS:
        messages.append({"role": "user", "content": prompt})
        calls: list[Any] = [None]
        while calls:
            with client.chat.completions.stream(
                model="gpt-5.5",
                messages=messages,
                tools=CHAT_TOOLS,
                stream_options={"include_usage": True},
            ) as stream:
                reply = stream.get_final_completion().choices[0].message
            messages.append(reply)
            calls = reply.tool_calls or []
            for call in calls:
                text, _, _ = result_of(msgspec.json.decode(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def openai_responses() -> None:
    client: Any = importlib.import_module("openai").OpenAI(base_url=f"{URL}/v1", api_key=KEY)
    items: list[Any] = []
    for prompt in PROMPTS:
        items.append({"role": "user", "content": prompt})
        calls: list[Any] = [None]
        while calls:
            with client.responses.stream(
                model="gpt-5.5",
                instructions=SYSTEM,
                input=items,
                tools=RESPONSES_TOOLS,
                reasoning={"effort": "medium", "summary": "auto"},
                include=["reasoning.encrypted_content"],
                store=False,
            ) as stream:
                reply = stream.get_final_response()
            items += reply.output
            calls = [item for item in reply.output if item.type == "function_call"]
            items += [_response_result(call) for call in calls]


def _response_result(call: Any) -> dict[str, Any]:
    text, _, image = result_of(msgspec.json.decode(call.arguments))
    picture = [{"type": "input_image", "image_url": f"data:image/png;base64,{image}", "detail": "auto"}]
    return {"type": "function_call_output", "call_id": call.call_id, "output": picture if image else text}


def google_genai() -> None:
    genai: Any = importlib.import_module("google.genai")
    client = genai.Client(api_key=KEY, http_options={"base_url": URL})
    config = {
        "system_instruction": SYSTEM,
        "tools": GEMINI_TOOLS,
        "temperature": 0.5,
        "thinking_config": {"include_thoughts": True, "thinking_level": "high"},
    }
    contents: list[Any] = []
    for prompt in PROMPTS:
        contents.append(genai.types.UserContent(prompt))
        calls: list[Any] = [None]
        while calls:
            chunks = client.models.generate_content_stream(
                model="gemini-3-pro-preview", contents=contents, config=config
            )
            parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
            contents.append(genai.types.Content(role="model", parts=parts))
            calls = [part.function_call for part in parts if part.function_call]
            if calls:
                answers = [_gemini_result(genai, call) for call in calls]
                contents.append(genai.types.Content(role="user", parts=answers))


def _gemini_result(genai: Any, call: Any) -> Any:
    text, failed, _ = result_of(call.args)
    response = genai.types.FunctionResponse(
        id=call.id, name=call.name, response={"error" if failed else "output": text}
    )
    return genai.types.Part(function_response=response)


def _agents(model: Callable[[Any, Any], Any]) -> None:
    agents: Any = importlib.import_module("agents")
    openai: Any = importlib.import_module("openai")
    agents.set_tracing_disabled(True)

    async def read_file(path: str) -> str:
        return result_of({"path": path})[0]

    async def run(command: str) -> str:
        return result_of({"command": command})[0]

    client = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY)
    agent = agents.Agent(
        name="Reader",
        instructions=SYSTEM,
        tools=[agents.function_tool(read_file), agents.function_tool(run)],
        model=model(agents, client),
    )

    async def talk() -> None:
        history: list[Any] = []
        for prompt in PROMPTS:
            result = agents.Runner.run_streamed(agent, [*history, {"role": "user", "content": prompt}])
            async for _ in result.stream_events():
                pass
            history = result.to_input_list()

    asyncio.run(talk())


def agents_responses() -> None:
    _agents(lambda agents, client: agents.OpenAIResponsesModel(model="gpt-5.5", openai_client=client))


def agents_chat() -> None:
    _agents(lambda agents, client: agents.OpenAIChatCompletionsModel(model="gpt-5.5", openai_client=client))


def claude_agent_sdk() -> None:
    sdk: Any = importlib.import_module("claude_agent_sdk")

    async def lookup(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "The note says hello."}]}

    tool = sdk.tool("lookup", "Looks up a note by its name.", {"key": str})(lookup)
    server = sdk.create_sdk_mcp_server(name="notes", version="1.0.0", tools=[tool])
    options = sdk.ClaudeAgentOptions(
        system_prompt=SYSTEM,
        mcp_servers={"notes": server},
        allowed_tools=["Read", "mcp__notes__lookup"],
        permission_mode="bypassPermissions",
    )

    async def talk() -> None:
        async with sdk.ClaudeSDKClient(options=options) as client:
            for prompt in PROMPTS:
                await client.query(prompt)
                async for _ in client.receive_response():
                    pass

    asyncio.run(talk())


LOOPS: dict[str, Callable[[], None]] = {
    "anthropic-python": anthropic_messages,
    "openai-python-chat": openai_chat,
    "openai-python-responses": openai_responses,
    "google-genai": google_genai,
    "openai-agents-responses": agents_responses,
    "openai-agents-chat": agents_chat,
    "claude-agent-sdk": claude_agent_sdk,
}

if __name__ == "__main__":
    LOOPS[sys.argv[1]]()
