"""Bodies of Messages requests, written short."""

from typing import Any

from dragoman.upstream.claude_code.conversation import Conversation, read_conversation

Json = dict[str, Any]


def user(*content: str | Json) -> Json:
    return {"role": "user", "content": [_block(part) for part in content]}


def claude(*content: str | Json) -> Json:
    return {"role": "assistant", "content": [_block(part) for part in content]}


def call(call_id: str, name: str = "calculate", **arguments: object) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: object = "done") -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def talk(*messages: Json, system: str = "") -> Conversation:
    return read_conversation({"messages": list(messages), "system": system})


def _block(part: str | Json) -> Json:
    return {"type": "text", "text": part} if isinstance(part, str) else part
