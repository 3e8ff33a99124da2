"""The counters of exchanges and their labels."""

import asyncio

import msgspec
import pytest

from dragoman.accounts.keys import Caller
from dragoman.config.config import Config, Route
from dragoman.config.provider import Provider, TargetName
from dragoman.governance.interventions import Intervention
from dragoman.hub.errors import Failure
from dragoman.hub.usage import Usage
from dragoman.telemetry.instruments import write_exposition
from dragoman.telemetry.metrics import TOKEN_CLASSES, Metrics, count_classes
from tests.exchange.clock import run
from tests.exchange.fakes import (
    Ask,
    Bench,
    Break,
    RememberingClient,
    Script,
    ScriptedUpstream,
    Wait,
    ask,
    provider,
    record_of,
)
from tests.exchange.governing import events_of, governed, question, script
from tests.exchange.sample_replies import CHAT_START, CHAT_STREAM, chat_text, data, error
from tests.telemetry.scrape import Scrape


def counted(metrics: Metrics) -> Scrape:
    return Scrape(write_exposition((each.info, each.samples()) for each in metrics.instruments))


def after(bench: Bench, *asks: Ask) -> Scrape:
    """The counters after these questions."""
    metrics = Metrics(lambda: bench.gateway.config)
    bench.gateway.observers.append(metrics.count_exchange)
    for each in asks:
        run(bench.run_exchange(each))
    return counted(metrics)


def good(*more: Script) -> ScriptedUpstream:
    return ScriptedUpstream(*more, Script(pieces=[Wait(2), *CHAT_STREAM]))


@pytest.mark.rule("R133")
def test_exchanges_are_counted_with_their_time_and_their_first_word() -> None:
    seen = after(Bench({"up": good()}, model="large"), ask("anthropic"), ask("openai_chat", stream=False))
    labels = {"route": "*", "provider": "up", "model": "large", "ending": "finished"}
    assert seen.value("dragoman_requests_total", client="anthropic", **labels) == 1
    assert seen.value("dragoman_requests_total") == 2
    assert seen.value("dragoman_request_seconds_sum", provider="up", model="large") == 4
    assert seen.value("dragoman_request_seconds_bucket", le="2.5") == 2
    assert seen.value("dragoman_first_token_seconds_count", provider="up", model="large") == 2


@pytest.mark.rule("R133")
def test_a_reply_within_one_step_of_the_clock_is_counted() -> None:
    upstream = ScriptedUpstream(Script(pieces=list(CHAT_STREAM)))
    seen = after(Bench({"up": upstream}, model="large"), ask("anthropic"), ask("openai_chat", stream=False))
    assert seen.value("dragoman_first_token_seconds_count", provider="up", model="large") == 2


@pytest.mark.rule("R133", "P52")
def test_tokens_are_counted_by_class_and_none_twice() -> None:
    usage = Usage(input=100, cache_read=60, cache_write=10, output=50, reasoning=20, tool_input=5)
    assert dict(zip(TOKEN_CLASSES, count_classes(usage), strict=True)) == {
        "input": 35,
        "cache_read": 60,
        "cache_write": 10,
        "output": 30,
        "reasoning": 20,
    }
    assert count_classes(Usage(input=None, cache_read=7)) == (0, 7, 0, 0, 0)
    seen = after(Bench({"up": good()}), ask("anthropic"))
    assert seen.value("dragoman_tokens_total", **{"class": "input"}) == 12
    assert seen.value("dragoman_tokens_total", **{"class": "output"}) == 3


@pytest.mark.rule("R133")
def test_failures_are_counted_for_the_client_and_for_each_target() -> None:
    down = ScriptedUpstream(Script(status=503, pieces=[error("busy")]))
    bench = Bench({"down": down, "up": good()}, [provider("down", retries=0)], model="m")
    seen = after(bench, ask("openai_chat"))
    assert seen.value("dragoman_errors_total") == 0
    assert seen.value("dragoman_attempts_total", provider="down", model="m", outcome="overloaded") == 1
    assert seen.value("dragoman_attempts_total", provider="up", outcome="ok") == 1
    assert seen.value("dragoman_retries_total", provider="up") == 1
    assert seen.value("dragoman_retries_total", provider="down") == 0
    assert seen.value("dragoman_cooldowns_total", provider="down", reason="overloaded") == 1
    alone = after(Bench({"down": down}, [provider("down", retries=2)], model="m"), ask("gemini"))
    assert alone.value("dragoman_retries_total", provider="down") == 2
    assert alone.value("dragoman_attempts_total", outcome="overloaded") == 3
    labels = {"client": "gemini", "provider": "down", "model": "m", "kind": "overloaded"}
    assert alone.value("dragoman_errors_total", **labels) == 1


def test_a_stream_that_breaks_off_is_an_error_and_truncated() -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_START, chat_text("good"), Break()]))
    seen = after(Bench({"up": upstream}), ask("anthropic"))
    assert seen.value("dragoman_requests_total", ending="truncated") == 1
    assert seen.value("dragoman_errors_total", kind="overloaded") == 1
    assert seen.value("dragoman_attempts_total", outcome="overloaded") == 1


def test_a_client_that_leaves_is_no_error() -> None:
    async def scenario() -> Scrape:
        bench = Bench({"up": ScriptedUpstream(Script(pieces=[Wait(9), *CHAT_STREAM]))})
        metrics = Metrics(lambda: bench.gateway.config)
        bench.gateway.observers.append(metrics.count_exchange)
        exchange = bench.exchange(ask("anthropic"), RememberingClient())
        asyncio.get_running_loop().call_later(1, exchange.abandon)
        await exchange.run()
        return counted(metrics)

    seen = run(scenario())
    assert seen.value("dragoman_requests_total", ending="cancelled") == 1
    assert seen.value("dragoman_errors_total") == 0


