"""Places citations in texts by bytes, by characters and by their words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialects.gemini.citations import (
    CitedText,
    convert_to_bytes,
    convert_to_characters,
    read_citations,
)
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Citation

CITED: Json = {"citationMetadata": {"citationSources": [{"startIndex": 2, "endIndex": 4, "uri": "u"}]}}


def cited_text(*pieces: str, keep: bool = True) -> CitedText:
    text = CitedText(keep=keep)
    for one in pieces:
        text.add(one)
    return text


@given(st.text(max_size=30), st.data())
@settings(max_examples=100)
def test_offsets_in_bytes_and_in_characters_undo_each_other(text: str, data: st.DataObject) -> None:
    offsets = data.draw(st.sets(st.integers(0, len(text))))
    in_bytes = convert_to_bytes(text, offsets)
    assert in_bytes == {offset: len(text[:offset].encode()) for offset in offsets}
    back = convert_to_characters(text.encode(), {*in_bytes.values()})
    assert {back[in_bytes[offset]] for offset in offsets} == offsets


@pytest.mark.parametrize(
    "metadata",
    [
        5,
        {"groundingSupports": 5},
        {"groundingSupports": [5, {}, {"segment": {}, "groundingChunkIndices": [7, "x", -1, True]}]},
        {
            "groundingChunks": [5, {}],
            "groundingSupports": [{"segment": {"startIndex": "x"}, "groundingChunkIndices": 5}],
        },
    ],
)
def test_grounding_of_the_wrong_type_cites_nothing(metadata: object) -> None:
    assert read_citations({"groundingMetadata": metadata, "citationMetadata": 5}, cited_text("text")) == []


def test_a_citation_is_found_by_its_words_if_its_offsets_are_wrong() -> None:
    metadata = {
        "groundingChunks": [{"web": {"uri": "u", "title": "t"}}],
        "groundingSupports": [
            {"segment": {"startIndex": 90, "endIndex": 95, "text": "words"}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 0, "endIndex": 5, "text": "nowhere"}, "groundingChunkIndices": [0]},
        ],
    }
    assert read_citations({"groundingMetadata": metadata}, cited_text("some words")) == [
        Citation(url="u", title="t", start=5, end=10),
        Citation(url="u", title="t"),
    ]


def test_a_text_that_was_not_kept_is_cited_if_every_character_is_one_byte() -> None:
    assert read_citations(CITED, cited_text("plain", keep=False)) == [Citation(url="u", start=2, end=4)]
    assert read_citations(CITED, cited_text("gr", "ö", "ßer", keep=False)) == [Citation(url="u")]
    assert read_citations(CITED, cited_text("grö", "ßer")) == [Citation(url="u", start=2, end=3)]


@pytest.mark.rule("P73")
def test_a_very_long_text_is_not_kept() -> None:
    text = cited_text(*["a" * 1000] * 1001)
    assert text.text() is None
    assert (text.characters, text.size) == (1_001_000, 1_001_000)
