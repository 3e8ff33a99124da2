"""What the end of a session costs and leaves behind, and what outlives it."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.claude_code import CALCULATE, LOOK_UP, PIXEL, Caller, Host, Talk, processes, until
from tests.e2e.environment import Environment
from tests.e2e.upstream.script import Turn, Use

SUM = (Turn(uses=(Use("calculate", "123 + 456"),)), Turn(text="The result is 579."))
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}


def park(caller: Caller, model: str = "") -> tuple[Talk, Any]:
    """A conversation that waits for a result."""
    talk = caller.talk(SUM, model=model) if model else caller.talk(SUM)
    return talk, talk.say("add 123 and 456", tools=[CALCULATE])


@pytest.mark.rule("D1")
def test_a_session_that_an_operator_ends_calls_no_model(environment: Environment, caller: Caller) -> None:
    talk, asked = park(caller)
    process = caller.admin("GET", f"/admin/sessions/{asked.session}")["process"]
    caller.admin("DELETE", f"/admin/sessions/{asked.session}")
    until(environment, lambda: not Path(f"/proc/{process}").exists())
    assert len(talk.received) == 1


@pytest.mark.rule("D1")
def test_a_session_that_expires_or_is_evicted_calls_no_model(
    environment: Environment, caller: Caller
) -> None:
    expired, asked = park(caller, "forgetful")
    process = caller.admin("GET", f"/admin/sessions/{asked.session}")["process"]
    until(environment, lambda: not Path(f"/proc/{process}").exists())
    evicted, asked = park(caller, "narrow")
    process = caller.admin("GET", f"/admin/sessions/{asked.session}")["process"]
    park(caller, "narrow")
    until(environment, lambda: not Path(f"/proc/{process}").exists())
    assert (len(expired.received), len(evicted.received)) == (1, 1)


@pytest.mark.rule("D1")
def test_a_gateway_that_stops_calls_no_model(host: Host) -> None:
    talks = [park(host.caller)[0] for _ in range(2)]
    host.restart()
    assert [len(talk.received) for talk in talks] == [1, 1]


@pytest.mark.rule("D2")
def test_pictures_are_deleted_with_the_session(environment: Environment, host: Host, tmp_path: Path) -> None:
    caller = host.caller
    talk = caller.talk(SUM)
    talk.history = [
        {"role": "user", "content": [{"type": "text", "text": f"{talk.key}: add 123 and 456"}, PICTURE]}
    ]
    asked = talk.send(tools=[CALCULATE])
    variables = Path(f"/proc/{host.processes[0]}/environ").read_bytes().decode().split("\0")
    values = dict(line.split("=", 1) for line in variables if "=" in line)
    assert Path(values["TMPDIR"]).is_relative_to(tmp_path), "temporary files are the session's own"
    assert list(Path(values["TMPDIR"]).rglob("*.png")), "Claude Code writes pictures to its temporary folder"
    caller.admin("DELETE", f"/admin/sessions/{asked.session}")
    until(environment, lambda: not Path(values["TMPDIR"]).exists())


@pytest.mark.rule("D4")
def test_processes_that_are_dropped_while_they_start_leave_no_folders(
    environment: Environment, host: Host
) -> None:
    def greet(number: int) -> None:
        tools = [{**CALCULATE, "function": {**CALCULATE["function"], "description": f"Number {number}."}}]
        host.caller.talk([Turn(text="Hello.")], model="prepared").say("hello", tools=tools)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(greet, range(12)))

    def is_clean() -> bool:
        folders = [path for folder in host.folders for path in folder.iterdir() if path.is_dir()]
        return len(folders) == len(host.processes)

    until(environment, is_clean)
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


@pytest.mark.rule("D3")
def test_a_late_result_is_refused_also_after_the_end_of_its_session(host: Host) -> None:
    talk, asked = park(host.caller, "hasty")
    time.sleep(0.5)
    talk.result(asked.calls[0], "579")
    host.caller.admin("DELETE", f"/admin/sessions/{asked.session}")
    for _ in ("ended", "restarted"):
        with pytest.raises(openai.APIStatusError) as late:
            talk.send(tools=[CALCULATE])
        assert (late.value.status_code, late.value.code) == (504, "tool_call_timeout")
        host.restart()
        talk.caller = host.caller
    assert talk.say("go on", tools=[CALCULATE]).content == "The result is 579."


@pytest.mark.rule("D8")
def test_tools_outlive_a_restart(host: Host) -> None:
    talk = host.caller.talk(SUM)
    asked = talk.say("add 123 and 456", tools=[CALCULATE, LOOK_UP])
    host.restart(killed=True)
    talk.caller = host.caller
    talk.result(asked.calls[0], "579")
    assert talk.send().content == "The result is 579."
    assert talk.tools_received == {"calculate", "look_up"}
    described = {tool["name"]: tool["description"] for tool in talk.conversation.turns[-1].body["tools"]}
    assert described["mcp__gateway__look_up"] == "Does look_up."


@pytest.mark.rule("D9")
def test_a_replay_adds_no_message(host: Host) -> None:
    talk, asked = park(host.caller)
    host.restart()
    talk.caller = host.caller
    talk.result(asked.calls[0], "579")
    assert talk.send(tools=[CALCULATE]).content == "The result is 579."
    last = [message for message in talk.received[-1] if message["role"] == "user"][-1]
    assert [block["type"] for block in last["content"]] == ["tool_result"]
    assert "left off" not in talk.last_received


@pytest.mark.rule("R97")
def test_results_that_are_sent_again_get_the_same_reply_without_a_model_call(caller: Caller) -> None:
    talk = caller.talk([SUM[0], Turn(text="Next.", uses=(Use("calculate", "7"),)), Turn(text="All done.")])
    asked = talk.say("add 123 and 456", tools=[CALCULATE])
    talk.result(asked.calls[0], "579")
    first = talk.send(tools=[CALCULATE])
    talk.history.pop()
    spawned = caller.counts()["spawned"]
    again = talk.send(tools=[CALCULATE])
    assert (again.content, again.session) == (first.content, first.session)
    assert [call.id for call in again.calls] == [call.id for call in first.calls]
    assert (len(talk.received), caller.counts()["spawned"]) == (2, spawned)
    talk.result(again.calls[0], "7")
    assert talk.send(tools=[CALCULATE]).content == "All done."
    assert caller.counts()["spawned"] == spawned
