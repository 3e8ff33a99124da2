"""JSON that is still arriving: what is good of it, and how to end it early."""

import json
import re
from itertools import product

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dragoman.wire.partial_json import JsonPrefix, parse_object, wrap_as_object
from tests.wire.cuts import CUTS, cut, singly
from tests.wire.json_oracle import longest_beginning

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=3)
JSON_TEXTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    VALUES,
    st.booleans(),
    st.sampled_from([None, 1]),
)
CHARACTERS = st.sampled_from('{}[]",:\\/bfnrtu0123456789abcdefDC+-.eE truefalsn\t\n\x00é😀\ud83d')

#: Good JSON, but beyond what a float can hold.
HUGE_NUMBER = re.compile(r"[eE]\+?\d{3}")


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    text = draw(JSON_TEXTS)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        removed = draw(st.integers(0, 2))
        text = text[:place] + draw(st.text(CHARACTERS, max_size=3)) + text[place + removed :]
    return text


ANY_TEXTS = JSON_TEXTS | damaged_texts() | st.text(CHARACTERS, max_size=25)


def fed(pieces: list[str]) -> tuple[JsonPrefix, int]:
    prefix = JsonPrefix()
    return prefix, sum([prefix.feed(piece) for piece in pieces])


@pytest.mark.rule("H13", "R60")
@given(text=ANY_TEXTS)
@example(text='"\\ud83d\\ude00"')
@example(text='"\\ud83d\\u0041"')
@example(text='"\\ude00"')
@example(text="-01")
@example(text='{"a":1,}')
def test_the_accepted_part_is_the_longest_that_can_still_become_json(text: str) -> None:
    prefix, accepted = fed([text])
    assert accepted == longest_beginning(text)
    assert prefix.is_broken == (accepted < len(text))


@pytest.mark.rule("H13", "R60")
@pytest.mark.parametrize(
    ("alphabet", "looked_at"), [("[]1,", 4), ('{}":1', 3), ('"\\u0', 3), ("[-0.e]", 3), ("nul 0", 4)]
)
def test_of_all_short_texts_exactly_those_are_accepted_that_can_be_completed(
    alphabet: str, looked_at: int
) -> None:
    completable: set[str] = set()
    for length in range(1, 9 if len(alphabet) < 6 else 7):
        for characters in product(alphabet, repeat=length):
            text = "".join(characters)
            try:
                msgspec.json.decode(text)
            except msgspec.DecodeError:
                continue
            completable.update(text[:end] for end in range(length + 1))
    for length in range(1, looked_at + 1):
        for characters in product(alphabet, repeat=length):
            text = "".join(characters)
            assert (fed([text])[1] == length) == (text in completable), text


@given(text=ANY_TEXTS, more=st.text(CHARACTERS, max_size=4))
@example(text='{"a": "', more="b" * 70_000)
def test_what_flows_would_be_accepted_and_changes_nothing(text: str, more: str) -> None:
    skimmed, _ = fed([text])
    if skimmed.is_string_continuation(more):
        read, _ = fed([text])
        assert read.feed(more) == len(more)
        assert (read.closing(), read.depth, read.is_broken) == (skimmed.closing(), skimmed.depth, False)


@pytest.mark.parametrize("more", ["", "plain", "ä€😀", "b" * 65_536])
def test_plain_characters_flow_in_a_string(more: str) -> None:
    prefix, _ = fed(['{"a": "b'])
    assert prefix.is_string_continuation(more)


@pytest.mark.parametrize("more", ['"', "\\", "\n", "\ud800", "b" * 65_537])
def test_what_may_end_a_string_does_not_flow(more: str) -> None:
    prefix, _ = fed(['{"a": "b'])
    assert not prefix.is_string_continuation(more)


