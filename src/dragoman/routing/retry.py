"""Decides what follows a failure: retry the same target, try the next target, or stop.

A failure that the request itself causes is final: another target would return the same failure, or a
misleading one.
"""

from typing import Literal

import msgspec

from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure, FailureKind

RetryAction = Literal["retry", "next target", "stop"]

#: The action for each kind of failure. `retry` becomes `next target` after the last allowed retry.
ACTIONS: dict[FailureKind, RetryAction] = {
    "invalid_request": "stop",
    "context_overflow": "stop",
    "too_large": "stop",
    "authentication": "next target",
    "billing": "next target",
    "permission": "next target",
    "not_found": "next target",
    "conflict": "retry",
    "rate_limit": "retry",
    "quota": "next target",
    "server": "retry",
    "unreachable": "retry",
    "misconfigured": "next target",
    "overloaded": "retry",
    "timeout": "next target",
    "cancelled": "stop",
}

#: Kinds that concern the target, not only this request.
TARGET_KINDS = frozenset(
    {"authentication", "billing", "permission", "rate_limit", "quota", "server", "overloaded", "timeout"}
    | {"unreachable", "misconfigured"}
)

#: Kinds that may concern the key, so that another key of the same target may succeed. Vendors answer
#: `not_found` for a model that the key has no access to.
KEY_KINDS = frozenset({"authentication", "billing", "permission", "not_found", "rate_limit", "quota"})

#: Codes of failures that concern one session with its client. No other target can continue the session. The
#: codes are our own; a failure of a vendor also has a `raw_type`.
SESSION_CODES = frozenset(
    {"tool_call_timeout", "permission_denied", "session_not_found", "max_turns_exceeded"}
)

#: Kinds of a target without capacity.
BUSY_KINDS = frozenset({"rate_limit", "overloaded"})

#: Seconds.
FIRST_WAIT = 0.5
MAX_WAIT = 10.0
#: Seconds. If the server asks for a longer wait, the next target is tried instead.
MAX_RETRY_AFTER = 20.0


class RetryDecision(msgspec.Struct, frozen=True):
    """The next action, and for `retry` the seconds to wait before it."""

    action: RetryAction
    wait: float = 0.0


def find_retry_action(failure: Failure) -> RetryAction:
    """The action for a failure, without regard to the number of tries."""
    return "stop" if concerns_session(failure) else ACTIONS[failure.kind]


def concerns_target(failure: Failure) -> bool:
    """Whether the failure is likely for other requests to the same target, too."""
    return failure.kind in TARGET_KINDS and not concerns_session(failure)


def concerns_session(failure: Failure) -> bool:
    """Whether the failure concerns one session of a client with a provider that keeps sessions."""
    return failure.code in SESSION_CODES and not failure.raw_type


def may_succeed(failure: Failure, failed: TargetName, other: TargetName) -> bool:
    """Whether `other` may succeed after this failure. It may be the same target with another key."""
    return other != failed or failure.kind in KEY_KINDS


def decide_retry(
    failure: Failure, *, tries: int, allowed: int, jitter: float, has_healthy_target: bool = False
) -> RetryDecision:
    """Decide what follows the failure number `tries` of one target. `allowed` is the number of retries.

    `jitter` is between 0 and 1. `has_healthy_target`: another target can be tried without a wait.
    """
    action = find_retry_action(failure)
    if action != "retry":
        return RetryDecision(action)
    if tries > allowed or (has_healthy_target and failure.kind in BUSY_KINDS):
        return RetryDecision("next target")
    wait = min(FIRST_WAIT * 2 ** min(tries - 1, 10), MAX_WAIT) * (0.75 + 0.5 * jitter)
    if failure.retry_after is not None:
        if failure.retry_after > MAX_RETRY_AFTER:
            return RetryDecision("next target")
        wait = max(wait, failure.retry_after)
    return RetryDecision("retry", wait)
