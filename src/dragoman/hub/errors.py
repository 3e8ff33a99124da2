"""One tree of errors, by the side that caused them.

    DragomanError
    ├── ClientProtocolError     400   the client sent something invalid in its dialect
    │   ├── RequestTooLarge     413   a body, line or nesting beyond the limit
    │   └── LossRefused         400   strict translation would lose something
    ├── UpstreamProtocolError   502   the upstream sent something invalid in its dialect
    ├── UpstreamFailed          …     the upstream refused, with its own status
    └── ConfigError             500   the configuration cannot work

Each has a `Failure`, the value that replies carry and that every dialect can write.
Messages name a path and a type, never a value: the value may be a prompt or a secret.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar, Literal

import msgspec

FailureKind = Literal[
    "invalid_request",
    "context_overflow",
    "authentication",
    "billing",
    "permission",
    "not_found",
    "conflict",
    "too_large",
    "rate_limit",
    "quota",
    "server",
    "unreachable",
    "misconfigured",
    "overloaded",
    "timeout",
    "cancelled",
]

#: The usual HTTP status of each kind; a failure may have its own. `unreachable`: no server listens at the
#: provider's address. `misconfigured`: the gateway cannot use the provider as it is configured.
STATUS_OF_KIND: dict[FailureKind, int] = {
    "invalid_request": 400,
    "context_overflow": 400,
    "authentication": 401,
    "billing": 402,
    "permission": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "rate_limit": 429,
    "quota": 429,
    "server": 500,
    "unreachable": 502,
    "misconfigured": 502,
    "overloaded": 503,
    "timeout": 504,
    "cancelled": 499,
}

#: The kind of failure that an HTTP status stands for if nothing else is known.
KIND_OF_STATUS: dict[int, FailureKind] = {
    400: "invalid_request",
    401: "authentication",
    402: "billing",
    403: "permission",
    404: "not_found",
    405: "invalid_request",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    422: "invalid_request",
    429: "rate_limit",
    499: "cancelled",
    500: "server",
    502: "server",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}


def kind_of_status(status: int) -> FailureKind:
    """The kind of failure for any HTTP status."""
    known = KIND_OF_STATUS.get(status)
    if known is not None:
        return known
    return "invalid_request" if 400 <= status < 500 else "server"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, independent of a dialect. `raw_type` and `code` are the upstream's own names."""

    kind: FailureKind
    message: str
    status: int = 0
    raw_type: str = ""
    code: str = ""
    param: str = ""
    retry_after: float | None = None
    request_id: str = ""

    @property
    def http_status(self) -> int:
        return self.status or STATUS_OF_KIND[self.kind]


class DragomanError(Exception):
    """The base of all errors. `status` is the HTTP status, `failure` the value that dialects write."""

    kind: ClassVar[FailureKind] = "server"
    default_status: ClassVar[int] = 500
    default_code: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        hint: str = "",
        failure: Failure | None = None,
        code: str = "",
    ) -> None:
        text = f"{path}: {message}" if path else message
        super().__init__(text)
        self.message = text
        self.path = path
        self.hint = hint
        self.failure = failure or Failure(
            kind=self.kind,
            message=f"{text} ({hint})" if hint else text,
            status=self.default_status,
            code=code or self.default_code,
            param=path,
        )

    @property
    def status(self) -> int:
        return self.failure.http_status

    @property
    def type(self) -> str:
        return self.failure.raw_type or self.failure.kind

    @property
    def code(self) -> str:
        return self.failure.code

    @property
    def param(self) -> str:
        return self.failure.param

    @property
    def retry_after(self) -> float | None:
        return self.failure.retry_after


class ClientProtocolError(DragomanError):
    """The client's request is invalid."""

    kind: ClassVar[FailureKind] = "invalid_request"
    default_status = 400


class RequestTooLarge(ClientProtocolError):
    """The request is longer or deeper nested than allowed."""

    kind = "too_large"
    default_status = 413


class LossRefused(ClientProtocolError):
    """Strict translation found a loss."""

    default_code = "lossy_translation"


class UpstreamProtocolError(DragomanError):
    """The upstream's reply is invalid."""

    default_status = 502


class UpstreamFailed(DragomanError):
    """The upstream refused or failed; the failure has its status and retry-after."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, failure=failure)


class ConfigError(DragomanError):
    """The configuration is invalid. `line` is the line of the file; 0 if it is unknown."""

    default_status = 500

    def __init__(self, message: str, *, path: str = "", hint: str = "", line: int = 0) -> None:
        super().__init__(message, path=path, hint=hint)
        self.line = line


def suggest_spelling(given: str, known: Iterable[str]) -> str:
    """Build a hint such as `did you mean "gemini"?`; empty if no known name is close to the given one."""
    found = get_close_matches(given, list(known), n=1)
    return f'did you mean "{found[0]}"?' if found else ""
