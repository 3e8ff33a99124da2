"""Reads the items of `input`: one message of the hub for each item, in their order.

Members that the hub does not know stay in the extras of the block, or of the message. The type of
a content part is kept as the block's `form` only if it is not the usual one for the role.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

import msgspec

from dragoman.dialects.openai_responses.citations import read_citation
from dragoman.dialects.openai_responses.hosted import CALLS_WITH_OUTPUT, read_hosted, read_shell_output
from dragoman.dialects.openai_responses.media import read_audio, read_cache, read_file, read_image
from dragoman.dialects.openai_responses.names import (
    CALL_OF_ITEM,
    CALL_OF_OUTPUT,
    FAILED,
    STRING,
    CallFormat,
    get_text,
    is_for_client,
    read_arguments,
    take_text,
)
from dragoman.dialects.openai_responses.reasoning import read_reasoning
from dragoman.dialects.openai_responses.tools import require_tools
from dragoman.hub.blocks import (
    AnyBlock,
    Opaque,
    Refusal,
    Text,
    ToolCall,
    ToolDeclarations,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Role
from dragoman.hub.seal import SealedItem
from dragoman.wire.fields import Fields

#: The type of a text part in a message of this role; `input_text` in any other.
USUAL_TEXT = {"assistant": "output_text"}

#: The form of a call, or of its output, that has no `call_id`: its own id is used.
BY_ID = "id"
#: The form of a message without a type.
UNTYPED = "untyped"
#: The form of additional tools without a role.
NO_ROLE = "no-role"

#: Among the extras of a shell's output, a private one for our own writer: the output as the client sent it.
OUTPUT = "@output"

ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
}

#: The role of items that have none and are not from the model.
ROLE_OF_ITEM: dict[str, Role] = {
    "configuration_update": "developer",
    "compaction_trigger": "user",
    "item_reference": "user",
    "computer_call_output": "tool",
    "mcp_approval_response": "tool",
    "tool_search_output": "tool",
}


class InputReader:
    """Reads items one by one; `messages` returns the messages.

    Seals of calls and texts are put on them at the end of each answer of the model. So they belong to the
    same answer, and how an item is read does not depend on the seals of earlier answers.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._messages: list[Message] = []
        #: Seals of calls and texts, and the number of messages before each.
        self._carried: list[tuple[int, SealedItem]] = []
        #: The ids of calls that the vendor ran: their outputs are no results of the client.
        self._hosted: set[str] = set()
        #: The number of messages before the latest answer.
        self._answer = 0

    def read(self, fields: Fields) -> None:
        """Read one item of `input`. Its message is among those that `messages` returns."""
        item_type = fields.rest().get("type")
        if item_type is None and fields.has("role"):
            item_type = "message"
        if not isinstance(item_type, str):
            # Raises the error about it.
            item_type = fields.text("type")
        reader = _ITEM_READERS.get(item_type)
        call_id = get_text(fields.rest(), "call_id")
        if reader is not None and is_for_client(item_type, fields.rest()) and call_id not in self._hosted:
            reader(self, fields, item_type)
        else:
            if item_type in CALLS_WITH_OUTPUT and call_id:
                self._hosted.add(call_id)
            blocks = read_hosted(fields.rest(), fields.path)
            self._add(ROLE_OF_ITEM.get(item_type, "assistant"), blocks, fields.path)

    def messages(self) -> tuple[Message, ...]:
        self._attach_seals()
        return tuple(self._messages)

    def _attach_seals(self) -> None:
        """Put the seals of the latest answer on its calls and texts."""
        if not self._carried:
            return
        positions = {
            block.id: (number, position)
            for number, message in enumerate(self._messages[self._answer :], self._answer)
            for position, block in enumerate(message.blocks)
            if isinstance(block, ToolCall)
        }
        for number, carried in self._carried:
            found = positions.get(carried.call_id) if carried.kind == "call" else self._find_text(number)
            if found is not None:
                self._seal(*found, carried)
        self._carried.clear()

    def _find_text(self, before: int) -> tuple[int, int] | None:
        """The position of the model's last text before this message."""
        for number in range(before - 1, -1, -1):
            message = self._messages[number]
            if message.role != "assistant":
                return None
            for position in range(len(message.blocks) - 1, -1, -1):
                if isinstance(message.blocks[position], Text):
                    return number, position
        return None

    def _seal(self, number: int, position: int, carried: SealedItem) -> None:
        message = self._messages[number]
        block = message.blocks[position]
        if isinstance(block, ToolCall | Text):
            blocks = list(message.blocks)
            blocks[position] = msgspec.structs.replace(block, seal=carried.seal)
            self._messages[number] = msgspec.structs.replace(message, blocks=tuple(blocks))

    def _add(self, role: Role, blocks: Sequence[AnyBlock], at: str) -> None:
        self._append(Message(role=role, blocks=tuple(blocks), at=at))

    def _append(self, message: Message) -> None:
        if message.role != "assistant":
            self._attach_seals()
            self._answer = len(self._messages) + 1
        self._messages.append(message)

    def _read_message(self, fields: Fields, item_type: str) -> None:
        flags = [] if fields.maybe_text("type") else [UNTYPED]
        role = ROLES.get(fields.text("role"))
        if role is None:
            raise fields.error("expected user, assistant, system or developer", "role")
        blocks, content_flags = _read_content(fields, "content", role)
        form = " ".join(flags + content_flags)
        self._append(Message(role=role, blocks=blocks, at=fields.path, form=form, extras=fields.rest()))

    def _read_call(self, fields: Fields, item_type: str) -> None:
        fields.raw("type")
        self._add("assistant", [_build_call(fields, CALL_OF_ITEM[item_type])], fields.path)

    def _read_output(self, fields: Fields, item_type: str) -> None:
        fields.raw("type")
        self._add("tool", [_build_result(fields, CALL_OF_OUTPUT[item_type])], fields.path)

    def _read_reasoning(self, fields: Fields, item_type: str) -> None:
        fields.raw("type")
        blocks, carried = read_reasoning(fields, self._losses)
        self._carried += [(len(self._messages), item) for item in carried]
        if blocks:
            self._add("assistant", blocks, fields.path)

    def _read_additional_tools(self, fields: Fields, item_type: str) -> None:
        fields.raw("type")
        form = "" if fields.has("role") else NO_ROLE
        if fields.rest().get("role") == "developer":
            fields.raw("role")
        tools, at = require_tools(fields), fields.path
        self._add("developer", [ToolDeclarations(tools=tools, form=form, at=at, extras=fields.rest())], at)


