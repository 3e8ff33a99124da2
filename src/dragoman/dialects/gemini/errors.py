"""Writes failures as Google's `{"error": {code, message, status, details}}`.

The details are typed. `RetryInfo` gives the time to wait, `QuotaFailure` the used quota (clients treat a
quota per day as final), `BadRequest` the wrong field, `ErrorInfo` a reason that programs can compare.
"""

import re
from collections.abc import Iterator

from dragoman.dialects.errors import KIND_OF_CODE, MESSAGE_LIMIT, limit_wait, write_retry_headers
from dragoman.dialects.interfaces import Json
from dragoman.hub.errors import Failure, FailureKind, kind_of_status

_STATUSES: dict[FailureKind, str] = {
    "invalid_request": "INVALID_ARGUMENT",
    "context_overflow": "INVALID_ARGUMENT",
    "authentication": "UNAUTHENTICATED",
    "billing": "RESOURCE_EXHAUSTED",
    "permission": "PERMISSION_DENIED",
    "not_found": "NOT_FOUND",
    "conflict": "ABORTED",
    "too_large": "INVALID_ARGUMENT",
    "rate_limit": "RESOURCE_EXHAUSTED",
    "quota": "RESOURCE_EXHAUSTED",
    "server": "INTERNAL",
    "unreachable": "UNAVAILABLE",
    "misconfigured": "FAILED_PRECONDITION",
    "overloaded": "UNAVAILABLE",
    "timeout": "DEADLINE_EXCEEDED",
    "cancelled": "CANCELLED",
}

#: The HTTP status of each of Google's statuses. Clients know hardly any other pairs.
_CODES: dict[str, int] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
#: HTTP statuses about HTTP itself, which stay as they are.
_KEPT_CODES = frozenset({405, 413})
#: A gateway in front of the model failed: the request is right, and a retry may reach the model.
_BAD_GATEWAY = 502

_TYPE_URL = "type.googleapis.com/google.rpc."
#: The text by which Gemini clients recognise an overflow.
_OVERFLOW_TEXT = "exceeds the maximum number of tokens"
#: Vendors name two counts, in either order. The larger one is the length of the prompt.
_COUNTS = re.compile(r"\d{3,}")


def write_error(failure: Failure) -> Json:
    """The body of an HTTP error, and of the last frame of a stream that fails."""
    error: Json = {
        "code": error_status(failure),
        "message": _overflow_message(failure.message)
        if failure.kind == "context_overflow"
        else failure.message,
        "status": _google_status(failure),
    }
    details = list(_write_details(failure))
    if details:
        error["details"] = details
    return {"error": error}


def _google_status(failure: Failure) -> str:
    """Google's status for the kind, or the upstream's own if it fits the kind or the HTTP status."""
    status = "UNAVAILABLE" if failure.http_status == _BAD_GATEWAY else _STATUSES[failure.kind]
    if failure.raw_type not in _CODES:
        return status
    kinds = (KIND_OF_CODE[status.lower()], kind_of_status(failure.http_status))
    return failure.raw_type if KIND_OF_CODE[failure.raw_type.lower()] in kinds else status


def _overflow_message(message: str) -> str:
    if _OVERFLOW_TEXT in message:
        return message
    counts = sorted(int(count) for count in _COUNTS.findall(message[:MESSAGE_LIMIT])[:2])
    if len(counts) == 2:
        return f"The input token count ({counts[1]}) {_OVERFLOW_TEXT} allowed ({counts[0]})."
    return f"The input token count {_OVERFLOW_TEXT} allowed: {message}"


def _write_details(failure: Failure) -> Iterator[Json]:
    if failure.code:
        yield {"@type": _TYPE_URL + "ErrorInfo", "reason": failure.code, "domain": "dragoman"}
    if failure.param:
        violation = {"field": failure.param, "description": failure.message}
        yield {"@type": _TYPE_URL + "BadRequest", "fieldViolations": [violation]}
    if failure.kind in ("quota", "billing"):
        # A Gemini client gives up only at a quota per day; it waits and retries at any other.
        yield {"@type": _TYPE_URL + "QuotaFailure", "violations": [{"quotaId": "UpstreamQuotaPerDay"}]}
    if failure.retry_after is not None:
        # Protobuf writes a duration as `12s` or `1.5s`.
        delay = f"{limit_wait(failure.retry_after):.3f}".rstrip("0").rstrip(".") + "s"
        yield {"@type": _TYPE_URL + "RetryInfo", "retryDelay": delay}


def error_status(failure: Failure) -> int:
    """The HTTP status that Gemini clients expect."""
    status = failure.http_status
    return status if status in _KEPT_CODES else _CODES[_google_status(failure)]


def error_headers(failure: Failure) -> dict[str, str]:
    return write_retry_headers(failure, "x-request-id")
