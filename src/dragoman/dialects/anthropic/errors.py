"""Writes failures as the error bodies that clients of the Messages API expect.

Claude Code compacts a conversation when it reads "prompt is too long: N tokens > M maximum". The overflow of
any upstream is therefore written in this form, with the numbers from the upstream's message.
"""

import re

from dragoman.dialects.anthropic.rate_limits import UNKNOWN_BUDGET
from dragoman.dialects.errors import MESSAGE_LIMIT, choose_status, write_retry_headers
from dragoman.dialects.interfaces import Json
from dragoman.hub.errors import Failure, FailureKind

_TYPES: dict[FailureKind, str] = {
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
    "unreachable": "api_error",
    "misconfigured": "api_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
    # Clients retry after an overload. A client that still listens after a cancellation should retry too.
    "cancelled": "overloaded_error",
}

#: Codes whose type is not that of their kind. Claude Code shows the message of these types, without a retry.
_TYPES_OF_CODE = {
    "budget_spent": "billing_error",
    "session_limit": "policy_blocked",
    "repeated_calls": "policy_blocked",
}

#: Kinds that always have this HTTP status.
_FIXED_STATUS: dict[FailureKind, int] = {"overloaded": 529, "context_overflow": 400}

#: What servers of other vendors refuse, and the class by which Claude Code knows it: it then repeats the
#: request without that part. It knows the texts of Anthropic itself. The first class that matches decides.
_UNSUPPORTED = r"(?:(?:is|are)? ?not (?:supported|allowed|permitted)|unsupported)"
_CAPABILITIES = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (
            rf"(?:response_format|json_schema|structured outputs?)\b.{{0,60}}{_UNSUPPORTED}"
            r"|not support (?:response_format|json_schema|structured outputs?)",
            "structured_outputs_unsupported",
        ),
        (
            rf"reasoning[_.]effort\b.{{0,60}}{_UNSUPPORTED}|not support (?:the )?`?reasoning[_.]effort",
            "effort_unsupported",
        ),
        (
            rf"\b(?:images?|vision|image_url)\b.{{0,40}}{_UNSUPPORTED}|not support (?:images?|vision)\b"
            r"|unsupported image|not a (?:multimodal|vision) model|not a valid image|support image input",
            "image_block",
        ),
        (
            rf"\b(?:pdfs?|documents?)\b.{{0,40}}{_UNSUPPORTED}|not support (?:pdfs?|documents?)\b",
            "document_block",
        ),
    )
)

_NATIVE_OVERFLOW = re.compile(
    r"prompt is too long: \d+ tokens > \d+ maximum"
    r"|input length and `max_tokens` exceed context limit: \d+ \+ \d+ > \d+"
)
#: Patterns that find the limit, from the most reliable to the least.
_LIMITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"context (?:length|window|size)[^\d]{0,20}(\d[\d,]*)",
        r"(\d[\d,]*) maximum context length",
        r"(?:max(?:imum)?|limit|allowed)[^\d]{0,40}(\d[\d,]*)",
    )
)
#: What vendors count when the prompt fits, but not together with the requested answer.
_PROMPT = re.compile(r"(\d[\d,]*) (?:in (?:the messages|your prompt)|of \w{1,12} input|`inputs`|input) ?")
_ANSWER = re.compile(
    r"(\d[\d,]*) (?:in the (?:completion|output)|for the completion|`max_new_tokens`)|too large: (\d[\d,]*)"
)
_NUMBER = re.compile(r"\d[\d,]*")


def write_error(failure: Failure) -> Json:
    """The body of an HTTP error, and of the `error` event of a stream."""
    message = failure.message
    if failure.kind == "context_overflow":
        message = write_overflow(message)
    elif failure.kind == "invalid_request":
        message = _add_capability(message)
    error_type = _TYPES_OF_CODE.get(failure.code) or _TYPES[failure.kind]
    body: Json = {"type": "error", "error": {"type": error_type, "message": message}}
    if failure.request_id:
        body["request_id"] = failure.request_id
    return body


def _add_capability(message: str) -> str:
    """The message with the token that makes Claude Code repeat its request without the refused part."""
    text = message[:MESSAGE_LIMIT]
    found = next((name for pattern, name in _CAPABILITIES if pattern.search(text)), "")
    return f"{message} [capability_rejected: {found}]" if found else message


def write_overflow(message: str) -> str:
    """An overflow in the form that Claude Code parses, with the numbers that the message contains."""
    if _NATIVE_OVERFLOW.search(message):
        return message
    text = message[:MESSAGE_LIMIT]
    found = next(filter(None, (pattern.search(text) for pattern in _LIMITS)), None)
    if found is None:
        return f"prompt is too long: {message}"
    limit = _number(found[1])
    prompt = sum(map(_number, _PROMPT.findall(text)))
    answer = _ANSWER.search(text)
    if answer is not None and 0 < prompt <= limit:
        wanted = _number(answer[1] or answer[2])
        return f"input length and `max_tokens` exceed context limit: {prompt} + {wanted} > {limit}"
    beyond = [number for number in map(_number, _NUMBER.findall(text)) if number > limit]
    tokens = str(beyond[0]) if beyond else f"more than {limit}"
    return f"prompt is too long: {tokens} tokens > {limit} maximum"


def _number(digits: str) -> int:
    return int(digits.replace(",", "")[:18])


def error_status(failure: Failure) -> int:
    """The HTTP status that clients of this API expect."""
    return choose_status(failure, _FIXED_STATUS)


def error_headers(failure: Failure) -> dict[str, str]:
    headers = write_retry_headers(failure, "request-id")
    return headers | UNKNOWN_BUDGET if failure.code == "budget_unknown" else headers
