"""Reads a body of `POST /toy/chat` into a hub request."""

from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import AnyBlock, Text, Tool, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, Role
from dragoman.wire.fields import Fields

ROLES: dict[str, Role] = {"system": "system", "user": "user", "model": "assistant", "tool": "tool"}
PATHS = {"max_tokens": "limit"}


def read_request(body: Json, losses: Losses, *, model: str = "", stream: bool = False) -> Request:
    fields = Fields(body)
    return Request(
        dialect="toy",
        model=model or fields.text("model"),
        messages=tuple(map(_read_line, fields.objects("lines"))),
        tools=tuple(map(_read_tool, fields.maybe_objects("tools") or ())),
        stream=fields.maybe_flag("stream") or stream,
        max_tokens=fields.maybe_integer("limit"),
        paths=PATHS,
        extras=fields.rest(),
    )


def _read_line(line: Fields) -> Message:
    role = ROLES.get(line.text("by"))
    if role is None:
        raise line.error('expected "system", "user", "model" or "tool"', "by")
    return Message(role=role, blocks=(_read_block(line, role),), at=line.path, extras=line.rest())


def _read_block(line: Fields, role: Role) -> AnyBlock:
    if role == "tool":
        content = Text(text=line.text("text"), at=line.at("text"))
        return ToolResult(call_id=line.text("of"), content=(content,), at=line.path)
    call = line.maybe_object("call")
    if call is None:
        return Text(text=line.text("text"), at=line.at("text"))
    return ToolCall(id=call.text("id"), name=call.text("tool"), arguments=call.text("input"), at=call.path)


def _read_tool(tool: Fields) -> Tool:
    schema = tool.object("schema").rest()
    return Tool(name=tool.text("tool"), description=tool.maybe_text("about"), schema=schema, at=tool.path)
