"""Patterns agree with regular expressions where both know the words, and never take long."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.guard.pattern_syntax import PatternError
from dragoman.governance.guard.patterns import MAX_MOVES, Glob, Pattern

_LETTERS = "abA_ .\n-é1"

_literals = st.sampled_from(["a", "b", "A", "_", " ", "\\.", "\\n", "-", "é", "1", "\\x61"])
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
    assert ours.found_in(text) == (re.search(pattern, text) is not None)


@given(
    pattern=_patterns,
    flags=st.sampled_from(["(?i)", "(?s)", "(?m)", "(?is)"]),
    text=st.text(alphabet="abAB\n1 ", max_size=12),
)
@settings(max_examples=200)
def test_flags_mean_what_they_mean_in_regular_expressions(pattern: str, flags: str, text: str) -> None:
    ours = Pattern(flags + pattern.replace("\\Z", "\\z"))
    assert ours.found_in(text) == (re.search(flags + pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^rm$", "rm", True),
        ("^rm$", "rm\n", False),
        ("(?m)^rm$", "ls\nrm\nls", True),
        ("a{,2}b", "b", True),
        ("x{", "x{", True),
        ("x{a}", "x{a}", True),
        ("[]a]", "]", True),
        ("[a-]", "-", True),
        ("[\\b]", "\b", True),
        ("\\u00e9", "é", True),
        ("", "", True),
        ("a|", "x", True),
    ],
)
def test_corners_are_settled(pattern: str, text: str, found: bool) -> None:
    assert Pattern(pattern).found_in(text) is found


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
        "(?P<n>a)",
        "(a)\\1",
        "\\q",
        "\\x1",
        "\\",
        "[b-a]",
        "[a-\\d]",
        "a{3,2}",
        "a{9999}",
        "(?x)a",
        "((a{250}){250}){250}",
        "((((){250}){250}){250}){250}",
        "(" * 60 + ")" * 60,
        "a" * 2000,
    ],
)
def test_what_cannot_be_matched_in_one_pass_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b$", "(.*)(.*)(.*)(.*)=x", "(?i)(x+x+)+y"])
def test_patterns_that_stall_others_are_harmless(pattern: str) -> None:
    assert not Pattern(pattern).found_in("ax" * 50_000 + "!")


def test_what_is_remembered_stays_bounded() -> None:
    pattern = Pattern(".*1.{15}z")
    text = "z" + "".join(format(number, "015b") for number in range(4_000))
    assert not pattern.found_in(text)
    assert pattern._remembered <= MAX_MOVES
    assert len(pattern._states) <= MAX_MOVES


def test_patterns_find_the_same_after_forgetting() -> None:
    pattern = Pattern("[^z]end")
    assert not pattern.found_in("".join(map(chr, range(0x100, 0x100 + MAX_MOVES + 500))) + "z")
    assert pattern.found_in("the end")


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
