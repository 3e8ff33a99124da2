"""Rate-limit headers. Their names are in `anthropic/rate_limits.py` and `openai_rate_limits.py`.

This module has what those share, and passes limits from an upstream to a client. Gemini has no such headers.
Between dialects of one vendor the whole set of headers passes. Between vendors the numbers that both have are
translated. No other header of an upstream reaches a client: headers may name accounts.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple

import msgspec

#: Most headers that pass from an upstream to a client.
MAX_HEADERS = 40
#: Seconds. A later reset is a mistake of the upstream.
LONGEST_RESET = 10.0**8

_VALUE = re.compile(r"[!-~](?:[ -~]{0,300}[!-~])?")
_COUNT = re.compile(r"\d{1,15}")
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

UNITS = ("requests", "tokens")
PARTS = ("limit", "remaining", "reset")


class RateLimitFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The rate-limit headers of one dialect."""

    #: Dialects of one vendor exchange their headers unchanged.
    vendor: str
    #: The name of a header, with `{unit}` and `{part}`.
    name: str
    #: How a reset is written: a date (RFC 3339) or a duration such as `1m30s`.
    reset: Literal["date", "duration"]
    #: Headers that pass unchanged to a client of the same vendor.
    forwarded: re.Pattern[str]
    #: Of these, the headers about the account at the vendor. A client with a key of the gateway never gets
    #: them: it would take the account's standing for its own.
    account: re.Pattern[str] | None = None


class BudgetStanding(NamedTuple):
    """The budget of a client's key that decides whether its requests pass."""

    period: Literal["day", "month"]
    #: The used part of it, from 0 on.
    share: float
    is_spent: bool
    #: When the next one begins, in seconds since 1970.
    reset: int


class RateLimitValue(NamedTuple):
    """One number: of `requests` or `tokens`; the limit, what remains, or the seconds until the reset."""

    unit: str
    part: str
    value: float


def forward_rate_limits(
    headers: Mapping[str, str],
    source: RateLimitFormat | None,
    target: RateLimitFormat | None,
    now: float,
    *,
    has_key: bool = False,
) -> dict[str, str]:
    """The rate-limit headers for a client of `target`, from the headers of an upstream of `source`.

    A dialect without such headers has no format. `now` is the date in seconds. `has_key`: the client has a
    key of the gateway.
    """
    if source is None or target is None:
        return {}
    if source.vendor == target.vendor:
        account = source.account if has_key else None
        known = (
            (name, value)
            for name, value in headers.items()
            if source.forwarded.fullmatch(name) and not (account and account.fullmatch(name))
        )
        return dict([(name, value) for name, value in known if _VALUE.fullmatch(value)][:MAX_HEADERS])
    return write_rate_limits(_read_values(source, headers, now), target, now)


def write_rate_limits(
    values: Iterable[RateLimitValue], target: RateLimitFormat | None, now: float
) -> dict[str, str]:
    """The headers of a client's dialect for these numbers; none if the dialect has no such headers."""
    if target is None:
        return {}
    return {
        target.name.format(unit=value.unit, part=value.part): _write_value(value, target.reset, now)
        for value in values
    }


def with_retry_seconds(headers: Mapping[str, str], now: float) -> Mapping[str, str]:
    """The headers with a `retry-after` date replaced by seconds, for readers without a clock."""
    try:
        date = parsedate_to_datetime(headers.get("retry-after", "")[:40])
    except ValueError:
        return headers
    return {**headers, "retry-after": str(math.ceil(_limit_wait(date.timestamp() - now)))}


def _read_values(source: RateLimitFormat, headers: Mapping[str, str], now: float) -> Iterator[RateLimitValue]:
    for unit in UNITS:
        for part in PARTS:
            text = headers.get(source.name.format(unit=unit, part=part), "")
            if part != "reset":
                if _COUNT.fullmatch(text):
                    yield RateLimitValue(unit, part, int(text))
            elif (seconds := _read_reset(text, source.reset, now)) is not None:
                yield RateLimitValue(unit, part, _limit_wait(seconds))


def _read_reset(text: str, kind: str, now: float) -> float | None:
    if kind == "duration":
        parts = _DURATION.findall(text[:40])
        return sum(float(number) * _SECONDS[unit] for number, unit in parts) if parts else None
    try:
        date = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    return date.timestamp() - now if date.tzinfo else None


def _write_value(value: RateLimitValue, reset: str, now: float) -> str:
    if value.part != "reset":
        return str(int(value.value))
    if reset == "date":
        return datetime.fromtimestamp(int(now + value.value), UTC).isoformat().replace("+00:00", "Z")
    return f"{value.value:.3f}".rstrip("0").rstrip(".") + "s"


def _limit_wait(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_RESET)
