"""Reads and writes items of tools that the vendor runs, and items that only this dialect knows.

A hosted item becomes one or two blocks that other dialects can read. The first block keeps the whole item,
and this dialect writes it from there. The second one (`form` is `FOLLOWS`) has nothing more to write.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

import msgspec

from dragoman.dialects.openai_responses.names import (
    COMPLETED,
    FAILED,
    INCOMPLETE,
    get_object,
    get_objects,
    get_text,
    omit,
)
from dragoman.dialects.search_options import LOCATION, take_domains, take_location, write_location
from dragoman.hub.blocks import (
    PRIVATE,
    AnyBlock,
    Extras,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    ReplyBlock,
    SearchOptions,
    Tool,
)
from dragoman.hub.request import EFFORTS
from dragoman.wire.fields import encode

FOLLOWS = "follows"
#: A private extra, for our own writer: the whole item.
ITEM = "@item"
#: The item by which a client changes its settings within a conversation.
UPDATE = "configuration_update"

#: The common name of each hosted item.
COMMON_NAMES = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_execution",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
    # Programmatic tool calling: OpenAI runs a program that the model wrote.
    "program": "code_execution",
    "program_output": "code_execution",
    "shell_call": "shell",
    "shell_call_output": "shell",
}

#: Items whose `call_id` connects a call with its output, which is an item of its own.
CALLS_WITH_OUTPUT = frozenset({"program", "shell_call"})
OUTPUTS = frozenset({"program_output", "shell_call_output"})

#: Members that clients require in a finished item of a type, with their defaults.
REQUIRED_MEMBERS: dict[str, Extras] = {
    "web_search_call": {"action": {"type": "search", "query": ""}},
    "tool_search_call": {"execution": "server", "arguments": {}},
}

#: How the ids of hosted items begin.
PREFIXES = {
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "code_interpreter_call": "ci_",
    "image_generation_call": "ig_",
    "mcp_call": "mcp_",
    "mcp_list_tools": "mcpl_",
    "compaction": "cmp_",
}

#: The events between `added` and `done`, by item type. A failed item has another last event.
STEPS: dict[str, tuple[str, ...]] = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", "completed"),
    "mcp_list_tools": ("in_progress", "completed"),
    "compaction": ("compacting",),
}

#: Members of a declared web search, and the same as paths of `SearchOptions`.
_FILTERS = "filters"
_DOMAINS = "allowed_domains"
_CONTEXT_SIZE = "search_context_size"
_LIVE = "external_web_access"
_SEARCH_PATHS = {
    "allowed_domains": f"{_FILTERS}.{_DOMAINS}",
    "location": LOCATION,
    "context_size": _CONTEXT_SIZE,
    "live": _LIVE,
}


def _is_effort_update(item: Extras) -> bool:
    """Whether an item changes only the effort: the request's own effort is then the latest one."""
    rest = omit(item, ("type", "id"))
    return item.get("type") == UPDATE and any(rest == {"reasoning": {"effort": known}} for known in EFFORTS)


def read_hosted(item: Extras, at: str = "") -> list[ReplyBlock]:
    """The blocks of an item that is no message, no reasoning and no call for the client."""
    item_type = get_text(item, "type")
    reader = _READERS.get(item_type)
    if reader is None:
        return [Opaque(kind=item_type, value=item, is_covered=_is_effort_update(item), at=at)]
    arguments, result, is_error = reader(item)
    if item_type == "image_generation_call" and result:
        media_type = "image/" + (get_text(item, "output_format") or "png")
        extras: Extras = {ITEM: omit(item, ("result",))}
        return [Media(kind="image", media_type=media_type, data=result, at=at, extras=extras)]
    common_name = COMMON_NAMES[item_type]
    if item_type in OUTPUTS:
        call_id = get_text(item, "call_id")
        kept: Extras = {ITEM: item}
        return [
            HostedResult(
                call_id=call_id, tool=common_name, text=result, is_error=is_error, at=at, extras=kept
            )
        ]
    item_id = get_text(item, "call_id" if item_type in CALLS_WITH_OUTPUT else "id")
    call = HostedCall(id=item_id, tool=common_name, arguments=arguments, at=at, extras={ITEM: item})
    if not (result or is_error):
        return [call]
    return [
        call,
        HostedResult(call_id=item_id, tool=common_name, text=result, is_error=is_error, form=FOLLOWS, at=at),
    ]


def write_hosted(block: AnyBlock) -> Extras | None:
    """The item that a block was read from; None if there is none, or another block writes it."""
    if isinstance(block, Opaque):
        return dict(block.value) if block.form != "part" and block.kind else None
    item = block.extras.get(ITEM)
    if not isinstance(item, dict):
        return None
    return {**item, "result": block.data} if isinstance(block, Media) else dict(item)


def add_required(item: Extras) -> Extras:
    """A finished item with the members that clients require, even if the upstream omits them."""
    required = REQUIRED_MEMBERS.get(get_text(item, "type"), {})
    added = {name: value for name, value in required.items() if type(item.get(name)) is not type(value)}
    if required and item.get("status") not in (COMPLETED, INCOMPLETE, FAILED):
        added["status"] = COMPLETED
    return {**item, **added}


