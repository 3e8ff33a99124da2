"""Patterns agree with Python's regular expressions on ASCII, and never take long."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.guard.patterns import Glob, Pattern, PatternError

#: RE2 knows no Unicode classes behind `\\w` and its like.
_LETTERS = "abA_ .\n-1"

_literals = st.sampled_from(["a", "b", "A", "_", " ", "\\.", "\\n", "-", "1", "\\x61"])
_classes = st.sampled_from(
    [".", "[ab]", "[^a]", "[a-z]", "[^\\w]", "[\\d_-]", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S"]
)
_anchors = st.sampled_from(["^", "\\Z", "\\b"])
_quantifiers = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{1,}", "*?", "+?"])
_patterns = st.recursive(
    _literals | _classes,
    lambda inner: st.one_of(
        st.tuples(inner, _quantifiers).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.lists(inner | _anchors, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
    ),
    max_leaves=8,
)


@given(pattern=_patterns, text=st.text(alphabet=_LETTERS, max_size=12))
@settings(max_examples=300)
def test_a_pattern_is_found_where_a_regular_expression_is(pattern: str, text: str) -> None:
    ours = Pattern(pattern.replace("\\Z", "\\z"))
    assert ours.is_in(text) == (re.search(pattern, text, re.ASCII) is not None)


@given(
    pattern=_patterns,
    flags=st.sampled_from(["(?i)", "(?s)", "(?m)", "(?is)"]),
    text=st.text(alphabet="abAB\n1 ", max_size=12),
)
@settings(max_examples=200)
def test_flags_mean_what_they_mean_in_regular_expressions(pattern: str, flags: str, text: str) -> None:
    ours = Pattern(flags + pattern.replace("\\Z", "\\z"))
    assert ours.is_in(text) == (re.search(flags + pattern, text, re.ASCII) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^rm$", "rm", True),
        ("^rm$", "rm\n", False),
        ("(?m)^rm$", "ls\nrm\nls", True),
        ("x{", "x{", True),
        ("x{a}", "x{a}", True),
        ("[]a]", "]", True),
        ("[a-]", "-", True),
        ("\\x{e9}", "é", True),
        ("é+", "éé", True),
        ("\\w", "é", False),
        ("a.b", "a\ud800b", True),
        ("(?P<n>a)", "a", True),
        ("", "", True),
        ("a|", "x", True),
    ],
)
def test_corners_are_settled(pattern: str, text: str, found: bool) -> None:
    assert Pattern(pattern).is_in(text) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "(a",
        "a)",
        "[a",
        "*a",
        "a**",
        "a{2}{3}",
        "a++",
        "(?=a)",
        "(a)\\1",
        "\\q",
        "\\x1",
        "\\",
        "[b-a]",
        "[a-\\d]",
        "a{3,2}",
        "a{,2}",
        "[\\b]",
        "\\u00e9",
        "a{9999}",
        "(?x)a",
        "((a{250}){250}){250}",
        "a" * 2000,
    ],
)
def test_a_pattern_that_re2_does_not_support_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b$", "(.*)(.*)(.*)(.*)=x", "(?i)(x+x+)+y"])
def test_patterns_that_stall_others_are_harmless(pattern: str) -> None:
    assert not Pattern(pattern).is_in("ax" * 50_000 + "!")


def test_a_refusal_gives_the_reason(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternError, match="invalid perl operator"):
        Pattern("(?=a)")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("glob", "text", "matches"),
    [
        ("Bash", "Bash", True),
        ("Bash", "bash", False),
        ("*", "", True),
        ("mcp__*", "mcp__files__read", True),
        ("*_file", "read_file", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "ac", False),
        ("ab*bc", "abc", False),
        ("[x]", "x", False),
    ],
)
def test_a_star_stands_for_anything(glob: str, text: str, matches: bool) -> None:
    assert Glob(glob).matches(text) is matches
