"""Reads the fragments of tool calls, also in the forms of compatible servers."""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import CallKind
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.request import Request, list_declared_tools
from dragoman.wire.fields import encode


class Fragment(NamedTuple):
    """The content of one entry of a delta; a value is empty if the entry does not have it."""

    id: str
    name: str
    arguments: str
    kind: CallKind


def read_fragment(entry: dict[str, object]) -> Fragment:
    """Read an entry of `tool_calls`, also without the wrapper that some servers omit."""
    kind: CallKind = "function"
    body = entry.get("function")
    if isinstance(entry.get("custom"), dict) or entry.get("type") == "custom":
        kind = "custom"
        body = entry.get("custom")
    if not isinstance(body, dict):
        # Some servers omit the wrapper.
        body = entry
    arguments = body.get("input") if kind == "custom" else body.get("arguments")
    return Fragment(
        text_of(entry.get("id")),
        text_of(body.get("name")),
        text_of(arguments) if kind == "custom" else read_arguments(arguments),
        kind,
    )


def read_arguments(value: object) -> str:
    """The arguments as JSON text; some servers send an object."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return encode(value, error_class=UpstreamProtocolError).decode()
    return ""


def read_thought_signature(extra_content: object) -> str:
    """The signature that Google's compatible endpoint sends with a call."""
    google = extra_content.get("google") if isinstance(extra_content, dict) else None
    return text_of(google.get("thought_signature")) if isinstance(google, dict) else ""


def object_of(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def find_certain_names(request: Request | None) -> frozenset[str]:
    """The declared names that are complete once they were read: no other declared name begins with them.

    A server may split a name over several chunks.
    """
    if request is None:
        return frozenset()
    return _select_certain(tuple([tool.name for tool in list_declared_tools(request)]))


# All requests of an agent declare the same tools.
@lru_cache(maxsize=64)
def _select_certain(declared: tuple[str, ...]) -> frozenset[str]:
    names = sorted(set(declared))
    return frozenset(name for name, follower in pairwise((*names, "")) if not follower.startswith(name))
