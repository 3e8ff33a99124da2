"""Samples that come again are not counted again, and no text is kept."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.tokens.text import CountMemo, count_patterns


@given(st.lists(st.text(max_size=40), max_size=30))
def test_the_counts_are_those_of_the_text(texts: list[str]) -> None:
    memo = CountMemo(5)
    for text in [*texts, *texts]:
        assert memo.count(text) == tuple(count_patterns(text))
        assert len(memo._counts) <= 5


def test_no_text_is_kept() -> None:
    memo = CountMemo(5)
    memo.count("the secret")
    assert "secret" not in repr(memo._counts)
