"""What the end of a session costs and leaves behind, and what outlives it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.claude_code import CALCULATE, PIXEL, Caller, Host, Talk, processes, until
from tests.e2e.stage import Stage
from tests.e2e.upstream.script import Turn, Use

SUM = (Turn(uses=(Use("calculate", "123 + 456"),)), Turn(text="The result is 579."))
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}


@pytest.fixture
def caller(stage: Stage) -> Caller:
    return Caller(stage)


@pytest.fixture
def host(stage: Stage, tmp_path: Path) -> Iterator[Host]:
    host = Host(stage, tmp_path / "gateway")
    yield host
    host.close()


def park(caller: Caller, model: str = "") -> tuple[Talk, Any]:
    """A conversation that waits for a result."""
    talk = caller.talk(SUM, model=model) if model else caller.talk(SUM)
    return talk, talk.say("add 123 and 456", tools=[CALCULATE])


@pytest.mark.rule("D1")
def test_a_session_that_an_operator_ends_calls_no_model(stage: Stage, caller: Caller) -> None:
    talk, asked = park(caller)
    process = caller.admin("GET", f"/admin/sessions/{asked.session}")["process"]
    caller.admin("DELETE", f"/admin/sessions/{asked.session}")
    until(stage, lambda: not Path(f"/proc/{process}").exists())
    assert len(talk.heard) == 1


@pytest.mark.rule("D1")
def test_a_session_that_expires_or_is_evicted_calls_no_model(stage: Stage, caller: Caller) -> None:
    expired, asked = park(caller, "forgetful")
    process = caller.admin("GET", f"/admin/sessions/{asked.session}")["process"]
    until(stage, lambda: not Path(f"/proc/{process}").exists())
    evicted, asked = park(caller, "narrow")
    process = caller.admin("GET", f"/admin/sessions/{asked.session}")["process"]
    park(caller, "narrow")
    until(stage, lambda: not Path(f"/proc/{process}").exists())
    assert (len(expired.heard), len(evicted.heard)) == (1, 1)


@pytest.mark.rule("D1")
def test_a_gateway_that_stops_calls_no_model(host: Host) -> None:
    talks = [park(host.caller)[0] for _ in range(2)]
    host.restart()
    assert [len(talk.heard) for talk in talks] == [1, 1]


@pytest.mark.rule("D2")
def test_pictures_are_deleted_with_the_session(stage: Stage, host: Host, tmp_path: Path) -> None:
    caller = host.caller
    talk = caller.talk(SUM)
    talk.history = [
        {"role": "user", "content": [{"type": "text", "text": f"{talk.key}: add 123 and 456"}, PICTURE]}
    ]
    asked = talk.send(tools=[CALCULATE])
    environment = Path(f"/proc/{host.processes[0]}/environ").read_bytes().decode().split("\0")
    values = dict(line.split("=", 1) for line in environment if "=" in line)
    assert Path(values["TMPDIR"]).is_relative_to(tmp_path), "temporary files are the session's own"
    assert list(Path(values["TMPDIR"]).rglob("*.png")), "Claude Code writes pictures to its temporary folder"
    caller.admin("DELETE", f"/admin/sessions/{asked.session}")
    until(stage, lambda: not Path(values["TMPDIR"]).exists())


@pytest.mark.rule("D4")
def test_processes_that_are_dropped_while_they_start_leave_no_folders(stage: Stage, host: Host) -> None:
    def greet(number: int) -> None:
        tools = [{**CALCULATE, "function": {**CALCULATE["function"], "description": f"Number {number}."}}]
        host.caller.talk([Turn(text="Hello.")], model="prepared").say("hello", tools=tools)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(greet, range(12)))

    def is_clean() -> bool:
        folders = [path for folder in host.folders for path in folder.iterdir() if path.is_dir()]
        return len(folders) == len(host.processes)

    until(stage, is_clean)
    assert "Traceback" not in (host.gateway.folder / "log.txt").read_text("utf-8")
    assert "never retrieved" not in (host.gateway.folder / "log.txt").read_text("utf-8")


@pytest.mark.rule("D5")
def test_a_process_inherits_no_socket_of_the_gateway(host: Host) -> None:
    park(host.caller)
    (process,) = processes(host.gateway.folder)
    tables = [
        Path(f"/proc/{process}/net/{name}").read_text("ascii").splitlines()[1:] for name in ("tcp", "tcp6")
    ]
    listening = {row.split()[9] for table in tables for row in table if row.split()[3] == "0A"}
    sockets = {path.readlink().name for path in Path(f"/proc/{process}/fd").iterdir()}
    assert not {f"socket:[{inode}]" for inode in listening} & sockets
