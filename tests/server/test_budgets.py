"""Limits and budgets over real sockets: they hold for many at once, and every ending is settled."""

import asyncio
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from dragoman.accounts.statistics import UsageCounts, UsageKey
from dragoman.config.config import Config
from dragoman.config.provider import TargetName
from dragoman.config.rules import Rule, RuleConditions
from tests.exchange.sample_replies import CHAT_START, CHAT_STREAM, CHAT_WHOLE, chat_text
from tests.server.keyholder import KeyHolder
from tests.server.running import Got, Running, config_for, running
from tests.server.test_app import HELLO, TURNS
from tests.upstream.byte_server import (
    LAST_CHUNK,
    ByteServer,
    Close,
    Pause,
    chunk,
    eventually,
    reply,
    run,
    stream_head,
)

CHAT = "/v1/chat/completions"
JSON = "content-type: application/json"
WHOLE = [reply(CHAT_WHOLE, "200 OK", JSON)]
#: The usage in `WHOLE` and `CHAT_STREAM`.
USED = 15


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state.db")


def priced(config: Config) -> Config:
    """Two dollars for a million tokens of a prompt, ten for an answer's."""
    facts: dict[str, object] = {"price_input": 2.0, "price_output": 10.0}
    provider = msgspec.structs.replace(config.providers["up"], models={"*": facts})
    return msgspec.structs.replace(config, providers={"up": provider})


async def ask(gateway: Running, key: str, turn: str = "openai_chat", **more: object) -> Got:
    path, body = TURNS[turn]
    return await gateway.ask("POST", path, {**body, **more}, {"x-api-key": key})


@pytest.mark.parametrize("turn", TURNS)
def test_too_many_requests_are_refused_in_the_clients_dialect(holder: KeyHolder, turn: str) -> None:
    key = holder.create(requests_per_minute=2)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            for _ in range(2):
                assert (await ask(gateway, key, turn)).status == 200
            got = await ask(gateway, key, turn)
            assert got.status == 429
            assert b"the key 'ci' may use 2 requests per minute" in got.body
            assert 1 <= int(got.headers["retry-after"]) <= 30
            if turn.startswith("gemini"):
                assert b"RESOURCE_EXHAUSTED" in got.body
                assert b"RetryInfo" in got.body
                assert not [name for name in got.headers if "ratelimit" in name]

    run(scenario)


def test_openai_clients_see_what_is_left_of_their_minute(holder: KeyHolder) -> None:
    key = holder.create(requests_per_minute=2, tokens_per_minute=1_000_000)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            first = (await ask(gateway, key)).headers
            assert first["x-ratelimit-limit-requests"] == "2"
            assert first["x-ratelimit-remaining-requests"] == "1"
            assert first["x-ratelimit-reset-requests"] == "30s"
            assert first["x-ratelimit-limit-tokens"] == "1000000"
            assert 990_000 < int(first["x-ratelimit-remaining-tokens"]) < 1_000_000
            await ask(gateway, key)
            refused = await ask(gateway, key)
            assert refused.headers["x-ratelimit-remaining-requests"] == "0"
            assert b'"type":"requests"' in refused.body

    run(scenario)


def test_anthropic_clients_see_what_is_left_of_their_minute(holder: KeyHolder) -> None:
    key = holder.create(requests_per_minute=5)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            headers = (await ask(gateway, key, "anthropic", stream=True)).headers
            assert headers["anthropic-ratelimit-requests-limit"] == "5"
            assert headers["anthropic-ratelimit-requests-remaining"] == "4"
            assert datetime.fromisoformat(headers["anthropic-ratelimit-requests-reset"]).tzinfo
            assert "anthropic-ratelimit-tokens-limit" not in headers

    run(scenario)


@pytest.mark.rule("H86")
def test_a_client_with_limits_of_its_own_does_not_see_the_gateways(holder: KeyHolder) -> None:
    limited = holder.create("limited", requests_per_minute=5)
    free = holder.create("free")
    answer = [reply(CHAT_WHOLE, "200 OK", JSON, "x-ratelimit-remaining-tokens: 77")]

    async def scenario() -> None:
        async with (
            ByteServer(answer) as upstream,
            running(config_for(upstream.url), state=holder.path) as gateway,
        ):
            assert "x-ratelimit-remaining-tokens" not in (await ask(gateway, limited)).headers
            assert (await ask(gateway, free)).headers["x-ratelimit-remaining-tokens"] == "77"

    run(scenario)


