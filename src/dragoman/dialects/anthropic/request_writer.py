"""Writes a hub request as a body of `POST /v1/messages`.

Leading system messages become `system`. In requests of other dialects the tool results come first in their
message, as the API requires.
"""

from collections.abc import Sequence

from dragoman.dialects.anthropic.content_writer import ContentWriter
from dragoman.dialects.anthropic.generation import write_generation
from dragoman.dialects.anthropic.names import NAME, object_of, restore_empty, write_cache
from dragoman.dialects.anthropic.tools import write_choice, write_tool
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts

ROLES = {
    "user": "user",
    "tool": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}

#: Settings that have the same name in the hub and in this API.
_PLAIN = ("temperature", "top_p", "top_k")


def write_request(request: Request, target: TargetFacts, losses: Losses) -> Json:
    """Build the body for the upstream from a request that fits the target."""
    same_dialect = request.dialect == NAME
    writer = _build_writer(request, target, losses)
    body: Json = {"model": target.model or request.model}
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    leading = _leading_system(request.messages, same_dialect=same_dialect)
    _write_system(leading, writer, losses, body, same_dialect=same_dialect)
    body["messages"] = write_messages(request, request.messages[len(leading) :], target, losses)
    tools = [write_tool(tool, losses, same_dialect=same_dialect) for tool in request.tools]
    if any(tools):
        body["tools"] = [tool for tool in tools if tool is not None]
    choice = write_choice(request, losses, same_dialect=same_dialect)
    if choice is not None:
        body["tool_choice"] = choice
    write_generation(request, losses, body)
    _write_settings(request, body, same_dialect=same_dialect)
    if same_dialect:
        _write_own(request, body)
    return body


def write_messages(
    request: Request, messages: Sequence[Message], target: TargetFacts, losses: Losses
) -> list[Json]:
    """Some messages of the request, which are no system prompt."""
    same_dialect = request.dialect == NAME
    writer = _build_writer(request, target, losses)
    written = (_write_message(message, writer, same_dialect=same_dialect) for message in messages)
    return [message for message in written if message is not None]


def _build_writer(request: Request, target: TargetFacts, losses: Losses) -> ContentWriter:
    issuers = frozenset({NAME, target.issuer})
    same_dialect = request.dialect == NAME
    return ContentWriter(losses, issuers, same_dialect=same_dialect, replays=target.replay_reasoning)


def _leading_system(messages: tuple[Message, ...], *, same_dialect: bool) -> tuple[Message, ...]:
    """The leading system messages, up to the first one that the client sent as a message."""
    for position, message in enumerate(messages):
        if ROLES[message.role] != "system" or (same_dialect and message.form.startswith("inline")):
            return messages[:position]
    return messages


def _write_system(
    messages: tuple[Message, ...], writer: ContentWriter, losses: Losses, body: Json, *, same_dialect: bool
) -> None:
    if not messages:
        return
    if same_dialect and len(messages) == 1:
        body["system"] = writer.write_content(messages[0].blocks, messages[0].form)
        return
    written = []
    for message in messages:
        for block in writer.write_blocks(message.blocks):
            if same_dialect or block["type"] == "text":
                written.append(block)
            else:
                losses.add(message.at, "Anthropic accepts only text in the system prompt")
    if len(written) == 1 and written[0].keys() == {"type", "text"}:
        body["system"] = written[0]["text"]
    elif written:
        body["system"] = written


def _write_message(message: Message, writer: ContentWriter, *, same_dialect: bool) -> Json | None:
    role = ROLES[message.role]
    if same_dialect:
        return {"role": role, "content": writer.write_content(message.blocks, message.form), **message.extras}
    blocks = message.blocks
    if role == "user":
        blocks = tuple(sorted(blocks, key=_is_after_results))
    content = writer.write_blocks(blocks)
    return {"role": role, "content": content} if content else None


def _is_after_results(block: object) -> bool:
    return not isinstance(block, ToolResult)


def _write_settings(request: Request, body: Json, *, same_dialect: bool) -> None:
    if request.stream:
        body["stream"] = True
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    for name in _PLAIN:
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    if request.service_tier:
        body["service_tier"] = request.service_tier
    if request.cache is not None:
        body["cache_control"] = write_cache(request.cache, same_dialect=same_dialect)
    metadata: Json = {"user_id": request.user} if request.user else {}
    if same_dialect and request.metadata is not None:
        body["metadata"] = {**metadata, **request.metadata}
    elif metadata:
        body["metadata"] = metadata


def _write_own(request: Request, body: Json) -> None:
    """Add the extras, which only this API understands, unless their field is already written."""
    for name, value in request.extras.items():
        if name == "output_config" and name in body:
            body[name] = {**object_of(body[name]), **object_of(value)}
        else:
            body.setdefault(name, value)
    restore_empty(request.form, body)
