"""Names that several modules use, the table of calls that a client runs, and access to small values.

The `take_` functions leave a value in its object that the hub does not record (an empty text, a false flag),
so that this dialect writes it again as the client sent it. The `get_` functions accept any JSON.
"""

from collections.abc import Container
from typing import Final

import msgspec

from dragoman.hub.blocks import CallKind, Extras
from dragoman.wire.fields import Fields, encode

NAME: Final = "openai_responses"

#: The last payload of a stream. OpenAI omits it, Open Responses requires it, every client accepts it.
DONE = b"[DONE]"

#: Entries of `include` that request encrypted reasoning and log probabilities.
ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"

#: The form of a value that was a string where the API also accepts an array or an object.
STRING = "string"

COMPLETED: Final = "completed"
INCOMPLETE: Final = "incomplete"
IN_PROGRESS: Final = "in_progress"
FAILED: Final = "failed"


class CallFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The items of one kind of call that the client runs, and the member that has the arguments.

    `name` is the tool's name in the hub if the item has no name. `is_text`: the arguments are a string, not
    an object. `defaults` are members that clients require in such an object. Every item of the kind has the
    members `constants`.
    """

    kind: CallKind
    item: str
    output: str
    prefix: str
    field: str
    name: str = ""
    is_text: bool = False
    defaults: Extras = {}
    constants: Extras = {}


CALL_FORMATS = (
    CallFormat(
        kind="function",
        item="function_call",
        output="function_call_output",
        prefix="fc_",
        field="arguments",
        is_text=True,
    ),
    CallFormat(
        kind="custom",
        item="custom_tool_call",
        output="custom_tool_call_output",
        prefix="ctc_",
        field="input",
        is_text=True,
    ),
    CallFormat(
        kind="local_shell",
        item="local_shell_call",
        output="local_shell_call_output",
        prefix="lsh_",
        field="action",
        name="local_shell",
        defaults={"type": "exec", "command": [], "env": {}},
    ),
    CallFormat(
        kind="shell",
        item="shell_call",
        output="shell_call_output",
        prefix="sh_",
        field="action",
        name="shell",
        defaults={"commands": [], "timeout_ms": None, "max_output_length": None},
    ),
    CallFormat(
        kind="apply_patch",
        item="apply_patch_call",
        output="apply_patch_call_output",
        prefix="apc_",
        field="operation",
        name="apply_patch",
    ),
    CallFormat(
        kind="tool_search",
        item="tool_search_call",
        output="tool_search_output",
        prefix="tsc_",
        field="arguments",
        name="tool_search",
        constants={"execution": "client"},
    ),
)

CALL_OF_KIND: dict[str, CallFormat] = {call.kind: call for call in CALL_FORMATS}
CALL_OF_ITEM: dict[str, CallFormat] = {call.item: call for call in CALL_FORMATS}
CALL_OF_OUTPUT: dict[str, CallFormat] = {call.output: call for call in CALL_FORMATS}


def is_for_client(item_type: str, item: Extras) -> bool:
    """Whether the client runs a call. OpenAI has a tool search and shells of its own."""
    if item_type in ("tool_search_call", "tool_search_output"):
        return item.get("execution") == "client"
    environment = item.get("environment")
    if item_type == "shell_call" and isinstance(environment, dict):
        return environment.get("type") == "local"
    return True


def read_arguments(value: object) -> str:
    """The arguments of an item as the hub keeps them: JSON text, or the free text of a custom tool."""
    if isinstance(value, str):
        return value
    return "" if value is None else encode(value).decode()


def build_arguments(text: str, call: CallFormat, *, same_dialect: bool) -> object:
    """The arguments as the item needs them. Text that is no JSON object becomes the member `text`."""
    if call.is_text:
        return text
    value: object = None
    if text.strip():
        try:
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return {**call.defaults, "text": text}
    if same_dialect:
        return value
    if value is not None and not isinstance(value, dict):
        return {**call.defaults, "text": text}
    return {**call.defaults, **(value or {})}


def take_text(fields: Fields, name: str) -> str:
    """Take a text; an empty one stays in the object."""
    text = fields.maybe_text(name)
    if text == "":
        fields.rest()[name] = ""
    return text or ""


def take_flag(fields: Fields, name: str) -> bool:
    """Take a boolean field; False if absent.

    An explicit `false` stays in the extras, so that it is written again.
    """
    flag = fields.maybe_flag(name)
    if flag is False:
        fields.rest()[name] = False
    return bool(flag)


def get_text(values: Extras, name: str) -> str:
    """A member that is a text; empty for anything else."""
    value = values.get(name)
    return value if isinstance(value, str) else ""


def get_index(values: Extras, name: str) -> int:
    """A member that is an index; 0 for anything else."""
    value = values.get(name)
    return value if type(value) is int and value >= 0 else 0


def get_object(values: Extras, name: str) -> Extras:
    """A member that is an object; empty for anything else."""
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def get_objects(values: Extras, name: str) -> list[Extras]:
    """The objects in a member that is an array; empty for anything else."""
    value = values.get(name)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def drop_none(values: Extras) -> Extras:
    """A copy of the object without the members that are None."""
    return {name: value for name, value in values.items() if value is not None}


def omit(values: Extras, names: Container[str]) -> Extras:
    """A copy of the object without these members."""
    return {name: value for name, value in values.items() if name not in names}
