"""Sessions' files are private, and what a dead gateway left behind is found at the next start."""

import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from dragoman.upstream.claude_code import folders as folders_module
from dragoman.upstream.claude_code.folders import (
    MAX_RECORDS,
    PID_FILE,
    SessionFolders,
    SessionRecord,
    remove_leftovers,
)


def opened(state: Path) -> SessionFolders:
    folders = SessionFolders(state)
    folders.open()
    return folders


def test_folders_are_private_and_go_with_the_gateway(tmp_path: Path) -> None:
    folders = opened(tmp_path)
    session = folders.create("ses_a")
    for folder in (session, session / "work", session.parent, tmp_path / "claude-code"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "claude-code" / "secret").stat().st_mode) == 0o600
    folders.close()
    assert not session.parent.exists()


@pytest.mark.rule("R102")
def test_an_id_is_known_again_also_by_the_next_gateway_and_by_no_other(tmp_path: Path) -> None:
    session = opened(tmp_path / "one").create_id("me")
    assert opened(tmp_path / "one").is_issued(session, "me")
    assert not opened(tmp_path / "one").is_issued(session, "you")
    assert not opened(tmp_path / "two").is_issued(session, "me")
    assert not opened(tmp_path / "one").is_issued(session[:-1] + ("0" if session[-1] != "0" else "1"), "me")
    assert not opened(tmp_path / "one").is_issued("", "me")


def sleeper(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *words])


def test_processes_of_a_killed_gateway_are_ended_at_the_next_start_and_no_others(tmp_path: Path) -> None:
    dead = opened(tmp_path)
    orphan_folder, reused_folder = dead.create("ses_a"), dead.create("ses_b")
    orphan, stranger = sleeper(str(orphan_folder)), sleeper("somebody-else")
    try:
        (orphan_folder / PID_FILE).write_text(str(orphan.pid))
        (reused_folder / PID_FILE).write_text(str(stranger.pid))
        alive = opened(tmp_path)
        living = alive.create("ses_c")
        dead.release()
        assert SessionFolders(tmp_path).open() == 1
        assert orphan.wait(10) == -signal.SIGKILL
        assert stranger.poll() is None
        assert not orphan_folder.exists()
        assert living.exists(), "a gateway that lives keeps its own"
    finally:
        for process in (orphan, stranger):
            process.kill()
            process.wait()


def test_a_folder_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "claude-code"
    (state / "gateway-1-x").mkdir(parents=True)
    os.mkdir(state / "gateway-1-x" / "lock")
    assert SessionFolders(tmp_path).open() == 0


def test_what_a_dead_gateway_left_is_removed_at_the_start_before_any_request(tmp_path: Path) -> None:
    remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())
    dead, alive = opened(tmp_path), opened(tmp_path)
    left, living = dead.create("ses_a"), alive.create("ses_b")
    dead.release()
    remove_leftovers(tmp_path)
    assert (left.exists(), living.exists()) == (False, True)


def test_gateways_that_start_together_leave_each_other_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        gateways = list(pool.map(lambda _: opened(tmp_path), range(40)))
    assert all(gateway.create("ses_a").exists() for gateway in gateways)


def record(session: str, *, calls: tuple[str, ...] = (), owner: str = "me") -> SessionRecord:
    tools = msgspec.Raw(msgspec.json.encode([{"name": f"tool of {session}"}]))
    return SessionRecord(session=session, owner=owner, outline=f"o-{session}", calls=calls, tools=tools)


@pytest.mark.rule("D3", "D8")
def test_the_next_gateway_finds_tools_and_calls_of_their_owner(tmp_path: Path) -> None:
    opened(tmp_path).records.save(record("ses_a", calls=("c1",)))
    records = opened(tmp_path).records
    assert records.find_tools("ses_a", "me", "") == [{"name": "tool of ses_a"}]
    assert records.find_tools("", "me", "o-ses_a") == [{"name": "tool of ses_a"}]
    found = records.find_call("c1", "me")
    assert found is not None
    assert found.session == "ses_a"
    assert records.find_tools("ses_a", "you", "o-ses_a") is None
    assert records.find_call("c1", "you") is None
    (path,) = (tmp_path / "claude-code" / "records").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_records_are_replaced_bounded_and_survive_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_RECORDS == 1000
    monkeypatch.setattr(folders_module, "MAX_RECORDS", 2)
    records = opened(tmp_path).records
    records.save(record("ses_a", calls=("c1",)))
    records.save(record("ses_a", calls=("c2",)))
    assert records.find_call("c1", "me") is None
    for session in ("ses_b", "ses_c"):
        records.save(record(session))
    folder = tmp_path / "claude-code" / "records"
    assert sorted(path.name for path in folder.iterdir()) == ["ses_b.json", "ses_c.json"]
    (folder / "ses_b.json").write_text("{", "ascii")
    assert opened(tmp_path).records.find_tools("ses_b", "me", "") is None
    assert opened(tmp_path).records.find_tools("ses_c", "me", "") == [{"name": "tool of ses_c"}]
