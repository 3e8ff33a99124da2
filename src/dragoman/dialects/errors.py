"""Reads the errors of upstreams: HTTP errors and error values inside a stream become a hub `Failure`.

One reader serves all dialects, because compatible servers mix the shapes: an OpenAI-compatible server may
answer with Anthropic's types, with Google's details, with FastAPI's `detail` or with plain text. The kind
comes from codes and types that have one meaning, then from the HTTP status, then from vague codes and types.
How a failure is written is the matter of each dialect's own `errors.py`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from dragoman.dialects.interfaces import Json
from dragoman.hub.errors import STATUS_OF_KIND, DragomanError, Failure, FailureKind, kind_of_status
from dragoman.wire.fields import decode

#: Codes, types and Google's statuses and reasons that have one meaning with any HTTP status; lower case.
_CERTAIN_CODES: dict[FailureKind, str] = {
    "context_overflow": "context_length_exceeded exceed_context_size_error model_max_prompt_tokens_exceeded",
    "invalid_request": "previous_response_not_found invalid_prompt data_residency_mismatch out_of_range"
    " failed_precondition unimplemented invalid_image invalid_image_format invalid_base64_image"
    " invalid_image_url invalid_image_mode image_too_large image_too_small image_parse_error"
    " image_file_too_large image_file_not_found unsupported_image_media_type empty_image_file"
    " failed_to_download_image",
    "authentication": "invalid_api_key authentication_error unauthorized unauthenticated api_key_invalid"
    " credentials_missing access_token_expired",
    "billing": "billing_error billing_not_active billing_disabled",
    "permission": "permission_error permission_denied unsupported_country_region_territory bio_policy"
    " misalignment_policy_violation image_content_policy_violation api_key_service_blocked",
    "not_found": "model_not_found not_found_error notfounderror not_found response_not_found"
    " unknown_endpoint",
    "conflict": "conflict_error aborted already_exists",
    "too_large": "request_too_large",
    "rate_limit": "resource_exhausted",
    "quota": "insufficient_quota billing_hard_limit_reached usage_limit_reached usage_not_included",
    "overloaded": "server_is_overloaded engine_overloaded engine_overloaded_error overloaded"
    " overloaded_error unavailable unavailable_error service_unavailable service_unavailable_error",
    "timeout": "timeout timeout_error request_timeout deadline_exceeded vector_store_timeout",
    "cancelled": "cancelled",
}
#: Codes and types that servers use for many errors: the HTTP status is more precise. Groq, for example,
#: answers 413 with `rate_limit_exceeded` to a request that no waiting makes acceptable.
_VAGUE_CODES: dict[FailureKind, str] = {
    "invalid_request": "invalid_request_error invalid_request badrequesterror invalid_argument",
    "rate_limit": "rate_limit_exceeded rate_limit_error ratelimiterror too_many_requests slow_down tokens"
    " requests",
    "server": "server_error api_error internal_server_error model_error internal unknown data_loss",
}


def _by_code(table: dict[FailureKind, str]) -> dict[str, FailureKind]:
    return {code: kind for kind, codes in table.items() for code in codes.split()}


_KIND_OF_CERTAIN_CODE = _by_code(_CERTAIN_CODES)
KIND_OF_CODE = _by_code(_VAGUE_CODES) | _KIND_OF_CERTAIN_CODE

#: Statuses with which servers report that the prompt exceeds the context window.
_OVERFLOW_STATUSES = frozenset({0, 200, 400, 413, 422, 500})
_OVERFLOW = re.compile(
    r"(?:maximum|max|available|model'?s?) (?:context|model|prompt|input) (?:length|size|window|tokens?)"
    r"|context[ _](?:length|size|window)|context limit[^.]{0,40}exceed"
    r"|exceed[a-z]* [a-z' ]{0,40}(?:context|maximum number of (?:input )?tokens|token limit)"
    r"|exceeds? the (?:model's )?(?:maximum|max|limit)[\w ]{0,24}tokens"
    r"|(?:prompt|input|request|conversation) (?:is|was) too (?:long|large for)"
    r"|(?:prompt|input) has [0-9,]+ tokens"
    r"|too many (?:input |prompt )?tokens"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|(?:prompt|input)(?: length| tokens| token count)?(?: of [0-9,]+)? exceeds? (?:the )?(?:max|limit)"
    r"|range of input length should be"
    r"|tokens to keep from the initial prompt"
    r"|`inputs` tokens \+ `max_new_tokens` must be",
    re.IGNORECASE,
)

_UNIT = "(?:(millisecond|second|minute|hour)s?|(ms|h|m|s))"
_DURATION = re.compile(rf"([0-9]{{1,20}}(?:\.[0-9]{{1,20}})?) ?{_UNIT}", re.IGNORECASE)
_WAIT_TEXT = re.compile(
    rf"(?:try again|retry)(?: your request)? (?:in|after) ((?:[0-9.]{{1,20}} ?{_UNIT} ?){{1,4}})",
    re.IGNORECASE,
)
_SECONDS_OF_UNIT = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}
_SECONDS_OF_UNIT |= {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: A larger number of seconds is a mistake of the server.
_LONGEST_WAIT = 1e7
#: Seconds to wait where the upstream limits a rate and names no time.
_DEFAULT_WAIT = 1.0
#: Kinds of failure that a later try does not solve.
_FINAL_KINDS = frozenset({"quota", "billing"})

_REQUEST_ID_HEADERS = ("request-id", "x-request-id", "x-generation-id")
_REQUEST_ID = re.compile(r"[!-~]{1,200}")
_MESSAGE_FIELDS = ("message", "msg", "error", "detail", "error_msg", "error_message", "errors", "description")
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,200})", re.IGNORECASE)

MESSAGE_LIMIT = 2000
_CODE_LIMIT = 200
_LIST_LIMIT = 10
_DEPTH_LIMIT = 6
_NO_HEADERS: Mapping[str, str] = {}


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Read the body of an HTTP error response. Header names are lower case."""
    return read_failure(_decode(body), status, headers, body)


