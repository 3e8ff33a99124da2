"""Reads and writes blocks of the tools that Anthropic runs: calls, results, and the results as readable text.

The structure stays in the extras and is written back only to Anthropic. Other targets get the text. A web
search that another vendor ran is written with its query and the addresses of its pages.
"""

import re
from collections.abc import Callable, Iterator

from dragoman.dialects.anthropic.names import (
    add_common,
    build_input,
    list_of,
    object_of,
    read_arguments,
    take_text,
    text_of,
)
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import HostedCall, HostedResult, Opaque
from dragoman.wire.fields import encode

MCP_CALL = "mcp_tool_use"
CALLS = frozenset({"server_tool_use", MCP_CALL})

#: Private extras, for our own writer. Other targets use the common name and the readable text instead.
_NAME = "@name"
_INPUT = "@input"
_SERVER = "@server_name"
_CONTENT = "@content"
_RESULT = "_tool_result"
_SEARCH = "web_search"
FETCH = "web_fetch"

#: Parts of the names of server tools and of their results, in search order, and the common name of each.
_COMMON_NAMES: tuple[tuple[str, str], ...] = (
    ("code_execution", "code_execution"),
    ("tool_search", "tool_search"),
    ("web_search", "web_search"),
    ("web_fetch", "web_fetch"),
    ("mcp", "mcp"),
    ("advisor", "advisor"),
)
#: Blocks that no model sees: they show Anthropic's servers where another model continued.
_NOT_RENDERED = frozenset({"fallback"})
_DATE = re.compile(r"_\d{8}$")
TEXT_LIMIT = 200_000


def find_common_name(name: str) -> str:
    """The common name of a server tool, from a name that includes a version or a variant."""
    bare = _DATE.sub("", name)
    return next((common_name for part, common_name in _COMMON_NAMES if part in bare), bare)


def is_result(kind: str) -> bool:
    return kind.endswith(_RESULT)


def read_call(value: Json, at: str = "", arguments: str | None = None) -> HostedCall:
    """Read a call and empty the object. `arguments`: those that a stream sent separately from the block."""
    kind = take_text(value, "type")
    name = take_text(value, "name")
    given = value.pop("input", None)
    if name:
        value[_NAME] = name
    if arguments is None:
        arguments = read_arguments(given)
    if kind == MCP_CALL:
        # Other targets get the arguments alone, so these must name the tool and its server.
        value[_INPUT] = arguments
        server = value[_SERVER] = value.pop("server_name", "")
        arguments = encode({"server": server, "name": name, "arguments": arguments}).decode()
    return HostedCall(
        at=at,
        form=kind,
        id=take_text(value, "id"),
        tool="mcp" if kind == MCP_CALL else find_common_name(name),
        arguments=arguments,
        extras=value,
    )


def write_call(call: HostedCall) -> Json:
    written: Json = {
        "type": call.form or "server_tool_use",
        "id": call.id,
        "name": call.extras.get(_NAME, call.tool),
        "input": build_input(text_of(call.extras.get(_INPUT)) or call.arguments),
    }
    if call.extras.get(_SERVER):
        written["server_name"] = call.extras[_SERVER]
    return add_common(written, call.cache, call.extras, same_dialect=True)


def read_result(value: Json, at: str = "") -> HostedResult:
    """Read a result and empty the object. The content is kept unchanged beside its text."""
    kind = take_text(value, "type")
    content = value.pop("content", None)
    if content is not None:
        value[_CONTENT] = content
    error = text_of(object_of(content).get("error_code"))
    return HostedResult(
        at=at,
        form=kind,
        call_id=take_text(value, "tool_use_id"),
        tool=find_common_name(kind.removesuffix(_RESULT)),
        text=f"error: {error}" if error else _read_text_of(content)[:TEXT_LIMIT],
        is_error=bool(error) or value.get("is_error") is True,
        extras=value,
    )


def write_result(result: HostedResult) -> Json:
    written: Json = {"type": result.form, "tool_use_id": result.call_id}
    if _CONTENT in result.extras:
        written["content"] = result.extras[_CONTENT]
    return add_common(written, result.cache, result.extras, same_dialect=True)


def write_search(query: str, call_id: str) -> Json:
    """The call of a web search that another vendor ran."""
    return {"type": "server_tool_use", "id": call_id, "name": _SEARCH, "input": {"query": query}}