@pytest.mark.parametrize("turn", TURNS)
def test_a_budget_that_is_used_up_is_final_until_the_next_one(holder: KeyHolder, turn: str) -> None:
    key = holder.create(tokens_per_day=1)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            assert (await ask(gateway, key, turn)).status == 200
            got = await ask(gateway, key, turn)
            assert got.status == 429
            assert b"has used up its budget of 1 token per day" in got.body
            assert b"at 00:00 UTC" in got.body
            assert got.headers["x-should-retry"] == "false"

    run(scenario)


def test_a_budget_of_money_is_charged_by_the_price(holder: KeyHolder) -> None:
    key = holder.create(cost_per_month=100)

    async def scenario() -> None:
        async with (
            ByteServer(WHOLE) as upstream,
            running(priced(config_for(upstream.url)), state=holder.path) as gateway,
        ):
            assert (await ask(gateway, key)).status == 200
            await gateway.app.gateway.accounts.ledger.flush()
            assert holder.account().used["month"] == (USED, 12 * 2 + 3 * 10)
            assert (await ask(gateway, key)).status == 200
            refused = await ask(gateway, key)
            assert refused.status == 429
            assert b"$0.0001 per month" in refused.body
            assert len(upstream.received) == 2

    run(scenario)


def test_a_model_without_a_price_is_refused_to_a_key_with_a_budget_of_money(holder: KeyHolder) -> None:
    key = holder.create(cost_per_day=1_000_000)

    async def scenario() -> None:
        async with (
            ByteServer(WHOLE) as upstream,
            running(config_for(upstream.url), state=holder.path) as gateway,
        ):
            got = await ask(gateway, key)
            assert got.status == 403
            assert b"the price of up/any is unknown" in got.body
            assert b"price_input" in got.body
            assert not upstream.received

    run(scenario)


def test_the_embedded_model_is_free(holder: KeyHolder) -> None:
    key = holder.create(cost_per_day=1)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            for _ in range(3):
                assert (await ask(gateway, key)).status == 200

    run(scenario)


