"""What a client is told about trying again: soon, later, or not at all.

Clients take these headers at their word. A long wait makes some of them sleep through it and others give
up without saying why, so a long wait is cut short and told in words.
"""

import msgspec

from dragoman.dialects.base import Dialect
from dragoman.hub.errors import Failure, FailureKind
from dragoman.routing.retry import concerns_session

#: Seconds. Beyond this the SDKs either really sleep or silently give up.
MAX_WAIT = 30.0
NO_RETRY = {"x-should-retry": "false"}

#: Failures that the same request will meet again, however long the client waits. Not `invalid_request`:
#: Claude Code sends a refused request again without what it takes for the cause.
_FINAL: frozenset[FailureKind] = frozenset(
    {"authentication", "billing", "permission", "not_found", "too_large", "quota"}
)


def advised(failure: Failure, dialect: Dialect) -> tuple[Failure, dict[str, str]]:
    """The failure with a wait that clients can bear, and the headers that go with it."""
    wait = failure.retry_after
    is_long = wait is not None and wait > MAX_WAIT
    if is_long:
        message = f"{failure.message} (the upstream asks to wait {wait:.0f} s)"
        failure = msgspec.structs.replace(failure, message=message, retry_after=MAX_WAIT)
    headers = dialect.error_headers(failure)
    if is_long or failure.kind in _FINAL or concerns_session(failure):
        headers |= NO_RETRY
    return failure, headers
