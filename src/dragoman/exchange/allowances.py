"""Rate limits that an upstream tells in its headers, told on in the client's own.

Between equals the whole family goes on; across dialects what both can say does. Nothing else of an
upstream's head reaches a client: it may name accounts.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from dragoman.accounts.limits import RateLimitStatus

#: Headers that go on to a client of the same dialect.
FAMILIES: dict[str, re.Pattern[str]] = {
    "anthropic": re.compile(r"anthropic-ratelimit-[a-z0-9-]{1,60}"),
    "openai_chat": re.compile(r"x-ratelimit-[a-z0-9-]{1,60}|openai-(?:processing-ms|version)"),
    "openai_responses": re.compile(
        r"x-ratelimit-[a-z0-9-]{1,60}|openai-(?:processing-ms|version)"
        r"|x-codex-[a-z0-9-]{1,60}|x-models-etag|x-reasoning-included"
    ),
}
MOST = 40
#: Seconds. No limit resets later than this; a larger number is a mistake.
LONGEST_RESET = 10.0**8

_VALUE = re.compile(r"[!-~](?:[ -~]{0,300}[!-~])?")
_COUNT = re.compile(r"\d{1,15}")
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_OPENAI = ("openai_chat", "openai_responses")


class Allowance(NamedTuple):
    """One number: of what (`requests`, `tokens`), and whether it is the limit, the rest or the reset."""

    of: str
    what: str
    #: A count, or seconds until the reset.
    value: float


def passed_on(headers: Mapping[str, str], source: str, target: str, now: float) -> dict[str, str]:
    """What a client of `target` may know of the head of an upstream of `source`; `now` is the date."""
    family = FAMILIES.get(source)
    if family is None or target not in FAMILIES:
        return {}
    if source == target or (source in _OPENAI and target in _OPENAI):
        known = ((name, value) for name, value in headers.items() if family.fullmatch(name))
        return dict([(name, value) for name, value in known if _VALUE.fullmatch(value)][:MOST])
    write = _write_anthropic if target == "anthropic" else _write_openai
    read = _read_anthropic if source == "anthropic" else _read_openai
    return dict(write(allowance, now) for allowance in read(headers, now))


def told(statuses: Iterable[RateLimitStatus], dialect: str, now: float) -> dict[str, str]:
    """The limits of the client's own key, in the headers of its dialect; Gemini has none."""
    if dialect not in FAMILIES:
        return {}
    write = _write_anthropic if dialect == "anthropic" else _write_openai
    return dict(
        write(Allowance(status.unit, what, value), now)
        for status in statuses
        for what, value in (("limit", status.limit), ("remaining", status.remaining), ("reset", status.reset))
    )


def with_seconds(headers: Mapping[str, str], now: float) -> Mapping[str, str]:
    """The headers with a `retry-after` that names a date told in seconds, for readers without a clock."""
    try:
        date = parsedate_to_datetime(headers.get("retry-after", "")[:40])
    except ValueError:
        return headers
    wait = _wait(date.timestamp() - now)
    return {**headers, "retry-after": str(math.ceil(wait))}


def _read_anthropic(headers: Mapping[str, str], now: float) -> Iterator[Allowance]:
    for of in ("requests", "tokens"):
        for what in ("limit", "remaining", "reset"):
            value = headers.get(f"anthropic-ratelimit-{of}-{what}", "")
            if what != "reset" and _COUNT.fullmatch(value):
                yield Allowance(of, what, int(value))
            elif what == "reset" and (date := _date(value)) is not None:
                yield Allowance(of, what, _wait(date - now))


def _read_openai(headers: Mapping[str, str], now: float) -> Iterator[Allowance]:
    for of in ("requests", "tokens"):
        for what in ("limit", "remaining", "reset"):
            value = headers.get(f"x-ratelimit-{what}-{of}", "")
            if what != "reset" and _COUNT.fullmatch(value):
                yield Allowance(of, what, int(value))
            elif what == "reset" and (parts := _DURATION.findall(value[:40])):
                seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
                yield Allowance(of, what, _wait(seconds))


def _write_anthropic(allowance: Allowance, now: float) -> tuple[str, str]:
    name = f"anthropic-ratelimit-{allowance.of}-{allowance.what}"
    if allowance.what != "reset":
        return name, str(int(allowance.value))
    date = datetime.fromtimestamp(int(now + allowance.value), UTC)
    return name, date.isoformat().replace("+00:00", "Z")


def _write_openai(allowance: Allowance, now: float) -> tuple[str, str]:
    name = f"x-ratelimit-{allowance.what}-{allowance.of}"
    if allowance.what != "reset":
        return name, str(int(allowance.value))
    return name, f"{allowance.value:.3f}".rstrip("0").rstrip(".") + "s"


def _wait(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_RESET)


def _date(text: str) -> float | None:
    try:
        date = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    return date.timestamp() if date.tzinfo else None
