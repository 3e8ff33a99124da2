"""What a client with a budget sees of it: headers, the refusal, and `/api/oauth/usage`."""

import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from dragoman.accounts.keys import get_key
from dragoman.accounts.limits import Amount, find_period_end
from dragoman.accounts.store import Charges, add_charge, charge
from tests.server.keyholder import KeyHolder
from tests.server.running import Got, config_for, running
from tests.server.test_app import TURNS
from tests.server.test_budgets import ask, priced
from tests.upstream.byte_server import ByteServer, reply, run

PREFIX = "anthropic-ratelimit-unified-"
REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 3},
}


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state.db")


def spend(holder: KeyHolder, tokens: int, cost: int = 0, name: str = "ci") -> None:
    charges: Charges = {}
    made = holder.do(lambda transaction: get_key(transaction, name))
    add_charge(charges, made.caller.id, Amount(tokens, cost), time.time())
    holder.do(lambda transaction: charge(transaction, charges))


def unified(got: Got) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX): value for name, value in got.headers.items() if name.startswith(PREFIX)
    }


@pytest.mark.parametrize(
    ("used", "share", "threshold"),
    [
        (0, "0.00", None),
        (7_499, "0.74", None),
        (7_500, "0.75", "0.75"),
        (9_500, "0.95", "0.95"),
        (9_999, "0.99", "0.95"),
    ],
)
def test_an_anthropic_client_sees_its_fullest_budget(
    holder: KeyHolder, used: int, share: str, threshold: str | None
) -> None:
    key = holder.create(tokens_per_day=10_000, tokens_per_month=1_000_000)
    spend(holder, used)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            headers = unified(await ask(gateway, key, "anthropic", stream=True))
            assert headers.pop("overage-utilization") == share
            assert headers.pop("overage-surpassed-threshold", None) == threshold
            reset = str(find_period_end("day", time.time()))
            assert headers.pop("reset") == headers.pop("overage-reset") == reset
            status = "allowed_warning" if threshold else "allowed"
            assert headers == {
                "status": status,
                "overage-status": status,
                "representative-claim": "overage",
            }

    run(scenario)


def test_a_spent_budget_is_refused_in_the_form_that_claude_code_shows(holder: KeyHolder) -> None:
    key = holder.create(tokens_per_day=100, tokens_per_month=100)
    spend(holder, 100)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            got = await ask(gateway, key, "anthropic")
            reset = find_period_end("month", time.time())
            assert got.status == 429
            assert got.json()["error"]["type"] == "billing_error"
            assert b"budget of 100 tokens per month" in got.body
            assert got.headers["x-should-retry"] == "false"
            assert 0 <= reset - time.time() - int(got.headers["retry-after"]) + 2 < 10
            assert unified(got) == {
                "status": "rejected",
                "reset": str(reset),
                "overage-reset": str(reset),
                "overage-utilization": "1",
                "overage-surpassed-threshold": "1",
                "overage-period": "monthly",
                "overage-disabled-reason": "org_spend_cap_reached",
            }

    run(scenario)


@pytest.mark.parametrize("turn", [turn for turn in TURNS if turn != "anthropic"])
def test_other_dialects_keep_their_own_errors(holder: KeyHolder, turn: str) -> None:
    key = holder.create(tokens_per_day=100)
    spend(holder, 100)

    async def scenario() -> None:
        async with running(config_for(), state=holder.path) as gateway:
            got = await ask(gateway, key, turn)
            assert got.status == 429
            assert b"billing_error" not in got.body
            assert "retry-after" not in got.headers
            assert not unified(got)

    run(scenario)


def test_only_a_client_without_a_key_sees_the_account_of_the_gateway(holder: KeyHolder) -> None:
    free = holder.create("free")
    answer = [
        reply(
            msgspec.json.encode(REPLY),
            "200 OK",
            "content-type: application/json",
            f"{PREFIX}status: allowed_warning",
            "anthropic-ratelimit-tokens-remaining: 5",
        )
    ]

    async def scenario() -> None:
        async with ByteServer(answer) as upstream:
            config = config_for(upstream.url, "anthropic")
            async with running(config, state=holder.path) as gateway:
                got = await ask(gateway, free, "anthropic")
                assert got.status == 200
                assert not unified(got)
                assert got.headers["anthropic-ratelimit-tokens-remaining"] == "5"
            async with running(config) as gateway:
                assert unified(await ask(gateway, "", "anthropic")) == {"status": "allowed_warning"}

    run(scenario)


def test_an_error_of_the_upstream_says_nothing_about_the_budget(holder: KeyHolder) -> None:
    key = holder.create(tokens_per_day=1_000_000)
    error = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'

    async def scenario() -> None:
        async with (
            ByteServer([reply(error, "429 Too Many Requests", "content-type: application/json")]) as upstream,
            running(config_for(upstream.url, "anthropic"), state=holder.path) as gateway,
        ):
            got = await ask(gateway, key, "anthropic")
            assert got.status == 429
            assert not unified(got)

    run(scenario)


def test_the_usage_of_a_key_with_a_budget_of_money(holder: KeyHolder) -> None:
    key = holder.create(cost_per_month=500_000_000, tokens_per_day=1_000_000)
    spend(holder, 1_000, 271_400_000)

    async def scenario() -> None:
        async with running(priced(config_for()), state=holder.path) as gateway:
            got = await gateway.ask("GET", "/api/oauth/usage", headers={"authorization": f"Bearer {key}"})
            assert got.status == 200
            assert got.headers["cache-control"] == "no-store"
            body = got.json()
            assert body["extra_usage"] == {
                "is_enabled": True,
                "currency": "USD",
                "monthly_limit": 50_000,
                "used_credits": 27_140,
                "utilization": 54,
            }
            rows = body["limits"]
            assert isinstance(rows, list)
            assert [(row["kind"], row["group"], row["percent"], row["is_active"]) for row in rows] == [
                ("tokens", "daily", 0, False),
                ("spend", "monthly", 54, True),
            ]
            reset = datetime.fromtimestamp(find_period_end("month", time.time()), UTC)
            assert rows[1]["resets_at"] == reset.strftime("%Y-%m-%dT%H:%M:%S.000Z")

    run(scenario)


def test_the_usage_of_a_key_without_a_budget_is_what_it_has_spent(holder: KeyHolder) -> None:
    key = holder.create()
    answer = [reply(msgspec.json.encode(REPLY), "200 OK", "content-type: application/json")]

    async def scenario() -> None:
        async with (
            ByteServer(answer) as upstream,
            running(priced(config_for(upstream.url, "anthropic")), state=holder.path) as gateway,
        ):
            assert (await ask(gateway, key, "anthropic")).status == 200
            await gateway.app.gateway.accounts.ledger.flush()
            got = await gateway.ask("GET", "/api/oauth/usage", headers={"x-api-key": key})
            body = got.json()
            assert body["limits"] == []
            usage = body["extra_usage"]
            assert isinstance(usage, dict)
            assert usage["monthly_limit"] is None
            assert (
                usage["used_credits"]
                == usage["daily"]["used_credits"]
                == usage["weekly"]["used_credits"]
                == 0.01
            )
            refused = await gateway.ask("GET", "/api/oauth/usage", headers={"x-api-key": "dgm_no"})
            assert refused.status == 401
            assert refused.headers["x-should-retry"] == "false"

    run(scenario)
