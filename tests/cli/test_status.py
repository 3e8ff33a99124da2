"""`dragoman status` and `dragoman reload` against a gateway in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import msgspec
import pytest

from dragoman.cli.status import format_status
from tests.cli.run_command import dragoman, environment
from tests.telemetry.collector import collecting

FILE = """\
[providers.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
[[routes]]
match = "via-chat"
target = ["local/mock-large", "local"]
"""


@contextmanager
def gateway(folder: Path, *options: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """`dragoman serve` on a free port, ready to answer."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", "--port", "0", *options],
        cwd=folder,
        env=environment(folder, **variables),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        while "Stop with" not in process.stderr.readline():
            assert process.poll() is None
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dragoman.toml").write_text(FILE, "utf-8")
    return tmp_path


def eventually(holds: Callable[[], bool], within: float = 20.0) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_status_finds_the_gateway_wherever_it_listens(folder: Path) -> None:
    with gateway(folder):
        outcome = dragoman(folder, "status")
        assert (outcome.code, outcome.err) == (0, "")
        lines = outcome.out.splitlines()
        assert lines[0].startswith("dragoman 0.1.0 at http://127.0.0.1:")
        assert lines[1].startswith(f"configuration: {folder / 'dragoman.toml'}, read ")
        assert lines[3:] == [
            "TARGET            TRIES  FAILED  FIRST TOKEN  HEALTH  REASON",
            "local/mock-large  0      0       -            unused",
            "local/*           0      0       -            unused",
            "",
            "no open exchanges",
        ]
        report = msgspec.json.decode(dragoman(folder, "status", "--json").out)
        assert report["config"]["path"] == str(folder / "dragoman.toml")
    state = folder / ".local" / "state" / "dragoman"
    assert [path.name for path in state.iterdir() if path.name.startswith("gateway")] == []


def test_a_reload_is_in_force_when_the_command_has_ended(folder: Path) -> None:
    with gateway(folder):
        assert dragoman(folder, "reload").out == "reloaded dragoman.toml\n  nothing has changed\n"
        (folder / "dragoman.toml").write_text(
            FILE + '\n[providers.embedded]\n[server]\nstate = "x"\n', "utf-8"
        )
        outcome = dragoman(folder, "reload")
        assert outcome.code == 0
        assert outcome.err == "  takes effect after a restart: server.state\n"
        assert "embedded/*" in dragoman(folder, "status").out


def test_a_reload_of_a_bad_file_reports_its_line_and_the_status_shows_it(folder: Path) -> None:
    with gateway(folder):
        (folder / "dragoman.toml").write_text(FILE.replace("base_url", "base_ulr"), "utf-8")
        outcome = dragoman(folder, "reload")
        assert outcome.code == 2
        assert (
            "error: dragoman.toml, line 3: providers.local.base_ulr: unknown key (did you mean" in outcome.err
        )
        seen = dragoman(folder, "status")
        assert seen.code == 0
        assert "the earlier version is active:" in seen.out
        assert "line 3: providers.local.base_ulr: unknown key" in seen.out
        assert "local/mock-large  0      0       -            unused" in seen.out


def test_a_file_that_is_gone_is_an_error_and_no_reason_to_look_elsewhere(folder: Path) -> None:
    with gateway(folder):
        (folder / "dragoman.toml").rename(folder / "elsewhere.toml")
        outcome = dragoman(folder, "reload", "--config", "dragoman.toml")
        assert outcome.code == 2
        assert "cannot read dragoman.toml" in outcome.err
        assert "local/mock-large" in dragoman(folder, "status", "--config", "dragoman.toml").out


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no such signal")
def test_a_hangup_reloads_and_ends_nothing(folder: Path) -> None:
    with gateway(folder) as process:
        # It prints its address before it is ready, and the command waits until it is.
        assert dragoman(folder, "status").code == 0
        (folder / "dragoman.toml").write_text(FILE + "\n[providers.embedded]\n", "utf-8")
        os.kill(process.pid, signal.SIGHUP)
        eventually(lambda: "embedded/*" in dragoman(folder, "status").out)
        assert process.poll() is None


def test_without_a_gateway_the_status_states_what_to_do(folder: Path) -> None:
    never = dragoman(folder, "status")
    assert never.code == 2
    assert "no gateway has run here yet" in never.err
    assert "hint: start one with `dragoman start`" in never.err
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gone = dragoman(folder, "status", "--url", f"http://127.0.0.1:{port}", DRAGOMAN_ADMIN_TOKEN="x" * 20)
    assert gone.code == 2
    assert gone.err.splitlines() == [
        f"error: no gateway answers at http://127.0.0.1:{port}",
        "hint: start one with `dragoman start`, or give its address with --url",
    ]


