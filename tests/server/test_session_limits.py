"""Limits of sessions over real sockets: who is refused, with which error, and who is not."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.agents import SessionLimits
from dragoman.config.config import Config, Route
from dragoman.config.load import load
from dragoman.config.provider import TargetName
from dragoman.hub.errors import ConfigError
from tests.server.keyholder import KeyHolder
from tests.server.running import Got, Running, config_for, running
from tests.server.test_app import TURNS
from tests.upstream.byte_server import run

CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)"}


def limited(**limits: Any) -> Config:
    return msgspec.structs.replace(config_for(), session_limits=SessionLimits(**limits))


async def ask(gateway: Running, session: str, sub_agent: str = "", model: str = "any") -> Got:
    path, body = TURNS["anthropic"]
    headers = {**CLAUDE, "x-claude-code-session-id": session}
    if sub_agent:
        headers["x-claude-code-agent-id"] = sub_agent
    return await gateway.ask("POST", path, {**body, "model": model}, headers)


def test_a_session_that_has_used_its_limit_is_stopped_with_a_final_error() -> None:
    async def scenario() -> None:
        async with running(limited(tokens=1)) as gateway:
            assert (await ask(gateway, "one")).status == 200
            got = await ask(gateway, "one")
            assert got.status == 400
            assert got.json()["error"]["type"] == "policy_blocked"
            assert b"this session of claude-code has used" in got.body
            assert got.headers["x-should-retry"] == "false"
            assert (await ask(gateway, "two")).status == 200
            # A client that names no session has no limit.
            path, body = TURNS["anthropic"]
            for _ in range(2):
                assert (await gateway.ask("POST", path, body, CLAUDE)).status == 200

    run(scenario)


def test_a_sub_agent_has_a_limit_of_its_own() -> None:
    async def scenario() -> None:
        async with running(limited(sub_agent_tokens=1)) as gateway:
            for sub_agent in ("a", "b"):
                assert (await ask(gateway, "one", sub_agent)).status == 200
            assert b"this sub-agent of claude-code" in (await ask(gateway, "one", "a")).body
            assert (await ask(gateway, "one")).status == 200

    run(scenario)


def test_a_key_limits_its_own_sessions_and_sub_agents(tmp_path: Path) -> None:
    holder = KeyHolder(tmp_path / "state.db")
    ann, bob = holder.create("ann", tokens_per_session=1), holder.create("bob", tokens_per_sub_agent=1)
    path, body = TURNS["anthropic"]

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            for key, sub_agent, statuses, reason in (
                (ann, "", [200, 400], b"this session of claude-code has used"),
                (bob, "a", [200, 400], b"this sub-agent of claude-code has used"),
                (bob, "", [200, 200], b""),
            ):
                headers = {**CLAUDE, "x-claude-code-session-id": "one", "x-api-key": key}
                headers |= {"x-claude-code-agent-id": sub_agent} if sub_agent else {}
                got = [await gateway.ask("POST", path, body, headers) for _ in statuses]
                assert [each.status for each in got] == statuses
                assert reason in got[-1].body

    run(scenario)


def test_a_route_changes_the_limits_of_the_gateway() -> None:
    free = Route(match="free", targets=(TargetName("up", "m"),), session_limits={"tokens": 0})
    config = msgspec.structs.replace(limited(tokens=1), routes=(free,))

    async def scenario() -> None:
        async with running(config) as gateway:
            for _ in range(2):
                assert (await ask(gateway, "one", model="free")).status == 200
            assert (await ask(gateway, "one")).status == 400

    run(scenario)


def build_loop(turn: str) -> dict[str, object]:
    """A conversation of Claude Code or Codex with three equal calls."""
    if turn == "anthropic":
        messages: list[object] = [{"role": "user", "content": "go"}]
        for number in range(3):
            call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "same"}
            messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        return {"messages": messages}
    items: list[object] = [{"type": "message", "role": "user", "content": "go"}]
    for number in range(3):
        call = {"type": "function_call", "call_id": f"c{number}", "name": "sh", "arguments": '{"cmd":"ls"}'}
        items += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": "same"}]
    return {"input": items}


@pytest.mark.parametrize("turn", ["anthropic", "openai_responses"])
def test_a_loop_of_equal_calls_is_stopped_in_every_dialect(turn: str) -> None:
    path, body = TURNS[turn]

    async def scenario() -> None:
        for count, status in ((3, 400), (4, 200), (0, 200)):
            async with running(limited(repeated_calls=count)) as gateway:
                got = await gateway.ask("POST", path, {**body, **build_loop(turn)}, CLAUDE)
                assert got.status == status, got.body
                assert (b"3 times in a row" in got.body) == (status == 400)

    run(scenario)


@pytest.mark.parametrize("text", ["repeated_calls = 1", "cost = -1", "costs = 1", 'tokens = "1"'])
def test_a_wrong_limit_is_a_mistake_of_the_file(text: str) -> None:
    with pytest.raises(ConfigError, match="session_limits"):
        load(f"[session_limits]\n{text}\n", "dragoman.toml", {})


def test_a_session_is_described_to_the_owner_of_its_key() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            await ask(gateway, "one")
            headers = {**CLAUDE, "x-claude-code-session-id": "one"}
            body = (await gateway.ask("GET", "/session", headers=headers)).json()
            assert (body["session"], body["requests"], body["budget"]) == ("one", 1, None)
            assert str(body["target"]).startswith("up/")
            assert isinstance(body["context"], int)
            assert body["context"] > 0
            other = (await gateway.ask("GET", "/session", headers=CLAUDE)).json()
            assert (other["session"], other["requests"]) == ("", 0)

    run(scenario)


def test_another_key_does_not_see_the_session(tmp_path: Path) -> None:
    holder = KeyHolder(tmp_path / "state.db")
    ann, bob = holder.create("ann", tokens_per_day=1_000_000), holder.create("bob")
    headers = {**CLAUDE, "x-claude-code-session-id": "one"}

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            path, body = TURNS["anthropic"]
            await gateway.ask("POST", path, body, {**headers, "x-api-key": ann})
            await gateway.app.gateway.accounts.ledger.flush()
            own = (await gateway.ask("GET", "/session", headers={**headers, "x-api-key": ann})).json()
            assert (own["requests"], own["key"]) == (1, "ann")
            budget = own["budget"]
            assert isinstance(budget, dict)
            assert (budget["unit"], budget["period"], budget["limit"]) == ("tokens", "day", 1_000_000)
            assert budget["used"] > 0
            other = (await gateway.ask("GET", "/session", headers={**headers, "x-api-key": bob})).json()
            assert (other["requests"], other["budget"]) == (0, None)
            assert (await gateway.ask("GET", "/session", headers=headers)).status == 401

    run(scenario)
