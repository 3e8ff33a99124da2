"""Errors both ways: Google's `{"error": {code, message, status, details}}`, and what other servers send.

The details are typed: `RetryInfo` says when to come back, `QuotaFailure` which quota is used up (clients
take a quota per day for final), `BadRequest` which field is wrong, `ErrorInfo` a reason to branch on.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.headers import retry_headers
from dragoman.dialects.validation import detail_text
from dragoman.hub.errors import DragomanError, Failure, FailureKind, kind_of_status
from dragoman.wire.fields import decode

KINDS: dict[str, FailureKind] = {
    "INVALID_ARGUMENT": "invalid_request",
    "FAILED_PRECONDITION": "invalid_request",
    "OUT_OF_RANGE": "invalid_request",
    "UNIMPLEMENTED": "invalid_request",
    "UNAUTHENTICATED": "authentication",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "not_found",
    "ABORTED": "conflict",
    "ALREADY_EXISTS": "conflict",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "CANCELLED": "cancelled",
    "INTERNAL": "server",
    "UNKNOWN": "server",
    "DATA_LOSS": "server",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
}

#: Reasons of `ErrorInfo` that say more than the status.
KINDS_OF_REASON: dict[str, FailureKind] = {
    "API_KEY_INVALID": "authentication",
    "CREDENTIALS_MISSING": "authentication",
    "ACCESS_TOKEN_EXPIRED": "authentication",
    "API_KEY_SERVICE_BLOCKED": "permission",
    "BILLING_DISABLED": "billing",
}

STATUSES: dict[FailureKind, str] = {
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
    "overloaded": "UNAVAILABLE",
    "timeout": "DEADLINE_EXCEEDED",
    "cancelled": "CANCELLED",
}

#: The HTTP status that goes with each word; clients know hardly any other pairs.
CODES: dict[str, int] = {
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
#: What HTTP itself has to say keeps its status.
OF_HTTP = frozenset({405, 413})
#: A gateway before the model failed: nothing is wrong with the request, and the next try may reach it.
BAD_GATEWAY = 502

TYPE_URL = "type.googleapis.com/google.rpc."

OVERFLOW = re.compile(
    r"exceeds? the maximum number of tokens|input token count|prompt is too long|input is too long"
    r"|maximum context length|context (?:length|window|size)|context_length_exceeded"
    r"|too many (?:input )?tokens",
    re.IGNORECASE,
)
#: The words that Gemini clients look for.
OVERFLOW_WORDS = "exceeds the maximum number of tokens"
#: The two counts that vendors tell an overflow with, in either order: the larger one is what was sent.
COUNTS = re.compile(r"\d{3,}")

SECONDS = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*s?\s*")
RETRY_TEXT = re.compile(r"retry (?:in|after) (\d{1,9}(?:\.\d{1,9})?) ?s", re.IGNORECASE)

TEXT_LIMIT = 2_000


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an upstream's HTTP error means. Header names are lower case."""
    value = _body_of(body)
    failure = failure_of(value, status, b"" if isinstance(value, dict | list) else body)
    retry_after = failure.retry_after
    if retry_after is None:
        retry_after = _retry_of_headers(headers)
    return msgspec.structs.replace(
        failure, retry_after=retry_after, request_id=headers.get("x-request-id", "")
    )


def _body_of(body: bytes) -> object:
    try:
        return decode(body)
    except DragomanError:
        return None


def failure_of(value: object, status: int = 0, body: bytes = b"") -> Failure:
    """A decoded error body, list-wrapped or not; `body` is the text that stands in when it was no JSON."""
    while isinstance(value, list) and value:
        value = value[0]
    outer = value if isinstance(value, dict) else {}
    inner = outer.get("error")
    error: Json = inner if isinstance(inner, dict) else outer
    code = error.get("code")
    if not status and type(code) is int and 400 <= code <= 599:
        status = code
    message = _message(error, outer, inner, body) or f"the upstream answered with status {status or 500}"
    word = error.get("status")
    word = word if isinstance(word, str) else ""
    details = list(_details(error))
    retry_after = _retry_of_details(details)
    if retry_after is None and (found := RETRY_TEXT.search(message[:TEXT_LIMIT])):
        retry_after = float(found[1])
    return Failure(
        kind=_kind(status, word, message, details),
        message=message,
        status=status or 500,
        raw_type=word,
        code=_reason(details),
        param=_field(details),
        retry_after=retry_after,
    )


def _message(error: Json, outer: Json, inner: object, body: bytes) -> str:
    for candidate in (error.get("message"), inner, detail_text(outer.get("detail")), outer.get("message")):
        if isinstance(candidate, str) and candidate.strip():
            return candidate
    text = body[:TEXT_LIMIT].decode("utf-8", "replace").strip()
    return "the upstream answered with an HTML page" if text.startswith("<") else text


