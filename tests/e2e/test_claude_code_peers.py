"""Claude Code behind two gateways with one PostgreSQL, and behind two workers of one gateway."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import asyncpg
import msgspec
import pytest

from dragoman.peers.forwarding import ForwardedRequest, build_headers
from tests import postgres
from tests.e2e.claude_code import CALCULATE, Caller, CallerReply, Talk, config
from tests.e2e.environment import Environment
from tests.e2e.gateway import Gateway
from tests.e2e.test_claude_code_lifetimes import SUM


class Pair:
    """Two gateways that share a state."""

    def __init__(self, environment: Environment, folder: Path, url: str, timeout: float = 20.0) -> None:
        inner = environment.gateway_to("anthropic", keeps_model=True)
        text = f'[state]\nurl = "{url}"\ntimeout = {timeout}\n' + config(inner.url)
        self._environment = environment
        self.url = url
        self.folders = [folder / name for name in ("first", "second")]
        self.gateways = [Gateway(text, each) for each in self.folders]
        for gateway in self.gateways:
            environment.run(gateway.start())
        self.callers = [Caller(environment, gateway) for gateway in self.gateways]

    def close(self) -> None:
        for gateway in self.gateways:
            self._environment.run(gateway.stop())


@pytest.fixture
def pair(environment: Environment, tmp_path: Path) -> Iterator[Pair]:
    url = postgres.create_schema()
    pair = Pair(environment, tmp_path, url)
    yield pair
    pair.close()
    postgres.drop_schema(url)


async def sign_request(url: str) -> tuple[bytes, dict[str, str]]:
    """A request of another gateway with this state to the gateway whose call waits, with its headers."""
    connection = await asyncpg.connect(url)
    try:
        secret = await connection.fetchval("SELECT secret FROM peer_secret")
        gateway, owner = await connection.fetchrow("SELECT gateway, owner FROM parked_calls")
        now = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
    finally:
        await connection.close()
    request = ForwardedRequest(
        gateway=gateway,
        nonce="n",
        provider="unknown",
        owner=owner,
        calls=("unknown",),
        model="",
        stream=False,
        key=0,
        session="",
        body=b"",
    )
    body = msgspec.msgpack.encode(request)
    return body, build_headers(bytes.fromhex(secret), body, now)


def ask_and_move(pair: Pair, parked: int = 1) -> tuple[Talk, CallerReply]:
    """A conversation whose call waits at the first gateway, and whose caller turns to the second.

    `parked`: the conversations that wait there then.
    """
    talk = pair.callers[0].talk(SUM, streams=True)
    asked = talk.say("add 123 and 456", tools=[CALCULATE])
    assert pair.callers[0].counts()["parked"] == parked
    talk.caller = pair.callers[1]
    talk.result(asked.calls[0], "579")
    return talk, asked


def test_a_parked_call_is_answered_through_another_gateway(environment: Environment, pair: Pair) -> None:
    async def post(headers: dict[str, str], body: bytes = b"x") -> int:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{pair.gateways[0].url}/gateway/calls", data=body, headers=headers) as reply,
        ):
            return reply.status

    talk, asked = ask_and_move(pair)
    # Only gateways with the same state may send results.
    assert environment.run(post({})) == 403
    signed = {"x-dragoman-date": "1", "x-dragoman-digest": "0" * 64, "x-dragoman-signature": "0" * 64}
    assert environment.run(post(signed)) == 403
    # A request that was recorded on its way has no effect when it comes again.
    body, headers = environment.run(sign_request(pair.url))
    assert [environment.run(post(headers, body)) for _ in range(3)] == [404, 403, 403]
    assert environment.run(post(headers, body + b"x")) == 400
    answered = talk.send()
    assert (answered.content, answered.session) == ("The result is 579.", asked.session)
    assert len(talk.received) == 2
    first, second = (caller.counts() for caller in pair.callers)
    assert (first["spawned"], first["continued"], first["parked"]) == (1, 1, 0)
    assert (second["spawned"], second["replayed"], second["forwarded"]) == (0, 0, 1)
    assert talk.problems == []


def test_a_parked_call_of_a_gateway_that_was_killed_is_replayed(environment: Environment, pair: Pair) -> None:
    talk, asked = ask_and_move(pair)
    environment.run(pair.gateways[0].kill())
    # The session's name was issued by the other gateway.
    answered = talk.send(session=asked.session)
    assert answered.content == "The result is 579."
    assert talk.result_received(asked.calls[0]) == "579"
    assert pair.callers[1].counts()["replayed"] == 1


async def wait_for_answer(gateway: Gateway, path: str, text: str) -> None:
    """Ask the gateway again and again, until its answer contains the text."""
    headers = {}
    if (token := gateway.folder / ".local/state/dragoman/admin-token").exists():
        headers["authorization"] = f"Bearer {token.read_text('ascii').strip()}"
    async with aiohttp.ClientSession() as session, asyncio.timeout(60):
        while True:
            async with session.get(f"{gateway.url}{path}", headers=headers) as answer:
                if text in await answer.text():
                    return
            await asyncio.sleep(0.1)


async def wait_for_stored_calls(url: str, count: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(60):
            while await connection.fetchval("SELECT COUNT(*) FROM parked_calls") < count:
                await asyncio.sleep(0.1)
    finally:
        await connection.close()


def test_parked_calls_survive_an_outage_of_the_database(environment: Environment, tmp_path: Path) -> None:
    """A call that is not stored is answered where it waits, or replayed elsewhere; later, it is forwarded."""
    with postgres.run_server() as server:
        pair = Pair(environment, tmp_path, server.url, timeout=1.0)
        try:
            for gateway in pair.gateways:
                # Then it knows its client keys, and needs no database for them.
                environment.run(wait_for_answer(gateway, "/health/ready", '"ready"'))
            server.pause()
            asked_here = pair.callers[0].talk(SUM, streams=True)
            here = asked_here.say("add 123 and 456", tools=[CALCULATE])
            asked_here.result(here.calls[0], "579")
            asked_later = pair.callers[0].talk(SUM, streams=True)
            later = asked_later.say("add 123 and 456", tools=[CALCULATE])
            elsewhere, _ = ask_and_move(pair, parked=3)
            # At the gateway where the session waits, nothing has changed.
            assert asked_here.send().content == "The result is 579."
            # The other gateway cannot find the session: it continues from the history of the request.
            assert elsewhere.send().content == "The result is 579."
            assert pair.callers[0].counts()["continued"] == 1
            second = pair.callers[1].counts()
            assert (second["replayed"], second["forwarded"]) == (1, 0)
            server.resume()
            # The call of a session that still waits is stored now: its result finds it from anywhere.
            environment.run(wait_for_stored_calls(server.url, 2))
            environment.run(wait_for_answer(pair.gateways[1], "/metrics", "dragoman_state_ok 1"))
            asked_later.caller = pair.callers[1]
            asked_later.result(later.calls[0], "579")
            answered = asked_later.send()
            assert (answered.content, answered.session) == ("The result is 579.", later.session)
            assert pair.callers[1].counts()["forwarded"] == 1
            assert pair.callers[0].counts()["continued"] == 2
        finally:
            server.resume()
            pair.close()


def test_all_workers_answer_the_calls_of_a_session(environment: Environment, tmp_path: Path) -> None:
    """Each request is a new connection, which the system gives to any of the workers."""
    inner = environment.gateway_to("anthropic", keeps_model=True)
    gateway = Gateway(f"[server]\nworkers = 2\n{config(inner.url)}", tmp_path)
    environment.run(gateway.start())
    try:
        caller = Caller(environment, gateway)
        talk = caller.talk([*[SUM[0]] * 8, SUM[1]])
        asked = talk.say("add 123 and 456", tools=[CALCULATE])
        for _ in range(8):
            assert len(asked.calls) == 1
            talk.result(asked.calls[0], "579")
            asked = talk.send()
        assert asked.content == "The result is 579."
        # `sessions` adds up the counts of all workers.
        counts = caller.counts()
        assert (counts["spawned"], counts["replayed"], counts["continued"]) == (1, 0, 8)
    finally:
        environment.run(gateway.stop())
