"""Reads a body of `POST /v1/messages` into a hub request.

Known fields are taken out of the body; the rest becomes the extras. The system prompt becomes the first
message, with a form that starts with `top`; the form of a `system` message starts with `inline`.
"""

from dragoman.dialects.anthropic.content_reader import ContentReader
from dragoman.dialects.anthropic.generation import read_format, read_reasoning
from dragoman.dialects.anthropic.names import NAME, build_empty_flag, read_cache
from dragoman.dialects.anthropic.tools import read_choice, read_tool
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Tool
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, Role
from dragoman.wire.fields import Fields

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}

#: The paths of hub fields that have another name in this API.
PATHS = {
    "stop": "stop_sequences",
    "reasoning": "thinking",
    "effort": "output_config.effort",
    "output": "output_config.format",
    "parallel_calls": "tool_choice.disable_parallel_tool_use",
    "user": "metadata.user_id",
    "cache": "cache_control",
}


def read_request(body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
    """Read a client's body and empty it."""
    fields = Fields(body)
    name = fields.text("model") if not model else fields.text_or("model", model)
    flags: list[str] = []
    messages = _read_messages(fields, flags)
    max_tokens = fields.integer("max_tokens")
    if max_tokens < 0:
        raise fields.error("expected an integer of at least 0", "max_tokens")
    output = fields.maybe_object("output_config")
    if output is not None and not output.rest():
        flags.append(build_empty_flag("output_config", {}))
    reasoning = read_reasoning(fields, output)
    output_format = read_format(fields, output)
    tool_choice, parallel = read_choice(fields)
    user, metadata = _read_metadata(fields)
    paths = PATHS
    if output_format is not None and output_format.form:
        paths = {**paths, "output": output_format.form}
    if reasoning is not None and reasoning.mode is None:
        paths = {**paths, "reasoning": PATHS["effort"]}
    return Request(
        dialect=NAME,
        model=name,
        messages=messages,
        tools=_read_tools(fields, flags),
        tool_choice=tool_choice,
        parallel_calls=parallel,
        stream=_read_stream(fields, flags) or stream,
        max_tokens=max_tokens,
        stop=_read_stop(fields, flags),
        temperature=fields.maybe_number("temperature"),
        top_p=fields.maybe_number("top_p"),
        top_k=fields.maybe_integer("top_k"),
        reasoning=reasoning,
        output=output_format,
        service_tier=fields.text_or("service_tier", ""),
        cache=read_cache(fields),
        user=user,
        metadata=metadata,
        paths=paths,
        form=" ".join(flags),
        extras=_collect_extras(fields, output),
    )


def _collect_extras(fields: Fields, output: Fields | None) -> Json:
    extras = fields.rest()
    if output is not None and output.rest():
        extras["output_config"] = output.rest()
    return extras


def _read_messages(fields: Fields, flags: list[str]) -> tuple[Message, ...]:
    content = ContentReader()
    messages: list[Message] = []
    system = fields.rest().get("system")
    if system == "" or system == []:
        flags.append(build_empty_flag("system", fields.raw("system")))
    elif system is not None:
        blocks, form = content.read(fields, "system")
        messages.append(Message(role="system", blocks=blocks, at="system", form=f"top {form}".strip()))
    items = fields.objects("messages")
    if not items:
        raise fields.error("expected at least one message, got an empty array", "messages")
    for item in items:
        message = _read_message(item, content)
        if message.role != "assistant":
            content.end_answer()
        messages.append(message)
    return tuple(messages)


def _read_message(message: Fields, content: ContentReader) -> Message:
    role = ROLES.get(message.text("role"))
    if role is None:
        raise message.error('expected "user", "assistant" or "system"', "role")
    blocks, form = content.read(message, "content")
    if role == "system":
        form = f"inline {form}".strip()
    return Message(role=role, blocks=blocks, at=message.path, form=form, extras=message.rest())


def _read_tools(fields: Fields, flags: list[str]) -> tuple[Tool, ...]:
    tools = fields.maybe_objects("tools")
    if tools == []:
        flags.append(build_empty_flag("tools", []))
    return tuple(read_tool(tool, tool.path) for tool in tools or ())


def _read_stream(fields: Fields, flags: list[str]) -> bool:
    stream = fields.maybe_flag("stream")
    if stream is False:
        flags.append(build_empty_flag("stream", False))
    return stream is True


def _read_stop(fields: Fields, flags: list[str]) -> tuple[str, ...]:
    texts = fields.texts("stop_sequences")
    if fields.rest().get("stop_sequences") == []:
        flags.append(build_empty_flag("stop_sequences", fields.raw("stop_sequences")))
    return texts


def _read_metadata(fields: Fields) -> tuple[str, Json | None]:
    """The id of the end user and the other metadata; an empty object is kept, unlike a missing one."""
    metadata = fields.maybe_object("metadata")
    if metadata is None:
        return "", None
    user = metadata.text_or("user_id", "")
    rest = metadata.rest()
    return user, rest if rest or not user else None
