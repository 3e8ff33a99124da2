"""Tool arguments: the hub keeps JSON text, Anthropic wants an object."""

from dragoman.dialects.base import Json
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import parse_object, wrap_as_object


def input_of(arguments: str) -> Json:
    """Always an object: what does not parse is kept where the client and the model can see it."""
    value = parse_object(arguments)
    return wrap_as_object(arguments) if value is None else value


def arguments_of(given: object) -> str:
    """The arguments text of an `input`; a text that already is one stays as it came."""
    if given is None:
        return "{}"
    if isinstance(given, str) and parse_object(given) is not None:
        return given or "{}"
    return encode(given).decode()
