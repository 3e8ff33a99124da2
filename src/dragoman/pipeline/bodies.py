"""Request and reply bodies as JSON objects, from anything that a caller may pass."""

from collections.abc import Mapping

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.hub.errors import ClientProtocolError
from dragoman.wire.fields import decode, encode
from dragoman.wire.json_values import MAX_VALUES, has_too_many_values

Body = Mapping[str, object] | bytes | str

#: Vendors accept up to 32 MB; requests with many images come near it.
MAX_BODY = 64 * 1024 * 1024


def read_object(body: Body) -> Json:
    """Decode a request body into a new object, which readers may change. Raises if it is no JSON object."""
    data = body if isinstance(body, bytes | str) else encode(body)
    value = decode(data, limit=MAX_BODY, depth=0)
    if not isinstance(value, dict):
        raise ClientProtocolError("expected a JSON object as the request body")
    return value


#: The members of a request, in any API, with messages of the user and of the model.
_CONVERSATION = ("messages", "input", "contents")
_INSTRUCTION_ROLES = ("system", "developer")


def remove_from_instructions(body: bytes, text: str) -> bytes:
    """The body without a text at the beginning of its instructions. The same text elsewhere stays."""
    decoded = read_object(body)
    for member, value in decoded.items():
        if member not in _CONVERSATION:
            decoded[member] = _remove_beginning(value, text)
        elif isinstance(value, list):
            decoded[member] = [
                _remove_beginning(each, text)
                if isinstance(each, dict) and each.get("role") in _INSTRUCTION_ROLES
                else each
                for each in value
            ]
    return encode(decoded)


def _remove_beginning(value: object, text: str) -> object:
    """The value without the text at the beginning of each of its strings."""
    match value:
        case str() if value.lstrip().startswith(text):
            return value.replace(text, "", 1)
        case list():
            return [_remove_beginning(each, text) for each in value]
        case dict():
            return {name: _remove_beginning(each, text) for name, each in value.items()}
    return value


def read_reply_object(body: bytes) -> Json:
    """Decode an upstream's whole reply. Returns an error object if it is no JSON object."""
    if has_too_many_values(body):
        return {"error": {"message": f"the upstream's reply has more than {MAX_VALUES} JSON values"}}
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    return {"error": {"message": "the upstream's reply is no JSON object"}}


def encode_body(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else encode(body)
