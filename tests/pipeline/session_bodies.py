"""Bodies of generated sessions: items that only one API has, and different JSON texts of equal values.

What is done to an item depends on the item alone, so a request repeats the items of an earlier one.
"""

import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.dialects.registry import dialect_named

Json = dict[str, Any]


def _vary_anthropic(item: Json, chooser: random.Random) -> list[Json]:
    content = item["content"]
    if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
        return [{**item, "content": content[0]["text"]}] if chooser.random() < 0.3 else [item]
    return [item]


def _vary_chat(item: Json, chooser: random.Random) -> list[Json]:
    roll = chooser.random()
    if roll < 0.1 and len(item.get("tool_calls", ())) == 1:
        # The older form of calls, without ids.
        return [{"role": "assistant", "content": None, "function_call": item["tool_calls"][0]["function"]}]
    if roll < 0.05 and item["role"] == "user":
        return [{**item, "name": "someone"}]
    if roll < 0.2 and item["role"] == "assistant":
        return [{**item, "reasoning_content": "because"}]
    if roll < 0.3 and isinstance(item.get("content"), str) and item["role"] != "assistant":
        return [{**item, "content": [{"type": "text", "text": item["content"]}]}]
    return [item]


def _vary_responses(item: Json, chooser: random.Random) -> list[Json]:
    roll = chooser.random()
    if item.get("type") in ("function_call", "custom_tool_call") and roll < 0.3:
        sealed = {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbA=="}
        return [sealed, item]
    if item.get("role") == "user" and roll < 0.02:
        return [item, {"type": "configuration_update", "reasoning": {"effort": "low"}}]
    if item.get("role") == "user" and roll < 0.04:
        tool = {"type": "function", "name": "Loaded", "parameters": {"type": "object", "properties": {}}}
        return [item, {"type": "additional_tools", "role": "developer", "tools": [tool]}]
    if item.get("role") == "assistant" and roll < 0.05:
        call_id = f"shell_{chooser.randrange(4)}"
        action = {"commands": ["ls"]}
        environment = {"type": "container_reference", "container_id": "c"}
        call = {"type": "shell_call", "call_id": call_id, "action": action, "environment": environment}
        output = {"type": "shell_call_output", "call_id": call_id, "output": []}
        return [item, call, output] if roll < 0.03 else [item, call]
    if item.get("role") == "assistant" and roll < 0.1:
        return [{"type": "web_search_call", "id": "ws_1", "status": "completed"}, item]
    return [item]


def _vary_gemini(item: Json, chooser: random.Random) -> list[Json]:
    roll = chooser.random()
    parts = []
    for part in item.get("parts", ()):
        for name in ("functionCall", "functionResponse"):
            if name in part and part[name].get("name") in ("Read", "Bash"):
                # Older clients send no ids; the name of the tool decides, on both sides.
                part = {**part, name: {key: value for key, value in part[name].items() if key != "id"}}
        if "functionCall" in part and roll < 0.3:
            part = {**part, "thoughtSignature": "c2VhbA=="}
        parts.append(part)
    if item.get("role") == "model" and roll < 0.1:
        parts.insert(0, {"text": "because", "thought": True})
    return [{**item, "parts": parts}]


_VARY: dict[str, Callable[[Json, random.Random], list[Json]]] = {
    "anthropic": _vary_anthropic,
    "openai_chat": _vary_chat,
    "openai_responses": _vary_responses,
    "gemini": _vary_gemini,
}


def vary_items(body: Json, source: str, seed: int) -> None:
    """Give some items of the conversation forms that no other API has. Most sessions stay as they are."""
    member = dialect_named(source).history.conversation
    is_plain = random.Random(seed).random() < 0.6  # noqa: S311 (not for secrets)
    if is_plain or not isinstance(body[member], list):
        return
    varied: list[Json] = []
    for item in body[member]:
        chooser = random.Random(zlib.crc32(msgspec.json.encode(item)) + seed)  # noqa: S311 (not for secrets)
        varied += _VARY[source](item, chooser)
    body[member] = varied


def encode_body(body: Json, source: str, style: int) -> bytes:
    """The body as JSON. Styles have white space, escapes, or members that come twice; half have nothing."""
    if style == 4:
        return json.dumps(body).encode()
    if style == 5:
        return json.dumps(body, ensure_ascii=False, indent=1).encode()
    encoded = msgspec.json.encode(body)
    if style == 6:
        # Of equal members the last counts.
        return encoded.replace(b'{"role":', b'{"role":"assistant","role":')
    if style == 7:
        member = dialect_named(source).history.conversation.encode()
        return b'{"%b":[{"role":"user","content":"no"}],' % member + encoded[1:]
    return encoded
