"""Errors as Anthropic's clients expect them, and the errors of everyone who claims to speak Anthropic.

Claude Code compacts a conversation when it reads "prompt is too long: N tokens > M maximum", so an
overflow of any upstream is told in these words, with the numbers that the upstream gave.
"""

import math
import re
from collections.abc import Mapping

from dragoman.dialects.anthropic.spelling import object_of, text_of
from dragoman.dialects.base import Json
from dragoman.dialects.headers import retry_headers
from dragoman.dialects.validation import detail_text
from dragoman.hub.errors import (
    KIND_OF_STATUS,
    STATUS_OF_KIND,
    DragomanError,
    Failure,
    FailureKind,
    kind_of_status,
)
from dragoman.wire.fields import decode

KIND_OF_TYPE: dict[str, FailureKind] = {
    "invalid_request_error": "invalid_request",
    "authentication_error": "authentication",
    "billing_error": "billing",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "conflict_error": "conflict",
    "request_too_large": "too_large",
    "rate_limit_error": "rate_limit",
    "api_error": "server",
    "timeout_error": "timeout",
    "overloaded_error": "overloaded",
}

TYPE_OF_KIND: dict[FailureKind, str] = {
    "invalid_request": "invalid_request_error",
    "context_overflow": "invalid_request_error",
    "authentication": "authentication_error",
    "billing": "billing_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "conflict": "conflict_error",
    "too_large": "request_too_large",
    "rate_limit": "rate_limit_error",
    "quota": "rate_limit_error",
    "server": "api_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
    # Clients retry an overload, and whoever still listens after a cancellation should try again.
    "cancelled": "overloaded_error",
}

#: Types that servers use for anything; the HTTP status says more.
_VAGUE_TYPES = frozenset({"invalid_request_error", "api_error"})

#: Kinds whose HTTP status is fixed here, whatever status the upstream gave them.
_OWN_STATUS: dict[FailureKind, int] = {"overloaded": 529, "context_overflow": 400}

MESSAGE_LIMIT = 4000

_OVERFLOW = re.compile(
    r"prompt is too long|exceeds? (?:the )?(?:model'?s )?(?:maximum )?(?:available )?context"
    r"|context[ _](?:length|window|size|limit)[^.]{0,40}exceed|maximum context length"
    r"|exceeds? the maximum number of (?:input )?tokens|input is too long|too many (?:input )?tokens"
    r"|context_length_exceeded|exceed_context_size",
    re.IGNORECASE,
)
_NATIVE_OVERFLOW = re.compile(
    r"prompt is too long: \d+ tokens > \d+ maximum"
    r"|input length and `max_tokens` exceed context limit: \d+ \+ \d+ > \d+"
)
#: Where the limit stands, from the surest place to the least sure.
_LIMITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"context (?:length|window|size)[^\d]{0,20}(\d[\d,]*)",
        r"(\d[\d,]*) maximum context length",
        r"(?:max(?:imum)?|limit|allowed)[^\d]{0,40}(\d[\d,]*)",
    )
)
#: What a vendor counts when the prompt and the wanted answer are too long only together.
_PROMPT = re.compile(r"(\d[\d,]*) (?:in (?:the messages|your prompt)|of \w{1,12} input|`inputs`|input) ?")
_ANSWER = re.compile(
    r"(\d[\d,]*) (?:in the (?:completion|output)|for the completion|`max_new_tokens`)|too large: (\d[\d,]*)"
)
_NUMBER = re.compile(r"\d[\d,]*")


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an upstream's HTTP error means. Header names are lower case."""
    try:
        value = decode(body)
    except DragomanError:
        value = None
    if isinstance(value, list) and value:
        value = value[0]
    told = value if isinstance(value, dict) else {}
    failure = failure_of(told, status=status, fallback=_plain_message(body, status))
    request_id = failure.request_id or headers.get("request-id", "") or headers.get("x-request-id", "")
    return Failure(
        kind=failure.kind,
        message=failure.message,
        status=status,
        raw_type=failure.raw_type,
        code=failure.code,
        retry_after=_retry_after(headers),
        request_id=request_id,
    )


def failure_of(told: Json, *, status: int = 0, fallback: str = "the upstream reported an error") -> Failure:
    """The failure that an error body, or an `error` event of a stream, tells."""
    error = told.get("error")
    inner = object_of(error)
    kind_name = text_of(inner.get("type"))
    code = text_of(object_of(inner.get("details")).get("error_code")) or text_of(inner.get("code"))
    message = (
        text_of(inner.get("message"))
        or text_of(error)
        or text_of(told.get("message"))
        or detail_text(told.get("detail"))
        or fallback
    )[:MESSAGE_LIMIT]
    return Failure(
        kind=_kind(kind_name, code, message, status),
        message=message,
        status=status,
        raw_type=kind_name,
        code=code,
        request_id=text_of(told.get("request_id")),
    )


def _kind(kind_name: str, code: str, message: str, status: int) -> FailureKind:
    kind = KIND_OF_TYPE.get(kind_name)
    if kind is None or (kind_name in _VAGUE_TYPES and status in KIND_OF_STATUS):
        kind = kind_of_status(status)
    refused = kind == "invalid_request" or (kind == "too_large" and kind_name != "request_too_large")
    if refused and (_OVERFLOW.search(message) or _OVERFLOW.search(code) or _OVERFLOW.search(kind_name)):
        return "context_overflow"
    return kind


def _plain_message(body: bytes, status: int) -> str:
    text = body[:MESSAGE_LIMIT].decode("utf-8", "replace").strip()
    if not text or text[0] in "{[":
        return f"the upstream answered with status {status}"
    if text[0] == "<":
        return f"the upstream answered with an HTML page and status {status}"
    return text


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait. Dates are left alone: they mean nothing without a clock."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return None


def write_error(failure: Failure) -> Json:
    message = overflow_text(failure.message) if failure.kind == "context_overflow" else failure.message
    body: Json = {"type": "error", "error": {"type": TYPE_OF_KIND[failure.kind], "message": message}}
    if failure.request_id:
        body["request_id"] = failure.request_id
    return body


def overflow_text(message: str) -> str:
    """An overflow in the words that Claude Code understands, with as many of the numbers as were told."""
    if _NATIVE_OVERFLOW.search(message):
        return message
    said = message[:MESSAGE_LIMIT]
    found = next(filter(None, (pattern.search(said) for pattern in _LIMITS)), None)
    if found is None:
        return f"prompt is too long: {message}"
    limit = _number(found[1])
    prompt = sum(map(_number, _PROMPT.findall(said)))
    answer = _ANSWER.search(said)
    if answer is not None and 0 < prompt <= limit:
        wanted = _number(answer[1] or answer[2])
        return f"input length and `max_tokens` exceed context limit: {prompt} + {wanted} > {limit}"
    beyond = [number for number in map(_number, _NUMBER.findall(said)) if number > limit]
    tokens = str(beyond[0]) if beyond else f"more than {limit}"
    return f"prompt is too long: {tokens} tokens > {limit} maximum"


def _number(digits: str) -> int:
    return int(digits.replace(",", "")[:18])


def error_status(failure: Failure) -> int:
    """The HTTP status that a client of this dialect expects."""
    status = _OWN_STATUS.get(failure.kind, failure.http_status)
    return status if status >= 400 else STATUS_OF_KIND[failure.kind]


def error_headers(failure: Failure) -> dict[str, str]:
    return retry_headers(failure, request_id="request-id")
