"""The action after a failure: a retry after a bounded wait, the next target, or the end."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.errors import Failure, FailureKind
from dragoman.routing.retry import (
    ACTIONS,
    MAX_RETRY_AFTER,
    MAX_WAIT,
    SESSION_CODES,
    RetryDecision,
    concerns_target,
    decide_retry,
)


def failure(kind: FailureKind, retry_after: float | None = None) -> Failure:
    return Failure(kind=kind, message="", retry_after=retry_after)


def test_every_kind_of_failure_has_an_action() -> None:
    assert set(ACTIONS) == set(get_args(FailureKind))


@pytest.mark.rule("R110")
@pytest.mark.parametrize("kind", ["invalid_request", "context_overflow", "too_large", "cancelled"])
def test_what_lies_in_the_request_is_final(kind: FailureKind) -> None:
    assert decide_retry(failure(kind), tries=1, allowed=5, jitter=0.5) == RetryDecision("stop")


@pytest.mark.parametrize("kind", ["authentication", "billing", "permission", "not_found", "quota", "timeout"])
def test_what_lies_in_the_target_sends_the_request_elsewhere_at_once(kind: FailureKind) -> None:
    assert decide_retry(failure(kind), tries=1, allowed=5, jitter=0.5) == RetryDecision("next target")


@pytest.mark.rule("R110")
def test_waits_double_and_are_capped() -> None:
    waits = [
        decide_retry(failure("server"), tries=tries, allowed=10, jitter=0.5).wait for tries in range(1, 8)
    ]
    assert waits == [0.5, 1, 2, 4, 8, 10, 10]


def test_jitter_spreads_the_waits_around_their_middle() -> None:
    early, late = (
        decide_retry(failure("server"), tries=1, allowed=1, jitter=jitter).wait for jitter in (0, 1)
    )
    assert (early, late) == (0.375, 0.625)


@pytest.mark.rule("R110")
def test_a_server_that_names_its_wait_is_obeyed() -> None:
    assert decide_retry(failure("rate_limit", 3), tries=1, allowed=1, jitter=0.5) == RetryDecision("retry", 3)


def test_a_server_that_wants_too_long_a_wait_is_left() -> None:
    long = failure("rate_limit", MAX_RETRY_AFTER + 1)
    assert decide_retry(long, tries=1, allowed=5, jitter=0.5) == RetryDecision("next target")


def test_tries_that_are_used_up_send_the_request_elsewhere() -> None:
    assert decide_retry(failure("server"), tries=3, allowed=2, jitter=0.5) == RetryDecision("next target")
    assert decide_retry(failure("server"), tries=1, allowed=0, jitter=0.5) == RetryDecision("next target")


@pytest.mark.parametrize(("kind", "action"), [("rate_limit", "next target"), ("server", "retry")])
def test_a_busy_target_is_not_waited_for_while_others_are_free(kind: FailureKind, action: str) -> None:
    assert (
        decide_retry(failure(kind), tries=1, allowed=5, jitter=0.5, has_healthy_target=True).action == action
    )


@given(
    kind=st.sampled_from(get_args(FailureKind)),
    tries=st.integers(1, 10_000),
    allowed=st.integers(0, 10_000),
    jitter=st.floats(0, 1),
    retry_after=st.none() | st.floats(0, allow_nan=False),
)
def test_a_wait_is_never_negative_nor_endless(
    kind: FailureKind, tries: int, allowed: int, jitter: float, retry_after: float | None
) -> None:
    planned = decide_retry(failure(kind, retry_after), tries=tries, allowed=allowed, jitter=jitter)
    assert 0 <= planned.wait <= max(MAX_RETRY_AFTER, 1.25 * MAX_WAIT)
    assert planned.action == "retry" or planned.wait == 0


@pytest.mark.parametrize("code", sorted(SESSION_CODES))
def test_a_failure_of_one_session_is_final_and_starts_no_cooldown(code: str) -> None:
    late = Failure(kind="timeout", message="", code=code)
    assert decide_retry(late, tries=1, allowed=5, jitter=0.5) == RetryDecision("stop")
    assert not concerns_target(late)
    vendors = Failure(kind="timeout", message="", code=code, raw_type="timeout_error")
    assert decide_retry(vendors, tries=1, allowed=5, jitter=0.5) == RetryDecision("next target")
    assert concerns_target(vendors)