def test_a_wrong_token_is_reported(folder: Path) -> None:
    with gateway(folder):
        outcome = dragoman(folder, "status", DRAGOMAN_ADMIN_TOKEN="not-the-token-of-it")
        assert outcome.code == 2
        assert "does not accept this admin token" in outcome.err
        assert "not-the-token-of-it" not in outcome.err


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://"])
def test_an_address_that_is_none_is_reported(folder: Path, url: str) -> None:
    outcome = dragoman(folder, "status", "--url", url, DRAGOMAN_ADMIN_TOKEN="x" * 20)
    assert outcome.code == 2
    assert "is not an HTTP address" in outcome.err


def test_a_gateway_that_cannot_keep_a_token_serves_without_an_admin_api(folder: Path) -> None:
    (folder / "state").write_text("a file where a folder should be", "ascii")
    with gateway(folder, XDG_STATE_HOME=str(folder / "state")) as process:
        assert process.poll() is None


def test_traces_are_sent_before_the_gateway_ends(folder: Path) -> None:
    with collecting() as (address, got):
        (folder / "dragoman.toml").write_text(
            f'default = "embedded"\n[telemetry]\ntraces = "{address}"\n[providers.embedded]\n', "utf-8"
        )
        with gateway(folder) as process:
            url = dragoman(folder, "status").out.split(" at ")[1].split(",")[0]
            connection = HTTPConnection(url.removeprefix("http://"), timeout=20)
            connection.request("POST", "/v1/responses", '{"model": "any", "input": "hello"}')
            assert connection.getresponse().status == 200
            connection.close()
            assert process.poll() is None
        assert [path for path, _ in got] == ["/v1/traces"]


def test_traces_without_their_packages_are_refused_with_the_next_step(folder: Path) -> None:
    # An installation without the extra, as far as the import of one package goes.
    (folder / "missing" / "opentelemetry").mkdir(parents=True)
    (folder / "missing" / "opentelemetry" / "__init__.py").write_text("", "ascii")
    (folder / "dragoman.toml").write_text(FILE + '\n[telemetry]\ntraces = "http://127.0.0.1:9"\n', "utf-8")
    outcome = dragoman(folder, "serve", "--port", "0", PYTHONPATH=str(folder / "missing"))
    assert outcome.code == 2
    assert "hint: pip install opentelemetry-sdk" in outcome.err
    assert "Traceback" not in outcome.err


def test_the_status_for_people_reports_everything_that_matters() -> None:
    report = {
        "gateway": {"version": "1.2", "state": "closing", "uptime": 12_000},
        "config": {
            "path": "dragoman.toml",
            "loaded_at": 1000.0,
            "error": "line 5: no",
            "failed_at": 1090.0,
            "needs_restart": ["server.port"],
        },
        "targets": [
            {
                "target": "a/b",
                "tries": 12.0,
                "failed": 1.0,
                "first_token": 0.456,
                "health": "ok",
                "keys": 1,
                "cooldowns": [],
            },
            {
                "target": "c/d",
                "tries": 0,
                "failed": 0,
                "first_token": 0.0,
                "health": "partly cooling",
                "keys": 2,
                "cooldowns": [{"key": 2, "reason": "rate_limit 429", "failures": 3, "seconds": 61.2}],
            },
        ],
        "exchanges": {
            "open": 12,
            "streams": 11,
            "oldest": [
                {
                    "seconds": 90.0,
                    "agent": "claude-cli/2 (x)",
                    "client": "anthropic",
                    "model": "m",
                    "target": "",
                    "first_token": 0.0,
                }
            ]
            * 12,
        },
        "keys": [
            {"key": "ci", "of": "tokens", "period": "minute", "limit": 1000, "used": 800, "share": 0.8},
            {"key": "team", "of": "cost", "period": "day", "limit": 2_500_000, "used": 1, "share": 1.02},
        ],
        "sessions": {"claude": {"live": 3, "parked": 1, "timed_out": 2, "evicted": 0}, "idle": {"live": 0}},
        "records": {"record": "meta", "file": "", "written": 5, "lost": 2, "error": "disk full"},
    }
    lines = [line.replace("\x1b[0m", "") for line in format_status(report, "http://here", 1100.0)]
    text = "\n".join(lines)
    assert "dragoman 1.2 at http://here, up 3 h 20 min, shutting down" in text
    assert "read 1 min 40 s ago" in text
    assert "2 exchanges were not recorded: disk full" in text
    assert "a change was refused 10 s ago" in text
    assert "takes effect after a restart: server.port" in text
    assert "key 2 of 2: rate_limit 429, failed 3 times in a row, tried last for 1 min 1 s" in text
    assert "open: 12 exchanges, 11 of them streamed" in text
    assert "  1 min 30 s  claude-cli/2  m → …  waiting for the first token" in text
    assert "a/b     12     1       0.46 s       ok" in text
    assert "\n  and 2 more\n" in text
    keys = ["  team  102%  of $2.50 per day", "  ci    80%   of 1,000 tokens per minute"]
    assert lines[lines.index("keys near their limits") + 1 :][:2] == keys
    assert "sessions of claude: 3 live, 1 parked, 2 timed out" in lines
    assert "sessions of idle: none yet" in lines
