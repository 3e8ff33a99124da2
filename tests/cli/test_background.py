"""`dragoman start`, `stop` and `logs` with real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from dragoman.cli.background import follow_log
from dragoman.cli.notices import GatewayNotice, find_live_notice, notice_path, read_notice
from tests.cli.run_command import Outcome, dragoman, environment

FILE = """\
[server]
port = 0
[providers.embedded]
[[routes]]
match = "{name}"
target = "embedded/it"
"""
WAIT = 60.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with two projects. What still runs at the end is ended."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dragoman.toml").write_text(FILE.format(name=name), "utf-8")
    yield tmp_path
    for name in ("a", "b"):
        notice = find_notice(tmp_path, name)
        if notice:
            os.kill(notice.process, signal.SIGKILL)


def run(home: Path, name: str, *arguments: str) -> Outcome:
    return dragoman(home / name, *arguments, HOME=str(home))


def find_notice(home: Path, name: str) -> GatewayNotice | None:
    return find_live_notice(str(home / name / "dragoman.toml"), environment(home))


def wait_for(condition: Callable[[], object], message: str) -> None:
    until = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < until, message
        time.sleep(0.05)


def start(home: Path, name: str, *options: str) -> GatewayNotice:
    outcome = run(home, name, "start", *options)
    assert outcome.code == 0, outcome.err
    notice = find_notice(home, name)
    assert notice is not None
    assert outcome.out == f"dragoman runs at {notice.url} (process {notice.process})\n"
    return notice


def test_a_gateway_starts_serves_and_stops_in_the_background(home: Path) -> None:
    notice = start(home, "a")
    assert os.getsid(notice.process) == notice.process
    shown = run(home, "a", "status").out
    assert f"in the background, log: {notice.log}\n" in shown
    again = run(home, "a", "start")
    assert again == Outcome(0, f"a gateway already runs at {notice.url} (process {notice.process})\n", "")
    logged = run(home, "a", "logs").out
    assert f"dragoman listens on {notice.url}" in logged
    assert "Ctrl-C" not in logged
    stopped = run(home, "a", "stop")
    assert stopped.out == f"stopped the gateway at {notice.url} (process {notice.process})\n"
    assert find_notice(home, "a") is None
    assert run(home, "a", "stop").out == "no gateway runs with dragoman.toml\n"


def test_every_project_has_a_gateway_of_its_own(home: Path) -> None:
    first, second = start(home, "a"), start(home, "b")
    assert first.url != second.url
    assert run(home, "a", "stop").code == 0
    assert find_notice(home, "b") == second
    path = home / "b" / "dragoman.toml"
    missing = run(home, "a", "stop").out
    assert f"another runs at {second.url}: dragoman stop --config {path}\n" in missing
    assert run(home, "a", "stop", "--config", str(path)).code == 0
    assert find_notice(home, "b") is None


def test_an_agent_uses_the_background_gateway_at_its_free_port(home: Path) -> None:
    agent = home / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\necho $ANTHROPIC_BASE_URL\n", "utf-8")
    agent.chmod(0o700)
    notice = start(home, "a")
    path = f"{agent.parent}:/usr/bin:/bin"
    done = dragoman(home / "a", "run", "claude", HOME=str(home), PATH=path)
    assert done.out == f"{notice.url}\n"
    assert find_notice(home, "a") == notice


def test_a_stale_notice_signals_no_foreign_process(home: Path) -> None:
    notice = start(home, "a")
    os.kill(notice.process, signal.SIGKILL)
    wait_for(lambda: find_notice(home, "a") is None, "the lock outlives the process")
    path = str(home / "a" / "dragoman.toml")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as foreign:
        stale = msgspec.structs.replace(notice, process=foreign.pid)
        assert read_notice(path, environment(home)) == notice
        notice_path(path, environment(home)).write_bytes(msgspec.json.encode(stale))
        assert run(home, "a", "stop").out.startswith("no gateway runs")
        assert foreign.poll() is None
        # A new gateway replaces the notice.
        assert start(home, "a").process != foreign.pid
        assert run(home, "a", "stop", "--now").code == 0
        assert foreign.poll() is None
        foreign.communicate(b"\n")
    assert foreign.returncode == 0


def test_a_gateway_that_cannot_start_gives_its_reason(home: Path) -> None:
    (home / "a" / "dragoman.toml").write_text('[server]\nport = "x"\n', "utf-8")
    mistake = run(home, "a", "start")
    assert mistake.code == 2
    assert "server.port" in mistake.err
    first = start(home, "b")
    port = first.url.rpartition(":")[2]
    (home / "a" / "dragoman.toml").write_text(FILE.format(name="a"), "utf-8")
    taken = run(home, "a", "start", "--port", port)
    assert taken.code == 2
    assert f"a dragoman already listens on {first.url}, with {home / 'b' / 'dragoman.toml'}" in taken.err
    assert find_notice(home, "a") is None


def test_a_gateway_with_workers_is_one_gateway(home: Path) -> None:
    start(home, "a", "--workers", "2")
    assert "in the background" in run(home, "a", "status").out
    assert run(home, "a", "stop", "--now").code == 0
    # The workers share the lock, so they have ended too.
    assert find_notice(home, "a") is None


def test_stop_also_ends_a_gateway_in_a_terminal(home: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "serve"]
    with subprocess.Popen(
        command, cwd=home / "a", env=environment(home), stderr=subprocess.DEVNULL
    ) as process:
        wait_for(lambda: find_notice(home, "a"), "the gateway does not start")
        stopped = run(home, "a", "stop")
        assert f"(process {process.pid})" in stopped.out
        assert process.wait(WAIT) in (0, -signal.SIGTERM)


def test_without_a_log_the_hint_is_start(home: Path) -> None:
    outcome = run(home, "a", "logs")
    assert outcome.code == 2
    assert "`dragoman start` writes one" in outcome.err


def test_following_shows_new_lines_also_after_a_rotation(tmp_path: Path) -> None:
    log, seen = tmp_path / "x.log", bytearray()
    log.write_bytes(b"old\n")
    enough = threading.Event()

    class Enough(Exception):
        pass

    def show(data: bytes) -> None:
        seen.extend(data)
        if b"3\n" in seen:
            raise Enough

    def follow() -> None:
        with pytest.raises(Enough):
            follow_log(log, show)
        enough.set()

    threading.Thread(target=follow, daemon=True).start()
    # Lines before the reader has opened the file are not new.
    while not seen:
        with log.open("ab") as file:
            file.write(b"1\n")
        time.sleep(0.02)
    with log.open("ab") as file:
        os.replace(log, tmp_path / "x.log.1")
        file.write(b"2\n")
    log.write_bytes(b"3\n")
    assert enough.wait(WAIT)
    assert bytes(seen).replace(b"1\n", b"") == b"2\n3\n"
