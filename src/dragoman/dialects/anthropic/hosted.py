"""Blocks of tools that Anthropic ran by itself: calls, results, and the results' content as readable text.

The structure stays in the extras and is written back to Anthropic alone; everyone else reads the text.
"""

import re
from collections.abc import Callable, Iterator

from dragoman.dialects.anthropic.calls import arguments_of, input_of
from dragoman.dialects.anthropic.spelling import add_common, list_of, object_of, take_text, text_of
from dragoman.dialects.base import Json
from dragoman.hub.content import HostedCall, HostedResult, Opaque

CALLS = frozenset({"server_tool_use", "mcp_tool_use"})

#: Notes to our own writer: the family and the readable text stand for these elsewhere.
_NAME = "@name"
_CONTENT = "@content"
_RESULT = "_tool_result"

#: Names of server tools and of their results, in the order of the search, and the family they belong to.
_FAMILIES: tuple[tuple[str, str], ...] = (
    ("code_execution", "code_execution"),
    ("tool_search", "tool_search"),
    ("web_search", "web_search"),
    ("web_fetch", "web_fetch"),
    ("mcp", "mcp"),
    ("advisor", "advisor"),
)
_DATE = re.compile(r"_\d{8}$")
TEXT_LIMIT = 200_000


def family_of(name: str) -> str:
    """The family of a server tool, whichever version or variant the name tells."""
    bare = _DATE.sub("", name)
    return next((family for word, family in _FAMILIES if word in bare), bare)


def is_result(kind: str) -> bool:
    return kind.endswith(_RESULT)


def read_call(value: Json, at: str = "", arguments: str | None = None) -> HostedCall:
    """Takes the object apart. `arguments` are those that a stream told apart from the block."""
    kind = take_text(value, "type")
    name = take_text(value, "name")
    given = value.pop("input", None)
    if name:
        value[_NAME] = name
    if arguments is None:
        arguments = arguments_of(given)
    return HostedCall(
        at=at,
        form=kind,
        id=take_text(value, "id"),
        tool="mcp" if kind == "mcp_tool_use" else family_of(name),
        arguments=arguments,
        extras=value,
    )


def write_call(call: HostedCall) -> Json:
    written: Json = {
        "type": call.form or "server_tool_use",
        "id": call.id,
        "name": call.extras.get(_NAME, call.tool),
        "input": input_of(call.arguments),
    }
    return add_common(written, call.cache, call.extras, own=True)


def read_result(value: Json, at: str = "") -> HostedResult:
    """Takes the object apart; the content stays whole beside its text."""
    kind = take_text(value, "type")
    content = value.pop("content", None)
    if content is not None:
        value[_CONTENT] = content
    error = text_of(object_of(content).get("error_code"))
    return HostedResult(
        at=at,
        form=kind,
        call_id=take_text(value, "tool_use_id"),
        tool=family_of(kind.removesuffix(_RESULT)),
        text=f"error: {error}" if error else _readable(content)[:TEXT_LIMIT],
        is_error=bool(error) or value.get("is_error") is True,
        extras=value,
    )


def write_result(result: HostedResult) -> Json:
    written: Json = {"type": result.form, "tool_use_id": result.call_id}
    if _CONTENT in result.extras:
        written["content"] = result.extras[_CONTENT]
    return add_common(written, result.cache, result.extras, own=True)


def read_opaque(kind: str, value: Json, at: str = "") -> Opaque:
    """A block that no other dialect knows, with what a reader can make of it."""
    text = _readable(value)[:TEXT_LIMIT] if kind in _READABLE else ""
    return Opaque(at=at, kind=kind, value=value, text=text)


def _readable(content: object) -> str:
    """What a person would read in the content of a result."""
    if isinstance(content, str):
        return content
    return "\n".join(line for line in _lines(content) if line)


def _lines(content: object) -> Iterator[str]:
    for item in content if isinstance(content, list) else [content]:
        part = object_of(item)
        reader = _READABLE.get(text_of(part.get("type")))
        if reader is not None:
            yield from reader(part)


def _inner_lines(content: object) -> Iterator[str]:
    """One level and no deeper: the content is a stranger's."""
    for item in content if isinstance(content, list) else [content]:
        part = object_of(item)
        yield text_of(part.get("text")) or "\n".join(_of_document(part))


def _of_text(part: Json) -> Iterator[str]:
    yield text_of(part.get("text"))


def _of_page(part: Json) -> Iterator[str]:
    yield f"{text_of(part.get('title'))} {text_of(part.get('url'))}".strip()


def _of_run(part: Json) -> Iterator[str]:
    yield text_of(part.get("stdout")).rstrip("\n")
    yield text_of(part.get("stderr")).rstrip("\n")
    code = part.get("return_code")
    if code:
        yield f"exit code {code}"


def _of_fetch(part: Json) -> Iterator[str]:
    yield text_of(part.get("url"))
    yield from _inner_lines(part.get("content"))


def _of_document(part: Json) -> Iterator[str]:
    source = object_of(part.get("source"))
    yield from (
        text
        for text in (
            text_of(part.get("title")),
            text_of(source.get("data")) if source.get("type") == "text" else "",
        )
        if text
    )


def _of_names(part: Json) -> Iterator[str]:
    for reference in list_of(part.get("tool_references")):
        yield text_of(object_of(reference).get("tool_name"))


def _of_search_result(part: Json) -> Iterator[str]:
    yield f"{text_of(part.get('title'))} {text_of(part.get('source'))}".strip()
    yield from _inner_lines(part.get("content"))


def _of_content(part: Json) -> Iterator[str]:
    yield text_of(part.get("content"))


def _of_tabs(part: Json) -> Iterator[str]:
    for tab in list_of(part.get("tabs")):
        yield f"{text_of(object_of(tab).get('title'))} {text_of(object_of(tab).get('url'))}".strip()


_READABLE: dict[str, Callable[[Json], Iterator[str]]] = {
    "text": _of_text,
    "web_search_result": _of_page,
    "web_fetch_result": _of_fetch,
    "document": _of_document,
    "code_execution_result": _of_run,
    "bash_code_execution_result": _of_run,
    "text_editor_code_execution_view_result": _of_content,
    "tool_search_tool_search_result": _of_names,
    "search_result": _of_search_result,
    "compaction": _of_content,
    "browser_state": _of_tabs,
}
