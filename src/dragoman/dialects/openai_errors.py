"""Writes failures as OpenAI's error object, which Chat Completions and Responses share."""

from collections.abc import Mapping

from dragoman.dialects.errors import choose_status, write_retry_headers
from dragoman.dialects.http_api import AgentRule
from dragoman.dialects.interfaces import Json
from dragoman.hub.errors import Failure, FailureKind

#: The type and the code by which OpenAI's clients know each kind.
TYPE_AND_CODE: dict[FailureKind, tuple[str, str | None]] = {
    "invalid_request": ("invalid_request_error", None),
    "context_overflow": ("invalid_request_error", "context_length_exceeded"),
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "billing": ("insufficient_quota", "insufficient_quota"),
    "permission": ("permission_error", None),
    "not_found": ("invalid_request_error", "model_not_found"),
    "conflict": ("invalid_request_error", None),
    "too_large": ("invalid_request_error", None),
    "rate_limit": ("rate_limit_error", "rate_limit_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "server": ("server_error", None),
    "unreachable": ("server_error", None),
    "misconfigured": ("server_error", None),
    "overloaded": ("server_error", "server_is_overloaded"),
    "timeout": ("server_error", None),
    "cancelled": ("server_error", None),
}

#: Further types of OpenAI, which are kept if the upstream sent them for this kind.
OTHER_TYPES: dict[FailureKind, frozenset[str]] = {
    "authentication": frozenset({"authentication_error"}),
    "not_found": frozenset({"not_found"}),
    "rate_limit": frozenset({"tokens", "requests", "too_many_requests"}),
    "quota": frozenset({"usage_limit_reached", "usage_not_included"}),
    "server": frozenset({"model_error"}),
    "overloaded": frozenset({"service_unavailable_error"}),
}

#: OpenCode repeats a request without an end after a 429 and a 5xx, after an error of the type `server_error`,
#: and if the message has one of these numbers, "connection refused" or similar texts.
OPENCODE_RULE = AgentRule(
    "opencode/",
    frozenset({"unreachable", "misconfigured", "quota", "billing"}),
    "invalid_request",
    400,
    "provider_failed",
)

#: Kinds that always have this HTTP status.
_FIXED_STATUS: dict[FailureKind, int] = {
    "billing": 429,
    "quota": 429,
    "overloaded": 503,
    "context_overflow": 400,
}


def write_openai_error(
    failure: Failure, code: str | None, other_types: Mapping[FailureKind, frozenset[str]] = OTHER_TYPES
) -> Json:
    """The error body, with the dialect's choice of code and the upstream's type if `other_types` has it."""
    error_type, _ = TYPE_AND_CODE[failure.kind]
    if failure.raw_type in other_types.get(failure.kind, ()):
        error_type = failure.raw_type
    error = {
        "message": failure.message,
        "type": error_type,
        "param": failure.param or None,
        "code": code or None,
    }
    return {"error": error}


def error_status(failure: Failure) -> int:
    """The HTTP status that OpenAI's clients expect."""
    return choose_status(failure, _FIXED_STATUS)


def error_headers(failure: Failure) -> dict[str, str]:
    return write_retry_headers(failure, "x-request-id")
