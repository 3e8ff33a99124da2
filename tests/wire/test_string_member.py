"""Free text that a model wrapped in an object comes out as it arrives, however badly wrapped."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.errors import UpstreamProtocolError
from dragoman.wire.partial_json import StringMember
from tests.wire.cuts import CUTS, cut, singly

OTHERS = st.dictionaries(
    st.text(max_size=4).filter(lambda name: name != "input"),
    st.none() | st.integers() | st.text(max_size=5) | st.just({"input": "nested", "list": [{"input": "x"}]}),
    max_size=3,
)


def read(pieces: list[str], name: str = "input") -> tuple[StringMember, str]:
    member = StringMember(name)
    text = "".join([member.feed(piece) for piece in pieces])
    return member, text + member.finish()


@pytest.mark.rule("H13", "H22", "P28")
@given(text=st.text(max_size=30), before=OTHERS, after=OTHERS, ascii_only=st.booleans(), cuts=CUTS)
def test_the_member_is_decoded_whatever_surrounds_it_and_however_it_is_cut(
    text: str, before: dict[str, object], after: dict[str, object], ascii_only: bool, cuts: list[int]
) -> None:
    body = json.dumps({**before, "input": text, **after}, ensure_ascii=ascii_only)
    for pieces in ([body], cut(body, cuts), singly(body)):
        member, found = read(pieces)
        assert found == text
        assert member.is_found
        assert member.raw == ""


@pytest.mark.rule("H22")
@given(
    text=st.text(st.sampled_from('{}[]",:\\/nu0dD83cC9e input\n\ud83d'), max_size=40)
    | st.text(st.sampled_from('"\\nudD83cC9e'), max_size=20).map(lambda inside: '{"input":"' + inside),
    cuts=CUTS,
)
def test_any_text_reads_the_same_however_it_is_cut(text: str, cuts: list[int]) -> None:
    member, found = read([text])
    if member.is_found:
        found.encode()
    else:
        assert member.raw == text
    for pieces in (cut(text, cuts), singly(text)):
        other, same = read(pieces)
        assert (same, other.is_found, other.raw) == (found, member.is_found, member.raw)


@pytest.mark.rule("H13", "H22")
def test_text_comes_out_with_the_piece_that_brought_it() -> None:
    member = StringMember("input")
    pieces = ['{"inp', 'ut": "*** Begin', " Patch\\", "nabc\\ud83d", "\\ude00", 'd"', ', "x": "y"}']
    assert [member.feed(piece) for piece in pieces] == [
        *("", "*** Begin", " Patch", "\nabc", "😀", "d", ""),
    ]
    assert member.finish() == ""


@pytest.mark.rule("H22")
def test_an_escaped_name_is_still_the_name() -> None:
    assert read(singly('{"\\u0069nput": "x"}'))[1] == "x"


@pytest.mark.rule("H22")
def test_a_member_after_one_with_a_very_long_name_is_found() -> None:
    assert read(singly('{"' + "input" * 100 + '": "no", "input": "yes"}'))[1] == "yes"


@pytest.mark.rule("H22")
def test_an_empty_text_is_found() -> None:
    member, text = read(['{"input": ""}'])
    assert member.is_found
    assert text == ""


@pytest.mark.rule("H22")
@pytest.mark.parametrize(
    ("inside", "text"),
    [
        ("a\nb\tc", "a\nb\tc"),
        (r"\d+\.\w", r"\d+\.\w"),
        (r"C:\up", r"C:\up"),
        (r"\u12x", r"\u12x"),
        (r"\ud83d!", "\ufffd!"),
        (r"!\ude00", "!\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
    ],
)
def test_what_models_take_for_a_string_is_read_with_a_kind_eye(inside: str, text: str) -> None:
    assert read([f'{{"input": "{inside}"}}'])[1] == text
    assert read(singly(f'{{"input": "{inside}"}}'))[1] == text


@pytest.mark.rule("H22")
@pytest.mark.parametrize(
    ("inside", "text"), [("ab", "ab"), ("ab\\", "ab"), ("ab\\u00", "ab"), ("ab\\ud83d", "ab\ufffd")]
)
def test_a_text_that_was_cut_short_keeps_what_came(inside: str, text: str) -> None:
    assert read(['{"input": "' + inside])[1] == text


@pytest.mark.rule("H22")
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"patch": "a\\nb"}', "a\nb"),
        ('{"patch": "a\\nb', "a\nb"),
        (' "a\\nb" ', "a\nb"),
        ('{"patch": ""}', ""),
    ],
)
def test_a_lone_string_under_a_wrong_name_counts_at_the_end(body: str, text: str) -> None:
    for pieces in ([body], singly(body)):
        member = StringMember("input")
        assert [member.feed(piece) for piece in pieces] == [""] * len(pieces)
        assert (member.is_found, member.raw) == (False, body)
        assert member.finish() == text
        assert (member.is_found, member.raw) == (True, "")


@pytest.mark.rule("H22")
@pytest.mark.parametrize(
    "body",
    [
        "",
        "*** Begin Patch\n*** End Patch",
        '{"a": "x", "b": "y"}',
        '{"input": ["ls"]}',
        '{"input": {"input": "x"}}',
        '["input", "x"]',
        '{"input": null}',
        '{"a": 1}',
        '{"a": 1e999}',
        "{'input': 'x'}",
        '{"a": "x"} and more',
        "5",
    ],
)
def test_where_nothing_like_it_comes_the_whole_text_is_given_back(body: str) -> None:
    member, text = read(singly(body))
    assert text == ""
    assert not member.is_found
    assert member.raw == body


@pytest.mark.rule("H22")
def test_what_is_kept_while_searching_is_limited() -> None:
    member = StringMember("input", limit=10)
    assert member.feed('{"other":1') == ""
    with pytest.raises(UpstreamProtocolError):
        member.feed(" ")


@pytest.mark.rule("H22")
def test_once_found_nothing_is_kept_however_long_it_is() -> None:
    member = StringMember("input", limit=20)
    assert member.feed('{"input":"') == ""
    for _ in range(1000):
        assert member.feed("0123456789") == "0123456789"
    assert member.raw == ""
    assert member.finish() == ""


@pytest.mark.rule("H22")
@pytest.mark.parametrize("inside", ["x" * 200_000, "\\n" * 100_000, "\\q" * 100_000, "\\ud83d" * 30_000])
def test_a_large_text_is_read_in_good_time_whole_or_in_single_characters(inside: str) -> None:
    body = '{"input": "' + inside + '"}'
    assert read([body])[1] == read(singly(body))[1] != ""
