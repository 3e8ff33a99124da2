"""The cost of replies: kinds of tokens have their own prices, and costs are never rounded down."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.usage import Usage
from dragoman.providers.facts import Facts
from dragoman.providers.prices import Prices, compute_cost, compute_saving, read_prices


def prices(**facts: float) -> Prices:
    known = {"price_input": 3.0, "price_output": 15.0, **facts}
    found = read_prices(msgspec.convert(known, Facts))
    assert found is not None
    return found


def test_a_million_tokens_cost_their_price() -> None:
    assert compute_cost(prices(), Usage(input=1_000_000, output=1_000_000)) == 18_000_000


@pytest.mark.rule("P52")
def test_cached_tokens_have_their_own_prices_and_are_not_paid_twice() -> None:
    known = prices(price_cache_read=0.3, price_cache_write=3.75, price_cache_write_long=6.0)
    usage = Usage(input=1_000, cache_read=600, cache_write=300, cache_write_long=100, output=10)
    fresh, read, short, long, answer = 100 * 3, 600 * 0.3, 200 * 3.75, 100 * 6, 10 * 15
    assert compute_cost(known, usage) == fresh + read + short + long + answer


def test_cached_tokens_cost_what_others_do_where_no_price_of_their_own_is_known() -> None:
    usage = Usage(input=1_000, cache_read=600, cache_write=300, cache_write_long=300)
    assert compute_cost(prices(), usage) == compute_cost(prices(), Usage(input=1_000))


def test_a_long_lifetime_costs_as_much_as_a_short_one_by_default() -> None:
    usage = Usage(input=1_000, cache_write=1_000, cache_write_long=1_000)
    assert compute_cost(prices(price_cache_write=4.0), usage) == 4_000


def test_a_long_prompt_has_its_own_prices_as_a_whole() -> None:
    known = prices(long_prompt=200_000, long_price_input=6.0, long_price_output=22.5)
    assert compute_cost(known, Usage(input=200_000, output=1_000)) == 200_000 * 3 + 1_000 * 15
    assert compute_cost(known, Usage(input=200_001, output=1_000)) == 200_001 * 6 + 22_500


def test_prompt_tokens_that_hosted_tools_added_are_paid_too() -> None:
    assert compute_cost(prices(), Usage(input=10, tool_input=5)) == 45


def test_the_cache_saves_the_difference_of_the_prices() -> None:
    known = prices(price_cache_read=0.3, long_prompt=200_000, long_price_input=6.0, long_price_cache_read=0.6)
    assert compute_saving(known, Usage(input=1_000, cache_read=600)) == 600 * 2.7
    assert compute_saving(known, Usage(input=200_001, cache_read=1_000)) == 1_000 * 5.4
    assert compute_saving(known, Usage(input=1_000, cache_write=600)) == 0
    assert compute_saving(prices(), Usage(input=1_000, cache_read=600)) == 0
    assert compute_saving(prices(price_cache_read=9.0), Usage(input=1_000, cache_read=600)) == 0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 300))
def test_a_reply_without_cache_would_cost_what_it_costs_and_what_was_saved(
    fresh: int, read: int, write: int, price: int
) -> None:
    known = prices(price_cache_read=price / 100, price_cache_write=3.75)
    usage = Usage(input=fresh + read + write, cache_read=read, cache_write=write, output=7)
    without = compute_cost(known, msgspec.structs.replace(usage, cache_read=0))
    assert compute_cost(known, usage) + compute_saving(known, usage) == pytest.approx(without, abs=1)


def test_a_fraction_of_a_micro_dollar_counts_as_a_whole_one_once() -> None:
    known = prices(price_input=0.1, price_output=0.1)
    assert compute_cost(known, Usage(input=1, output=1)) == 1
    assert compute_cost(known, Usage(input=5, output=5)) == 1
    assert compute_cost(known, Usage()) == 0


def test_what_is_not_known_is_not_taken_for_free() -> None:
    assert read_prices(Facts(price_output=15.0)) is None
    assert read_prices(Facts(price_input=3.0)) is None
    assert prices(price_input=0.0, price_output=0.0).per_token.input == 0


counts = st.integers(0, 10**9)


@given(counts, counts, counts, counts, counts)
def test_no_usage_costs_less_than_nothing_and_more_output_never_costs_less(
    tokens: int, read: int, written: int, long_lived: int, output: int
) -> None:
    known = prices(price_cache_read=0.3, price_cache_write=3.75, price_cache_write_long=6.0)
    usage = Usage(
        input=tokens, cache_read=read, cache_write=written, cache_write_long=long_lived, output=output
    )
    more = msgspec.structs.replace(usage, output=output + 1)
    assert 0 <= compute_cost(known, usage) <= compute_cost(known, more)
