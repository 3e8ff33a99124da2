"""Reads and writes small values that occur everywhere: cache marks, empty values, arguments of calls.

The `take_` functions are tolerant: a value of another type than expected stays in the object, and is written
back as it was received.
"""

from collections.abc import Callable

from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import PRIVATE, CacheMark, Extras
from dragoman.wire.fields import Fields, encode
from dragoman.wire.partial_json import parse_object, wrap_as_object

NAME = "anthropic"

#: The lifetimes that Anthropic accepts in a cache mark.
LIFETIMES = frozenset({"5m", "1h"})

#: Empty values that a form can record, so that they are written again where the client sent them.
_EMPTY: dict[str, Callable[[], object]] = {'""': str, "[]": list, "{}": dict, "false": bool}


def build_empty_flag(name: str, value: object) -> str:
    """The flag in a form that records an empty value of the named field."""
    return f"{name}={encode(value).decode()}"


def restore_empty(form: str, written: Json) -> None:
    """Write the empty values that a form records, unless their field is already written."""
    for flag in form.split():
        name, equals, literal = flag.partition("=")
        if equals and name not in written and literal in _EMPTY:
            written[name] = _EMPTY[literal]()


def take_text(values: Json, name: str) -> str:
    """Take a text that is not empty out of the object; anything else stays."""
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


def build_input(arguments: str) -> Json:
    """The `input` object of a call. Arguments that are no JSON object are wrapped in one."""
    value = parse_object(arguments)
    return wrap_as_object(arguments) if value is None else value


def read_arguments(value: object) -> str:
    """The arguments, as JSON text, of an `input`. A text that is JSON already stays as it is."""
    if value is None:
        return "{}"
    if isinstance(value, str) and parse_object(value) is not None:
        return value or "{}"
    return encode(value).decode()


def read_cache(fields: Fields) -> CacheMark | None:
    """Take the `cache_control` of a block, a tool or the request."""
    mark = fields.maybe_object("cache_control")
    if mark is None:
        return None
    rest = mark.rest()
    if rest.get("type") == "ephemeral":
        del rest["type"]
    return CacheMark(ttl=mark.text_or("ttl", ""), extras=rest)


def write_cache(mark: CacheMark, *, same_dialect: bool) -> Json:
    written: Json = {"type": "ephemeral"}
    if mark.ttl and (same_dialect or mark.ttl in LIFETIMES):
        written["ttl"] = mark.ttl
    if same_dialect:
        written |= mark.extras
    return written


def add_common(written: Json, cache: CacheMark | None, extras: Extras, *, same_dialect: bool) -> Json:
    """Add what any block or tool may have: its cache mark, and its extras if they come from this dialect."""
    if cache is not None:
        written["cache_control"] = write_cache(cache, same_dialect=same_dialect)
    if same_dialect and extras:
        for name, value in extras.items():
            if not name.startswith(PRIVATE):
                written.setdefault(name, value)
    return written
