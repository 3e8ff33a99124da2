"""Estimates of texts are within a tenth of the real tokenizers' counts, and take linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.interfaces import Tokenizer
from dragoman.tokens.text import KINDS, PATTERNS, SCRIPTS, TOKENIZERS, estimate_text_tokens
from tests.tokens.sample_texts import SAMPLES, TRUE_COUNTS

tokenizers = st.sampled_from(TOKENIZERS)


@pytest.mark.rule("H69")
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("name", list(SAMPLES))
def test_an_ordinary_text_is_counted_within_a_tenth(name: str, tokenizer: Tokenizer) -> None:
    assert estimate_text_tokens(SAMPLES[name], tokenizer) == pytest.approx(
        TRUE_COUNTS[name][tokenizer], rel=0.1
    )


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_all_kinds_of_text_together_are_counted_within_a_twentieth(tokenizer: Tokenizer) -> None:
    estimate = sum(estimate_text_tokens(text, tokenizer) for text in SAMPLES.values())
    assert estimate == pytest.approx(sum(counts[tokenizer] for counts in TRUE_COUNTS.values()), rel=0.05)


def test_every_kind_and_script_is_reported_apart() -> None:
    characters = "".join(KINDS.values())
    assert len(characters) == len(set(characters))
    assert set("".join(PATTERNS)) <= {*KINDS, "x"}
    assert all(cost >= 0 for costs in (*PATTERNS.values(), *SCRIPTS.values()) for cost in costs)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("Быстрая коричневая лиса перепрыгивает через ленивую собаку.", 10, 40),
        ("הלו עולם, מה שלומך היום?", 8, 30),
        ("नमस्ते दुनिया, आप कैसे हैं?", 8, 35),
        ("안녕하세요 세계, 오늘은 어떻습니까?", 8, 35),
        ("こんにちは世界、お元気ですか。", 8, 25),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", 12, 60),
        ("├── a\n│   └── b\n", 6, 25),
        ("🎉🚀🔥", 3, 20),
    ],
)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_other_scripts_have_their_price(text: str, least: int, most: int, tokenizer: Tokenizer) -> None:
    assert least <= estimate_text_tokens(text, tokenizer) <= most


@given(text=st.text(max_size=300), tokenizer=tokenizers)
def test_any_text_has_a_count(text: str, tokenizer: Tokenizer) -> None:
    assert 0 <= estimate_text_tokens(text, tokenizer) <= 6 * max(1, len(text))


@given(first=st.text(max_size=200), second=st.text(max_size=200), tokenizer=tokenizers)
def test_a_longer_text_costs_about_as_much_as_its_parts(
    first: str, second: str, tokenizer: Tokenizer
) -> None:
    whole, parts = (
        estimate_text_tokens(first + second, tokenizer),
        estimate_text_tokens(first, tokenizer) + estimate_text_tokens(second, tokenizer),
    )
    assert abs(whole - parts) <= 8


@pytest.mark.parametrize("piece", ["a", " ", "aA", "中", "é ", "\u0301", "0a", '{"a":1}', "🎉", "\x00"])
def test_the_tokens_of_a_repeated_text_grow_with_its_length(piece: str) -> None:
    """A long text of any kind is estimated: the patterns take linear time, so this ends at once."""
    short, long = (estimate_text_tokens(piece * count, "claude") for count in (1_000, 200_000))
    assert short <= long <= 250 * (short + 1)
