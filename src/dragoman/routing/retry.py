"""What a failure means for the next step: try again here, try elsewhere, or give up.

Errors that lie in the request itself are final everywhere: another target would say the same, or worse,
say something else.
"""

from typing import Literal

import msgspec

from dragoman.config.model import TargetName
from dragoman.hub.errors import Failure, FailureKind

Step = Literal["again", "elsewhere", "give up"]

#: What each kind of failure calls for. `again` also means `elsewhere` once the tries are used up.
STEP_OF_KIND: dict[FailureKind, Step] = {
    "invalid_request": "give up",
    "context_overflow": "give up",
    "too_large": "give up",
    "authentication": "elsewhere",
    "billing": "elsewhere",
    "permission": "elsewhere",
    "not_found": "elsewhere",
    "conflict": "again",
    "rate_limit": "again",
    "quota": "elsewhere",
    "server": "again",
    "overloaded": "again",
    "timeout": "elsewhere",
    "cancelled": "give up",
}

#: Kinds that say something about the target, not about this one request.
COOLS = frozenset(
    {"authentication", "billing", "permission", "rate_limit", "quota", "server", "overloaded", "timeout"}
)

#: Kinds that may say something about the key, so that another may do better at the same target: vendors say
#: of a model that a key has no access to that there is none.
ABOUT_THE_KEY = frozenset({"authentication", "billing", "permission", "not_found", "rate_limit", "quota"})

#: Failures of one session with its caller, which no other target could help out of. The codes are ours: a
#: vendor's failure also carries the vendor's own word for it.
SESSION_CODES = frozenset(
    {"tool_call_timeout", "permission_denied", "session_not_found", "max_turns_exceeded"}
)

#: Kinds that say that the target has no room now.
BUSY = frozenset({"rate_limit", "overloaded"})

FIRST_WAIT = 0.5
LONGEST_WAIT = 10.0
#: A server that wants us to wait longer than this is asked later, by the client or not at all.
LONGEST_RETRY_AFTER = 20.0


def step_of(failure: Failure) -> Step:
    """What a failure calls for."""
    return "give up" if is_about_session(failure) else STEP_OF_KIND[failure.kind]


def cools(failure: Failure) -> bool:
    """Whether a failure says something about its target."""
    return failure.kind in COOLS and not is_about_session(failure)


def may_help(failure: Failure, failed: TargetName, other: TargetName) -> bool:
    """Whether `other`, with another key, may do better than the target that failed."""
    return other != failed or failure.kind in ABOUT_THE_KEY


def is_about_session(failure: Failure) -> bool:
    return failure.code in SESSION_CODES and not failure.raw_type


class Plan(msgspec.Struct, frozen=True):
    step: Step
    wait: float = 0.0


def plan(failure: Failure, *, tries: int, allowed: int, jitter: float, others: bool = False) -> Plan:
    """The next step after the `tries`-th failure on one target.

    `jitter` is between 0 and 1. `others`: a healthy target is left, so waiting for this one is idle.
    """
    step = step_of(failure)
    if step != "again":
        return Plan(step)
    if tries > allowed or (others and failure.kind in BUSY):
        return Plan("elsewhere")
    wait = min(FIRST_WAIT * 2 ** min(tries - 1, 10), LONGEST_WAIT) * (0.75 + 0.5 * jitter)
    if failure.retry_after is not None:
        if failure.retry_after > LONGEST_RETRY_AFTER:
            return Plan("elsewhere")
        wait = max(wait, failure.retry_after)
    return Plan("again", wait)
