"""`contract`: describes the tools in the system text, for models without function calling.

The model writes calls in the format that the harvest reads (`settings.CONTRACT_FAMILY`), and gets its earlier
calls and their results in the same format. This is the only feature that adds text to a conversation.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from dragoman.hub.blocks import AnyBlock, Text, Tool, ToolCall, ToolResult
from dragoman.hub.request import Message, Request, ToolChoice
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import parse_object

CALL = ("<tool_call>", "</tool_call>")
RESULT = ("<tool_response>", "</tool_response>")
#: The member that holds the text of a free-text call.
FREE_TEXT = "input"

replace = msgspec.structs.replace

_SYSTEM_ROLES = ("system", "developer")
_EXAMPLE = '{"name": "the tool\'s name", "arguments": {"an argument": "its value"}}'
_INTRODUCTION = f"""# Tools

You can use tools. Each line below describes one as JSON: its name, what it does, a schema of its arguments.

{{tools}}

To use a tool, write its call in your reply exactly like this, outside of any code block:

{CALL[0]}
{_EXAMPLE}
{CALL[1]}

The arguments are one JSON object that fits the schema. Several calls may follow one another. After them,
stop: the results come in the next message, each in a {RESULT[0]} block. Never write such a block yourself,
and never describe a call instead of writing it. When no tool is needed, just answer."""


def apply_text_contract(request: Request) -> Request:
    """A fitted request with its functions described as text. Tools of other kinds stay declared."""
    functions = tuple(tool for tool in request.tools if tool.kind == "function")
    has_history = any(
        isinstance(b, ToolCall | ToolResult) for message in request.messages for b in message.blocks
    )
    if not functions and not has_history:
        return request
    offered = tuple(_find_offered(functions, request.tool_choice))
    messages = _write_messages(request.messages)
    if offered:
        messages = _add_system_text(messages, write_contract(offered, request))
    others = tuple(tool for tool in request.tools if tool.kind != "function")
    return replace(
        request,
        messages=messages,
        tools=others,
        tool_choice=_choose_among(others, request.tool_choice),
        parallel_calls=request.parallel_calls if others else None,
    )


def write_contract(tools: Iterable[Tool], request: Request) -> str:
    """The text for the model. It depends only on the tools and the choice, so prompt caches stay valid."""
    lines = "\n".join(_describe(tool) for tool in tools)
    paragraphs = [_INTRODUCTION.replace("{tools}", lines)]
    chosen = request.tool_choice
    if chosen is not None and chosen.mode == "named":
        paragraphs.append(f"In this reply you must call the tool {chosen.name}.")
    elif chosen is not None and _is_forced(chosen):
        paragraphs.append("In this reply you must call at least one tool.")
    if request.parallel_calls is False:
        paragraphs.append("Write no more than one call in a reply.")
    return "\n\n".join(paragraphs)


def _is_forced(chosen: ToolChoice) -> bool:
    return chosen.mode == "required" or (chosen.mode == "allowed" and chosen.allowed_mode == "required")


def _find_offered(tools: Iterable[Tool], chosen: ToolChoice | None) -> Iterator[Tool]:
    if chosen is not None and chosen.mode == "none":
        return
    for tool in tools:
        if chosen is None or chosen.mode != "allowed" or tool.name in chosen.allowed:
            yield tool


def _choose_among(tools: tuple[Tool, ...], chosen: ToolChoice | None) -> ToolChoice | None:
    """The choice for the tools that stay declared. Vendors refuse a choice that names any other tool.

    A choice that forces a call is left out: the contract states it, and a tool of the vendor must not be
    forced in place of a function.
    """
    if chosen is None or not tools or chosen.mode == "required":
        return None
    names = {tool.name for tool in tools}
    if chosen.mode == "named":
        return chosen if chosen.name in names else None
    if chosen.mode != "allowed":
        return chosen
    allowed = tuple(name for name in chosen.allowed if name in names)
    if not allowed:
        return ToolChoice(mode="none")
    return chosen if allowed == chosen.allowed else replace(chosen, allowed=allowed, allowed_mode="auto")


def _describe(tool: Tool) -> str:
    about: dict[str, object] = {"name": tool.name}
    if tool.description:
        about["description"] = tool.description
    about["parameters"] = tool.schema or {"type": "object", "properties": {}}
    return _json(about)


def _write_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages with calls and results as text; a result joins the user message before or after it."""
    names: dict[str, str] = {}
    written: list[Message] = []
    was_result = False
    for message in messages:
        names |= {block.id: block.name for block in message.blocks if isinstance(block, ToolCall)}
        is_result = any(isinstance(block, ToolResult) for block in message.blocks)
        if is_result or any(isinstance(block, ToolCall) for block in message.blocks):
            blocks = tuple(join_texts(_write_block(block, names) for block in message.blocks))
            message = Message(
                role="user" if message.role == "tool" else message.role, blocks=blocks, at=message.at
            )
        if written and written[-1].role == message.role == "user" and (is_result or was_result):
            before = written.pop()
            blocks = tuple(join_texts((block,) for block in (*before.blocks, *message.blocks)))
            message = Message(role="user", blocks=blocks, at=before.at)
        written.append(message)
        was_result = is_result
    return tuple(written)