@pytest.mark.parametrize("limit", ["tokens_per_day", "cost_per_month"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_budget_holds_under_two_hundred_requests_at_once(
    holder: KeyHolder, limit: str, stream: bool
) -> None:
    """Each uses 15 tokens, or 54 millionths of a dollar, and sets aside a little more."""
    worth = USED if limit == "tokens_per_day" else 54
    budget = 20 * worth + worth // 2
    in_tokens = limit == "tokens_per_day"
    key = holder.create(tokens_per_day=budget) if in_tokens else holder.create(cost_per_month=budget)
    script = [stream_head(), *(chunk(piece) for piece in CHAT_STREAM), LAST_CHUNK]

    async def scenario() -> None:
        async with (
            ByteServer(script if stream else WHOLE) as upstream,
            running(priced(config_for(upstream.url)), state=holder.path) as gateway,
        ):
            tried = 0
            while tried < 5:
                got = await asyncio.gather(
                    *(ask(gateway, key, stream=stream, max_tokens=5) for _ in range(200))
                )
                assert {each.status for each in got} <= {200, 429}
                tried += 1
                if all(each.status == 429 and b"used up" in each.body for each in got):
                    break
            await gateway.app.gateway.accounts.ledger.flush()
            held = holder.account()
            used = held.used["day"].tokens if in_tokens else held.used["month"].cost
            assert used == len(upstream.received) * worth
            assert budget <= used < budget + worth
            assert held.reserved["month"] == (0, 0)
            assert all(each.status == 429 for each in got)

    run(scenario)


@pytest.mark.rule("R127")
def test_a_stream_that_breaks_off_is_charged_for_what_came(holder: KeyHolder) -> None:
    key = holder.create(tokens_per_day=1_000_000)
    words = [chunk(chat_text(f"word {number} ")) for number in range(50)]

    async def scenario() -> None:
        async with (
            ByteServer([stream_head(), chunk(CHAT_START), *words, Close(rudely=True)]) as upstream,
            running(config_for(upstream.url), state=holder.path) as gateway,
        ):
            got = await ask(gateway, key, stream=True)
            assert b"word 49" in got.body
            await gateway.app.gateway.accounts.ledger.flush()
            assert 50 < holder.used() < 250
            assert holder.reserved() == 0
            assert holder.usage("key")[("ci",)].failures == 1

    run(scenario)


@pytest.mark.rule("H83")
def test_a_client_that_leaves_is_charged_and_gives_back_the_rest(holder: KeyHolder) -> None:
    key = holder.create(tokens_per_day=1_000_000)
    never = asyncio.Event()

    async def scenario() -> None:
        async with (
            ByteServer(
                [stream_head(), chunk(CHAT_START), chunk(chat_text("good")), Pause(never)]
            ) as upstream,
            running(config_for(upstream.url), state=holder.path) as gateway,
        ):
            async with gateway.connected() as client:
                body = {**HELLO, "stream": True, "max_tokens": 5_000}
                await client.send("POST", CHAT, body, {"x-api-key": key})
                await client.head()
                await client.chunk()
                assert holder.reserved() > 5_000
            await eventually(lambda: holder.reserved() == 0)
            assert 5 < holder.used() < 100
            counts = holder.usage("key")[("ci",)]
            assert (counts.requests, counts.failures) == (1, 0)

    run(scenario)


@pytest.mark.rule("H83")
def test_a_client_that_leaves_before_the_first_content_is_charged_its_prompt(holder: KeyHolder) -> None:
    key = holder.create(tokens_per_day=1_000_000)
    never = asyncio.Event()

    async def scenario() -> None:
        async with (
            ByteServer([Pause(never)]) as upstream,
            running(config_for(upstream.url), state=holder.path) as gateway,
        ):
            async with gateway.connected() as client:
                await client.send("POST", CHAT, HELLO, {"x-api-key": key})
                await eventually(lambda: bool(upstream.received))
            await eventually(lambda: holder.reserved() == 0)
            assert 0 < holder.used() < 50

    run(scenario)


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error"])
def test_what_the_upstream_refuses_costs_nothing(holder: KeyHolder, status: str) -> None:
    key = holder.create(tokens_per_day=1_000)

    async def scenario() -> None:
        async with (
            ByteServer([reply(b'{"error": {"message": "no"}}', status, JSON)]) as upstream,
            running(config_for(upstream.url), state=holder.path) as gateway,
        ):
            assert (await ask(gateway, key)).status in (400, 500)
            await gateway.app.gateway.accounts.ledger.flush()
            assert (holder.used(), holder.reserved()) == (0, 0)
            assert holder.usage("key")[("ci",)].failures == 1

    run(scenario)


def test_a_request_that_is_no_request_costs_nothing(holder: KeyHolder) -> None:
    key = holder.create(tokens_per_day=1_000)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            got = await gateway.ask("POST", "/v1/messages", b'{"model": "any"}', {"x-api-key": key})
            assert got.status == 400
            await gateway.app.gateway.accounts.ledger.flush()
            assert (holder.used(), holder.reserved()) == (0, 0)

    run(scenario)


@pytest.mark.parametrize("length", [10**40, 2**63, -1, -(10**12), 0])
def test_no_length_that_a_client_asks_for_breaks_or_feeds_a_budget(holder: KeyHolder, length: int) -> None:
    key = holder.create(tokens_per_day=10**18, tokens_per_minute=10**12, cost_per_day=10**18)

    async def scenario() -> None:
        async with running(priced(config_for("http://127.0.0.1:9")), state=holder.path) as gateway:
            for turn in TURNS:
                got = await ask(gateway, key, turn, max_tokens=length)
                assert got.status != 500, got.body
            await gateway.app.gateway.accounts.ledger.flush()
            held = holder.account()
            assert held.used["day"] == held.reserved["day"] == (0, 0)
            assert all(bucket.level <= 10**12 for bucket in held.buckets.values())

    run(scenario)


def test_usage_is_counted_by_key_provider_and_model(holder: KeyHolder) -> None:
    limited, free = holder.create("limited", requests_per_minute=1), holder.create("free")

    async def scenario() -> None:
        async with (
            ByteServer(WHOLE) as upstream,
            running(priced(config_for(upstream.url)), state=holder.path) as gateway,
        ):
            await ask(gateway, limited)
            await ask(gateway, limited)
            for model in ("one", "two", "two"):
                await ask(gateway, free, model=model)
        used = holder.usage("key", "provider", "model")
        assert {group: counts.requests for group, counts in used.items()} == {
            ("limited", "", ""): 1,
            ("limited", "up", "any"): 1,
            ("free", "up", "one"): 1,
            ("free", "up", "two"): 2,
        }
        assert used[("limited", "", "")].refused == 1
        two = used[("free", "up", "two")]
        assert (two.input, two.output, two.cost) == (24, 6, 108)
        assert holder.used("free") == 3 * USED
        assert holder.used("limited") == USED

    run(scenario)


def test_requests_without_a_key_are_counted_too(holder: KeyHolder) -> None:
    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            assert (await gateway.ask("POST", CHAT, HELLO)).status == 200
        assert holder.usage("key")[("",)].requests == 1

    run(scenario)


@pytest.mark.rule("R123")
def test_the_statistics_tell_agents_and_their_roles_apart(holder: KeyHolder) -> None:
    when = RuleConditions(role=("lead",), agent=("claude-code",))
    rule = Rule(name="lead", when=when, targets=(TargetName("up", "best"),))
    config = msgspec.structs.replace(config_for(), rules=(rule,), roles={"lead": ("hydra:lead",)})
    claude = {"user-agent": "claude-cli/2.1.325 (external, cli)"}
    marked = [{"role": "system", "content": "hydra:lead"}, {"role": "user", "content": "say hello"}]
    lead = {**HELLO, "messages": marked}

    async def scenario() -> None:
        async with running(config, state=holder.path) as gateway:
            await gateway.ask("POST", CHAT, lead, claude)
            await gateway.ask("POST", CHAT, lead, {"user-agent": "codex_exec/0.166.0"})
            await gateway.ask("POST", CHAT, HELLO, claude)
            await gateway.ask("POST", CHAT, HELLO, {**claude, "x-claude-code-agent-id": "a1"})
            await gateway.ask("POST", CHAT, HELLO, {"user-agent": "made-up/1"})
        found = {group: counts.requests for group, counts in holder.usage("agent", "role", "model").items()}
        assert found == {
            ("claude-code", "lead", "best"): 1,
            ("codex", "lead", "any"): 1,
            ("claude-code", "main", "any"): 1,
            ("claude-code", "sub-agent", "any"): 1,
            ("other", "main", "any"): 1,
        }

    run(scenario)


@pytest.mark.parametrize("model", ["x" * 5_000, "%ED%A0%80", "%00%0a", "%F0%9F%90%AB", "%ff%fe"])
def test_no_name_of_a_model_keeps_usage_from_being_written(holder: KeyHolder, model: str) -> None:
    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            body = TURNS["gemini v1"][1]
            await gateway.ask("POST", f"/v1beta/models/{model}:generateContent", body)
            await gateway.ask("POST", CHAT, b'{"model": "\\ud800", "messages": []}')
            assert (await gateway.ask("POST", CHAT, HELLO)).status == 200
        used = holder.usage("model")
        assert used[("any",)].requests == 1
        assert all(len(name) <= 200 for (name,) in used)

    run(scenario)


def test_names_that_clients_make_up_do_not_fill_the_file(holder: KeyHolder) -> None:
    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            ledger = gateway.app.gateway.accounts.ledger
            for number in range(5_000):
                key = UsageKey(0, "", "up", f"model-{number}")
                ledger.add_usage(key, UsageCounts(requests=1), is_settled=False)
        used = holder.usage("model")
        assert len(used) == 1_001
        assert sum(counts.requests for counts in used.values()) == 5_000
        assert used[("(others)",)].requests == 4_000

    run(scenario)
