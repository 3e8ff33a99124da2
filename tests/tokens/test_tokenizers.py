"""A model is counted as its tokenizer counts."""

import pytest

from dragoman.dialects.interfaces import Tokenizer
from dragoman.dialects.registry import DIALECTS
from dragoman.tokens.text import TOKENIZERS
from dragoman.tokens.tokenizers import OVERHEADS, find_tokenizer


@pytest.mark.parametrize(
    ("model", "tokenizer"),
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
def test_a_known_name_reports_its_tokenizer(model: str, tokenizer: Tokenizer) -> None:
    assert find_tokenizer(model, "openai_chat") == tokenizer


@pytest.mark.parametrize(
    ("dialect", "tokenizer"),
    [("anthropic", "claude"), ("gemini", "gemini"), ("openai_responses", "gpt"), ("openai_chat", "open")],
)
def test_an_unknown_name_belongs_to_the_usual_tokenizer_of_its_api(
    dialect: str, tokenizer: Tokenizer
) -> None:
    assert find_tokenizer("qwen3-coder", dialect) == tokenizer
    assert DIALECTS[dialect].counting.tokenizer == tokenizer


def test_every_tokenizer_has_its_overhead() -> None:
    assert set(OVERHEADS) == set(TOKENIZERS)
