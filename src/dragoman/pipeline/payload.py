"""Payload rules: edits of the JSON that goes to a provider, by the configuration.

A path has segments between dots: `thinking.type`, `messages.0.name`, `tools.*.strict`. In a list, a segment
is an index (`-1`: the last item) or `*` (every item).
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec

from dragoman.hub.loss import Losses
from dragoman.pipeline.bodies import read_object
from dragoman.pipeline.refused_fields import ANY_ITEM
from dragoman.providers.facts import Doc
from dragoman.wire.fields import encode

Operation = Literal["set", "default", "remove"]
#: The losses that make edits visible.
_REASONS: dict[Operation, str] = {
    "set": "set by a payload rule",
    "default": "added by a payload rule",
    "remove": "removed by a payload rule",
}


class PayloadRule(msgspec.Struct, frozen=True, kw_only=True):
    """One `payload` table of a provider or route. The edits apply in the order `set`, `default`, `remove`."""

    models: Annotated[str, Doc("The names of the models; `*` matches any part.")] = "*"
    when_present: Annotated[str, Doc("Only if the request has a value at this path, such as `tools`.")] = ""
    set: Annotated[dict[str, object], Doc("Values by path. Missing objects of a path are added.")] = {}
    default: Annotated[
        dict[str, object], Doc("Values by path, for requests that have none at this path.")
    ] = {}
    remove: Annotated[tuple[str, ...], Doc("The paths of values that are not sent.")] = ()

    def list_edits(self) -> Iterator[tuple[Operation, str, object]]:
        """The edits in their order: operation, path, value."""
        yield from (("set", path, value) for path, value in self.set.items())
        yield from (("default", path, value) for path, value in self.default.items())
        yield from (("remove", path, None) for path in self.remove)


def edit_payload(body: bytes, rules: Sequence[PayloadRule], losses: Losses) -> bytes:
    """Apply the rules to the body of a request. Each edit that changes it is a loss.

    Without a change the same bytes are returned.
    """
    decoded = read_object(body)
    is_changed = False
    for rule in rules:
        if rule.when_present and not _has_value(decoded, rule.when_present):
            continue
        for operation, path, value in rule.list_edits():
            if _apply(decoded, operation, path, value):
                losses.add(path, _REASONS[operation])
                is_changed = True
    return encode(decoded) if is_changed else body


def _has_value(decoded: object, path: str) -> bool:
    places = _find_places(decoded, path.split("."), adds_objects=False)
    return any(_contains(holder, key) for holder, key in places)


def _apply(decoded: object, operation: Operation, path: str, value: object) -> bool:
    """Apply one edit at every place of its path. Returns whether something changed."""
    places = list(_find_places(decoded, path.split("."), adds_objects=operation != "remove"))
    is_changed = False
    # From the end: the removal of an item moves the later ones.
    for holder, key in reversed(places):
        is_present = _contains(holder, key)
        if operation == "remove":
            if not is_present:
                continue
            del holder[key]
        elif is_present and (operation == "default" or encode(holder[key]) == encode(value)):
            continue
        else:
            # A copy: a later edit may change the inside of the value.
            holder[key] = msgspec.json.decode(encode(value))
        is_changed = True
    return is_changed


def _contains(holder: Any, key: Any) -> bool:
    # `_find_places` gives only existing indexes of lists.
    return isinstance(holder, list) or key in holder


def _find_places(value: Any, segments: Sequence[str], *, adds_objects: bool) -> Iterator[tuple[Any, Any]]:
    """The objects and lists at the last segment of a path, each with the name or index there."""
    segment, rest = segments[0], segments[1:]
    for key in _list_keys(value, segment):
        if not rest:
            yield value, key
            continue
        if adds_objects and not _contains(value, key) and not any(map(_is_index, rest)):
            value[key] = {}
        if _contains(value, key):
            yield from _find_places(value[key], rest, adds_objects=adds_objects)


def _list_keys(value: object, segment: str) -> Sequence[str | int]:
    """What a segment means in this value: a name, or the indexes of existing items."""
    if isinstance(value, dict):
        return (segment,)
    if not isinstance(value, list) or not _is_index(segment):
        return ()
    if segment == ANY_ITEM:
        return range(len(value))
    index = int(segment)
    return (index,) if -len(value) <= index < len(value) else ()


def _is_index(segment: str) -> bool:
    """Whether a segment means items of a list."""
    return segment == ANY_ITEM or (segment.isascii() and segment.removeprefix("-").isdigit())
