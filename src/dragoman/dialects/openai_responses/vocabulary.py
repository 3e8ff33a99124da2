"""Words of this dialect that its modules share: its name, its items, and the calls that a client runs."""

from typing import Final

import msgspec

from dragoman.hub.content import CallKind, Extras

NAME: Final = "openai_responses"

#: The closing word. OpenAI leaves it out; Open Responses demands it; every client bears it.
DONE = b"[DONE]"

#: What a client must ask for to get sealed thought back.
ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"


class CallItem(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of client-run call is spelled: its items, and where its arguments stand.

    `name` is what the hub calls the tool when the item does not name it. `text`: the arguments are a
    text in the item, not an object. `defaults` are members that clients expect in such an object, and
    `extras` those that every item of the kind has.
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
    """Whether a call or its output is the client's: the vendor has a tool search and shells of its own."""
    if item_type in ("tool_search_call", "tool_search_output"):
        return item.get("execution") == "client"
    environment = item.get("environment")
    if item_type == "shell_call" and isinstance(environment, dict):
        return environment.get("type") == "local"
    return True