def test_losses_are_counted_on_both_sides() -> None:
    pieces = [CHAT_START, chat_text("good"), b"data: this is no JSON\n\n", *CHAT_STREAM[3:]]
    bench = Bench({"up": ScriptedUpstream(Script(pieces=pieces))})
    seen = after(bench, ask("anthropic", body={"top_k": 5}))
    assert seen.value("dragoman_losses_total", client="anthropic", side="request") == 1
    assert seen.value("dragoman_losses_total", client="anthropic", side="reply") == 1


@pytest.mark.rule("R133")
def test_tool_calls_and_what_was_done_to_them_are_counted_by_model() -> None:
    broken = script("openai_chat", events_of(("Read", "{'path': 'a',}"), cause="tool_calls"))
    bench = Bench(
        {"up": ScriptedUpstream(broken)}, [governed("up", "openai_chat", {"tools": "hold"})], model="m"
    )
    seen = after(bench, question("anthropic"))
    assert seen.value("dragoman_tool_calls_total", provider="up", model="m") == 1
    assert seen.value("dragoman_tool_interventions_total", provider="up", model="m", kind="repaired") == 1


def test_the_time_for_which_calls_were_held_is_summed_up() -> None:
    config = Config(default=(TargetName("up", "m"),))
    metrics = Metrics(lambda: config)
    record = record_of(ask("anthropic"))
    report = record.interventions.reporter(TargetName("up", "m"), "openai_chat")
    report(Intervention(kind="hold", held=0.25))
    report(Intervention(kind="hold", held=0.5, ok=False))
    metrics.count_exchange(record)
    assert counted(metrics).value("dragoman_tool_held_seconds_total", provider="up", model="m") == 0.75


def test_what_keys_use_is_counted_under_their_names() -> None:
    asked = ask("anthropic")
    asked.caller = Caller(id="config-1", name="ci")
    seen = after(Bench({"up": good()}), asked, ask("anthropic"))
    assert seen.value("dragoman_key_requests_total", key="ci", ending="finished") == 1
    assert seen.value("dragoman_key_requests_total") == 1
    assert seen.value("dragoman_key_tokens_total", key="ci") == 15


def test_costs_are_counted_in_dollars_for_targets_and_keys() -> None:
    config = Config(default=(TargetName("up", "m"),))
    metrics = Metrics(lambda: config)
    asked = ask("anthropic")
    asked.caller = Caller(id="config-1", name="ci")
    record = record_of(asked)
    record.target = TargetName("up", "m")
    record.cost = 1_500_000
    metrics.count_exchange(record)
    seen = counted(metrics)
    assert seen.value("dragoman_cost_dollars_total", provider="up", model="m") == pytest.approx(1.5)
    assert seen.value("dragoman_key_cost_dollars_total", key="ci") == pytest.approx(1.5)


def test_requests_that_never_became_exchanges_are_counted_by_kind() -> None:
    metrics = Metrics(Config)
    metrics.count_refusal(Failure(kind="authentication", message="no"))
    assert counted(metrics).value("dragoman_refusals_total", kind="authentication") == 1


def test_model_names_that_clients_make_up_become_no_labels() -> None:
    bench = Bench({"up": good()})
    seen = after(bench, *(ask("anthropic", model=f"made up {number}") for number in range(20)))
    assert seen.value("dragoman_requests_total", provider="up", model="*") == 20
    assert len(seen.of("dragoman_requests_total")) == 1
    assert "made up" not in str(seen.samples)


def test_a_model_is_a_label_if_the_configuration_names_it() -> None:
    named = msgspec.structs.replace(provider("up"), models={"stated": {}, "patt*": {}})
    config = Config(
        providers={"up": named, "other": Provider(name="other", dialect="embedded")},
        routes=(Route(match="a", targets=(TargetName("up", "routed"), TargetName("other", "*"))),),
        default=(TargetName("up", "usual"),),
    )
    metrics = Metrics(lambda: config)

    def shown(provider: str, model: str) -> str:
        return metrics.find_labels(TargetName(provider, model))[1]

    assert [shown("up", name) for name in ("stated", "routed", "usual")] == ["stated", "routed", "usual"]
    assert [shown("up", "pattern"), shown("up", "*"), shown("other", "stated")] == ["*", "*", "*"]
    assert metrics.find_labels(None) == ("", "")


def test_a_request_that_no_route_takes_is_counted_without_a_target() -> None:
    metrics = Metrics(Config)
    record = record_of(ask("anthropic", model="unknown"))
    record.refused = Failure(kind="not_found", message="no such model")
    metrics.count_exchange(record)
    seen = counted(metrics)
    assert seen.value("dragoman_requests_total", provider="", model="", route="", ending="failed") == 1
    assert seen.value("dragoman_errors_total", provider="", kind="not_found") == 1


def test_a_failure_within_a_stream_counts_for_its_target() -> None:
    pieces = [CHAT_START, chat_text("good"), data({"error": {"message": "overloaded", "code": 503}})]
    seen = after(Bench({"up": ScriptedUpstream(Script(pieces=pieces))}), ask("openai_chat"))
    assert seen.value("dragoman_attempts_total", outcome="ok") == 0
    assert seen.value("dragoman_attempts_total") == 1
