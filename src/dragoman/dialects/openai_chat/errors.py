"""Errors as OpenAI and its many compatible servers tell them, and as OpenAI's clients expect them.

The kind is decided by what is most certain: a text or code about the context window, then codes and types
that mean one thing only, then the HTTP status.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.headers import retry_headers
from dragoman.dialects.validation import complaint
from dragoman.hub.errors import Failure, FailureKind, kind_of_status

MESSAGE_LIMIT = 2000

#: Codes and types that mean one thing whatever the status says, in lower case.
KIND_OF_WORD: dict[str, FailureKind] = {
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "model_max_prompt_tokens_exceeded": "context_overflow",
    "invalid_api_key": "authentication",
    "authentication_error": "authentication",
    "unauthorized": "authentication",
    "unauthenticated": "authentication",
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "billing",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "ratelimiterror": "rate_limit",
    "tokens": "rate_limit",
    "requests": "rate_limit",
    "resource_exhausted": "rate_limit",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "notfounderror": "not_found",
    "not_found": "not_found",
    "permission_error": "permission",
    "permission_denied": "permission",
    "unsupported_country_region_territory": "permission",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "engine_overloaded": "overloaded",
    "engine_overloaded_error": "overloaded",
    "overloaded_error": "overloaded",
    "unavailable_error": "overloaded",
    "unavailable": "overloaded",
    "timeout_error": "timeout",
    "request_timeout": "timeout",
    "deadline_exceeded": "timeout",
    "invalid_request_error": "invalid_request",
    "badrequesterror": "invalid_request",
    "invalid_argument": "invalid_request",
}

#: Weak words: a status that says more wins.
VAGUE_KINDS = frozenset(("invalid_request", "rate_limit"))

OVERFLOW = re.compile(
    r"(maximum|max|available|model'?s?) (context|model|prompt|input) (length|size|window|tokens?)"
    r"|context[ _](length|size|window)[ _a-z]{0,20}(exceed|overflow|is full)"
    r"|exceed[a-z]* [a-z' ]{0,40}(context|maximum number of tokens|token limit)"
    r"|(prompt|input|request|conversation) (is|was) too (long|large for)"
    r"|(prompt|input) has [0-9,]+ tokens"
    r"|too many (input |prompt )?tokens"
    r"|reduce the length of the (messages|prompt|input)"
    r"|(prompt|input)( length| tokens| token count)?( of [0-9,]+)? exceeds? (the )?(max|limit)"
    r"|range of input length should be"
    r"|tokens to keep from the initial prompt|context length of only"
    r"|`inputs` tokens \+ `max_new_tokens` must be",
    re.IGNORECASE,
)

RETRY_TEXT = re.compile(
    r"(?:try again|retry)(?: your request)? (?:in|after) "
    r"((?:[0-9.]{1,20} ?(?:milliseconds|seconds|minutes|hours|ms|h|m|s) ?){1,4})",
    re.IGNORECASE,
)
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(milliseconds|seconds|minutes|hours|ms|h|m|s)", re.IGNORECASE)
SECONDS_OF_UNIT = {
    "milliseconds": 0.001,
    "ms": 0.001,
    "seconds": 1.0,
    "s": 1.0,
    "minutes": 60.0,
    "m": 60.0,
    "hours": 3600.0,
    "h": 3600.0,
}
#: Nobody waits longer; a larger number is a mistake.
LONGEST_WAIT = 1e7

TITLE = re.compile(rb"<title[^>]{0,200}>([^<]{1,200})", re.IGNORECASE)

REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-generation-id")


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an HTTP error of any compatible server means."""
    request_id = next((headers[name] for name in REQUEST_ID_HEADERS if headers.get(name)), "")
    failure = failure_of(_decoded(body), status)
    waiting = _header_wait(headers)
    return msgspec.structs.replace(
        failure,
        message=failure.message or _plain_message(status, body),
        request_id=request_id,
        retry_after=failure.retry_after if waiting is None else waiting,
    )


def failure_of(value: object, status: int = 0) -> Failure:
    """The failure that a decoded error value tells, found in whatever shape it has.

    `status` is the HTTP status, or 0 where the error came inside a stream that had begun well.
    """
    told = _told(value)
    texts = list(_texts(value))
    kind = _kind(told, texts, status)
    message = texts[0] if texts else ""
    if len(texts) > 1 and texts[1] not in message:
        # "Provider returned error" alone helps nobody; what the provider said comes along.
        message = f"{message}: {texts[1]}"
    return Failure(
        kind=kind,
        message=message[:MESSAGE_LIMIT],
        status=status or _status_told(told),
        raw_type=_word(told.get("type")) or _word(told.get("status")),
        code=_word(told.get("code")),
        param=_word(told.get("param")),
        retry_after=_told_wait(told, texts),
    )


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _told(value: object) -> Json:
    """The object that holds message, type and code: the value itself, its `error`, or a list's first."""
    for _ in range(3):
        if isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict) and isinstance(value.get("error"), dict | list):
            value = value["error"]
    return value if isinstance(value, dict) else {}


