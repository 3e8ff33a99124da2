"""Constants and small readers that the modules of this dialect share."""

from typing import Final

import msgspec

from dragoman.hub.content import CallKind, Extras
from dragoman.wire.fields import Fields

NAME: Final = "openai_responses"

#: The last frame of a stream. OpenAI omits it, Open Responses requires it, every client accepts it.
DONE = b"[DONE]"

#: The value of `include` with which a client gets sealed thoughts.
ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"


class CallItem(msgspec.Struct, frozen=True, kw_only=True):
    """The items of one kind of call that the client runs, and the field of its arguments.

    `name` is the tool's name in the hub if the item has none. `text`: the arguments are a text in the item,
    not an object. `defaults` are fields that clients expect in such an object, `extras` are fields of every
    such item.
    """

    kind: CallKind
    item: str
    output: str
    prefix: str
    field: str
    name: str = ""
    text: bool = False
    defaults: Extras = {}
    extras: Extras = {}


CALL_ITEMS = (
    CallItem(
        kind="function",
        item="function_call",
        output="function_call_output",
        prefix="fc_",
        field="arguments",
        text=True,
    ),
    CallItem(
        kind="custom",
        item="custom_tool_call",
        output="custom_tool_call_output",
        prefix="ctc_",
        field="input",
        text=True,
    ),
    CallItem(
        kind="local_shell",
        item="local_shell_call",
        output="local_shell_call_output",
        prefix="lsh_",
        field="action",
        name="local_shell",
        defaults={"type": "exec", "command": [], "env": {}},
    ),
    CallItem(
        kind="shell",
        item="shell_call",
        output="shell_call_output",
        prefix="sh_",
        field="action",
        name="shell",
        defaults={"commands": [], "timeout_ms": None, "max_output_length": None},
    ),
    CallItem(
        kind="apply_patch",
        item="apply_patch_call",
        output="apply_patch_call_output",
        prefix="apc_",
        field="operation",
        name="apply_patch",
    ),
    CallItem(
        kind="tool_search",
        item="tool_search_call",
        output="tool_search_output",
        prefix="tsc_",
        field="arguments",
        name="tool_search",
        extras={"execution": "client"},
    ),
)

CALL_OF_KIND: dict[str, CallItem] = {call.kind: call for call in CALL_ITEMS}
CALL_OF_ITEM: dict[str, CallItem] = {call.item: call for call in CALL_ITEMS}
CALL_OF_OUTPUT: dict[str, CallItem] = {call.output: call for call in CALL_ITEMS}


def is_for_client(item_type: str, item: Extras) -> bool:
    """Whether the client runs a call or sent its output: OpenAI also runs a tool search and shells."""
    if item_type in ("tool_search_call", "tool_search_output"):
        return item.get("execution") == "client"
    environment = item.get("environment")
    if item_type == "shell_call" and isinstance(environment, dict):
        return environment.get("type") == "local"
    return True


def take_text(fields: Fields, name: str) -> str:
    """Take a text that is not empty; an empty one stays in the extras."""
    text = fields.maybe_text(name)
    if text == "":
        fields.rest()[name] = ""
    return text or ""


def take_flag(fields: Fields, name: str) -> bool:
    """Take a flag that is true; a flag that is false stays in the extras."""
    flag = fields.maybe_flag(name)
    if flag is False:
        fields.rest()[name] = False
    return bool(flag)
