"""Reads and writes the items of calls that the client runs, and of their outputs.

In the hub the arguments of a call are JSON text. If an item holds an object, the hub gets the text of the
object.
"""

import msgspec

from dragoman.dialects.openai_responses.parts import read_content, write_part
from dragoman.dialects.openai_responses.tools import read_required_tools, write_tools
from dragoman.dialects.openai_responses.vocabulary import CALL_OF_KIND, CallItem, take_text
from dragoman.hub.content import AnyBlock, Extras, Text, ToolCall, ToolDeclarations, ToolResult
from dragoman.hub.loss import Losses
from dragoman.wire.fields import Fields, encode
from dragoman.wire.partial_json import parse_object

#: The form of an item without `call_id`, which is identified by its own id.
BY_ID = "id"
STRING = "string"

#: A note in the extras of a result for our own writer: the original output of the readable text.
OUTPUT = "@output"


def read_arguments(value: object) -> str:
    """The arguments in the hub's form."""
    if isinstance(value, str):
        return value
    return "" if value is None else encode(value).decode()


def write_arguments(text: str, call: CallItem, *, own: bool) -> object:
    """The arguments in the item's form. Text that is no object becomes the field `text` of an object."""
    if call.text:
        return text
    value: object = None
    if text.strip():
        try:
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return {**call.defaults, "text": text}
    if own:
        return value
    if value is not None and not isinstance(value, dict):
        return {**call.defaults, "text": text}
    return {**call.defaults, **(value or {})}


def _read_call_id(fields: Fields) -> tuple[str, str]:
    """The id that a call and its output share, and the form of the item."""
    call_id = fields.maybe_text("call_id")
    if call_id is not None:
        return call_id, ""
    item_id = fields.maybe_text("id")
    return (fields.text("call_id"), "") if item_id is None else (item_id, BY_ID)


def read_call(fields: Fields, call: CallItem) -> ToolCall:
    call_id, form = _read_call_id(fields)
    if call.text:
        arguments = fields.text(call.field)
    else:
        value = fields.raw(call.field) if fields.has(call.field) else fields.object(call.field)
        arguments = read_arguments(value)
        form = f"{form} {STRING}".strip() if isinstance(value, str) else form
    _drop_defaults(fields, call)
    return ToolCall(
        id=call_id,
        name=call.name or fields.text("name"),
        arguments=arguments,
        kind=call.kind,
        namespace=take_text(fields, "namespace"),
        form=form,
        at=fields.path,
        extras=fields.rest(),
    )


def _drop_defaults(fields: Fields, call: CallItem) -> None:
    """Remove the fields that every item of this kind has."""
    rest = fields.rest()
    for name, value in call.extras.items():
        if name in rest and rest[name] == value:
            del rest[name]


def write_call(block: ToolCall, losses: Losses, *, own: bool) -> Extras:
    call = CALL_OF_KIND[block.kind]
    forms = block.form.split() if own else []
    text = block.arguments if own or call.kind != "function" else _write_object(block, losses)
    value = text if STRING in forms else write_arguments(text, call, own=own)
    item: Extras = {"type": call.item, BY_ID if BY_ID in forms else "call_id": block.id, call.field: value}
    if not call.name:
        item["name"] = block.name
    if block.namespace:
        item["namespace"] = block.namespace
    if own:
        return {**item, **call.extras, **block.extras}
    if not call.text:
        item["status"] = "completed"
    return {**item, **call.extras}


def _write_object(block: ToolCall, losses: Losses) -> str:
    """The arguments as the text of one JSON object, which upstreams require; no arguments become `{}`."""
    if parse_object(block.arguments) is not None:
        return block.arguments.strip() or "{}"
    losses.add(block.at, "arguments that are no JSON object were wrapped as text")
    return encode({"text": block.arguments}).decode()


def read_output(fields: Fields, call: CallItem) -> ToolResult:
    call_id, form = _read_call_id(fields)
    content: tuple[AnyBlock, ...]
    is_error = False
    if call.kind == "tool_search":
        at = fields.at("tools")
        content = (ToolDeclarations(tools=read_required_tools(fields), at=at),)
    elif call.kind == "shell":
        content = _read_shell_output(fields)
    elif call.kind == "apply_patch":
        output = fields.maybe_text("output")
        content = () if output is None else (Text(text=output, at=fields.at("output")),)
        is_error = fields.rest().get("status") == "failed"
    else:
        content, spelling = read_content(fields, "output", "tool")
        form = f"{form} {spelling}".strip()
    _drop_defaults(fields, call)
    return ToolResult(
        call_id=call_id,
        content=content,
        is_error=is_error,
        kind=call.kind,
        form=form,
        at=fields.path,
        extras=fields.rest(),
    )


def _read_shell_output(fields: Fields) -> tuple[AnyBlock, ...]:
    """The output of the commands as readable text. The extras keep the structure."""
    output = fields.maybe_list("output") or []
    fields.rest()[OUTPUT] = output
    lines: list[str] = []
    for entry in output:
        if not isinstance(entry, dict):
            continue
        lines += [text for name in ("stdout", "stderr") if isinstance(text := entry.get(name), str) and text]
        outcome = entry.get("outcome")
        if isinstance(outcome, dict) and "exit_code" in outcome:
            lines.append(f"[exit code {outcome['exit_code']}]")
        elif isinstance(outcome, dict):
            lines.append(f"[{outcome.get('type')}]")
    return (Text(text="\n".join(lines), at=fields.at("output")),)


def write_output(block: ToolResult, losses: Losses, *, own: bool) -> Extras:
    call = CALL_OF_KIND[block.kind]
    forms = block.form.split() if own else []
    item: Extras = {"type": call.output, BY_ID if BY_ID in forms else "call_id": block.call_id}
    if call.kind == "tool_search":
        declared = [inner for inner in block.content if isinstance(inner, ToolDeclarations)]
        tools = tuple(tool for inner in declared for tool in inner.tools)
        item["tools"] = write_tools(tools, losses, own=own)
        item |= call.extras
        return {**item, **block.extras} if own else {**item, "status": "completed"}
    if own and OUTPUT in block.extras:
        rest = {name: value for name, value in block.extras.items() if name != OUTPUT}
        return {**item, "output": block.extras[OUTPUT], **rest}
    if call.kind == "shell":
        outcome = {"type": "exit", "exit_code": int(block.is_error)}
        item["output"] = [{"stdout": _join_texts(block.content), "stderr": "", "outcome": outcome}]
    elif call.kind == "apply_patch":
        item["status"] = "failed" if block.is_error else "completed"
        if block.content:
            item["output"] = _join_texts(block.content)
    else:
        item["output"] = _write_content(block, losses, own=own, as_string=STRING in forms)
    return {**item, **block.extras} if own else item


def _join_texts(content: tuple[AnyBlock, ...]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _write_content(block: ToolResult, losses: Losses, *, own: bool, as_string: bool) -> object:
    is_text = all(isinstance(inner, Text) for inner in block.content)
    if (as_string or not own) and is_text:
        return _join_texts(block.content)
    parts = (write_part(inner, "tool", losses, own=own) for inner in block.content)
    return [part for part in parts if part is not None]
