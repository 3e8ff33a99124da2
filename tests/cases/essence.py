"""The content of a reply in any dialect: text, thoughts and calls, without ids, order or paragraphs."""

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import Reasoning, Refusal, Text, ToolCall
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from tests.sdk import anthropic_reader, gemini_reader, openai_chat_reader, openai_responses_reader

Json = dict[str, Any]


class Essence(msgspec.Struct, frozen=True):
    text: str = ""
    thoughts: str = ""
    #: Names and arguments.
    calls: tuple[tuple[str, object], ...] = ()


def agree(one: Essence, other: Essence) -> bool:
    """Whether the contents are the same. Arguments that are no object do not count."""
    return (
        one.text == other.text
        and _without_paragraphs(one.thoughts) == _without_paragraphs(other.thoughts)
        and [name for name, _ in one.calls] == [name for name, _ in other.calls]
        and all(
            mine == yours
            for (_, mine), (_, yours) in zip(one.calls, other.calls, strict=True)
            if isinstance(mine, dict) and isinstance(yours, dict)
        )
    )


def read_essence(dialect: str, stream: bytes) -> Essence:
    """The content of an upstream's stream, as the hub reads it."""
    reader = dialect_named(dialect).stream_reader(UpstreamContext(issuer=dialect, ids=IdSource("essence")))
    reply = fold([*reader.feed(stream), *reader.close()])
    blocks = reply.blocks
    return Essence(
        "".join(block.text for block in blocks if isinstance(block, Text | Refusal)),
        "".join(part for block in blocks if isinstance(block, Reasoning) for part in block.parts),
        tuple((block.name, arguments(block)) for block in blocks if isinstance(block, ToolCall)),
    )


def arguments(call: ToolCall) -> object:
    return {"input": call.arguments} if call.kind == "custom" else parsed(call.arguments)


def parsed(text: str) -> object:
    """Arguments as a value; what cannot be read is None."""
    try:
        return msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return None


def read_anthropic_stream(stream: bytes) -> Essence:
    blocks: list[Json] = _list(anthropic_reader.accumulate(stream)["content"])
    return Essence(
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        tuple((block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"),
    )


def read_chat_stream(stream: bytes) -> Essence:
    choices: list[Json] = _list(openai_chat_reader.accumulate(stream)["choices"])
    message: Json = choices[0]["message"]
    calls = [call.get("function") or call["custom"] for call in message.get("tool_calls") or ()]
    return Essence(
        (message.get("content") or "") + (message.get("refusal") or ""),
        message.get("reasoning_content") or message.get("reasoning") or "",
        tuple(
            (call["name"], parsed(call["arguments"]) if "arguments" in call else {"input": call["input"]})
            for call in calls
        ),
    )


def read_responses_stream(stream: bytes) -> Essence:
    response = openai_responses_reader.events_of(stream)[-1]["response"]
    assert isinstance(response, dict)
    items: list[Json] = _list(response["output"])
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    calls = [item for item in items if item["type"] in ("function_call", "custom_tool_call")]
    return Essence(
        "".join(part.get("text", "") + part.get("refusal", "") for part in parts),
        "".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["summary"]),
        tuple(
            (call["name"], parsed(call["arguments"]) if "arguments" in call else {"input": call["input"]})
            for call in calls
        ),
    )


def read_gemini_stream(stream: bytes) -> Essence:
    reply = gemini_reader.accumulate(stream)
    calls: list[Json] = _list(reply.get("calls"))
    return Essence(
        str(reply.get("text", "")),
        str(reply.get("thoughts", "")),
        tuple((call["name"], call["args"] or {}) for call in calls),
    )


#: What an application of each dialect receives, through the vendor's own client.
SDK_READERS: dict[str, Callable[[bytes], Essence]] = {
    "anthropic": read_anthropic_stream,
    "openai_chat": read_chat_stream,
    "openai_responses": read_responses_stream,
    "gemini": read_gemini_stream,
}


def _without_paragraphs(text: str) -> str:
    return text.replace("\n\n", "")


def _list(value: object) -> list[Json]:
    return value if isinstance(value, list) else []
