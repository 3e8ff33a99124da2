"""The words of `dragoman replay` and `fork`: their options stand on both sides of the session."""

import click
import pytest

from dragoman.cli.replay import fork, format_differences, format_divergence, format_replay, replay
from dragoman.records.comparison import Divergence
from dragoman.records.differences import Difference
from dragoman.records.replay import ReplayedRequest

FORK = {"at": 3, "model": "m", "session": "s", "port": 0}
AGENT = ("claude", "-p", "--model", "x", "--at=9")


@pytest.mark.parametrize(
    "words",
    [
        ("--at", "3", "--model", "m", "s"),
        ("s", "--at", "3", "--model", "m"),
        ("--model=m", "s", "--at=3"),
    ],
    ids=["before", "after", "both"],
)
@pytest.mark.parametrize("agent", [(), AGENT], ids=["no agent", "agent"])
def test_options_stand_before_and_after_the_session(words: tuple[str, ...], agent: tuple[str, ...]) -> None:
    context = fork.make_context("fork", [*words, *agent])
    assert {name: context.params[name] for name in FORK} == FORK
    # The options of the agent are its own, also those with the names of ours.
    assert context.params["command"] == agent


def test_a_flag_after_the_session_is_ours() -> None:
    context = replay.make_context("replay", ["last", "--strict", "codex", "--strict"])
    assert (context.params["strict"], context.params["command"]) == (True, ("codex", "--strict"))


@pytest.mark.parametrize(
    "words",
    [
        ["s", "--at"],
        ["s", "--at", "x", "--model", "m"],
        ["s", "--at", "1", "--model", "m", "--port", "65536"],
        [],
    ],
)
def test_wrong_words_are_refused(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        fork.make_context("fork", words)


def test_sessions_that_differ_from_the_beginning_are_not_said_to_have_equal_replies() -> None:
    def describe(turn: int) -> str:
        found = Divergence(first=turn, second=turn, kind="request", differences=[])
        return next(format_divergence(found))

    assert describe(1) == "the first requests differ"
    assert describe(2).startswith("after equal replies the requests differ: turn 2 and turn 2")


def build_difference(before: str, after: str) -> Difference:
    return Difference(path="messages[0]", kind="changed", before=before, after=after, position=0)


def test_characters_that_are_not_printable_are_shown_escaped() -> None:
    (line,) = format_differences([build_difference("one\ntwo", "one\ttwo \x1b[31m \u202e")])
    assert line == r"messages[0]: 'one\ntwo' → 'one\ttwo \x1b[31m \u202e'"


def test_a_fork_reports_the_request_that_left_the_record_once() -> None:
    left = ReplayedRequest(number=2, is_exact=False, is_live=True, differences=[build_difference("a", "b")])
    after = ReplayedRequest(number=0, is_exact=False, is_live=True)
    served = ReplayedRequest(number=1, is_exact=True)
    assert list(format_replay([served, left, left, after], [2, 3])) == [
        "4 requests: 1 as recorded, 0 different, 3 answered by the live model",
        "differs from turn 2, and the live model answered:",
        "  messages[0]: 'a' → 'b'",
        "not used: turns 2, 3",
    ]
    assert list(format_replay([served], [])) == ["1 request: 1 as recorded, 0 different"]
