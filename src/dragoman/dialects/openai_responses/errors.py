"""Writes failures for clients of the Responses API: as HTTP bodies and as the error of a response."""

import re

from dragoman.dialects.errors import limit_wait
from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_errors import TYPE_AND_CODE, error_headers, error_status, write_openai_error
from dragoman.hub.errors import Failure, FailureKind
from dragoman.hub.events import FailedEnding

__all__ = ["error_headers", "error_status", "write_error", "write_stream_error"]

#: Codes of OpenAI, which are kept where they fit the kind: clients decide by code whether to try again.
_OWN_CODES: dict[FailureKind, str] = {
    "invalid_request": "previous_response_not_found data_residency_mismatch invalid_prompt invalid_request"
    " invalid_request_error invalid_image invalid_image_format invalid_base64_image invalid_image_url"
    " invalid_image_mode image_too_large image_too_small image_parse_error image_file_too_large"
    " image_file_not_found unsupported_image_media_type empty_image_file failed_to_download_image",
    "authentication": "authentication_error",
    "billing": "billing_not_active billing_hard_limit_reached",
    "permission": "permission_error bio_policy misalignment_policy_violation image_content_policy_violation",
    "not_found": "response_not_found not_found unknown_endpoint not_found_error",
    "rate_limit": "slow_down tokens requests rate_limit_error too_many_requests",
    "quota": "billing_hard_limit_reached usage_limit_reached usage_not_included",
    "server": "server_error api_error internal_server_error model_error",
    "overloaded": "server_is_overloaded slow_down overloaded overloaded_error service_unavailable"
    " service_unavailable_error",
    "timeout": "vector_store_timeout timeout request_timeout",
}

#: The code of a response that fails in the stream. Codex does not retry after `invalid_prompt` and
#: `server_is_overloaded`, but after unknown codes; an overload of another vendor is worth a retry.
_STREAM_CODES: dict[FailureKind, str] = {
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
    "unreachable": "server_error",
    "misconfigured": "invalid_prompt",
    "overloaded": "server_error",
    "timeout": "server_error",
    "cancelled": "cancelled",
}

#: The text in which Codex looks for the time to wait.
_WAIT_TEXT = re.compile(
    r"(?:try again|retry) in \d{1,9}(?:\.\d{1,9})? ?(?:ms|s|seconds?|m|minutes?)\b", re.IGNORECASE
)


def write_error(failure: Failure) -> Json:
    """The body of an HTTP error, and of an `error` event."""
    _, code = TYPE_AND_CODE[failure.kind]
    return write_openai_error(failure, _own_code(failure) or code or failure.code)


def write_stream_error(failure: Failure, ending: FailedEnding, *, same_dialect: bool) -> tuple[str, str]:
    """The code and the message of a response that fails in the stream.

    `same_dialect`: the upstream is of this dialect.
    """
    if ending == "truncated":
        # Codex does not retry after `server_is_overloaded`; half an answer is worth a retry.
        return "server_error", failure.message
    code = _own_code(failure) if same_dialect or failure.kind != "overloaded" else ""
    message = failure.message
    if failure.kind == "rate_limit" and failure.retry_after is not None and not _WAIT_TEXT.search(message):
        wait = f"{limit_wait(failure.retry_after):.3f}".rstrip("0").rstrip(".")
        message = f"{message} Please try again in {wait}s."
    return code or _STREAM_CODES[failure.kind], message


def _own_code(failure: Failure) -> str:
    """The upstream's code, if it is OpenAI's and has the meaning of the failure's kind."""
    return failure.code if failure.code in _OWN_CODES.get(failure.kind, "").split() else ""
