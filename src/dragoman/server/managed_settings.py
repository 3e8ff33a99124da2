"""`/managed/settings`: settings of the configuration that Claude Code takes over after its sign-in."""

import hashlib
from collections.abc import Mapping

import msgspec

from dragoman.hub.errors import DragomanError, Failure
from dragoman.server.client import NO_STORE
from dragoman.server.request import HttpRequest
from dragoman.wire.fields import encode


async def respond_settings(request: HttpRequest, settings: Mapping[str, object] | None) -> None:
    """Send the settings, 304 if the client has them already, or 404 if the configuration has none."""
    if settings is None:
        message = "this gateway has no settings for its clients"
        raise DragomanError(message, failure=Failure(kind="not_found", status=404, message=message))
    checksum = compute_checksum(settings)
    headers = {"etag": f'"{checksum}"', **NO_STORE}
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if headers["etag"] in known:
        await request.client.respond(304, headers, b"")
        return
    body = {"uuid": checksum.removeprefix("sha256:")[:32], "checksum": checksum, "settings": settings}
    data = encode(body)
    kind = {"content-type": "application/json", "content-length": str(len(data))}
    await request.client.respond(200, {**headers, **kind}, data)


def compute_checksum(settings: Mapping[str, object]) -> str:
    """The checksum that Claude Code computes too: of the JSON with sorted keys and without spaces."""
    data = msgspec.json.encode(_unify_numbers(settings), order="sorted")
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _unify_numbers(value: object) -> object:
    """The value with whole numbers as integers: JavaScript has one type of numbers."""
    match value:
        case Mapping():
            return {name: _unify_numbers(each) for name, each in value.items()}
        case list():
            return [_unify_numbers(each) for each in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