def read_failure(
    value: object, status: int = 0, headers: Mapping[str, str] = _NO_HEADERS, body: bytes = b""
) -> Failure:
    """Read a decoded error value of any shape, such as the `error` event of a stream.

    `status` is the HTTP status, or 0 if the error arrives inside a stream. `body` gives the message if the
    value has none.
    """
    error = _find_error(value)
    details = _objects_in(error, "details")
    status = status or _read_status(error)
    code = _code_in([_object(error.get("details"))], "error_code") or _code_in([error], "code")
    code = code or _code_in(details, "reason")
    raw_type = _code_in([error], "type", "status")
    messages = list(find_messages(value))
    message = messages[0] if messages else _describe_body(body, status)
    if len(messages) > 1 and messages[1] not in message:
        # OpenRouter's own message is only "Provider returned error"; the second is the provider's.
        message = f"{message}: {messages[1]}"
    kind = _choose_kind(_list_codes(error, details, code), messages, status)
    return Failure(
        kind=kind,
        message=message[:MESSAGE_LIMIT],
        status=status,
        raw_type=raw_type,
        code=code,
        param=_code_in([error], "param") or _code_in(_objects_in(details, "fieldViolations"), "field"),
        retry_after=_find_wait(details, headers, messages if kind in ("rate_limit", "overloaded") else []),
        request_id=_find_request_id(value, headers),
    )


def find_messages(value: object, depth: int = 0) -> Iterator[str]:
    """The messages inside an error value, the outermost first. Messages may be JSON texts themselves."""
    if depth > _DEPTH_LIMIT:
        return
    if isinstance(value, str):
        inner = list(find_messages(_decode(value), depth + 1)) if value[:1] in ("{", "[") else []
        yield from inner or filter(None, [value.strip()])
    elif isinstance(value, list):
        items = (next(find_messages(item, depth + 1), "") for item in value[:_LIST_LIMIT])
        yield from filter(None, ["; ".join(filter(None, items))])
    elif isinstance(value, dict):
        # FastAPI names the wrong field by its path: `{"loc": ["body", "messages"], "msg": ...}`.
        place = value.get("loc")
        path = [str(each) for each in place if type(each) in (str, int)] if isinstance(place, list) else []
        prefix = f"{'.'.join(path)}: " if path else ""
        for name in _MESSAGE_FIELDS:
            yield from (prefix + text for text in find_messages(value.get(name), depth + 1))
        # OpenRouter puts the body of the provider behind it here.
        yield from find_messages(_object(value.get("metadata")).get("raw"), depth + 1)


def choose_status(failure: Failure, fixed: Mapping[FailureKind, int]) -> int:
    """The HTTP status for a client: the fixed status of the kind, the upstream's, or the usual one."""
    if failure.kind in fixed:
        return fixed[failure.kind]
    return failure.status if 400 <= failure.status < 600 else STATUS_OF_KIND[failure.kind]


def write_retry_headers(failure: Failure, request_id_header: str) -> dict[str, str]:
    """The response headers that control a client's retries, and the header with the id of the request.

    A rate limit always names a time: Codex gives up on a 429 without `Retry-After`. A used quota names none.
    """
    headers: dict[str, str] = {}
    if _REQUEST_ID.fullmatch(failure.request_id):
        headers[request_id_header] = failure.request_id
    if failure.kind in _FINAL_KINDS:
        headers["x-should-retry"] = "false"
        return headers
    wait = failure.retry_after
    if wait is None and failure.kind == "rate_limit":
        wait = _DEFAULT_WAIT
    if wait is not None:
        wait = limit_wait(wait)
        headers["retry-after"] = str(max(1, math.ceil(wait)))
        headers["retry-after-ms"] = str(max(1, math.ceil(wait * 1000)))
    return headers


