"""Targets that failed are tried last for a while; none is ever forbidden."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure
from dragoman.routing.health import FIRST_COOLDOWN, MAX_COOLDOWN, MAX_COOLDOWNS, TargetHealth, TargetKey

A, B = TargetName("a", "model"), TargetName("b", "model")
BROKEN = Failure(kind="server", message="", status=500)


def test_targets_come_in_their_order_while_all_are_well() -> None:
    assert TargetHealth().order_targets([A, B], {}, 0, now=0) == [(A, 0), (B, 0)]


def test_a_target_that_failed_is_tried_last_until_it_has_cooled() -> None:
    health = TargetHealth()
    health.record_failure(TargetKey(A, 0), BROKEN, now=0)
    assert health.order_targets([A, B], {}, 0, now=FIRST_COOLDOWN - 0.1) == [(B, 0), (A, 0)]
    assert health.order_targets([A, B], {}, 0, now=FIRST_COOLDOWN) == [(A, 0), (B, 0)]


def test_the_only_target_is_always_tried() -> None:
    health = TargetHealth()
    health.record_failure(TargetKey(A, 0), BROKEN, now=0)
    assert health.order_targets([A], {}, 0, now=1) == [(A, 0)]


def test_a_target_that_works_again_is_forgiven() -> None:
    health = TargetHealth()
    health.record_failure(TargetKey(A, 0), BROKEN, now=0)
    health.record_success(TargetKey(A, 0))
    assert not health.is_cooling(TargetKey(A, 0), now=1)


def test_a_failure_of_the_request_starts_no_cooldown() -> None:
    health = TargetHealth()
    health.record_failure(TargetKey(A, 0), Failure(kind="invalid_request", message=""), now=0)
    assert health.list_cooldowns(now=0) == {}


def test_cooldowns_double_and_are_capped() -> None:
    health = TargetHealth()
    lengths = []
    for _ in range(9):
        health.record_failure(TargetKey(A, 0), BROKEN, now=0)
        lengths.append(health.list_cooldowns(now=0)[TargetKey(A, 0)].until)
    assert lengths == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_target_that_names_its_wait_cools_that_long_within_reason() -> None:
    health = TargetHealth()
    health.record_failure(TargetKey(A, 0), Failure(kind="rate_limit", message="", retry_after=60), now=0)
    health.record_failure(TargetKey(B, 0), Failure(kind="rate_limit", message="", retry_after=1e9), now=0)
    cooling = health.list_cooldowns(now=0)
    assert (cooling[TargetKey(A, 0)].until, cooling[TargetKey(B, 0)].until) == (60, MAX_COOLDOWN)
    assert cooling[TargetKey(A, 0)].reason == "rate_limit 429"


def test_a_session_keeps_its_key_and_sessions_share_the_keys() -> None:
    health = TargetHealth()
    first = [health.order_targets([A], {"a": 3}, session, now=0)[0] for session in (0, 1, 2, 3)]
    assert first == [(A, 0), (A, 1), (A, 2), (A, 0)]


def test_a_key_that_failed_leaves_the_others_in_use() -> None:
    health = TargetHealth()
    health.record_failure(TargetKey(A, 1), Failure(kind="authentication", message=""), now=0)
    assert health.order_targets([A, B], {"a": 2}, 1, now=1) == [(A, 0), (B, 0), (A, 1)]


def test_made_up_names_cannot_fill_the_memory() -> None:
    health = TargetHealth()
    for number in range(2 * MAX_COOLDOWNS):
        health.record_failure(TargetKey(TargetName("a", str(number)), 0), BROKEN, now=number)
    assert len(health.list_cooldowns(now=0)) == MAX_COOLDOWNS


@given(
    failed=st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 2), st.floats(0, 1000))),
    session=st.integers(0, 2**32),
    now=st.floats(0, 2000),
)
def test_every_target_and_key_is_tried_once_the_healthy_before_the_others(
    failed: list[tuple[TargetName, int, float]], session: int, now: float
) -> None:
    health = TargetHealth()
    for target, key, when in failed:
        health.record_failure(TargetKey(target, key), BROKEN, when)
    ordered = health.order_targets([A, B], {"a": 3, "b": 2}, session, now)
    assert sorted(map(tuple, ordered), key=str) == sorted([(A, 0), (A, 1), (A, 2), (B, 0), (B, 1)], key=str)
    cools = [health.is_cooling(each, now) for each in ordered]
    assert cools == sorted(cools)
