"""What becomes of Claude Code's sessions when callers leave, processes die and gateways are started again."""

import asyncio
import os
import signal
from pathlib import Path

import aiohttp
import openai
import pytest

from tests.e2e.claude_code import CALCULATE, MODEL, Caller, Host, Talk, config, until
from tests.e2e.environment import Environment
from tests.e2e.gateway import Gateway
from tests.e2e.upstream.script import Fault, Turn, Use

SUM = (Turn(uses=(Use("calculate", "123 + 456"),)), Turn(text="The result is 579."))
#: A reply that stops in the middle for longer than any test lasts.
SLOW = Fault(kind="silence", turn=Turn(text="This takes a long while to say."), place="text", seconds=60.0)


@pytest.mark.rule("R101")
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_gateway_that_was_started_again_goes_on_from_the_history(
    environment: Environment, host: Host, killed: bool
) -> None:
    talk = host.caller.talk(SUM)
    asked = talk.say("add 123 and 456", tools=[CALCULATE])
    assert len(host.processes) == 1
    before = host.processes[0]
    host.restart(killed=killed)
    # Nothing is left of it before the next request.
    until(environment, lambda: before not in host.processes and not host.folders)
    talk.caller = host.caller
    talk.result(asked.calls[0], "579")
    answered = talk.send(session=asked.session if killed else "")
    assert answered.content == "The result is 579."
    assert talk.result_received(asked.calls[0]) == "579"
    assert len(host.processes) == 1
    assert talk.problems == []


def _kill(talk: Talk, session: str) -> None:
    os.kill(talk.caller.admin("GET", f"/admin/sessions/{session}")["process"], signal.SIGKILL)


def test_a_process_that_dies_while_it_waits_is_replaced(caller: Caller) -> None:
    talk = caller.talk(SUM)
    asked = talk.say("add 123 and 456", tools=[CALCULATE])
    _kill(talk, asked.session)
    talk.result(asked.calls[0], "579")
    assert talk.send().content == "The result is 579."
    assert talk.result_received(asked.calls[0]) == "579"


def test_a_process_that_dies_in_the_middle_of_a_turn_is_replaced_once(
    environment: Environment, caller: Caller
) -> None:
    talk = caller.talk([Turn(text="Hello."), SLOW, Turn(text="All is well.")])
    greeted = talk.say("hello", tools=[CALCULATE])
    talk.history.append({"role": "user", "content": "how are you?"})
    replayed = caller.counts()["replayed"]

    async def both() -> str:
        answering = asyncio.get_running_loop().run_in_executor(None, talk.send)
        while len(talk.received) < 2:
            await asyncio.sleep(0.02)
        await asyncio.get_running_loop().run_in_executor(None, os.kill, process, signal.SIGKILL)
        return str((await answering).content)

    process = caller.admin("GET", f"/admin/sessions/{greeted.session}")["process"]
    assert environment.run(both()) == "All is well."
    assert caller.counts()["replayed"] == replayed + 1


@pytest.mark.rule("R104")
def test_a_caller_that_leaves_interrupts_the_turn_and_may_come_back(
    environment: Environment, caller: Caller
) -> None:
    talk = caller.talk([Turn(text="Hello."), SLOW, Turn(text="All is well.")])
    greeted = talk.say("hello", tools=[CALCULATE])
    talk.history.append({"role": "user", "content": "how are you?"})
    talk.leave_early([CALCULATE])
    until(environment, lambda: talk.conversation.turns[-1].left)
    again = talk.send(tools=[CALCULATE])
    assert (again.content, again.session) == ("All is well.", greeted.session)


def test_a_caller_that_leaves_after_its_results_gets_its_answer_when_it_comes_back(
    environment: Environment, caller: Caller
) -> None:
    talk = caller.talk([SUM[0], SLOW, SUM[1]])
    asked = talk.say("add 123 and 456", tools=[CALCULATE])
    talk.result(asked.calls[0], "579")
    talk.leave_early([CALCULATE])
    until(environment, lambda: talk.conversation.turns[-1].left)
    assert talk.send(tools=[CALCULATE]).content == "The result is 579."
    assert talk.result_received(asked.calls[0]) == "579"


