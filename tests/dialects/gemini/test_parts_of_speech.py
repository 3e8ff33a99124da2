"""The small things that readers and writers share: paths, offsets, schemas, spellings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialects.gemini.grounding import (
    CitedText,
    convert_to_bytes,
    convert_to_characters,
    read_citations,
)
from dragoman.dialects.gemini.partial_arguments import PartialArguments
from dragoman.dialects.gemini.schema import is_empty, read_schema, write_schema
from dragoman.dialects.gemini.spelling import CAMEL, NAMES, restore_snake_names, to_camel, to_snake
from dragoman.hub.content import Citation

Json = dict[str, object]


def said(*pieces: str, keep: bool = True) -> CitedText:
    text = CitedText(keep=keep)
    for one in pieces:
        text.add(one)
    return text


def piece(path: str, **value: object) -> Json:
    return {"jsonPath": path, **value}


@pytest.mark.rule("H14")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a", {"a": 1}),
        ("$.a.b", {"a": {"b": 1}}),
        ("$.a[0]", {"a": [1]}),
        ("$.a[0].b", {"a": [{"b": 1}]}),
        ("$.a[0][0]", {"a": [[1]]}),
        ("$['a b']", {"a b": 1}),
        ('$["a\\"b"].c', {'a"b': {"c": 1}}),
        ("$['']", {"": 1}),
    ],
)
def test_a_path_leads_to_its_place(path: str, expected: object) -> None:
    arguments = PartialArguments()
    assert arguments.add(piece(path, numberValue=1))
    assert arguments.value() == expected


@pytest.mark.rule("H14")
@pytest.mark.parametrize(
    "path",
    ["", "$", "a", "$a", "$.", "$..a", "$[-1]", "$.a[1]", "$[0]", "$.a[99999999]", 5, "$" + ".a" * 101],
)
def test_a_path_that_leads_nowhere_is_refused(path: object) -> None:
    arguments = PartialArguments()
    assert not arguments.add({"jsonPath": path, "numberValue": 1})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "x"}, "x"),
        ({"stringValue": ""}, ""),
        ({"numberValue": 1.5}, 1.5),
        ({"boolValue": False}, False),
        ({"nullValue": "NULL_VALUE"}, None),
        ({"nullValue": None}, None),
        ({"willContinue": True}, ""),
        ({"string_value": "x"}, "x"),
        ({}, None),
    ],
)
def test_values_of_every_type_arrive(value: Json, expected: object) -> None:
    arguments = PartialArguments()
    assert arguments.add({"jsonPath": "$.a", **value})
    assert arguments.value() == {"a": expected}


def test_texts_of_one_path_append_and_other_values_replace() -> None:
    arguments = PartialArguments({"kept": 1})
    for item in (
        piece("$.a", stringValue="x"),
        piece("$.a", stringValue="y"),
        piece("$.n", numberValue=1),
        piece("$.n", numberValue=2),
        piece("$.a.b", numberValue=1),
    ):
        assert arguments.add(item)
    assert arguments.value() == {"kept": 1, "a": {"b": 1}, "n": 2}


@pytest.mark.parametrize("item", [None, 5, "text", [], {"stringValue": "x"}])
def test_what_is_no_piece_is_refused(item: object) -> None:
    assert not PartialArguments().add(item)


def test_long_texts_arrive_in_proportional_time() -> None:
    arguments = PartialArguments()
    for _ in range(50_000):
        arguments.add(piece("$.a", stringValue="0123456789"))
    assert arguments.value() == {"a": "0123456789" * 50_000}


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
    assert read_citations({"groundingMetadata": metadata, "citationMetadata": 5}, said("text")) == []


def test_a_citation_is_found_by_its_words_if_its_offsets_are_wrong() -> None:
    metadata = {
        "groundingChunks": [{"web": {"uri": "u", "title": "t"}}],
        "groundingSupports": [
            {"segment": {"startIndex": 90, "endIndex": 95, "text": "words"}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 0, "endIndex": 5, "text": "nowhere"}, "groundingChunkIndices": [0]},
        ],
    }
    assert read_citations({"groundingMetadata": metadata}, said("some words")) == [
        Citation(url="u", title="t", start=5, end=10),
        Citation(url="u", title="t"),
    ]


@pytest.mark.rule("H34")
def test_types_are_changed_where_schemas_stand_and_nowhere_else() -> None:
    schema: Json = {
        "type": "OBJECT",
        "properties": {"type": {"type": "STRING", "enum": ["OBJECT"], "default": {"type": "STRING"}}},
        "anyOf": [{"type": "NULL"}, {"items": {"type": "NUMBER"}, "type": "ARRAY"}],
    }
    after = read_schema(schema, is_openapi=True)
    assert after == {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ["OBJECT"], "default": {"type": "STRING"}}},
        "anyOf": [{"type": "null"}, {"items": {"type": "number"}, "type": "array"}],
    }
    assert write_schema(after) == schema


def test_a_schema_is_not_changed_in_place() -> None:
    schema: Json = {"type": "STRING", "nullable": True}
    assert read_schema(schema, is_openapi=True) == {"type": ["string", "null"]}
    assert write_schema({"type": ["string", "null"]}) == schema
    assert schema == {"type": "STRING", "nullable": True}


def test_a_bottomless_schema_is_read_to_its_limit() -> None:
    schema: Json = {"type": "STRING"}
    for _ in range(500):
        schema = {"type": "ARRAY", "items": schema}
    assert read_schema(schema, is_openapi=True)["type"] == "array"
    assert write_schema(schema)["type"] == "ARRAY"


@pytest.mark.rule("H35")
@pytest.mark.parametrize(
    ("schema", "empty"),
    [
        (None, True),
        ({}, True),
        ({"type": "object"}, True),
        ({"type": "object", "properties": {}, "required": []}, True),
        ({"type": "object", "properties": {"a": {}}}, False),
        ({"type": "object", "description": "anything"}, False),
        ({"type": "string"}, False),
    ],
)
def test_a_schema_that_asks_for_nothing_is_known(schema: Json | None, empty: bool) -> None:
    assert is_empty(schema) is empty


def test_every_name_has_a_spelling_of_its_own() -> None:
    assert len(CAMEL) == len(NAMES)
    assert to_snake("parametersJsonSchema") == "parameters_json_schema"


def test_a_name_that_is_there_twice_keeps_both_spellings() -> None:
    assert to_camel({"top_k": 1, "topK": 2, "top_p": 3}) == {"top_k": 1, "topK": 2, "topP": 3}


def test_paths_that_are_no_longer_there_are_not_respelled() -> None:
    body: Json = {"contents": [{"parts": []}]}
    restore_snake_names(
        body, ["contents[3].parts[0].inline_data", "tools[0].google_search", "generation_config", "x"]
    )
    assert body == {"contents": [{"parts": []}]}


def test_types_in_a_list_are_changed_too() -> None:
    assert read_schema({"type": ["STRING", "NULL", 5]}, is_openapi=False) == {"type": ["string", "null", 5]}
    assert write_schema({"type": ["string", "integer"]}) == {"type": ["string", "integer"]}


@pytest.mark.rule("H14")
def test_a_list_that_is_no_list_takes_no_text() -> None:
    arguments = PartialArguments()
    assert not arguments.add(piece("$.a[1].b", stringValue="x"))
    assert not arguments.add(piece("$.a[1]", stringValue="x"))
    assert not arguments.add(piece("$[0].b", stringValue="x"))


CITED: Json = {"citationMetadata": {"citationSources": [{"startIndex": 2, "endIndex": 4, "uri": "u"}]}}


def test_a_text_that_was_not_kept_is_cited_if_every_character_is_one_byte() -> None:
    assert read_citations(CITED, said("plain", keep=False)) == [Citation(url="u", start=2, end=4)]
    assert read_citations(CITED, said("gr", "ö", "ßer", keep=False)) == [Citation(url="u")]
    assert read_citations(CITED, said("grö", "ßer")) == [Citation(url="u", start=2, end=3)]


@pytest.mark.rule("P73")
def test_a_very_long_text_is_not_kept() -> None:
    text = said(*["a" * 1000] * 1001)
    assert text.text() is None
    assert (text.characters, text.size) == (1_001_000, 1_001_000)
