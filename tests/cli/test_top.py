"""`dragoman top` against a gateway in a process of its own."""

from pathlib import Path

from dragoman.cli.top import format_top
from tests.cli.run_command import dragoman
from tests.cli.test_status import gateway

OPEN = {
    "seconds": 2.25,
    "agent": "claude-code",
    "session": "s1",
    "sub_agent": "a1",
    "model": "m\x1b[2J",
    "target": "up/m",
    "first_token": 0.0,
    "tries": 2,
}


def test_open_exchanges_are_shown_without_control_characters() -> None:
    lines = list(format_top({"exchanges": [OPEN], "sessions": []}))
    assert lines[0] == "1 open"
    assert lines[2].split() == [
        "2.2",
        "claude-code",
        "s1",
        "/",
        "a1",
        "m?[2J",
        "up/m",
        "waiting,",
        "try",
        "2",
    ]
    assert lines[-1] == "no sessions"


def test_the_running_gateway_is_shown_once(tmp_path: Path) -> None:
    with gateway(tmp_path):
        shown = dragoman(tmp_path, "top", "--once")
        assert shown.code == 0, shown.err
        assert shown.out.startswith("0 open\n")
        wrong = dragoman(tmp_path, "top", "--once", "colour:red")
    assert wrong.code == 2
    assert "there is no field colour" in wrong.err
