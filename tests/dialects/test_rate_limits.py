"""Rate-limit headers, from any dialect to any other."""

import pytest

from dragoman.dialects.rate_limits import forward_rate_limits, with_retry_seconds
from dragoman.dialects.registry import dialect_named

NOW = 1_800_000_000.0


def forward(headers: dict[str, str], source: str, target: str, now: float) -> dict[str, str]:
    upstream, client = dialect_named(source).http_api, dialect_named(target).http_api
    return forward_rate_limits(headers, upstream.rate_limits, client.rate_limits, now)


ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:20Z",
}
OPENAI = {
    "x-ratelimit-limit-requests": "50",
    "x-ratelimit-remaining-requests": "49",
    "x-ratelimit-reset-requests": "20s",
}


@pytest.mark.rule("H86")
@pytest.mark.parametrize("openai", ["openai_chat", "openai_responses"])
def test_limits_mean_the_same_in_both_families(openai: str) -> None:
    assert forward(ANTHROPIC, "anthropic", openai, NOW) == OPENAI
    assert forward(OPENAI, openai, "anthropic", NOW) == ANTHROPIC


def test_gemini_has_no_such_headers() -> None:
    assert forward(ANTHROPIC, "anthropic", "gemini", NOW) == {}
    assert forward(OPENAI, "gemini", "openai_chat", NOW) == {}


def test_codex_gets_what_its_own_upstream_states_of_its_limits() -> None:
    headers = {"x-codex-primary-used-percent": "12", "x-ratelimit-limit-tokens": "9"}
    assert forward(headers, "openai_responses", "openai_responses", NOW) == headers


@pytest.mark.parametrize("value", ["1\r\nset-cookie: a", "ü", "", "x" * 1000])
def test_a_value_that_is_no_header_value_is_dropped(value: str) -> None:
    assert forward({"x-ratelimit-limit-tokens": value}, "openai_chat", "openai_chat", NOW) == {}


@pytest.mark.parametrize(
    "reset", ["soon", "", "9" * 400, "999999999d", "2027-01-15", "9999-12-31T23:59:59Z", "1e9s"]
)
def test_a_time_that_makes_no_sense_does_no_harm(reset: str) -> None:
    for source, name in (
        ("anthropic", "anthropic-ratelimit-tokens-reset"),
        ("openai_chat", "x-ratelimit-reset-tokens"),
    ):
        target = "openai_chat" if source == "anthropic" else "anthropic"
        passed = forward({name: reset}, source, target, NOW)
        assert all(len(value) < 40 for value in passed.values())


def test_the_number_of_headers_is_bounded() -> None:
    headers = {f"x-ratelimit-limit-{number}": "1" for number in range(1000)}
    assert len(forward(headers, "openai_chat", "openai_chat", NOW)) == 40


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("Fri, 15 Jan 2027 08:00:07 GMT", "7"),
        ("Fri, 15 Jan 2027 07:00:00 GMT", "0"),
        ("7", "7"),
        ("0.5", "0.5"),
        ("soon", "soon"),
        ("Fri, 99 Jan 2027 08:00:07 GMT", "Fri, 99 Jan 2027 08:00:07 GMT"),
    ],
)
def test_a_date_to_come_back_at_is_reported_in_seconds(header: str, seconds: str) -> None:
    assert with_retry_seconds({"retry-after": header, "a": "b"}, NOW) == {"retry-after": seconds, "a": "b"}


def test_no_date_is_made_up() -> None:
    assert with_retry_seconds({"a": "b"}, NOW) == {"a": "b"}