def test_a_gateway_without_room_states_when_to_come_back(environment: Environment, caller: Caller) -> None:
    first = caller.talk([SLOW], model="narrow")
    first.history.append({"role": "user", "content": f"{first.key}: take your time"})

    async def both() -> openai.APIStatusError:
        loop = asyncio.get_running_loop()
        leaving = loop.run_in_executor(None, first.leave_early, [CALCULATE], 1.0)
        while not first.received:
            await asyncio.sleep(0.02)
        second = caller.talk([Turn(text="Hello.")], model="narrow")
        try:
            await loop.run_in_executor(None, second.say, "hello")
        except openai.APIStatusError as error:
            return error
        finally:
            await leaving
        raise AssertionError("there was room")

    full = environment.run(both())
    assert (full.status_code, full.code) == (503, "no_session_free")
    assert full.response.headers["retry-after"] == "2"


def test_a_key_that_the_api_refuses_is_reported_as_the_gateways_own(caller: Caller) -> None:
    talk = caller.talk([Fault(kind="status", status=401, message="the key is not valid")])
    with pytest.raises(openai.InternalServerError) as refused:
        talk.say("hello", tools=[CALCULATE])
    assert refused.value.status_code == 502
    assert "the key is not valid" in refused.value.message


def test_a_new_session_takes_a_process_that_waits(environment: Environment, caller: Caller) -> None:
    talk = caller.talk([Turn(text="Hello.")], model="prepared")
    talk.say("hello", tools=[CALCULATE])
    talk.wait_until("spawned", 2)
    second = caller.talk([Turn(text="Hello too.")], model="prepared")
    assert second.say("hello", tools=[CALCULATE]).content == "Hello too."
    second.wait_until("spawned", 3)
    assert caller.counts("prepared")["live"] == 2


@pytest.mark.rule("R109")
def test_an_operator_sees_sessions_and_ends_them(environment: Environment, caller: Caller) -> None:
    talk = caller.talk(SUM)
    asked = talk.say("add 123 and 456", tools=[CALCULATE])
    shown = caller.admin("GET", f"/admin/sessions/{asked.session}")
    assert (shown["state"], shown["tools"], shown["waiting"]) == ("parked", ["calculate"], 1)
    assert shown["calls"] == [{"id": asked.calls[0].id, "tool": "calculate"}]
    assert "123" not in str(shown), "nothing of what was said"
    listed = caller.admin("GET", "/admin/sessions")["sessions"]
    assert asked.session in [session["id"] for session in listed]
    assert caller.admin("DELETE", f"/admin/sessions/{asked.session}") == {"ended": asked.session}
    until(environment, lambda: not Path(f"/proc/{shown['process']}").exists())
    assert caller.admin("GET", f"/admin/sessions/{asked.session}")["error"]["code"] == "session_not_found"


async def _by_query(gateway: Gateway, key: str, text: str, session: str = "") -> tuple[int, str, str]:
    """Status, session and text of a reply to a caller whose key stands in the URL."""
    body = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    url = f"{gateway.url}/v1beta/models/{MODEL}:generateContent?key={key}"
    headers = {"x-session-id": session} if session else {}
    async with (
        aiohttp.ClientSession() as client,
        client.post(url, json=body, headers=headers) as reply,
    ):
        body = await reply.json()
    answer = body["candidates"][0]["content"]["parts"][0]["text"] if reply.ok else ""
    return reply.status, reply.headers.get("x-session-id", ""), answer


def test_callers_are_reported_apart_wherever_they_show_their_key(environment: Environment) -> None:
    inner = environment.gateway_to("anthropic", keeps_model=True)
    keys = '[server]\nkeys = ["the-first-callers-key", "the-second-callers-key"]\n'
    caller = Caller(environment, environment.gateway("claude-code-keys", keys + config(inner.url)))
    talk = caller.talk([Turn(text="Hello.")])
    hello = f"{talk.key}: hello"
    status, session, answer = environment.run(_by_query(caller.gateway, "the-first-callers-key", hello))
    assert status == 200
    assert environment.run(_by_query(caller.gateway, "the-second-callers-key", hello, session))[0] == 404
    talk.api_key = "the-first-callers-key"
    talk.history = [{"role": "user", "content": hello}, {"role": "assistant", "content": answer}]
    assert talk.say("it is me").session == session
