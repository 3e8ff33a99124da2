"""Errors of this dialect: as HTTP bodies, as `error` events, and as `response.error`; both ways, by tables.

Codes mean more than types, types more than the status: clients decide by code whether to try again.
"""

import math
import re
from collections.abc import Mapping

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.headers import retry_headers
from dragoman.dialects.validation import detail_text
from dragoman.hub.errors import STATUS_OF_KIND, Failure, FailureKind, kind_of_status
from dragoman.hub.events import FailedEnding

KIND_OF_CODE: dict[str, FailureKind] = {
    "context_length_exceeded": "context_overflow",
    "rate_limit_exceeded": "rate_limit",
    "slow_down": "rate_limit",
    "tokens": "rate_limit",
    "requests": "rate_limit",
    "rate_limit_error": "rate_limit",
    "too_many_requests": "rate_limit",
    "insufficient_quota": "quota",
    "usage_limit_reached": "quota",
    "usage_not_included": "quota",
    "billing_hard_limit_reached": "billing",
    "billing_not_active": "billing",
    "server_is_overloaded": "overloaded",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "service_unavailable": "overloaded",
    "service_unavailable_error": "overloaded",
    "server_error": "server",
    "api_error": "server",
    "internal_server_error": "server",
    "model_error": "server",
    "vector_store_timeout": "timeout",
    "timeout": "timeout",
    "request_timeout": "timeout",
    "invalid_api_key": "authentication",
    "authentication_error": "authentication",
    "permission_error": "permission",
    "permission_denied": "permission",
    "bio_policy": "permission",
    "misalignment_policy_violation": "permission",
    "model_not_found": "not_found",
    "response_not_found": "not_found",
    "not_found": "not_found",
    "unknown_endpoint": "not_found",
    "not_found_error": "not_found",
    "previous_response_not_found": "invalid_request",
    "invalid_prompt": "invalid_request",
    "invalid_request": "invalid_request",
    "invalid_request_error": "invalid_request",
    "data_residency_mismatch": "invalid_request",
    "cancelled": "cancelled",
    # What the picture-taking part of the service says of its input.
    "invalid_image": "invalid_request",
    "invalid_image_format": "invalid_request",
    "invalid_base64_image": "invalid_request",
    "invalid_image_url": "invalid_request",
    "invalid_image_mode": "invalid_request",
    "image_too_large": "invalid_request",
    "image_too_small": "invalid_request",
    "image_parse_error": "invalid_request",
    "image_content_policy_violation": "permission",
    "image_file_too_large": "invalid_request",
    "image_file_not_found": "invalid_request",
    "unsupported_image_media_type": "invalid_request",
    "empty_image_file": "invalid_request",
    "failed_to_download_image": "invalid_request",
}

#: Types that are too general to overrule the status.
VAGUE_TYPES = frozenset({"invalid_request_error", "invalid_request", "server_error", "api_error"})

#: Further types that OpenAI itself uses, kept where the upstream told them.
OWN_TYPES = frozenset(
    {
        "authentication_error",
        "permission_error",
        "rate_limit_error",
        "tokens",
        "requests",
        "too_many_requests",
        "insufficient_quota",
        "usage_limit_reached",
        "usage_not_included",
        "service_unavailable_error",
        "not_found",
        "model_error",
    }
)

#: The type and the code that clients of this dialect know each kind by.
TYPE_OF_KIND: dict[FailureKind, tuple[str, str | None]] = {
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
    "overloaded": ("server_error", "server_is_overloaded"),
    "timeout": ("server_error", None),
    "cancelled": ("server_error", None),
}

#: The code of a reply that failed under way. Codex takes `invalid_prompt` and `server_is_overloaded` as final
#: and retries the unknown; another vendor's overload is worth the retry.
STREAM_CODE_OF_KIND: dict[FailureKind, str] = {
    "invalid_request": "invalid_prompt",
    "context_overflow": "context_length_exceeded",
    "authentication": "invalid_api_key",
    "billing": "insufficient_quota",
    "permission": "permission_denied",
    "not_found": "model_not_found",
    "conflict": "conflict",
    "too_large": "invalid_prompt",
    "rate_limit": "rate_limit_exceeded",
    "quota": "insufficient_quota",
    "server": "server_error",
    "overloaded": "server_error",
    "timeout": "server_error",
    "cancelled": "cancelled",
}

#: OpenAI has one status for these, whatever the upstream's.
FIXED_STATUS: dict[FailureKind, int] = {
    "billing": 429,
    "quota": 429,
    "overloaded": 503,
    "context_overflow": 400,
}


OVERFLOW_TEXT = re.compile(
    r"maximum context length|context[ _]length|context window|prompt is too long|input is too long"
    r"|exceeds? the (?:model's )?(?:maximum|max|available|limit)[\w ]{0,24}(?:tokens|context)"
    r"|too many (?:input |prompt )?tokens|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
RETRY_TEXT = re.compile(r"(?:try again|retry) in (\d{1,9}(?:\.\d{1,9})?) ?(ms|s|seconds?|m|minutes?)\b", re.I)
SECONDS_OF_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0}

