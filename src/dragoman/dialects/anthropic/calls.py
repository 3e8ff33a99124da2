"""Tool arguments: the hub keeps JSON text, Anthropic wants an object."""

from dragoman.dialects.base import Json
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, encode


def parsed_input(arguments: str) -> Json | None:
    """The object that the arguments spell, or None if they spell anything else. No text at all means `{}`."""
    if not arguments:
        return {}
    try:
        value = decode(arguments)
    except DragomanError:
        return None
    return value if isinstance(value, dict) else None


def input_of(arguments: str) -> Json:
    """Always an object: what does not parse is kept where the client and the model can see it."""
    value = parsed_input(arguments)
    return {"text": arguments} if value is None else value


def arguments_of(given: object) -> str:
    """The arguments text of an `input`; a text that already is one stays as it came."""
    if given is None:
        return "{}"
    if isinstance(given, str) and parsed_input(given) is not None:
        return given or "{}"
    return encode(given).decode()
