"""Removes the fields that a server refuses (`Facts.refused_fields`) from the body of a request.

A path is written as servers write it in their errors: `messages.*.reasoning_content`, where `*` is any item
of a list. Pydantic adds the tag of a union to a path (`messages.0.assistant.name`), so a segment that is the
type or the role of an object leads to the object itself. Google writes the names of members in snake case,
so names are compared without `_` and case.
"""

from collections.abc import Iterator, Sequence

from dragoman.dialects.interfaces import Json
from dragoman.hub.loss import Losses
from dragoman.pipeline.bodies import read_object
from dragoman.wire.fields import encode

ANY_ITEM = "*"
#: The types that a request may leave out: of Anthropic's tools, and of messages to OpenAI's Responses.
OMITTED_TAGS = frozenset(("custom", "message"))


def remove_fields(body: bytes, paths: Sequence[str], losses: Losses) -> bytes:
    """Remove the fields at these paths from the body. Each field that was there is a loss.

    Without such a field the same bytes are returned.
    """
    if not _may_have_fields(body, paths):
        return body
    decoded = read_object(body)
    is_changed = False
    for path in paths:
        holders = list(_find_fields(decoded, path.split(".")))
        for holder, name in holders:
            holder.pop(name, None)
        if holders:
            is_changed = True
            losses.add(path, "the target refuses this field")
    return encode(decoded) if is_changed else body


def _may_have_fields(body: bytes, paths: Sequence[str]) -> bool:
    """Whether the body contains the name of one of the fields anywhere."""
    if not paths:
        return False
    text = body.lower()
    names = {path.rpartition(".")[2].lower() for path in paths}
    return any(name.encode() in text or name.replace("_", "").encode() in text for name in names)


def _find_fields(value: object, segments: Sequence[str]) -> Iterator[tuple[Json, str]]:
    """The objects that hold the field, each with the name of the field there."""
    segment, rest = segments[0], segments[1:]
    if isinstance(value, list):
        if segment == ANY_ITEM and rest:
            for item in value:
                yield from _find_fields(item, rest)
        return
    if not isinstance(value, dict):
        return
    name = _find_member(value, segment)
    if name is None:
        if rest and _may_be_tag(segment, value):
            yield from _find_fields(value, rest)
    elif rest:
        yield from _find_fields(value[name], rest)
    else:
        yield value, name


def _find_member(holder: Json, segment: str) -> str | None:
    if segment in holder:
        return segment
    wanted = segment.replace("_", "").lower()
    return next((name for name in holder if name.replace("_", "").lower() == wanted), None)


def _may_be_tag(segment: str, value: Json) -> bool:
    """Whether a segment of a path can be the `type` or `role` of this object, or one that it leaves out."""
    tag = value.get("type", value.get("role"))
    return tag == segment if tag is not None else segment in OMITTED_TAGS