#: Longer bodies are pages, not messages.
MESSAGE_LIMIT = 2000


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def retry_seconds(message: str) -> float | None:
    """How long the message asks to wait, as Codex reads it."""
    found = RETRY_TEXT.search(message)
    if not found:
        return None
    unit = found[2].lower()
    return float(found[1]) * SECONDS_OF_UNIT["ms" if unit == "ms" else unit[0]]


def kind_of(code: str, raw_type: str, message: str, status: int) -> FailureKind:
    """The kind of failure, from the most telling sign to the least."""
    by_code = KIND_OF_CODE.get(code)
    if by_code is not None and code not in VAGUE_TYPES:
        return by_code
    if status in (0, 400, 413, 422, 500) and OVERFLOW_TEXT.search(message):
        return "context_overflow"
    by_type = KIND_OF_CODE.get(raw_type)
    if by_type is not None and raw_type not in VAGUE_TYPES:
        return by_type
    if status:
        return kind_of_status(status)
    return by_code or by_type or "server"


def failure_of(error: object, *, status: int = 0, retry_after: float | None = None) -> Failure:
    """The failure that an error object, an `error` event or a bare message tells of."""
    fields: Mapping[str, object] = error if isinstance(error, dict) else {"message": error}
    message = _text(fields.get("message")) or "the upstream reported an error without a message"
    code, raw_type = _text(fields.get("code")), _text(fields.get("type"))
    if raw_type == "error":
        raw_type = ""
    kind = kind_of(code, raw_type, message, status)
    if retry_after is None and kind in ("rate_limit", "overloaded"):
        retry_after = retry_seconds(message)
    return Failure(
        kind=kind,
        message=message[:MESSAGE_LIMIT],
        status=status,
        raw_type=raw_type,
        code=code,
        param=_text(fields.get("param")),
        retry_after=retry_after,
    )


def _error_in(body: bytes) -> object:
    """The error object, or the message, inside whatever a compatible server sent."""
    try:
        value: object = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace").strip()
        return "the upstream answered with an HTML page" if text.startswith("<") else text
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return value
    for name in ("error", "detail"):
        inner = value.get(name)
        if isinstance(inner, dict):
            return inner
        if isinstance(inner, str) and inner:
            return {**value, "message": inner}
        if isinstance(inner, list) and inner:
            return {"message": detail_text(inner)}
    return value


def _seconds(value: str, unit: float = 1.0) -> float | None:
    """A header's number of seconds; dates are left alone, there is no clock here."""
    try:
        seconds = float(value) * unit
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    retry_after = _seconds(headers.get("retry-after-ms", ""), 0.001)
    if retry_after is None:
        retry_after = _seconds(headers.get("retry-after", ""))
    failure = failure_of(_error_in(body), status=status, retry_after=retry_after)
    request_id = headers.get("x-request-id") or headers.get("request-id", "")
    return msgspec.structs.replace(failure, request_id=request_id) if request_id else failure


def _own_code(failure: Failure) -> str:
    """The upstream's code, where it is one of ours and says what the kind says."""
    return failure.code if KIND_OF_CODE.get(failure.code) == failure.kind else ""


def write_error(failure: Failure) -> Json:
    error_type, code = TYPE_OF_KIND[failure.kind]
    if failure.raw_type in OWN_TYPES and KIND_OF_CODE[failure.raw_type] == failure.kind:
        error_type = failure.raw_type
    return {
        "error": {
            "message": failure.message,
            "type": error_type,
            "param": failure.param or None,
            "code": _own_code(failure) or code or failure.code or None,
        }
    }


def stream_error(failure: Failure, ending: FailedEnding, *, own: bool) -> tuple[str, str]:
    """The code and the message of a reply that failed under way; `own`: at an upstream of this dialect."""
    if ending == "truncated":
        # Half an answer is worth another try, and Codex takes an overloaded server's word as final.
        return "server_error", failure.message
    told = _own_code(failure) if own or failure.kind != "overloaded" else ""
    code = told or STREAM_CODE_OF_KIND[failure.kind]
    message = failure.message
    if failure.kind == "rate_limit" and failure.retry_after is not None and retry_seconds(message) is None:
        wait = f"{failure.retry_after:.3f}".rstrip("0").rstrip(".")
        message = f"{message} Please try again in {wait}s."
    return code, message


def error_status(failure: Failure) -> int:
    fixed = FIXED_STATUS.get(failure.kind)
    if fixed is not None:
        return fixed
    return failure.status if 400 <= failure.status < 600 else STATUS_OF_KIND[failure.kind]


def error_headers(failure: Failure) -> dict[str, str]:
    return retry_headers(failure, request_id="x-request-id")
