"""The words of `dragoman replay` and `fork`: their options stand on both sides of the session."""

import click
import pytest

from dragoman.cli.replay import fork, format_divergence, replay
from dragoman.records.comparison import Divergence

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


@pytest.mark.parametrize("words", [["s", "--at"], ["s", "--at", "x", "--model", "m"], []])
def test_wrong_words_are_refused(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        fork.make_context("fork", words)


def test_sessions_that_differ_from_the_beginning_are_not_said_to_have_equal_replies() -> None:
    def describe(turn: int) -> str:
        found = Divergence(first=turn, second=turn, kind="request", comparisons=2, differences=[])
        return next(format_divergence(found))

    assert describe(1) == "the first requests differ (2 comparisons)"
    assert describe(2).startswith("after equal replies the requests differ: turn 2 and turn 2")
