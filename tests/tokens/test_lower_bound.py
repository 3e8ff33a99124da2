"""The lower bound is never above the true count, whatever the tokenizer and the text."""

import msgspec
import pytest

from dragoman.hub.blocks import Text
from dragoman.hub.request import Message, Request
from dragoman.tokens.lower_bound import find_lower_bound
from dragoman.tokens.request import read_count_request
from tests.pipeline.recordings import body_of, url_of
from tests.tokens.recorded import RECORDED
from tests.tokens.sample_texts import SAMPLES, TRUE_COUNTS


def bound(text: str) -> int:
    message = Message(role="user", blocks=(Text(text=text),))
    return find_lower_bound(Request(dialect="anthropic", model="m", messages=(message,)))


@pytest.mark.parametrize("name", SAMPLES)
def test_it_is_below_the_true_count_of_every_tokenizer(name: str) -> None:
    assert 0 < bound(SAMPLES[name]) < 0.75 * min(TRUE_COUNTS[name].values())


@pytest.mark.parametrize(("dialect", "stem", "true"), RECORDED, ids=[stem for _, stem, _ in RECORDED])
def test_it_is_below_the_true_count_of_recorded_requests(dialect: str, stem: str, true: int) -> None:
    model = str(url_of(dialect, stem).get("model", ""))
    request = read_count_request(dialect, msgspec.json.encode(body_of(dialect, stem)), model)
    assert find_lower_bound(request) < 0.75 * true


#: A pattern, and the tokens of one repetition at the least: one for each digit, sign or word.
REPEATED = {"0, ": 2, "word ": 1, "| - ": 2, "a.b ": 2, "(x) ": 2, '{"k":1},': 4, "的 ": 1, "\n    x": 2}


@pytest.mark.parametrize("pattern", REPEATED)
def test_it_is_below_the_count_of_a_text_that_repeats_itself(pattern: str) -> None:
    assert bound(pattern * 10_000) <= REPEATED[pattern] * 10_000


@pytest.mark.parametrize("character", [" ", "-", "\n", "=", "\t", "a", "0", "哈", "🙂"])
def test_a_run_of_one_character_counts_for_nearly_nothing(character: str) -> None:
    assert bound(character * 100_000) < 10