@pytest.mark.rule("H13", "R60")
@given(text=ANY_TEXTS, cuts=CUTS)
def test_nothing_depends_on_how_the_text_is_cut(text: str, cuts: list[int]) -> None:
    def facts(pieces: list[str]) -> tuple[object, ...]:
        prefix, accepted = fed(pieces)
        return (
            *(accepted, prefix.is_broken, prefix.is_complete, prefix.is_empty, prefix.kind, prefix.depth),
            *(prefix.closing(), prefix.closing_with("k", "1")),
        )

    whole = facts([text])
    assert facts(cut(text, cuts)) == whole
    assert facts(singly(text)) == whole


@pytest.mark.rule("H13")
@given(text=JSON_TEXTS)
def test_every_beginning_of_json_is_accepted_and_can_be_closed(text: str) -> None:
    for end in range(len(text) + 1):
        prefix, accepted = fed([text[:end]])
        assert accepted == end
        msgspec.json.decode(text[:end] + prefix.closing())
    assert prefix.is_complete
    assert prefix.closing() == ""


@pytest.mark.rule("H13")
@given(text=ANY_TEXTS)
def test_whatever_was_accepted_can_be_closed(text: str) -> None:
    prefix, accepted = fed([text])
    whole = text[:accepted] + prefix.closing()
    closed, length = fed([whole])
    assert (length, closed.is_complete) == (len(whole), True)
    if not HUGE_NUMBER.search(whole):
        msgspec.json.decode(whole)


@pytest.mark.rule("H13")
@given(
    value=st.dictionaries(st.text(max_size=4), VALUES, max_size=3), ascii_only=st.booleans(), data=st.data()
)
def test_a_member_can_be_added_to_every_beginning_of_an_object(
    value: dict[str, object], ascii_only: bool, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    end = data.draw(st.integers(0, len(text) - 1))
    prefix, _ = fed([text[:end]])
    result = msgspec.json.decode(text[:end] + prefix.closing_with('"odd"\n', '{"x":[1]}'))
    assert result['"odd"\n'] == {"x": [1]}
    assert list(result)[-1] == '"odd"\n'


@pytest.mark.rule("H13")
@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("", "null"),
        ("  ", "null"),
        ("{", "}"),
        ("[", "]"),
        ('{"a', '":null}'),
        ('{"a"', ":null}"),
        ('{"a":', "null}"),
        ('{"a":1', "}"),
        ('{"a":1,', '"":null}'),
        ('{"a":"x', '"}'),
        ('{"a":[1,', "null]}"),
        ('{"a":[{"b":tr', "ue}]}"),
        ("-", "0"),
        ("1.", "0"),
        ("1e", "0"),
        ("1e-", "0"),
        ("12", ""),
        ("nul", "l"),
        ('"x\\', '\\"'),
        ('"\\u', '000a"'),
        ('"\\u00', '0a"'),
        ('"\\u002', 'a"'),
        ('"\\ud8', '0a\\udc00"'),
        ('"\\ud83d', '\\udc00"'),
        ('"\\ud83d\\', 'udc00"'),
        ('"\\ud83d\\ude', '00"'),
        ("{} ", ""),
    ],
)
def test_closing_states_only_what_is_owed(text: str, closing: str) -> None:
    prefix, accepted = fed([text])
    assert accepted == len(text)
    assert prefix.closing() == closing


@pytest.mark.rule("H13")
@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("", '{"k":1}'),
        ("{", '"k":1}'),
        ('{"a":1', ',"k":1}'),
        ('{"a":1,', '"k":1}'),
        ('{"a', '":null,"k":1}'),
        ('{"a":', 'null,"k":1}'),
        ('{"a":{"b":[1,', 'null]},"k":1}'),
        ('{"a":{', '},"k":1}'),
        ('{"a":"x\\', '\\","k":1}'),
    ],
)
def test_a_member_is_added_with_exactly_the_commas_it_needs(text: str, closing: str) -> None:
    assert fed([text])[0].closing_with("k", "1") == closing


