"""What counts as quoted, wherever the text is cut."""

import pytest

from dragoman.governance.harvest.quoting import QuoteTracker


def is_quoted(text: str, pieces: int) -> bool:
    quotes = QuoteTracker()
    step = max(1, len(text) // pieces)
    for start in range(0, len(text), step):
        quotes.advance(text, start, min(start + step, len(text)))
    return quotes.is_quoted


@pytest.mark.rule("C20")
@pytest.mark.parametrize("pieces", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    "before",
    [
        "```\n",
        "~~~ text\nx\n",
        "````\n```\n",
        "- ```sh\n",
        "1. ```\n  ",
        "```json ",
        "a\n\n   ```\n  code\n",
        "```\n``` still\n",
        "```\r\nx\r\n",
        "say `",
        "say ``a ` b",
        "```a` b",
        "> ",
        '> "a" b ',
        'he said "so ',
        "he said “so ",
        "the tag '",
        "(«",
        "```\n~~~\n",
        "Hm.</think>```\n",
        "Hm.</think> ~~~\n",
        "Hm.</mm:think><pre>\n",
        "Hm.<|END_THINKING|><|START_RESPONSE|><example>\n",
        "<\uff5cAssistant\uff5c>> ",
    ],
)
def test_these_leave_what_follows_quoted(before: str, pieces: int) -> None:
    assert is_quoted(before, pieces)


@pytest.mark.parametrize("pieces", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    "before",
    [
        "",
        "plain ",
        "```\ncode\n```\n",
        "~~~\ncode\n~~~  \n",
        "```\ncode\n`````\n",
        "```code``` and ",
        "say `a` and ",
        "say ``a ` b`` and ",
        "an unclosed ` on a line before\n",
        "> quoted\n",
        'he said "so" and ',
        'a quotation "open on a line before\n',
        'a 19" rack and ',
        "he said “so” and ",
        "don't ",
        "it's 'so'",
        "a > b ",
        "a ~~~ b ",
        '`"` and ',
        "Hm.</think>so ```\n",
        "Hm.</b>```\n",
        "Hm.</think>",
    ],
)
def test_these_do_not(before: str, pieces: int) -> None:
    assert not is_quoted(before, pieces)


def test_what_comes_behind_something_else_begins_a_line() -> None:
    quotes = QuoteTracker()
    quotes.advance("say `", 0, 5)
    quotes.start_line()
    assert not quotes.is_quoted
