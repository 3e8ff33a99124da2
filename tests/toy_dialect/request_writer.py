"""Writes a hub request as a body of `POST /toy/chat`. What the API cannot hold is a loss."""

from collections.abc import Iterator, Sequence

from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Refusal, Text, Tool, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts
from tests.toy_dialect.request_reader import ROLES

NAMES = {role: name for name, role in ROLES.items()} | {"developer": "system"}


def write_request(request: Request, target: TargetFacts, losses: Losses) -> Json:
    extras = request.extras if request.dialect == "toy" else {}
    body: Json = {"model": target.model or request.model, **extras}
    body["lines"] = write_messages(request, request.messages, target, losses)
    if request.tools:
        body["tools"] = [_write_tool(tool) for tool in request.tools]
    if request.stream:
        body["stream"] = True
    if request.max_tokens is not None:
        body["limit"] = request.max_tokens
    return body


def write_messages(
    request: Request, messages: Sequence[Message], target: TargetFacts, losses: Losses
) -> list[Json]:
    return [line for message in messages for line in _write_message(message, losses)]


def _write_message(message: Message, losses: Losses) -> Iterator[Json]:
    for block in message.blocks:
        match block:
            case Text() | Refusal():
                yield {"by": NAMES[message.role], "text": block.text}
            case ToolCall():
                call = {"id": block.id, "tool": block.name, "input": block.arguments}
                yield {"by": "model", "call": call}
            case ToolResult():
                texts = [each.text for each in block.content if isinstance(each, Text)]
                yield {"by": "tool", "of": block.call_id, "text": "\n".join(texts)}
            case _:
                losses.add(block.at, f"the toy API has no {type(block).__name__.lower()}")


def _write_tool(tool: Tool) -> Json:
    written: Json = {"tool": tool.name, "schema": tool.schema or {"type": "object"}}
    return written if tool.description is None else {**written, "about": tool.description}