def write_pages(result: HostedResult | None, call_id: str) -> Json:
    """The result of a web search that another vendor ran; without pages if the vendor names none.

    Anthropic's clients expect a result after each call.
    """
    content: object = []
    if result is not None and result.is_error:
        content = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    elif result is not None:
        content = [_build_page(line) for line in result.text.splitlines() if "://" in line]
    return {"type": _SEARCH + _RESULT, "tool_use_id": call_id, "content": content}


def write_fetch(arguments: str, call_id: str) -> Json:
    """The call of a fetch that the gateway ran."""
    return {"type": "server_tool_use", "id": call_id, "name": FETCH, "input": build_input(arguments)}


def write_fetched(result: HostedResult, arguments: str, call_id: str) -> Json:
    """The result of a fetch that the gateway ran: the page as a document of text."""
    source = {"type": "text", "media_type": "text/plain", "data": result.text}
    content: Json = {
        "type": "web_fetch_result",
        "url": text_of(object_of(build_input(arguments)).get("url")),
        "content": {"type": "document", "source": source},
        "retrieved_at": None,
    }
    if result.is_error:
        content = {"type": "web_fetch_tool_result_error", "error_code": "unavailable"}
    return {"type": FETCH + _RESULT, "tool_use_id": call_id, "content": content}


def _build_page(line: str) -> Json:
    """A page of a result, from a line with its title, if known, and its address."""
    title, _, url = line.strip().rpartition(" ")
    return {
        "type": "web_search_result",
        "url": url,
        "title": title.strip() or url,
        "encrypted_content": "",
        "page_age": None,
    }


def read_opaque(kind: str, value: Json, at: str = "") -> Opaque:
    """Keep a block that no other dialect knows, with its readable text if it has one."""
    text = _read_text_of(value)[:TEXT_LIMIT] if kind in _READABLE else ""
    return Opaque(at=at, kind=kind, value=value, text=text, is_covered=kind in _NOT_RENDERED)


def _read_text_of(content: object) -> str:
    """The readable text of a result's content."""
    if isinstance(content, str):
        return content
    return "\n".join(line for line in _read_lines(content) if line)


def _read_lines(content: object) -> Iterator[str]:
    for item in content if isinstance(content, list) else [content]:
        part = object_of(item)
        reader = _READABLE.get(text_of(part.get("type")))
        if reader is not None:
            yield from reader(part)


def _read_inner_lines(content: object) -> Iterator[str]:
    """The text of nested content, one level deep: the content is untrusted."""
    for item in content if isinstance(content, list) else [content]:
        part = object_of(item)
        yield text_of(part.get("text")) or "\n".join(_read_document(part))


def _read_text(part: Json) -> Iterator[str]:
    yield text_of(part.get("text"))


def _read_page(part: Json) -> Iterator[str]:
    yield f"{text_of(part.get('title'))} {text_of(part.get('url'))}".strip()


def _read_run(part: Json) -> Iterator[str]:
    yield text_of(part.get("stdout")).rstrip("\n")
    yield text_of(part.get("stderr")).rstrip("\n")
    code = part.get("return_code")
    if code:
        yield f"exit code {code}"


def _read_fetch(part: Json) -> Iterator[str]:
    yield text_of(part.get("url"))
    yield from _read_inner_lines(part.get("content"))


def _read_document(part: Json) -> Iterator[str]:
    source = object_of(part.get("source"))
    yield from (
        text
        for text in (
            text_of(part.get("title")),
            text_of(source.get("data")) if source.get("type") == "text" else "",
        )
        if text
    )


def _read_names(part: Json) -> Iterator[str]:
    for reference in list_of(part.get("tool_references")):
        yield text_of(object_of(reference).get("tool_name"))


def _read_search_result(part: Json) -> Iterator[str]:
    yield f"{text_of(part.get('title'))} {text_of(part.get('source'))}".strip()
    yield from _read_inner_lines(part.get("content"))


def _read_content(part: Json) -> Iterator[str]:
    yield text_of(part.get("content"))


def _read_tabs(part: Json) -> Iterator[str]:
    for tab in list_of(part.get("tabs")):
        yield f"{text_of(object_of(tab).get('title'))} {text_of(object_of(tab).get('url'))}".strip()


_READABLE: dict[str, Callable[[Json], Iterator[str]]] = {
    "text": _read_text,
    "web_search_result": _read_page,
    "web_fetch_result": _read_fetch,
    "document": _read_document,
    "code_execution_result": _read_run,
    "bash_code_execution_result": _read_run,
    "text_editor_code_execution_view_result": _read_content,
    "tool_search_tool_search_result": _read_names,
    "search_result": _read_search_result,
    "compaction": _read_content,
    "browser_state": _read_tabs,
}
