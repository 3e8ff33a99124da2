"""The calls of a target: what the status shows as its health."""

import pytest

from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure
from dragoman.routing.health import MAX_COOLDOWNS, TargetHealth

DOWN = Failure(kind="unreachable", message="down")


@pytest.mark.rule("M16")
def test_calls_are_counted_and_a_success_ends_the_row_of_failures() -> None:
    health, target = TargetHealth(), TargetName("up", "m")
    for failure in (None, DOWN, DOWN):
        health.count_call(target, failure)
    calls = health.calls[target]
    assert (calls.tries, calls.failed, calls.failures_in_row, calls.reason) == (3, 2, 2, "unreachable 502")
    health.count_call(target, None)
    assert (calls.tries, calls.failed, calls.failures_in_row, calls.reason) == (4, 2, 0, "")


@pytest.mark.rule("M16")
def test_a_refused_request_is_no_sign_of_a_failing_target() -> None:
    health, target = TargetHealth(), TargetName("up", "m")
    health.count_call(target, Failure(kind="invalid_request", message="no"))
    assert (health.calls[target].failed, health.calls[target].failures_in_row) == (1, 0)


def test_the_number_of_targets_is_bounded() -> None:
    health = TargetHealth()
    for number in range(MAX_COOLDOWNS + 5):
        health.count_call(TargetName("up", str(number)), None)
    assert len(health.calls) == MAX_COOLDOWNS
    assert TargetName("up", "0") not in health.calls


def test_a_changed_provider_begins_anew() -> None:
    health = TargetHealth()
    health.count_call(TargetName("up", "m"), DOWN)
    health.forget_provider("up")
    assert health.calls == {}
