"""How Anthropic spells the small things that stand everywhere: cache marks, empty values, opaque texts.

Taking is tolerant: a value that is not of the expected type stays where it is and is written back as it came.
"""

from collections.abc import Callable

from dragoman.dialects.base import Json
from dragoman.hub.content import CacheMark, Extras
from dragoman.wire.fields import Fields, encode

NAME = "anthropic"

#: Names in extras that begin so are no fields of the client's but notes of our reader to our writer.
NOTE = "@"

#: The lifetimes that a cache mark may name.
LIFETIMES = frozenset({"5m", "1h"})

#: Values that say nothing but stood in the client's body; a form notes them, so that they stand there again.
_EMPTY: dict[str, Callable[[], object]] = {'""': str, "[]": list, "{}": dict, "false": bool}


def empty_note(name: str, value: object) -> str:
    """The word of a form that remembers an empty value under this name."""
    return f"{name}={encode(value).decode()}"


def restore_empty(form: str, written: Json) -> None:
    """Put the empty values that a form remembers where nothing else was written."""
    for word in form.split():
        name, equals, literal = word.partition("=")
        if equals and name not in written and literal in _EMPTY:
            written[name] = _EMPTY[literal]()


def take_text(values: Json, name: str) -> str:
    """A text that says something, taken out; anything else stays."""
    value = values.get(name)
    if type(value) is str and value:
        del values[name]
        return value
    return ""


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def object_of(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def read_cache(fields: Fields) -> CacheMark | None:
    """The `cache_control` of whatever the fields belong to."""
    mark = fields.maybe_object("cache_control")
    if mark is None:
        return None
    rest = mark.rest()
    if rest.get("type") == "ephemeral":
        del rest["type"]
    return CacheMark(ttl=mark.text_or("ttl", ""), extras=rest)


def write_cache(mark: CacheMark, *, own: bool) -> Json:
    written: Json = {"type": "ephemeral"}
    if mark.ttl and (own or mark.ttl in LIFETIMES):
        written["ttl"] = mark.ttl
    if own:
        written |= mark.extras
    return written


def add_common(written: Json, cache: CacheMark | None, extras: Extras, *, own: bool) -> Json:
    """What any block or tool may carry: its cache mark, and what only Anthropic understood in it."""
    if cache is not None:
        written["cache_control"] = write_cache(cache, own=own)
    if own and extras:
        for name, value in extras.items():
            if not name.startswith(NOTE):
                written.setdefault(name, value)
    return written
