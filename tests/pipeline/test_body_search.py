"""A search for words never misses what a reader finds, however the body spells it."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.forwarding import ContentName
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import Media, ToolDeclarations
from dragoman.hub.loss import Losses
from dragoman.hub.request import find_block_kinds, has_image, list_declared_tools
from dragoman.pipeline.body_search import BodySearch, find_pattern_word, find_word
from tests.pipeline.recordings import REQUESTS, body_of

TEXTS = st.text(st.sampled_from('abYZ09 _.:-/<>&"\\\n\té日'))


@given(TEXTS, TEXTS, TEXTS, st.sets(st.integers(0, 30)), st.booleans())
def test_the_word_of_a_text_is_in_every_body_with_the_text(
    before: str, text: str, after: str, escaped: set[int], is_ascii: bool
) -> None:
    written = [
        f"\\u{ord(character):04X}"
        if at in escaped and ord(character) < 0x10000
        else encode(character, is_ascii)
        for at, character in enumerate(before + text + after)
    ]
    body = ('{"text": "' + "".join(written) + '"}').encode()
    assert msgspec.json.decode(body) == {"text": before + text + after}
    assert BodySearch(body).may_contain(find_word(text))


def encode(character: str, is_ascii: bool) -> str:
    return json.dumps(character, ensure_ascii=is_ascii)[1:-1]


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("NoSuchTool", b"NoSuchTool"),
        ("mcp__*__read", b"__read"),
        ("*[Ee]dit*", b"dit"),
        ("a[bcdefgh]c?dd", b"dd"),
        ("[!]x]yz[", b"yz"),
        ("*", b""),
        ("naïve", b"na"),
    ],
)
def test_the_word_of_a_pattern_is_in_every_name_that_it_matches(pattern: str, word: bytes) -> None:
    assert find_pattern_word(pattern) == word


def test_a_word_is_searched_only_behind_what_is_known_not_to_have_it() -> None:
    body = b'{"a":["old","new"]}'
    assert not BodySearch(body, b'"new"', frozenset({b"old", b"\\u00"})).may_contain(b"old")
    assert BodySearch(body, b'"new"', frozenset({b"\\u00"})).may_contain(b"old")
    assert BodySearch(body, b'"new"', frozenset({b"new", b"\\u00"})).may_contain(b"new")


def test_the_words_that_are_not_there_are_known_afterwards() -> None:
    search = BodySearch(rb'{"a":"one \u001b"}')
    assert [search.may_contain(b"one"), search.may_contain(b"two", b"three")] == [True, False]
    assert search.absent == {b"two", b"three", b"\\u00"}
    assert BodySearch(rb'{"a":"tw\u006f"}').may_contain(b"two")


@pytest.mark.parametrize(("source", "stem"), REQUESTS)
def test_the_words_of_contents_are_in_every_recorded_request_with_them(source: str, stem: str) -> None:
    dialect, body = dialect_named(source), body_of(source, stem)
    search, words = BodySearch(msgspec.json.encode(body)), dialect.forwarding.content_words
    request = dialect.read_request(body, Losses(), model="m")
    kinds = find_block_kinds(request.messages)
    found: dict[ContentName, bool] = {
        "images": any(map(has_image, request.messages)),
        "web_search": any(tool.common_name == "web_search" for tool in list_declared_tools(request)),
        "uncounted": Media in kinds or ToolDeclarations in kinds,
    }
    for content, is_there in found.items():
        assert search.may_contain(*words[content]) or not is_there, content
