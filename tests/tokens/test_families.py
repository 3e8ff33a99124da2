"""A model is counted as its family counts."""

import pytest

from dragoman.tokens.costs import FAMILIES, Family
from dragoman.tokens.families import OF_DIALECT, OVERHEADS, family_of


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-3-5-haiku-latest", "claude-3"),
        ("claude-opus-4-20250514", "claude-3"),
        ("claude-sonnet-4-5", "claude-3"),
        ("claude-sonnet-4-5-20250929", "claude-3"),
        ("claude-opus-4-6", "claude-3"),
        ("anthropic/claude-sonnet-4.5", "claude-3"),
        ("claude-opus-4-7", "claude"),
        ("claude-opus-5-5", "claude"),
        ("claude-sonnet-5", "claude"),
        ("gemini-3-pro-preview", "gemini"),
        ("google/gemini-2.5-flash", "gemini"),
        ("gpt-5.5", "gpt"),
        ("openai/gpt-4o", "gpt"),
        ("o3-mini", "gpt"),
        ("GPT-6", "gpt"),
    ],
)
def test_a_known_name_tells_its_family(model: str, family: Family) -> None:
    assert family_of(model, "openai_chat") == family


@pytest.mark.parametrize(("dialect", "family"), list(OF_DIALECT.items()))
def test_an_unknown_name_is_taken_for_what_its_api_usually_serves(dialect: str, family: Family) -> None:
    assert family_of("qwen3-coder", dialect) == family


def test_every_family_has_its_overhead() -> None:
    assert set(OVERHEADS) == set(FAMILIES)
