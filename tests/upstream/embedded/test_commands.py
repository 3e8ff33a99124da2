"""The embedded model finds commands in plain words, and finds none where there are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.upstream.embedded.commands import (
    TOOL_VERBS,
    PromptCommand,
    find_commands,
    read_status,
    remove_context,
)


def found(text: str) -> list[list[tuple[str, str]]]:
    return [[(command.verb, command.object) for command in turn] for turn in find_commands(text)]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("read note.txt", [[("read", "note.txt")]]),
        ("Please read the file README.md and tell me what it says.", [[("read", "README.md")]]),
        ("Could you open pyproject.toml?", [[("read", "pyproject.toml")]]),
        ("read a.txt and b.txt", [[("read", "a.txt"), ("read", "b.txt")]]),
        ("Read 'my notes.txt'.", [[("read", "my notes.txt")]]),
        ("list the files in src", [[("list", "src")]]),
        ("list files", [[("list", "")]]),
        ("run ls -la ..", [[("run", "ls -la ..")]]),
        ("run `ls, and then` and read b", [[("run", "ls, and then"), ("read", "b")]]),
        ("run `a` then run `b`", [[("run", "a")], [("run", "b")]]),
        ("Run `a`. Then read x.py!", [[("run", "a")], [("read", "x.py")]]),
        ("run a; execute b\nread c", [[("run", "a")], [("run", "b")], [("read", "c")]]),
        ('run python -c "print(1, 2)"', [[("run", 'python -c "print(1, 2)"')]]),
        ('call add {"a": 1, "b": 2} and call now', [[("call", 'add {"a": 1, "b": 2}'), ("call", "now")]]),
        ("say hello, world and more", [[("say", "hello, world and more")]]),
        ("think about it, then run x", [[("think", "about it")], [("run", "x")]]),
        ("fail with 429", [[("fail", "with 429")]]),
        ("break off", [[("break off", "")]]),
    ],
)
def test_a_command_is_a_clause_that_begins_with_its_verb(
    text: str, commands: list[list[tuple[str, str]]]
) -> None:
    assert found(text) == commands


@pytest.mark.parametrize("text", ["", "hello", "I read a book", "Don't run away", "read", "run", "reads x"])
def test_other_words_are_no_commands(text: str) -> None:
    assert found(text) == []


def test_a_prompt_in_quotes_is_still_a_prompt() -> None:
    assert found('"read note.txt"') == [[("read", "note.txt")]]


def test_what_an_agent_wraps_in_tags_is_no_command_of_the_user() -> None:
    assert found("<env>\nrun rm\n</env>read a.py\n<system-reminder>run b</system-reminder>") == [
        [("read", "a.py")]
    ]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<a>x</a>y", "y"),
        ("x<a>y<b>z</b></a>w", "xw"),
        ("x<a>y<a>z</a>w</a>v", "xv"),
        ("cut</a>rest", "rest"),
        ("kept <a>open", "kept <a>open"),
        ('<a b="c">x</a>y', "y"),
        ("1 < 2 > 0", "1 < 2 > 0"),
    ],
)
def test_blocks_in_tags_are_taken_out(text: str, rest: str) -> None:
    assert remove_context(text) == rest


@pytest.mark.parametrize(
    ("prompt", "status"), [("with 429", 429), ("with status 503", 503), ("", 500), ("7", 500)]
)
def test_a_failure_can_have_a_status(prompt: str, status: int) -> None:
    assert read_status(PromptCommand("fail", prompt)) == status


@given(text=st.text(max_size=500))
def test_any_text_has_commands_or_none(text: str) -> None:
    for turn in find_commands(text):
        assert turn
        for command in turn:
            assert command.verb in {*TOOL_VERBS, "say", "think", "fail", "break off"}


@pytest.mark.parametrize(
    "piece", [" ", "<a>", "</a>", "`", "'", '"', "{", "and ", "the ", "then ", "please ", ", ", ". "]
)
def test_a_long_hostile_prompt_is_read(piece: str) -> None:
    """A pattern that needs quadratic time would not end within the time of the test run."""
    assert isinstance(find_commands("read " + piece * 1_000_000), list)
