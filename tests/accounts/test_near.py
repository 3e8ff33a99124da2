"""Limits that are nearly used up."""

from dragoman.accounts.limits import Account, Amount, Bucket, Limits, find_nearly_used_limits

NOW = 1_800_000_000.0


def test_a_budget_is_near_its_end_from_four_fifths_on_with_what_is_set_aside() -> None:
    limits = Limits(tokens_per_day=100, tokens_per_month=1000, cost_per_month=50)
    account = Account(used={"day": Amount(60, 0), "month": Amount(700, 60)}, reserved={"day": Amount(20, 0)})
    found = find_nearly_used_limits(limits, account, NOW)
    assert [(near.unit, near.period, near.used, near.share) for near in found] == [
        ("tokens", "day", 80, 0.8),
        ("cost", "month", 60, 1.2),
    ]


def test_a_minute_is_near_its_end_until_it_has_refilled() -> None:
    limits = Limits(requests_per_minute=60, tokens_per_minute=1000)
    account = Account(buckets={"requests": Bucket(6.0, NOW), "tokens": Bucket(900.0, NOW)})
    (near,) = find_nearly_used_limits(limits, account, NOW)
    assert (near.unit, near.period, near.limit, near.used) == ("requests", "minute", 60, 54)
    assert find_nearly_used_limits(limits, account, NOW + 30) == []


def test_a_key_without_limits_or_without_a_past_is_far_from_them() -> None:
    assert find_nearly_used_limits(Limits(), Account(used={"day": Amount(10**9, 10**9)}), NOW) == []
    assert find_nearly_used_limits(Limits(requests_per_minute=5, cost_per_day=5), Account(), NOW) == []
