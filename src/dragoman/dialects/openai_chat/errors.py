"""Writes failures as the error bodies that clients of Chat Completions expect."""

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_errors import (
    OTHER_TYPES,
    TYPE_AND_CODE,
    error_headers,
    error_status,
    write_openai_error,
)
from dragoman.hub.errors import Failure

__all__ = ["error_headers", "error_status", "write_error"]

#: Kinds whose code clients act upon: the upstream's own code must not replace it.
_FIXED_CODES = frozenset({"context_overflow", "quota", "billing"})
#: OpenAI answers 403 with this type, for example in a country that it does not serve.
_OTHER_TYPES = OTHER_TYPES | {"permission": frozenset({"invalid_request_error"})}


def write_error(failure: Failure) -> Json:
    """The body of an HTTP error, and of the last frame of a stream that fails."""
    _, code = TYPE_AND_CODE[failure.kind]
    code = code if failure.kind in _FIXED_CODES else failure.code or code
    return write_openai_error(failure, code, _OTHER_TYPES)
