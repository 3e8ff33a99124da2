"""Limits per minute: a bucket that holds a minute's worth and fills up evenly.

In any stretch of time no more is taken than one bucketful and what flowed in meanwhile, but for one request
that is larger than the bucket: it may go when the bucket is full, and is paid off before the next.
"""

import msgspec

MINUTE = 60.0


class Bucket(msgspec.Struct, frozen=True):
    """How much was in it at a date. Less than nothing is a debt."""

    level: float
    at: float


def filled(bucket: Bucket | None, limit: int, now: float) -> Bucket:
    """The bucket as it is now; one that was never used is full. A clock that was set back adds nothing."""
    if bucket is None:
        return Bucket(float(limit), now)
    level = bucket.level + max(0.0, now - bucket.at) * limit / MINUTE
    return Bucket(min(level, float(limit)), now)


def wait_for(bucket: Bucket, limit: int, amount: int) -> float:
    """Seconds until the amount may be taken; 0 is now."""
    missing = min(amount, limit) - bucket.level
    return max(0.0, missing * MINUTE / limit)


def taken(bucket: Bucket, limit: int, amount: int) -> Bucket:
    """With the amount taken out, or with a negative amount given back."""
    return Bucket(min(bucket.level - amount, float(limit)), bucket.at)


def until_full(bucket: Bucket, limit: int) -> float:
    return max(0.0, (limit - bucket.level) * MINUTE / limit)
