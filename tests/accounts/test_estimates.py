"""The usage that is charged: the reported one, or else an estimate, but never nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.estimates import (
    MAX_TOKENS,
    ExchangeOutcome,
    OtherCall,
    build_amount,
    estimate_max_output,
    estimate_other,
    estimate_usage,
)
from dragoman.accounts.usage import Charge
from dragoman.config.provider import TargetName
from dragoman.hub.usage import Usage

REPORTED = Usage(input=100, output=20, cache_read=60, reasoning=5)


def charged(
    usage: Usage | None,
    *,
    is_accepted: bool = True,
    is_finished: bool = True,
    received: int = 0,
) -> Usage:
    outcome = ExchangeOutcome(
        usage=usage,
        was_accepted=is_accepted,
        is_finished=is_finished,
        received_bytes=received,
    )
    return estimate_usage(outcome, 90, "openai_chat")


def test_a_finished_reply_is_charged_with_the_reported_usage() -> None:
    assert charged(REPORTED, received=10**6) == REPORTED


def test_a_reply_without_usage_is_charged_with_an_estimate() -> None:
    assert charged(None, received=5_000) == Usage(input=90, output=50)


@pytest.mark.parametrize("reported", [None, Usage(input=0, output=0), Usage(output=1)])
def test_a_truncated_reply_is_charged_with_the_prompt_and_the_received_bytes(reported: Usage | None) -> None:
    used = charged(reported, is_finished=False, received=5_000)
    assert (used.input, used.output) == (90, 50)


def test_a_truncated_reply_is_charged_with_the_reported_usage_if_that_is_more() -> None:
    used = charged(Usage(input=100, output=900), is_finished=False, received=5_000)
    assert (used.input, used.output) == (100, 900)


def test_a_request_that_the_upstream_refused_costs_nothing() -> None:
    assert charged(REPORTED, is_accepted=False, is_finished=False) == Usage(input=0, output=0)


def test_an_unknown_prompt_of_a_further_call_is_charged_with_its_estimate() -> None:
    target = TargetName("p", "m")
    assert estimate_other(OtherCall(target, Usage(output=3)), 90) == Usage(input=90, output=3)
    assert estimate_other(OtherCall(target, REPORTED), 90) == REPORTED


@pytest.mark.parametrize(
    ("asked", "candidates", "most", "expected"),
    [
        (None, None, None, 4_096),
        (None, None, 1_000, 1_000),
        (50, 3, None, 150),
        (10**30, None, 64_000, 64_000),
        (10**30, 10**30, None, MAX_TOKENS * 128),
        (-5, -5, None, 1),
        (0, 0, 0, 4_096),
    ],
)
def test_the_reserved_output_is_bounded_by_the_model(
    asked: int | None, candidates: int | None, most: int | None, expected: int
) -> None:
    assert estimate_max_output(asked, candidates, most) == expected


def test_the_amount_sums_prompt_tools_and_output() -> None:
    assert build_amount(Usage(input=10, output=5, tool_input=2, cache_read=8), 7) == (17, 7)


@given(
    st.builds(
        Usage,
        input=st.none() | st.integers(),
        output=st.none() | st.integers(),
        cache_read=st.none() | st.integers(),
        tool_input=st.none() | st.integers(),
    ),
    st.booleans(),
    st.integers(0, 10**12),
)
def test_counts_of_an_upstream_are_bounded(usage: Usage, finished: bool, received: int) -> None:
    used = charged(usage, is_finished=finished, received=received)
    for count in (used.input, used.output, used.cache_read or 0, used.tool_input or 0):
        assert count is not None
        assert 0 <= count <= MAX_TOKENS


def test_a_sum_with_an_unknown_price_is_unknown() -> None:
    known, unknown = Charge(Usage(input=3), 5, 2), Charge(Usage(input=4), None, None)
    assert known.add(known) == Charge(Usage(input=6), 10, 4)
    assert known.add(unknown) == unknown.add(known) == Charge(Usage(input=7), None, None)
