"""Errors of the toy API: `{"failed": {"kind", "message"}}`, in bodies and at the end of a stream."""

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from dragoman.dialects import errors
from dragoman.dialects.interfaces import Json
from dragoman.hub.errors import STATUS_OF_KIND, Failure, FailureKind


def write_error(failure: Failure) -> Json:
    return {"failed": {"kind": failure.kind, "message": failure.message}}


def read_failed(value: object, status: int = 502) -> Failure:
    match value:
        case {"kind": kind, "message": str(message)}:
            known: FailureKind = next((each for each in STATUS_OF_KIND if each == kind), "server")
            return Failure(kind=known, message=message, status=status)
    return Failure(kind="server", message="the upstream failed without a reason", status=status)


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """A body that is no toy error comes from a proxy, which the shared reader understands."""
    shared = errors.read_error(status, headers, body)
    with suppress(ValueError, KeyError):
        failed = msgspec.json.decode(body, type=dict)["failed"]
        return msgspec.structs.replace(read_failed(failed, status), retry_after=shared.retry_after)
    return shared


def error_status(failure: Failure) -> int:
    return errors.choose_status(failure, {})


def error_headers(failure: Failure) -> dict[str, str]:
    return errors.write_retry_headers(failure, "x-toy-request")
