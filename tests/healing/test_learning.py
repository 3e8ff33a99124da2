"""What is remembered of a refusal, for how long, and when it is given up."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.provider import TargetName
from dragoman.healing.learned import merge_learned_facts
from dragoman.storage.sqlite import SqliteStorage
from tests.exchange.clock import run
from tests.exchange.fakes import Script, ScriptedUpstream, Unreachable
from tests.exchange.sample_replies import data
from tests.healing.vendor import (
    Bench,
    Json,
    RefusingUpstream,
    ask,
    has,
    provider,
    write_error,
)

NO_TEMPERATURE = "Unsupported value: 'temperature' does not support 0.7 with this model."
NO_SEED = "Unsupported parameter: 'seed' is not supported with this model."
BODY: Json = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0.7, "seed": 7}
TARGET = TargetName("up", "model")
ADDRESS = "http://upstream.invalid"
#: Follows the message of a refusal at the client.
PLACE = f" ({TARGET} at {ADDRESS})"


def refuse(path: str, message: str = NO_TEMPERATURE, status: int = 400) -> RefusingUpstream:
    return RefusingUpstream("openai_chat", has(path), status, write_error(message))


def build(upstream: Any, **values: Any) -> Bench:
    return Bench({"up": upstream}, {"up": provider("up", "openai_chat", **values)})


def chat(**changes: Any) -> Any:
    return ask("openai_chat", {**BODY, **changes})


def test_the_next_request_is_right_at_once_and_shows_its_loss() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        bench = build(upstream)
        await bench.run_exchange(chat())
        result = await bench.run_exchange(chat())
        assert [("temperature" in body) for body in upstream.bodies] == [True, False, False]
        assert result.client.headers["x-dragoman-losses"].startswith("1: temperature")
        assert "seed" in upstream.bodies[-1]

    run(scenario())


def test_another_model_of_the_provider_learns_nothing() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        bench = build(upstream)
        await bench.run_exchange(chat())
        other = chat()
        other.body = other.body.replace(b'"model":"model"', b'"model":"other"')
        await bench.run_exchange(other)
        assert [("temperature" in body) for body in upstream.bodies] == [True, False, True, False]

    run(scenario())


def test_facts_add_up() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        bench = build(upstream)
        await bench.run_exchange(chat())
        upstream.refuses, upstream.body = (
            has("top_p"),
            write_error("Unsupported parameter: 'top_p' is not supported with this model."),
        )
        await bench.run_exchange(chat(top_p=0.5))
        await bench.run_exchange(chat(top_p=0.5))
        assert {"temperature", "top_p"}.isdisjoint(upstream.bodies[-1])
        assert len(upstream.calls) == 5

    run(scenario())


def test_a_learned_fact_survives_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        for expected in ([True, False], [False]):
            upstream = refuse("temperature")
            bench = Bench(
                {"up": upstream},
                {"up": provider("up", "openai_chat")},
                storage=SqliteStorage(tmp_path / "state.db"),
            )
            await bench.run_exchange(chat())
            await bench.gateway.close()
            assert [("temperature" in body) for body in upstream.bodies] == expected

    asyncio.run(scenario())


def test_every_kind_of_value_survives_a_restart(tmp_path: Path) -> None:
    facts = {
        "max_output_tokens": 8192,
        "temperature_limit": 1.5,
        "efforts": ("low", "high"),
        "refused_fields": ("a", "b.*.c"),
        "outputs": frozenset({"text"}),
        "images": False,
        "system": "leading",
    }

    async def scenario() -> None:
        first = Bench({}, {"up": provider("up", "openai_chat")}, storage=SqliteStorage(tmp_path / "state.db"))
        first.gateway.learned.remember(TARGET, ADDRESS, facts, "no", 60.0)
        await first.gateway.close()
        second = Bench(
            {}, {"up": provider("up", "openai_chat")}, storage=SqliteStorage(tmp_path / "state.db")
        )
        await second.gateway.learned.load()
        known = merge_learned_facts(second.gateway.learned.find(TARGET, ADDRESS))
        assert known == {**facts, "outputs": ("text",)}
        await second.gateway.close()

    asyncio.run(scenario())


def test_facts_that_this_version_does_not_know_are_ignored(tmp_path: Path) -> None:
    async def scenario() -> None:
        unknown = {"fish": 3, "images": "perhaps", "efforts": ("huge",), "max_output_tokens": 8192}
        for expected in (4, 1):
            bench = Bench(
                {}, {"up": provider("up", "openai_chat")}, storage=SqliteStorage(tmp_path / "state.db")
            )
            await bench.gateway.learned.load()
            if expected == 4:
                bench.gateway.learned.remember(TARGET, ADDRESS, unknown, "no", 60.0)
            assert len(bench.gateway.learned.find(TARGET, ADDRESS)) == expected
            await bench.gateway.close()

    asyncio.run(scenario())


def test_a_learned_fact_ends_and_the_request_is_tried_again() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        bench = build(upstream)
        await bench.run_exchange(chat())
        bench.now += 8 * 86400
        upstream.refuses = lambda body: False
        await bench.run_exchange(chat())
        assert upstream.bodies[-1]["temperature"] == 0.7
        assert not bench.gateway.learned.find(TARGET, ADDRESS)

    run(scenario())


def test_a_learned_fact_ends_when_its_provider_has_another_address() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        bench = build(upstream)
        await bench.run_exchange(chat())
        config = bench.gateway.config
        moved = msgspec.structs.replace(config.providers["up"], base_url="http://other.invalid")
        bench.gateway.reload(msgspec.structs.replace(config, providers={"up": moved}))
        await bench.run_exchange(chat())
        assert [("temperature" in body) for body in upstream.bodies] == [True, False, True, False]

    run(scenario())


def test_a_learned_fact_that_no_longer_helps_is_forgotten() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        bench = build(upstream)
        await bench.run_exchange(chat())
        assert bench.gateway.learned.find(TARGET, ADDRESS)
        upstream.refuses = lambda body: True
        result = await bench.run_exchange(chat())
        assert result.client.status == 400
        assert len(upstream.calls) == 3
        assert not bench.gateway.learned.find(TARGET, ADDRESS)

    run(scenario())


def test_a_server_that_always_refuses_is_asked_twice_and_nothing_is_learned() -> None:
    async def scenario() -> None:
        upstream = RefusingUpstream("openai_chat", lambda body: True, 400, write_error(NO_TEMPERATURE))
        bench = build(upstream)
        result = await bench.run_exchange(chat())
        assert len(upstream.calls) == 2
        assert result.client.status == 400
        assert NO_TEMPERATURE in result.client.body.decode()
        assert not bench.gateway.learned.find(TARGET, ADDRESS)

    run(scenario())


class ManyFaults(RefusingUpstream):
    """Refuses these fields, one at a time."""

    def __init__(self, *fields: str) -> None:
        super().__init__("openai_chat", lambda body: any(field in body for field in fields), 400, b"")
        self._fields = fields

    async def send(self, call: Any) -> Any:
        body = msgspec.json.decode(call.body)
        refused = next((field for field in self._fields if field in body), "")
        self.body = write_error(f"Unsupported parameter: '{refused}' is not supported with this model.")
        return await super().send(call)


def test_two_refused_fields_heal_one_after_the_other() -> None:
    async def scenario() -> None:
        upstream = ManyFaults("temperature", "seed")
        bench = build(upstream)
        first = await bench.run_exchange(chat())
        assert (first.client.status, len(upstream.calls)) == (200, 3)
        second = await bench.run_exchange(chat())
        assert (second.client.status, len(upstream.calls)) == (200, 4)

    run(scenario())


def test_nothing_is_learned_from_a_request_that_is_never_accepted() -> None:
    fields = ("temperature", "seed", "top_p", "user")

    async def scenario() -> None:
        upstream = ManyFaults(*fields)
        bench = build(upstream)
        result = await bench.run_exchange(chat(top_p=0.5, user="ann"))
        assert (result.client.status, len(upstream.calls)) == (400, 4)
        assert not bench.gateway.learned.find(TARGET, ADDRESS)

    run(scenario())


def test_a_server_that_refuses_both_names_of_the_output_limit_has_none() -> None:
    async def scenario() -> None:
        upstream = ManyFaults("max_tokens", "max_completion_tokens")
        bench = build(upstream)
        for calls in (3, 4, 5):
            result = await bench.run_exchange(chat(max_tokens=5))
            assert (result.client.status, len(upstream.calls)) == (200, calls)
        assert merge_learned_facts(bench.gateway.learned.find(TARGET, ADDRESS)) == {"limits_output": False}

    run(scenario())


STATED: dict[str, Json] = {"model": {"sampling": ["temperature", "seed"]}}


@pytest.mark.parametrize(
    ("values", "route"),
    [({"models": STATED}, {}), ({"heal": False}, {}), ({}, {"heal": False}), ({}, {"strict": True})],
    ids=["the configuration states the fact", "off at the provider", "off at the route", "strict"],
)
def test_nothing_is_changed_against_the_configuration(values: Json, route: Json) -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        bench = Bench({"up": upstream}, {"up": provider("up", "openai_chat", **values)}, route=route)
        result = await bench.run_exchange(chat())
        assert len(upstream.calls) == 1
        assert result.client.json()["error"]["message"] == NO_TEMPERATURE + PLACE
        assert not bench.gateway.learned.find(TARGET, ADDRESS)

    run(scenario())


def test_a_strict_route_heals_what_costs_nothing() -> None:
    async def scenario() -> None:
        upstream = refuse(
            "max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model."
        )
        bench = Bench({"up": upstream}, {"up": provider("up", "openai_chat")}, route={"strict": True})
        result = await bench.run_exchange(chat(max_tokens=100))
        assert result.client.status == 200
        assert upstream.bodies[-1]["max_completion_tokens"] == 100

    run(scenario())


def test_facts_learned_from_one_dialect_hold_for_clients_of_all() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        bench = build(upstream)
        await bench.run_exchange(chat())
        claude = {"messages": BODY["messages"], "max_tokens": 100, "temperature": 0.7, "top_k": 5}
        await bench.run_exchange(ask("anthropic", claude))
        assert len(upstream.calls) == 3
        # What another dialect leaves out anyway is still left out.
        assert {"temperature", "top_k"}.isdisjoint(upstream.bodies[-1])

    run(scenario())


def test_an_error_event_before_the_first_content_heals_too() -> None:
    class StreamError(RefusingUpstream):
        async def send(self, call: Any) -> Any:
            answer = await super().send(call)
            if answer.status == 400:
                answer.status = 200
                answer.headers = {"content-type": "text/event-stream"}
                error = {"error": {"message": NO_TEMPERATURE, "code": 400}}
                answer.script = Script(pieces=[data(error)])
            return answer

    async def scenario() -> None:
        upstream = StreamError("openai_chat", has("temperature"), 400, b"")
        result = await build(upstream).run_exchange(chat())
        assert result.client.status == 200
        assert b"good" in result.client.body
        assert NO_TEMPERATURE not in result.client.body.decode()
        assert len(upstream.calls) == 2

    run(scenario())


class Failing(RefusingUpstream):
    """Heals, then fails with these statuses before it answers."""

    def __init__(self, refuses: Callable[[Json], bool], *statuses: int) -> None:
        super().__init__("openai_chat", refuses, 400, write_error(NO_TEMPERATURE))
        self._statuses = list(statuses)

    async def send(self, call: Any) -> Any:
        answer = await super().send(call)
        if answer.status == 200 and self._statuses:
            answer.status = self._statuses.pop(0)
            answer.script = Script(status=answer.status, pieces=[write_error("busy")])
        return answer


def test_a_healed_request_is_retried_and_fails_over_as_any_other() -> None:
    async def scenario() -> None:
        first, second = Failing(has("temperature"), 500, 500, 500), refuse("temperature")
        providers = {"a": provider("a", "openai_chat", retries=2), "b": provider("b", "openai_chat")}
        result = await Bench({"a": first, "b": second}, providers).run_exchange(chat())
        assert result.client.status == 200
        # One refusal and three tries at the first target; a refusal and an answer at the second.
        assert (len(first.calls), len(second.calls)) == (4, 2)
        assert result.client.headers["x-dragoman-target"] == "b/model"

    run(scenario())


def test_a_healed_request_is_used_with_the_next_key_too() -> None:
    async def scenario() -> None:
        from dragoman.config.settings import Secret

        upstream = Failing(has("temperature"), 401)
        keys = (Secret("key-number-one"), Secret("key-number-two"))
        bench = build(upstream, keys=keys)
        result = await bench.run_exchange(chat())
        assert result.client.status == 200
        assert [("temperature" in body) for body in upstream.bodies] == [True, False, False]
        assert len({call.key for call in upstream.calls}) == 2

    run(scenario())


def test_a_refusal_that_heals_does_not_cool_the_target_down() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature", status=500)
        bench = build(upstream)
        result = await bench.run_exchange(chat())
        assert result.client.status == 200
        assert len(upstream.calls) == 2
        assert [attempt.cools for attempt in result.record.attempts] == [False, False]

    run(scenario())


def test_a_message_is_kept_short_and_without_secrets() -> None:
    from dragoman.config.settings import Secret

    async def scenario() -> None:
        secret = "correct-horse-battery"
        message = f"{NO_TEMPERATURE} {secret} sk-ant-0123456789abcdefghij " + "x " * 500
        bench = build(refuse("temperature", message), keys=(Secret(secret),))
        await bench.run_exchange(chat())
        (fact,) = bench.gateway.learned.find(TARGET, ADDRESS)
        assert fact.message.startswith(NO_TEMPERATURE)
        assert secret not in fact.message
        assert "0123456789" not in fact.message
        assert len(fact.message) <= 200

    run(scenario())


def test_a_request_that_cannot_be_read_is_left_as_it_is() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        result = await build(upstream).run_exchange(chat(stop=5))
        assert result.client.status == 400
        assert result.client.json()["error"]["message"] == NO_TEMPERATURE + PLACE

    run(scenario())


def test_a_setting_is_removed_from_a_request_whose_tools_cannot_be_read() -> None:
    async def scenario() -> None:
        upstream = refuse("temperature")
        result = await build(upstream).run_exchange(chat(tools=5))
        assert result.client.status == 200
        sent = upstream.calls[-1].body
        assert b'"tools":5' in sent
        assert b"temperature" not in sent

    run(scenario())


def test_an_unreachable_target_is_no_refusal() -> None:
    async def scenario() -> None:
        result = await build(ScriptedUpstream(Unreachable()), retries=0).run_exchange(chat())
        assert result.client.status >= 500

    run(scenario())


def test_the_loss_names_what_was_changed() -> None:
    async def scenario() -> None:
        result = await build(refuse("temperature")).run_exchange(chat())
        assert "sampling without temperature" in result.client.headers["x-dragoman-losses"]
        message = "property 'seed' is unsupported; property 'user' is unsupported"
        result = await build(refuse("user", message)).run_exchange(chat(user="ann"))
        assert "(sampling without seed, refused_fields user)" in result.client.headers["x-dragoman-losses"]

    run(scenario())