def _details(error: Json) -> Iterator[Json]:
    details = error.get("details")
    if isinstance(details, list):
        yield from (detail for detail in details if isinstance(detail, dict))


def _of_type(details: list[Json], name: str) -> Iterator[Json]:
    for detail in details:
        kind = detail.get("@type")
        if isinstance(kind, str) and kind.rpartition(".")[2] == name:
            yield detail


def _kind(status: int, word: str, message: str, details: list[Json]) -> FailureKind:
    if status == 413:
        return "too_large"
    if status in (0, 400) and OVERFLOW.search(message[:TEXT_LIMIT]):
        return "context_overflow"
    reason = KINDS_OF_REASON.get(_reason(details))
    if reason is not None:
        return reason
    if any("PerDay" in quota for quota in _quotas(details)):
        return "quota"
    return KINDS.get(word) or kind_of_status(status or 500)


def _reason(details: list[Json]) -> str:
    for info in _of_type(details, "ErrorInfo"):
        reason = info.get("reason")
        if isinstance(reason, str):
            return reason
    return ""


def _quotas(details: list[Json]) -> Iterator[str]:
    for failure in _of_type(details, "QuotaFailure"):
        violations = failure.get("violations")
        for violation in violations if isinstance(violations, list) else []:
            quota = violation.get("quotaId") if isinstance(violation, dict) else None
            if isinstance(quota, str):
                yield quota


def _field(details: list[Json]) -> str:
    for request in _of_type(details, "BadRequest"):
        violations = request.get("fieldViolations")
        for violation in violations if isinstance(violations, list) else []:
            field = violation.get("field") if isinstance(violation, dict) else None
            if isinstance(field, str):
                return field
    return ""


def _seconds(text: object) -> float | None:
    found = SECONDS.fullmatch(text) if isinstance(text, str) else None
    return float(found[1]) if found else None


def _retry_of_details(details: list[Json]) -> float | None:
    for info in _of_type(details, "RetryInfo"):
        seconds = _seconds(info.get("retryDelay"))
        if seconds is not None:
            return seconds
    return None


def _retry_of_headers(headers: Mapping[str, str]) -> float | None:
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    return _seconds(headers.get("retry-after"))


def write_error(failure: Failure) -> Json:
    """The error body that Gemini clients understand."""
    error: Json = {
        "code": error_status(failure),
        "message": _overflow_message(failure) if failure.kind == "context_overflow" else failure.message,
        "status": _status_word(failure),
    }
    details = list(_write_details(failure))
    if details:
        error["details"] = details
    return {"error": error}


def _status_word(failure: Failure) -> str:
    """The upstream's own word, if it is one of Google's and means the same, or goes with the status."""
    word = "UNAVAILABLE" if failure.http_status == BAD_GATEWAY else STATUSES[failure.kind]
    means = KINDS.get(failure.raw_type)
    fits = means in (KINDS[word], kind_of_status(failure.http_status))
    return failure.raw_type if means and fits else word


def _overflow_message(failure: Failure) -> str:
    message = failure.message
    if OVERFLOW_WORDS in message:
        return message
    counts = sorted(int(count) for count in COUNTS.findall(message[:TEXT_LIMIT])[:2])
    if len(counts) == 2:
        return f"The input token count ({counts[1]}) {OVERFLOW_WORDS} allowed ({counts[0]})."
    return f"The input token count {OVERFLOW_WORDS} allowed: {message}"


def _write_details(failure: Failure) -> Iterator[Json]:
    if failure.code:
        yield {"@type": TYPE_URL + "ErrorInfo", "reason": failure.code, "domain": "dragoman"}
    if failure.param:
        violation = {"field": failure.param, "description": failure.message}
        yield {"@type": TYPE_URL + "BadRequest", "fieldViolations": [violation]}
    if failure.kind in ("quota", "billing"):
        # The only word of this dialect for "waiting will not help".
        yield {"@type": TYPE_URL + "QuotaFailure", "violations": [{"quotaId": "UpstreamQuotaPerDay"}]}
    if failure.retry_after is not None:
        yield {"@type": TYPE_URL + "RetryInfo", "retryDelay": duration(failure.retry_after)}


def duration(seconds: float) -> str:
    """Seconds as protobuf spells a duration: `12s`, `1.5s`."""
    return f"{max(0.0, seconds):.3f}".rstrip("0").rstrip(".") + "s"


def error_status(failure: Failure) -> int:
    """The HTTP status that a Gemini client expects."""
    status = failure.http_status
    return status if status in OF_HTTP else CODES[_status_word(failure)]


def error_headers(failure: Failure) -> dict[str, str]:
    return retry_headers(failure, request_id="x-request-id")
