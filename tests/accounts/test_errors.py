"""A limit error names the limit and the wait, in the format of each dialect."""

import pytest

from dragoman.accounts.errors import build_limit_error, format_amount, format_dollars
from dragoman.accounts.limits import LimitRefusal, Unit
from dragoman.dialects.registry import dialect_named

NOW = 1_794_794_400.0  # 2026-11-16 02:00 UTC
RATE = LimitRefusal(unit="requests", period="minute", limit=60, is_spent=False, wait=12.2)
SPENT = LimitRefusal(unit="cost", period="day", limit=2_500_000, is_spent=True, wait=22 * 3600.0)
BUSY = LimitRefusal(unit="tokens", period="month", limit=1_000, is_spent=False, wait=2.0)


def test_a_rate_limit_names_the_rate_and_the_wait() -> None:
    failure = build_limit_error("ci", RATE, NOW).failure
    assert failure.message == "the key 'ci' may use 60 requests per minute; try again in 13 s"
    assert (failure.kind, failure.http_status, failure.retry_after) == ("rate_limit", 429, 12.2)


def test_a_budget_names_its_amount_and_its_end() -> None:
    failure = build_limit_error("ci", SPENT, NOW).failure
    assert failure.message == (
        "the key 'ci' has used up its budget of $2.50 per day; the next one begins on 2026-11-17 at 00:00 UTC"
    )
    assert (failure.kind, failure.http_status) == ("quota", 429)


def test_a_reserved_budget_can_be_retried_soon() -> None:
    failure = build_limit_error("ci", BUSY, NOW).failure
    assert "1,000 tokens per month" in failure.message
    assert (failure.kind, failure.retry_after) == ("rate_limit", 2.0)


def test_the_retry_after_of_a_limit_is_bounded() -> None:
    long = LimitRefusal(unit="tokens", period="minute", limit=60, is_spent=False, wait=3_000.0)
    failure = build_limit_error("ci", long, NOW).failure
    assert failure.retry_after == 30.0
    assert "3000 s" in failure.message


@pytest.mark.parametrize(
    ("dialect", "refusal", "expected"),
    [
        ("anthropic", RATE, {"type": "rate_limit_error"}),
        ("anthropic", SPENT, {"type": "billing_error"}),
        ("openai_chat", RATE, {"type": "requests", "code": "rate_limit_exceeded"}),
        ("openai_chat", SPENT, {"type": "insufficient_quota", "code": "insufficient_quota"}),
        ("openai_responses", BUSY, {"type": "tokens", "code": "rate_limit_exceeded"}),
        ("gemini", RATE, {"code": 429, "status": "RESOURCE_EXHAUSTED"}),
        ("gemini", SPENT, {"code": 429, "status": "RESOURCE_EXHAUSTED"}),
    ],
)
def test_each_dialect_has_its_own_error_type(
    dialect: str, refusal: LimitRefusal, expected: dict[str, object]
) -> None:
    body = dialect_named(dialect).write_error(build_limit_error("ci", refusal, NOW).failure)
    error = body["error"]
    assert isinstance(error, dict)
    assert expected.items() <= error.items()


def test_gemini_has_the_wait_in_its_details() -> None:
    body = dialect_named("gemini").write_error(build_limit_error("ci", RATE, NOW).failure)
    assert '"retryDelay": "12.2s"'.replace('"', "'") in str(body)


@pytest.mark.parametrize(
    ("of", "amount", "text"),
    [
        ("requests", 1, "1 request"),
        ("tokens", 2_000_000, "2,000,000 tokens"),
        ("cost", 5_000_000, "$5.00"),
        ("cost", 1_500, "$0.0015"),
        ("cost", 0, "$0.00"),
        ("cost", 1_234_500_000, "$1,234.50"),
    ],
)
def test_amounts_are_written_for_people(of: Unit, amount: int, text: str) -> None:
    assert format_amount(of, amount) == text
    assert format_dollars(1) == "$0.000001"