_ITEM_READERS: dict[str, Callable[[InputReader, Fields, str], None]] = {
    "message": InputReader._read_message,
    "reasoning": InputReader._read_reasoning,
    "additional_tools": InputReader._read_additional_tools,
    **dict.fromkeys(CALL_OF_ITEM, InputReader._read_call),
    **dict.fromkeys(CALL_OF_OUTPUT, InputReader._read_output),
}


def _read_content(fields: Fields, name: str, role: str) -> tuple[tuple[AnyBlock, ...], list[str]]:
    """The blocks of a content that is a text or an array of parts, and the flags of their form."""
    value = fields.raw(name)
    if isinstance(value, str):
        return (Text(text=value, at=fields.at(name)),), [STRING]
    if not isinstance(value, list):
        raise fields.error("expected a string or an array", name)
    return tuple(_read_part(part, role) for part in fields.children(value, name)), []


def _read_part(fields: Fields, role: str) -> AnyBlock:
    part_type = fields.text("type")
    match part_type:
        case "input_text" | "output_text" | "text":
            return _read_text(fields, "" if part_type == USUAL_TEXT.get(role, "input_text") else part_type)
        case "refusal":
            return Refusal(text=fields.text("refusal"), at=fields.path, extras=fields.rest())
        case "input_image":
            return read_image(fields)
        case "input_file":
            return read_file(fields)
        case "input_audio":
            return read_audio(fields)
        case _:
            value = {"type": part_type, **fields.rest()}
            return Opaque(
                kind=part_type, value=value, text=get_text(value, "text"), form="part", at=fields.path
            )


def _read_text(fields: Fields, form: str) -> Text:
    text = fields.text("text")
    annotations = fields.maybe_objects("annotations")
    if annotations == []:
        fields.rest()["annotations"] = []
    return Text(
        text=text,
        citations=tuple(read_citation(annotation.rest()) for annotation in annotations or ()),
        cache=read_cache(fields),
        form=form,
        at=fields.path,
        extras=fields.rest(),
    )


def _read_call_id(fields: Fields) -> tuple[str, list[str]]:
    """The id that a call and its output share, and the flags of the call's form."""
    call_id = fields.maybe_text("call_id")
    if call_id is not None:
        return call_id, []
    item_id = fields.maybe_text("id")
    return (fields.text("call_id"), []) if item_id is None else (item_id, [BY_ID])


def _build_call(fields: Fields, call: CallFormat) -> ToolCall:
    call_id, flags = _read_call_id(fields)
    if call.is_text:
        arguments = fields.text(call.field)
    else:
        value = fields.raw(call.field) if fields.has(call.field) else fields.object(call.field)
        arguments = read_arguments(value)
        if isinstance(value, str):
            flags.append(STRING)
    _drop_constants(fields, call)
    return ToolCall(
        id=call_id,
        name=call.name or fields.text("name"),
        arguments=arguments,
        kind=call.kind,
        namespace=take_text(fields, "namespace"),
        form=" ".join(flags),
        at=fields.path,
        extras=fields.rest(),
    )


def _drop_constants(fields: Fields, call: CallFormat) -> None:
    """Remove members that have the same value in every item of this kind, so that they are no extras."""
    rest = fields.rest()
    for name, value in call.constants.items():
        if name in rest and rest[name] == value:
            del rest[name]


def _build_result(fields: Fields, call: CallFormat) -> ToolResult:
    call_id, flags = _read_call_id(fields)
    content: tuple[AnyBlock, ...]
    is_error = False
    match call.kind:
        case "tool_search":
            content = (ToolDeclarations(tools=require_tools(fields), at=fields.at("tools")),)
        case "shell":
            content = (Text(text=_read_shell_output(fields), at=fields.at("output")),)
        case "apply_patch":
            output = fields.maybe_text("output")
            content = () if output is None else (Text(text=output, at=fields.at("output")),)
            is_error = fields.rest().get("status") == FAILED
        case "function" | "custom" | "local_shell":
            content, content_flags = _read_content(fields, "output", "tool")
            flags += content_flags
        case _:
            assert_never(call.kind)
    _drop_constants(fields, call)
    return ToolResult(
        call_id=call_id,
        content=content,
        is_error=is_error,
        kind=call.kind,
        form=" ".join(flags),
        at=fields.path,
        extras=fields.rest(),
    )


def _read_shell_output(fields: Fields) -> str:
    """The output of the commands as readable text; the output itself stays in the extras."""
    output = fields.maybe_list("output") or []
    fields.rest()[OUTPUT] = output
    return read_shell_output(output)
