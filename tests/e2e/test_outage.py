"""What each kind of state does while the database does not answer, and after it is back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.accounts.limits import Limits
from tests import postgres
from tests.e2e.fleet import Fleet, RunningFleet, wait_until
from tests.e2e.gateway import Gateway
from tests.e2e.person import Person
from tests.e2e.test_claude_code_contract import build_variables
from tests.e2e.test_keys import USED

MESSAGES = [{"role": "user", "content": "hello outage"}]
CONTENTS = [{"role": "user", "parts": [{"text": "hello outage"}]}]
#: A request of each dialect, and where its error names the kind.
DIALECTS: dict[str, tuple[str, dict[str, Any], tuple[str, ...], str]] = {
    "openai_chat": (
        "/v1/chat/completions",
        {"model": "m", "messages": MESSAGES},
        ("error", "code"),
        "budget_unknown",
    ),
    "openai_responses": (
        "/v1/responses",
        {"model": "m", "input": "hello outage"},
        ("error", "code"),
        "rate_limit_exceeded",
    ),
    "anthropic": (
        "/v1/messages",
        {"model": "m", "max_tokens": 9, "messages": MESSAGES},
        ("error", "type"),
        "rate_limit_error",
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": CONTENTS},
        ("error", "status"),
        "RESOURCE_EXHAUSTED",
    ),
}


class Outage:
    """One gateway with keys of all kinds, whose database is paused."""

    def __init__(self, running: RunningFleet, server: postgres.PostgresServer) -> None:
        self._running = running
        self.fleet = running.fleet
        self.server = server
        self.run = running.run
        self.limited = self.run(self.fleet.create_key("limited", Limits(tokens_per_day=10**6)))
        self.paced = self.run(self.fleet.create_key("paced", Limits(requests_per_minute=1_000)))
        self.free = self.run(self.fleet.create_key("free"))
        self.stored: dict[str, Any] = self.run(
            self.post("/v1/responses", self.free, {"input": "first outage"})
        )[2]
        self.held = self.run(self.fleet.hold(0, self.limited, "outage"))
        server.pause()

    async def post(
        self, path: str, key: str, body: dict[str, Any], method: str = "POST"
    ) -> tuple[int, dict[str, str], Any]:
        url, headers = f"{self.fleet.gateways[0].url}{path}", {"x-api-key": key}
        body = {"model": "m", **body} if "contents" not in body else body
        async with self.fleet.session.request(method, url, json=body, headers=headers) as response:
            return response.status, dict(response.headers), msgspec.json.decode(await response.read())


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    with postgres.run_server() as server:
        running = RunningFleet(Fleet(tmp_path_factory.mktemp("outage"), server.url, (0.0,), timeout=1.0))
        try:
            yield Outage(running, server)
        finally:
            server.resume()
            running.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_budget_refuses_in_the_dialect_of_the_client(outage: Outage, dialect: str) -> None:
    path, body, place, kind = DIALECTS[dialect]
    status, headers, refused = outage.run(outage.post(path, outage.limited, body))
    assert status == 429
    lowered = {name.lower(): value for name, value in headers.items()}
    # Clients come back after different times, and soon.
    assert 1 <= float(lowered["retry-after"]) <= 5
    found = refused
    for name in place:
        found = found[name]
    assert found == kind
    assert "cannot check the budget" in refused["error"]["message"]
    # Claude Code shows the message of a 429 with this header; without it, that the server is busy.
    reason = lowered.get("anthropic-ratelimit-unified-overage-disabled-reason")
    assert reason == ("fetch_error" if dialect == "anthropic" else None)


def test_claude_code_shows_that_the_budget_cannot_be_checked(outage: Outage, tmp_path: Path) -> None:
    access = build_variables(outage.fleet.gateways[0].url, outage.limited)
    person = Person(tmp_path, {})
    code, out = outage.run(person.ask("say hello", **access, CLAUDE_CODE_MAX_RETRIES="1"))
    assert code != 0
    assert out.strip() == "the gateway cannot check the budget of this key at the moment; try again"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("key", ["free", "paced"])
def test_keys_without_budgets_continue(outage: Outage, dialect: str, key: str) -> None:
    path, body, _, _ = DIALECTS[dialect]
    status, _, _ = outage.run(outage.post(path, getattr(outage, key), body))
    assert status == 200


def test_a_response_is_sent_and_says_that_it_is_not_stored(outage: Outage) -> None:
    status, _, sent = outage.run(outage.post("/v1/responses", outage.free, {"input": "hello outage"}))
    assert (status, sent["store"]) == (200, False)


def test_requests_that_need_a_stored_response_fail_and_may_be_repeated(outage: Outage) -> None:
    assert outage.stored["store"] is True
    more = {"input": "next outage", "previous_response_id": outage.stored["id"]}
    status, _, refused = outage.run(outage.post("/v1/responses", outage.free, more))
    assert (status, refused["error"]["type"]) == (503, "server_error")
    path = f"/v1/responses/{outage.stored['id']}"
    assert outage.run(outage.post(path, outage.free, {}, "GET"))[0] == 503
    background = {"input": "later outage", "background": True}
    assert outage.run(outage.post("/v1/responses", outage.free, background))[0] == 503


def test_known_keys_stay_valid_and_unknown_keys_are_refused(outage: Outage) -> None:
    assert outage.run(outage.post("/v1/chat/completions", "sk-unknown", {"messages": MESSAGES}))[0] == 401


def test_after_the_outage_nothing_is_lost(outage: Outage) -> None:
    """The usage of all keys is what the upstream has counted, also of a request that ended meanwhile."""
    assert outage.held is not None

    async def act() -> None:
        assert outage.held is not None
        outage.fleet.upstream.release()
        assert await outage.held == 200
        await asyncio.to_thread(outage.server.resume)
        await wait_until(lambda: outage.fleet.can_check_budget(0, outage.limited, "hello outage"))

        async def is_written() -> bool:
            counts = [await outage.fleet.count_usage(name) for name in ("limited", "paced", "free")]
            answered = outage.fleet.upstream.answered["outage"]
            return (
                sum(each.input + each.output for each in counts) == answered * USED
                and sum(each.requests - each.refused for each in counts) == answered
            )

        await wait_until(is_written)
        more = {"input": "next outage", "previous_response_id": outage.stored["id"]}
        assert (await outage.post("/v1/responses", outage.free, more))[0] == 200

    outage.run(act())


def test_a_gateway_that_does_not_reach_its_database_at_its_start_ends_with_an_error(tmp_path: Path) -> None:
    """Without its keys it would accept every caller. An orchestrator starts it again."""
    url = f"postgresql://postgres@127.0.0.1:{postgres.find_free_port()}/postgres"
    gateway = Gateway(f'[state]\nurl = "{url}"\ntimeout = 1.0\n', tmp_path)

    async def start() -> None:
        with pytest.raises(RuntimeError, match="does not answer"):
            await gateway.start()
        assert await gateway.stop() == 2

    asyncio.run(start())