MESSAGE_KEYS = ("message", "msg", "error", "detail", "error_msg", "error_message", "errors", "description")


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """The messages inside an error value, the outermost first."""
    if depth > 6:
        return
    if isinstance(value, str):
        inner = _decoded(value.encode("utf-8", "replace")) if value[:1] in ("{", "[") else None
        found = list(_texts(inner, depth + 1))
        yield from found or ([text] if (text := value.strip()) else [])
    elif isinstance(value, list):
        for item in value[:3]:
            yield from _texts(item, depth + 1)
    elif isinstance(value, dict) and isinstance(value.get("loc"), list):
        yield from filter(None, [complaint(value)])
    elif isinstance(value, dict):
        for key in MESSAGE_KEYS:
            yield from _texts(value.get(key), depth + 1)
        # OpenRouter keeps the words of the provider behind it here.
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            yield from _texts(metadata.get("raw"), depth + 1)


def _kind(told: Json, texts: list[str], status: int) -> FailureKind:
    words = [word.lower() for name in ("code", "type", "status") if (word := _word(told.get(name)))]
    kinds = [KIND_OF_WORD[word] for word in words if word in KIND_OF_WORD]
    if "context_overflow" in kinds:
        return "context_overflow"
    status = status or _status_told(told)
    if status in (0, 200, 400, 413, 422, 500) and any(
        OVERFLOW.search(text[:MESSAGE_LIMIT]) for text in texts
    ):
        return "context_overflow"
    strong = [kind for kind in kinds if kind not in VAGUE_KINDS]
    if strong:
        return strong[0]
    if status >= 400:
        return kind_of_status(status)
    return kinds[0] if kinds else "server"


def _status_told(told: Json) -> int:
    for name in ("code", "status", "status_code"):
        number = told.get(name)
        if isinstance(number, str) and number.isdecimal() and len(number) == 3:
            number = int(number)
        if type(number) is int and 400 <= number <= 599:
            return number
    return 0


def _word(value: object) -> str:
    """A code or type as text; numbers are statuses, not words."""
    return value[:200] if isinstance(value, str) and not value.isdecimal() else ""


def _header_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from the headers. Dates need a clock and are left alone."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * scale
        except ValueError:
            continue
        if 0 <= seconds <= LONGEST_WAIT:
            return seconds
    return None


def _told_wait(told: Json, texts: list[str]) -> float | None:
    details = told.get("details")
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _seconds(delay)) is not None:
            return seconds
    for text in texts:
        found = RETRY_TEXT.search(text[:MESSAGE_LIMIT])
        if found:
            return _seconds(found[1])
    return None


def _seconds(text: str) -> float | None:
    """The length of a duration such as `6m0s`, `28ms` or `1.5 seconds`."""
    found = DURATION.findall(text[:100])
    seconds = sum(float(number) * SECONDS_OF_UNIT[unit.lower()] for number, unit in found)
    return seconds if found and seconds <= LONGEST_WAIT else None


def _plain_message(status: int, body: bytes) -> str:
    """A message for a body that is no JSON, or JSON without a message."""
    start = body[: 4 * MESSAGE_LIMIT].strip()
    if start[:1] == b"<":
        title = TITLE.search(start)
        said = f": {str(title[1], 'utf-8', 'replace').strip()}" if title else ""
        return f"the upstream answered {status} with an HTML page{said}"
    if start and start[:1] not in (b"{", b"["):
        return str(start, "utf-8", "replace")[:MESSAGE_LIMIT]
    return f"the upstream answered {status} without a message"


TYPE_OF_KIND: dict[FailureKind, str] = {
    "invalid_request": "invalid_request_error",
    "context_overflow": "invalid_request_error",
    "authentication": "invalid_request_error",
    "billing": "insufficient_quota",
    "permission": "permission_error",
    "not_found": "invalid_request_error",
    "conflict": "invalid_request_error",
    "too_large": "invalid_request_error",
    "rate_limit": "rate_limit_error",
    "quota": "insufficient_quota",
    "server": "server_error",
    "overloaded": "server_error",
    "timeout": "server_error",
    "cancelled": "server_error",
}

CODE_OF_KIND: dict[FailureKind, str] = {
    "context_overflow": "context_length_exceeded",
    "authentication": "invalid_api_key",
    "billing": "insufficient_quota",
    "not_found": "model_not_found",
    "rate_limit": "rate_limit_exceeded",
    "quota": "insufficient_quota",
    "overloaded": "server_is_overloaded",
}

#: Kinds whose code clients act upon: an upstream's own word must not replace it.
FIXED_CODES = frozenset(("context_overflow", "quota", "billing"))

#: Further types that OpenAI itself uses, kept where the upstream told them.
OWN_TYPES: dict[FailureKind, frozenset[str]] = {
    "authentication": frozenset(("authentication_error",)),
    "rate_limit": frozenset(("tokens", "requests")),
    "permission": frozenset(("invalid_request_error",)),
}

#: OpenAI has no status of its own for these.
STATUS_OF_KIND: dict[FailureKind, int] = {
    "billing": 429,
    "quota": 429,
    "overloaded": 503,
    "context_overflow": 400,
}


def write_error(failure: Failure) -> Json:
    """The body that OpenAI's clients understand."""
    kind = failure.kind
    type_ = failure.raw_type if failure.raw_type in OWN_TYPES.get(kind, ()) else TYPE_OF_KIND[kind]
    code = CODE_OF_KIND.get(kind, "")
    if failure.code and kind not in FIXED_CODES:
        code = failure.code
    return {
        "error": {
            "message": failure.message,
            "type": type_,
            "param": failure.param or None,
            "code": code or None,
        }
    }


def error_status(failure: Failure) -> int:
    return STATUS_OF_KIND.get(failure.kind) or failure.http_status


def error_headers(failure: Failure) -> dict[str, str]:
    return retry_headers(failure, request_id="x-request-id")
