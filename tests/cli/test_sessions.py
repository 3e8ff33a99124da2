"""`dragoman sessions` against a gateway in a process of its own, and how it prints the answers."""

from pathlib import Path

import msgspec
import pytest

from dragoman.cli.sessions import format_list, format_session
from tests.cli.run_command import dragoman
from tests.cli.test_status import gateway

SESSION = {
    "id": "ses_a",
    "provider": "claude",
    "state": "parked",
    "model": "sonnet",
    "process": 4711,
    "requests": 3,
    "waiting": 1,
    "overdue": True,
    "seconds": 12.5,
}
DETAILS = {
    **SESSION,
    "tools": ["calculate"],
    "calls": [{"id": "toolu_1", "tool": "calculate"}],
    "audit": [
        {"tool": "mcp__gateway__calculate", "call": "toolu_1", "allowed": True},
        {"tool": "Bash", "call": "toolu_2", "allowed": False},
    ],
}


def test_sessions_are_listed_with_what_became_of_others() -> None:
    counts = {"claude": {"live": 1, "spawned": 4, "timed_out": 2, "evicted": 0}}
    assert list(format_list({"sessions": [SESSION], "counts": counts})) == [
        "session  provider  state            since   requests  calls  model",
        "ses_a    claude    parked, overdue  12.5 s  3         1      sonnet",
        "claude so far: 4 spawned, 2 timed out",
    ]


def test_a_session_is_shown_with_its_calls_and_every_decision() -> None:
    lines = [line.replace("\x1b[31m", "").replace("\x1b[0m", "") for line in format_session(DETAILS)]
    assert lines[-3:] == [
        "waits for calculate (toolu_1)",
        "allowed mcp__gateway__calculate (toolu_1)",
        "denied Bash (toolu_2)",
    ]


@pytest.mark.parametrize("words", [("show", "ses_none"), ("end", "ses_none")])
def test_a_gateway_without_sessions_reports_it(tmp_path: Path, words: tuple[str, str]) -> None:
    with gateway(tmp_path):
        assert dragoman(tmp_path, "sessions", "list").out == "no sessions\n"
        listing = msgspec.json.decode(dragoman(tmp_path, "sessions", "list", "--json").out)
        assert listing == {"sessions": [], "counts": {}}
        refused = dragoman(tmp_path, "sessions", *words)
    assert refused.code == 2
    assert "there is no such session" in refused.err