def build_search_action(arguments: str) -> Extras:
    """The `action` of a web search that another vendor made."""
    try:
        value = msgspec.json.decode(arguments or "{}")
    except (ValueError, RecursionError):
        value = {}
    fields: Extras = value if isinstance(value, dict) else {}
    query, url = get_text(fields, "query"), get_text(fields, "url")
    if url and not query:
        return {"type": "open_page", "url": url}
    return {"type": "search", "query": query, "queries": [query] if query else []}


#: The arguments as JSON text, the result as readable text, and whether it is an error.
_HostedContent = tuple[str, str, bool]


def _build_content(
    item: Extras, arguments: Extras, results: Iterable[str], gap: str = "\n"
) -> _HostedContent:
    return encode(arguments).decode(), gap.join(filter(None, results)), item.get("status") == FAILED


def _read_web_search(item: Extras) -> _HostedContent:
    action = get_object(item, "action")
    pages = (get_text(source, "url") for source in get_objects(action, "sources"))
    return _build_content(item, omit(action, ("sources",)), pages)


def _read_file_search(item: Extras) -> _HostedContent:
    found = (
        "\n".join(filter(None, (get_text(result, "filename"), get_text(result, "text"))))
        for result in get_objects(item, "results")
    )
    return _build_content(item, {"queries": item.get("queries")}, found, "\n\n")


def _read_code(item: Extras) -> _HostedContent:
    outputs = (get_text(output, "logs") or get_text(output, "url") for output in get_objects(item, "outputs"))
    return _build_content(item, {"code": item.get("code")}, outputs)


def _read_image(item: Extras) -> _HostedContent:
    return _build_content(item, {"prompt": item.get("revised_prompt")}, (get_text(item, "result"),))


def _read_mcp(item: Extras) -> _HostedContent:
    error = item.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    members = {"server": "server_label", "name": "name", "arguments": "arguments"}
    arguments: Extras = {name: item.get(member) for name, member in members.items()}
    result = get_text(item, "output") or (error if isinstance(error, str) else "")
    written, text, failed = _build_content(item, arguments, (result,))
    return written, text, failed or bool(error)


def _read_program(item: Extras) -> _HostedContent:
    return _build_content(item, {"code": item.get("code")}, ())


def _read_program_output(item: Extras) -> _HostedContent:
    return _build_content(item, {}, (get_text(item, "result"),))


def _read_shell(item: Extras) -> _HostedContent:
    return _build_content(item, get_object(item, "action"), ())


def _read_shell_output(item: Extras) -> _HostedContent:
    return _build_content(item, {}, (read_shell_output(item.get("output")),))


def read_shell_output(output: object) -> str:
    """The output of a shell's commands as readable text."""
    lines: list[str] = []
    for entry in output if isinstance(output, list) else ():
        if not isinstance(entry, dict):
            continue
        values: Extras = entry
        lines += [text for name in ("stdout", "stderr") if (text := get_text(values, name))]
        outcome = get_object(values, "outcome")
        if "exit_code" in outcome:
            lines.append(f"[exit code {outcome['exit_code']}]")
        elif isinstance(values.get("outcome"), dict):
            lines.append(f"[{outcome.get('type')}]")
    return "\n".join(lines)


_READERS: dict[str, Callable[[Extras], _HostedContent]] = {
    "web_search_call": _read_web_search,
    "file_search_call": _read_file_search,
    "code_interpreter_call": _read_code,
    "image_generation_call": _read_image,
    "mcp_call": _read_mcp,
    "program": _read_program,
    "program_output": _read_program_output,
    "shell_call": _read_shell,
    "shell_call_output": _read_shell_output,
}


def read_search(rest: Extras) -> SearchOptions | None:
    """Take the options out of a declared web search; a value of another type stays in it."""
    filters = rest.get(_FILTERS)
    domains = take_domains(filters, _DOMAINS) if isinstance(filters, dict) else ()
    if domains and not filters:
        del rest[_FILTERS]
    size, live = get_text(rest, _CONTEXT_SIZE), rest.get(_LIVE)
    if size:
        del rest[_CONTEXT_SIZE]
    if isinstance(live, bool):
        del rest[_LIVE]
    options = SearchOptions(
        allowed_domains=domains,
        location=take_location(rest),
        context_size=size,
        live=live if isinstance(live, bool) else None,
        paths=_SEARCH_PATHS,
    )
    return None if options == SearchOptions(paths=_SEARCH_PATHS) else options


def write_search(tool: Tool, *, same_dialect: bool) -> Extras:
    """The members of a declared web search that hold its options."""
    options = tool.search
    if options is None:
        return {}
    extras = tool.extras if same_dialect else {}
    written: Extras = {}
    if options.allowed_domains:
        written[_FILTERS] = {_DOMAINS: list(options.allowed_domains), **get_object(extras, _FILTERS)}
    if options.location is not None:
        written[LOCATION] = extras.get(PRIVATE + LOCATION) or write_location(options.location)
    if options.context_size:
        written[_CONTEXT_SIZE] = options.context_size
    if options.live is not None:
        written[_LIVE] = options.live
    return written


def describe_loss(block: HostedCall | HostedResult | Media | Opaque) -> str:
    """The text of a loss: a block that only a client of its own dialect can receive."""
    match block:
        case HostedCall():
            return "what another vendor's own tool was asked"
        case HostedResult():
            return "what another vendor's own tool gave back"
        case Media():
            return "media that the model made"
        case Opaque():
            return "a block that only its own dialect knows"
        case _:
            assert_never(block)