@pytest.mark.parametrize(("text", "closing"), [('["a', '"]'), ("{}", ""), ('"x', '"'), ("tr", "ue")])
def test_where_no_member_can_stand_none_is_added(text: str, closing: str) -> None:
    assert fed([text])[0].closing_with("k", "1") == closing


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" ", ""),
        (" {", "object"),
        ("[", "array"),
        ('"', "string"),
        ("-", "number"),
        ("0", "number"),
        ("t", "boolean"),
        ("f", "boolean"),
        ("n", "null"),
    ],
)
def test_the_kind_is_known_from_the_first_character(text: str, kind: str) -> None:
    prefix, _ = fed([text])
    assert prefix.kind == kind
    assert prefix.is_empty == (kind == "")


def test_a_number_is_complete_as_soon_as_it_could_end() -> None:
    prefix = JsonPrefix()
    assert [prefix.feed(piece) and prefix.is_complete for piece in ("-", "1", ".", "5", " ")] == [
        *(False, True, False, True, True)
    ]


def test_after_a_whole_value_only_white_space_is_accepted() -> None:
    prefix = JsonPrefix()
    assert prefix.feed('{"a":1} \n') == 9
    assert (prefix.is_complete, prefix.is_broken) == (True, False)
    assert prefix.feed(" {") == 1
    assert (prefix.is_complete, prefix.is_broken) == (True, True)


def test_after_a_deviation_everything_is_refused_and_the_good_part_can_still_be_closed() -> None:
    prefix = JsonPrefix()
    assert prefix.feed('{"a": "x", b') == 11
    assert prefix.feed('"b": 1}') == 0
    assert prefix.closing() == '"":null}'
    assert prefix.depth == 1


def test_nesting_beyond_the_limit_is_a_deviation() -> None:
    prefix, accepted = fed(["[" * 1000])
    assert (accepted, prefix.depth, prefix.is_broken) == (200, 200, True)
    assert msgspec.json.decode("[" * 200 + prefix.closing())


@pytest.mark.parametrize("body", ["x" * 300_000, "\\n" * 150_000, "\\ud83d\\ude00" * 25_000])
def test_a_large_string_is_read_in_good_time_whole_or_in_single_characters(body: str) -> None:
    text = f'{{"content":"{body}"}}'
    for pieces in ([text], singly(text)):
        prefix, accepted = fed(pieces)
        assert accepted == len(text)
        assert prefix.is_complete


# Whole objects


@pytest.mark.rule("H12")
@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert parse_object(text) == {}


@pytest.mark.rule("H12")
@given(value=OBJECTS)
def test_an_object_is_parsed(value: dict[str, object]) -> None:
    assert parse_object(json.dumps(value)) == value


@pytest.mark.rule("H12")
@pytest.mark.parametrize(
    "text", ['{"a":', "[1]", '"x"', "null", "{'a': 1}", "{}x", "[" * 100_000, '"\ud800"']
)
def test_what_is_no_object_is_reported_apart_from_an_empty_one(text: str) -> None:
    assert parse_object(text) is None


@pytest.mark.rule("H12", "R60")
@given(text=ANY_TEXTS)
def test_a_text_parses_exactly_when_it_is_a_complete_object(text: str) -> None:
    assume(not HUGE_NUMBER.search(text))
    prefix, _ = fed([text])
    complete = prefix.is_complete and not prefix.is_broken and prefix.kind == "object"
    if prefix.is_empty and not prefix.is_broken:
        assert parse_object(text) == {}
    else:
        assert (parse_object(text) is not None) == complete


@pytest.mark.rule("H12", "C15")
@pytest.mark.parametrize(
    ("text", "member"),
    [
        ("ls -la", "text"),
        ("[1]", "text"),
        ("{'a': 1}", "text"),
        ('{"text": "half', "incomplete_arguments"),
        ('{"text": "half"', "incomplete_arguments"),
        ("{'text': 'half", "incomplete_arguments"),
        (" {", "incomplete_arguments"),
    ],
)
def test_a_text_that_holds_no_object_is_shown_in_one(text: str, member: str) -> None:
    assert wrap_as_object(text) == {member: text}