def limit_wait(seconds: float) -> float:
    """The seconds of a wait as a number that can be written: from 0 to the longest wait."""
    return min(max(0.0, seconds), _LONGEST_WAIT)


def _decode(body: bytes | str) -> object:
    try:
        return decode(body)
    except DragomanError:
        return None


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _objects_in(parents: Json | list[Json], name: str) -> list[Json]:
    """All objects in the lists that the parents have under a name."""
    lists = (parent.get(name) for parent in ([parents] if isinstance(parents, dict) else parents))
    return [item for items in lists if isinstance(items, list) for item in items if isinstance(item, dict)]


def _code_in(objects: Iterable[Json], *names: str) -> str:
    """The first code under one of the names. Numbers are statuses; `"type": "error"` carries no meaning."""
    values = (item.get(name) for name in names for item in objects)
    codes = (
        value for value in values if isinstance(value, str) and value != "error" and not value.isdecimal()
    )
    return next(codes, "")[:_CODE_LIMIT]


def _find_error(value: object) -> Json:
    """The object with message, type and code: the value itself, its `error`, or the first of a list."""
    for _ in range(3):
        if isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict) and isinstance(value.get("error"), dict | list):
            value = value["error"]
    return _object(value)


def _read_status(error: Json) -> int:
    for name in ("code", "status", "status_code"):
        number = error.get(name)
        if isinstance(number, str) and number.isdecimal() and len(number) == 3:
            number = int(number)
        if type(number) is int and 400 <= number <= 599:
            return number
    return 0


def _list_codes(error: Json, details: list[Json], code: str) -> list[str]:
    """Everything that names the kind, from the most precise to the least, in lower case."""
    quotas = [_code_in([violation], "quotaId") for violation in _objects_in(details, "violations")]
    # Clients of Google treat a quota per day as final, and a quota per minute as a rate limit.
    daily = "insufficient_quota" if any("PerDay" in quota for quota in quotas) else ""
    codes = (code, _code_in(details, "reason"), daily, _code_in([error], "type"), _code_in([error], "status"))
    return [name.lower() for name in codes if name]


def _choose_kind(codes: list[str], messages: list[str], status: int) -> FailureKind:
    kinds = [KIND_OF_CODE[code] for code in codes if code in KIND_OF_CODE]
    certain = [_KIND_OF_CERTAIN_CODE[code] for code in codes if code in _KIND_OF_CERTAIN_CODE]
    kind = [*certain, *([kind_of_status(status)] if status >= 400 else kinds), "server"][0]
    rejected = kind in ("invalid_request", "server") or (kind == "too_large" and not certain)
    too_long = any(_OVERFLOW.search(message[:MESSAGE_LIMIT]) for message in messages)
    return "context_overflow" if rejected and too_long and status in _OVERFLOW_STATUSES else kind


def _find_wait(details: list[Json], headers: Mapping[str, str], messages: list[str]) -> float | None:
    """The seconds to wait. Dates are ignored: they mean nothing without a clock."""
    delay = _read_duration(_code_in(details, "retryDelay"))
    if delay is not None:
        return delay
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds <= _LONGEST_WAIT:
            return seconds
    found = next(filter(None, (_WAIT_TEXT.search(message[:MESSAGE_LIMIT]) for message in messages)), None)
    return _read_duration(found[1]) if found else None


def _read_duration(text: str) -> float | None:
    """The seconds of a duration such as `6m0s`, `28ms` or `1.5 seconds`."""
    parts = _DURATION.findall(text[:100])
    seconds = sum(float(number) * _SECONDS_OF_UNIT[(long or short).lower()] for number, long, short in parts)
    return seconds if parts and seconds <= _LONGEST_WAIT else None


def _find_request_id(value: object, headers: Mapping[str, str]) -> str:
    same_dialect = _object(value).get("request_id")
    ids = [
        same_dialect if isinstance(same_dialect, str) else "",
        *(headers.get(name, "") for name in _REQUEST_ID_HEADERS),
    ]
    return next(filter(None, ids), "")


def _describe_body(body: bytes, status: int) -> str:
    """A message for a body that is no JSON, or JSON without a message."""
    text = str(body[: 4 * MESSAGE_LIMIT], "utf-8", "replace").strip()
    if text.startswith("<"):
        title = _TITLE.search(text)
        name = f": {title[1].strip()}" if title else ""
        return f"the upstream answered {status} with an HTML page{name}"
    if text and text[0] not in "{[":
        return text
    if status:
        return f"the upstream answered {status} without a message"
    return "the upstream reported an error without a message"
