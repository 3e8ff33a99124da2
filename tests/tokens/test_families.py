"""A model is counted as its family counts."""

import pytest

from dragoman.dialects.interfaces import TokenFamily
from dragoman.dialects.registry import DIALECTS
from dragoman.tokens.families import OVERHEADS, find_family
from dragoman.tokens.text import FAMILIES


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
def test_a_known_name_reports_its_family(model: str, family: TokenFamily) -> None:
    assert find_family(model, "openai_chat") == family


@pytest.mark.parametrize(
    ("dialect", "family"),
    [("anthropic", "claude"), ("gemini", "gemini"), ("openai_responses", "gpt"), ("openai_chat", "open")],
)
def test_an_unknown_name_belongs_to_the_usual_family_of_its_api(dialect: str, family: TokenFamily) -> None:
    assert find_family("qwen3-coder", dialect) == family
    assert DIALECTS[dialect].counting.family == family


def test_every_family_has_its_overhead() -> None:
    assert set(OVERHEADS) == set(FAMILIES)
