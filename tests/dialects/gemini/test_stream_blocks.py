"""Reads the arguments that a stream sends value by value."""

import pytest

from dragoman.dialects.gemini.stream_blocks import PartialArguments
from dragoman.dialects.interfaces import Json


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


@pytest.mark.rule("H14")
def test_a_list_that_is_no_list_takes_no_text() -> None:
    arguments = PartialArguments()
    assert not arguments.add(piece("$.a[1].b", stringValue="x"))
    assert not arguments.add(piece("$.a[1]", stringValue="x"))
    assert not arguments.add(piece("$[0].b", stringValue="x"))
