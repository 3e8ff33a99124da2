"""Reads and writes items of the tools that OpenAI runs, and items that only this dialect knows.

A hosted item becomes one or two blocks that other dialects can use. The first keeps the whole item, from
which this dialect writes it again. The second has the form `FOLLOWS` and is not written.
"""

from collections.abc import Callable

import msgspec

from dragoman.hub.content import AnyBlock, Extras, HostedCall, HostedResult, Media, Opaque, ReplyBlock
from dragoman.hub.request import EFFORTS
from dragoman.wire.fields import encode

FOLLOWS = "follows"
#: A note in the extras for our own writer: the whole item.
ITEM = "@item"
#: The item by which a client changes its settings within a conversation.
UPDATE = "configuration_update"

#: The family of each hosted item.
FAMILIES = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_execution",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
}

#: Fields that an item of a type must have, with the value to write if one is missing.
NEEDED: dict[str, Extras] = {
    "web_search_call": {"action": {"type": "search", "query": ""}},
    "tool_search_call": {"execution": "server", "arguments": {}},
}

PREFIXES = {
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "code_interpreter_call": "ci_",
    "image_generation_call": "ig_",
    "mcp_call": "mcp_",
    "mcp_list_tools": "mcpl_",
    "compaction": "cmp_",
}

#: The events between `added` and `done`, by type of item; the last one depends on the status.
STEPS: dict[str, tuple[str, ...]] = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", "completed"),
    "mcp_list_tools": ("in_progress", "completed"),
    "compaction": ("compacting",),
}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_objects(value: object) -> list[Extras]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _is_effort_alone(item: Extras) -> bool:
    """Whether an item only changes the effort. Then the effort of the request already has that value."""
    rest = {name: value for name, value in item.items() if name not in ("type", "id")}
    return item.get("type") == UPDATE and any(rest == {"reasoning": {"effort": known}} for known in EFFORTS)


def read_hosted(item: Extras, at: str = "") -> list[ReplyBlock]:
    """Read an item that is no message, no reasoning and no call for the client."""
    item_type = _text(item.get("type"))
    reader = READERS.get(item_type)
    if reader is None:
        return [Opaque(kind=item_type, value=item, is_covered=_is_effort_alone(item), at=at)]
    arguments, result, is_error = reader(item)
    item_id = _text(item.get("id"))
    if item_type == "image_generation_call" and result:
        media_type = "image/" + (_text(item.get("output_format")) or "png")
        rest = {name: value for name, value in item.items() if name != "result"}
        return [Media(kind="image", media_type=media_type, data=result, at=at, extras={ITEM: rest})]
    family = FAMILIES[item_type]
    blocks: list[ReplyBlock] = [
        HostedCall(id=item_id, tool=family, arguments=arguments, at=at, extras={ITEM: item})
    ]
    if result or is_error:
        blocks.append(
            HostedResult(call_id=item_id, tool=family, text=result, is_error=is_error, form=FOLLOWS, at=at)
        )
    return blocks


def write_hosted(block: AnyBlock) -> Extras | None:
    """The item that a block was read from; None if it was not read from an item."""
    if isinstance(block, Opaque):
        return dict(block.value) if block.form != "part" and block.kind else None
    item = block.extras.get(ITEM)
    if not isinstance(item, dict):
        return None
    return {**item, "result": block.data} if isinstance(block, Media) else dict(item)


def complete_item(item: Extras) -> Extras:
    """A finished item with all the fields that clients require."""
    needed = NEEDED.get(_text(item.get("type")), {})
    wrong = {name: value for name, value in needed.items() if type(item.get(name)) is not type(value)}
    if needed and item.get("status") not in ("completed", "incomplete", "failed"):
        wrong["status"] = "completed"
    return {**item, **wrong} if wrong else item


def write_search_action(arguments: str) -> Extras:
    """The `action` of another vendor's search."""
    try:
        value = msgspec.json.decode(arguments or "{}")
    except (ValueError, RecursionError):
        value = {}
    fields: Extras = value if isinstance(value, dict) else {}
    query, url = _text(fields.get("query")), _text(fields.get("url"))
    if url and not query:
        return {"type": "open_page", "url": url}
    return {"type": "search", "query": query, "queries": [query] if query else []}


#: The content of a hosted item: arguments as JSON text, result as readable text, whether it is an error.
Hosted = tuple[str, str, bool]


def _read_web_search(item: Extras) -> Hosted:
    action = item.get("action")
    fields: Extras = action if isinstance(action, dict) else {}
    pages = [_text(source.get("url")) for source in _read_objects(fields.get("sources"))]
    arguments = {name: value for name, value in fields.items() if name != "sources"}
    return encode(arguments).decode(), "\n".join(filter(None, pages)), item.get("status") == "failed"


def _read_file_search(item: Extras) -> Hosted:
    found = [
        "\n".join(filter(None, (_text(result.get("filename")), _text(result.get("text")))))
        for result in _read_objects(item.get("results"))
    ]
    arguments = encode({"queries": item.get("queries")}).decode()
    return arguments, "\n\n".join(filter(None, found)), item.get("status") == "failed"


def _read_code(item: Extras) -> Hosted:
    outputs = [
        _text(output.get("logs")) or _text(output.get("url")) for output in _read_objects(item.get("outputs"))
    ]
    arguments = encode({"code": item.get("code")}).decode()
    return arguments, "\n".join(filter(None, outputs)), item.get("status") == "failed"


def _read_image(item: Extras) -> Hosted:
    arguments = encode({"prompt": item.get("revised_prompt")}).decode()
    return arguments, _text(item.get("result")), item.get("status") == "failed"


def _read_mcp(item: Extras) -> Hosted:
    error = item.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    arguments = {
        "server": item.get("server_label"),
        "name": item.get("name"),
        "arguments": item.get("arguments"),
    }
    failed = bool(error) or item.get("status") == "failed"
    return encode(arguments).decode(), _text(item.get("output")) or _text(error), failed


READERS: dict[str, Callable[[Extras], Hosted]] = {
    "web_search_call": _read_web_search,
    "file_search_call": _read_file_search,
    "code_interpreter_call": _read_code,
    "image_generation_call": _read_image,
    "mcp_call": _read_mcp,
}