def _write_block(block: AnyBlock, names: Mapping[str, str]) -> tuple[AnyBlock, ...]:
    if isinstance(block, ToolCall):
        return (Text(text=write_call(block), at=block.at),)
    if isinstance(block, ToolResult):
        others = tuple(inner for inner in block.content if not isinstance(inner, Text))
        name = block.name or names.get(block.call_id, "")
        return (Text(text=write_result(block, name), at=block.at), *others)
    return (block,)


def write_call(call: ToolCall) -> str:
    """A call in the format of the contract; arguments that are no object become a JSON string."""
    arguments: object = {FREE_TEXT: call.arguments}
    if call.kind != "custom":
        parsed = parse_object(call.arguments)
        arguments = call.arguments if parsed is None else parsed
    return _wrap(CALL, {"name": call.name, "arguments": arguments})


def write_result(result: ToolResult, name: str) -> str:
    content = "\n".join(block.text for block in result.content if isinstance(block, Text))
    value: dict[str, object] = {"name": name} if name else {}
    value["content"] = content
    if result.is_error:
        value["is_error"] = True
    return _wrap(RESULT, value)


def _wrap(marks: tuple[str, str], value: dict[str, object]) -> str:
    return f"{marks[0]}\n{_json(value)}\n{marks[1]}"


def _json(value: object) -> str:
    """JSON that cannot contain a closing tag, not even inside a string."""
    return encode(value).decode().replace("</", "<\\/")


def join_texts(blocks: Iterable[tuple[AnyBlock, ...]]) -> Iterator[AnyBlock]:
    """The blocks with adjacent plain texts joined: models without tools expect plain messages."""
    waiting: Text | None = None
    for block in (block for group in blocks for block in group):
        if isinstance(block, Text) and not (block.citations or block.seal or block.cache):
            waiting = block if waiting is None else Text(text=f"{waiting.text}\n{block.text}", at=waiting.at)
            continue
        if waiting is not None:
            yield waiting
            waiting = None
        yield block
    if waiting is not None:
        yield waiting


def _add_system_text(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """Add the contract after the client's own system text, or before everything."""
    leading = 0
    while leading < len(messages) and messages[leading].role in _SYSTEM_ROLES:
        leading += 1
    if not leading:
        return (Message(role="system", blocks=(Text(text=text),)), *messages)
    last = messages[leading - 1]
    extended = Message(role=last.role, blocks=(*last.blocks, Text(text=text)), at=last.at)
    return (*messages[: leading - 1], extended, *messages[leading:])
