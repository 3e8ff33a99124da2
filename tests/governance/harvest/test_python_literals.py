"""Python literals as JSON, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.governance.harvest.python_literals import convert_literal
from dragoman.wire.fields import decode

literals = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=literals)
def test_what_python_writes_is_read_as_what_it_states(value: object) -> None:
    read = convert_literal(repr(value))
    assert read is not None
    assert decode(read, limit=1 << 20) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" 'a' ", '"a"'),
        ('"""a "b" c"""', '"a \\"b\\" c"'),
        ("'''it's'''", '"it\'s"'),
        (r"'\x41\u00e9\101\q\''", '"Aé' + "A\\\\q'" + '"'),
        (r"r'\d'", r'"\\d"'),
        ("'a\\\nb'", '"ab"'),
        ("+1", "1"),
        ("-.5", "-0.5"),
        ("1.", "1.0"),
        ("1.e3", "1e3"),
        ("1e400", "1e400"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("(1, )", "[1]"),
        ("(1)", "1"),
        ("()", "[]"),
        ("{'a': [True, false, null],}", '{"a":[true,false,null]}'),
        ("'\\ud83d'", '"?"'),
    ],
)
def test_a_literal_is_read(text: str, expected: str) -> None:
    assert convert_literal(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "'a",
        "'a\\",
        "1 2",
        "007",
        "1_000",
        "[1 2]",
        "[1, 2",
        "[,]",
        "{1: 2}",
        "{'a'}",
        "{'a' 1}",
        "{'a': 1 'b': 2}",
        "Truex",
        "1 + 1",
        "'a' 'b'",
        "[x for x in y]",
        "f'{a}'",
        "[" * 100 + "]" * 100,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    assert convert_literal(text) is None
