"""The part of the admin API that reads the records, over HTTP."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from dragoman.config.rules import Rule, RuleConditions
from dragoman.config.settings import RecordSettings
from dragoman.records import recorder as recorder_module
from tests.exchange.sample_replies import CHAT_STREAM
from tests.server.running import OPERATOR, Running, config_for, running
from tests.upstream.byte_server import LAST_CHUNK, ByteServer, chunk, eventually, run, stream_head

CLAUDE = {"user-agent": "claude-cli/2.1.0", "x-claude-code-session-id": "s1", "x-api-key": "any"}
HELLO = {
    "model": "any",
    "max_tokens": 9,
    "stream": True,
    "messages": [{"role": "user", "content": "hello"}],
}


async def get(gateway: Running, path: str, **query: str) -> dict[str, Any]:
    text = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    got = await gateway.ask("GET", f"/admin/records{path}?{text}", headers=OPERATOR)
    assert got.status == 200, got.body
    return got.json()


async def written(gateway: Running, count: int) -> None:
    recorder = gateway.app.recorder
    assert recorder is not None
    await eventually(lambda: recorder.status.written >= count)


@pytest.mark.rule("R132")
def test_a_query_gets_the_turns_that_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "PAUSE", 1000.0)

    async def scenario() -> None:
        answer = (stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK)
        async with ByteServer(answer, answer, answer) as upstream:
            config = msgspec.structs.replace(config_for(upstream.url), records=RecordSettings(record="meta"))
            async with running(config, state=tmp_path / "state.db") as gateway:
                for count in (1, 2, 3):
                    assert (await gateway.ask("POST", "/v1/messages", HELLO, CLAUDE)).status == 200
                    session = await get(gateway, "/sessions/s1")
                    assert len(session["list"]) == count

    run(scenario)


@pytest.mark.rule("R132")
def test_a_turn_is_listed_shown_explained_and_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        answer = (stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK)
        async with ByteServer(answer) as upstream:
            config = msgspec.structs.replace(
                config_for(upstream.url), records=RecordSettings(record="bodies")
            )
            async with running(config, state=tmp_path / "state.db") as gateway:
                assert (await gateway.ask("POST", "/v1/messages", HELLO, CLAUDE)).status == 200
                await written(gateway, 1)
                listed = await get(gateway, "/sessions", filter="agent:claude-code")
                assert [each["session"] for each in listed["sessions"]] == ["s1"]
                session = await get(gateway, "/sessions/s1")
                assert [turn["number"] for turn in session["list"]] == [1]
                turn = await get(gateway, "/sessions/s1/turns/1")
                assert (turn["status"], turn["lane"]) == (200, "translate")
                for part in ("client_request", "upstream_request", "upstream_reply", "client_reply"):
                    found = await get(gateway, f"/sessions/s1/turns/1/parts/{part}")
                    assert found.get("json") or found.get("events")
                changes = await get(gateway, "/sessions/s1/turns/1/changes")
                assert (changes["is_translated"], changes["problem"]) == (True, "")
                cache = await get(gateway, "/sessions/s1/cache")
                assert [turn["cause"] for turn in cache["turns"]] == ["short"]
                compared = await get(gateway, "/comparison", first="s1", second="s1")
                assert (compared["divergence"], len(compared["pairs"])) == (None, 1)
                sums = await get(gateway, "/sums", by="agent")
                assert sums["sums"][0]["turns"] == 1
                assert (await get(gateway, "/now"))["exchanges"] == []
                wrong = await gateway.ask("GET", "/admin/records/turns?filter=colour:x", headers=OPERATOR)
                assert (wrong.status, b"there is no field colour" in wrong.body) == (400, True)
                missing = await gateway.ask("GET", "/admin/records/sessions/none", headers=OPERATOR)
                assert missing.status == 404
                deleted = await gateway.ask("DELETE", "/admin/records/sessions/s1", headers=OPERATOR)
                assert deleted.json() == {"deleted": "s1", "turns": 1}
                assert (await get(gateway, "/sessions"))["sessions"] == []

    run(scenario)


def test_a_session_whose_id_has_slashes_is_opened_and_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        answer = (stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK)
        async with (
            ByteServer(answer) as upstream,
            running(config_for(upstream.url), state=tmp_path / "state.db") as gateway,
        ):
            headers = {**CLAUDE, "x-claude-code-session-id": "team/a/turns/1"}
            assert (await gateway.ask("POST", "/v1/messages", HELLO, headers)).status == 200
            await written(gateway, 1)
            path = f"/sessions/{quote('team/a/turns/1', safe='')}"
            assert (await get(gateway, path))["session"] == "team/a/turns/1"
            assert (await get(gateway, f"{path}/turns/1"))["status"] == 200
            deleted = await gateway.ask("DELETE", f"/admin/records{path}", headers=OPERATOR)
            assert deleted.json() == {"deleted": "team/a/turns/1", "turns": 1}

    run(scenario)


def test_the_live_stream_shows_new_turns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            running(config_for(), state=tmp_path / "state.db") as gateway,
            gateway.connected() as watching,
        ):
            await watching.send("GET", "/admin/records/live", headers=OPERATOR)
            status, headers = await watching.head()
            assert (status, headers["cache-control"]) == (200, "no-store")
            assert (await watching.chunk()).startswith(b"event: now\n")
            await gateway.ask("POST", "/v1/messages", HELLO, CLAUDE)
            while not (event := await asyncio.wait_for(watching.chunk(), 20)).startswith(b"event: turn\n"):
                pass
            assert msgspec.json.decode(event.partition(b"data: ")[2])["session"] == "s1"

    run(scenario)


def test_a_gateway_without_state_records_nothing_and_reports_it() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway:
            await gateway.ask("POST", "/v1/messages", HELLO, CLAUDE)
            got = await gateway.ask("GET", "/admin/records/sessions", headers=OPERATOR)
            assert (got.status, b"no state folder" in got.body) == (404, True)
            status = (await gateway.ask("GET", "/admin/status", headers=OPERATOR)).json()
            assert status["records"]["record"] == "off"

    run(scenario)


@pytest.mark.parametrize("entry", ["", "/claude"])
def test_the_entry_of_a_recorded_request_is_explained(entry: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        answer = (stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK)
        async with ByteServer(answer) as upstream:
            config = config_for(upstream.url)
            rule = Rule(name="claude", when=RuleConditions(path=("/claude",)), targets=config.default)
            config = msgspec.structs.replace(config, rules=(rule,), records=RecordSettings(record="bodies"))
            async with running(config, state=tmp_path / "state.db") as gateway:
                assert (await gateway.ask("POST", f"{entry}/v1/messages", HELLO, CLAUDE)).status == 200
                await written(gateway, 1)
                got = await gateway.ask("GET", "/admin/explain?session=s1&number=1", headers=OPERATOR)
                assert got.json()["rule"] == ("claude" if entry else "")

    run(scenario)
