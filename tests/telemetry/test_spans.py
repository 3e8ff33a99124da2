"""Traces: the attributes and parents of spans, and their way to a collector."""

import asyncio
import socket
import sys
import threading
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import export
from opentelemetry.sdk.trace.export import in_memory_span_exporter as memory
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai

from dragoman.accounts.keys import Caller
from dragoman.config.config import Config
from dragoman.config.provider import TargetName
from dragoman.hub.errors import ConfigError, Failure
from dragoman.routing.health import TargetKey
from dragoman.telemetry.spans import ExchangeTracer, build_tracer
from tests.exchange.clock import run
from tests.exchange.fakes import Ask, Bench, RememberingClient, Script, ScriptedUpstream, Wait, ask, provider
from tests.exchange.sample_replies import CHAT_STREAM, DIALECTS, error
from tests.telemetry.collector import collecting

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SECRET = "sk-very-secret-key-1234"


class Traced:
    """A bench whose exchanges are traced into memory."""

    def __init__(self, bench: Bench) -> None:
        self._exporter = memory.InMemorySpanExporter()
        self.bench = bench
        provider = sdk.TracerProvider()
        provider.add_span_processor(export.SimpleSpanProcessor(self._exporter))
        self.spans = ExchangeTracer(provider, lambda: bench.gateway.config)
        bench.gateway.observers.append(self.spans.trace_exchange)

    @property
    def finished(self) -> list[Any]:
        """The spans, the outermost first."""
        spans = list(self._exporter.get_finished_spans())
        return sorted(
            spans, key=lambda span: span.parent is not None and span.parent.span_id != int(PARENT, 16)
        )


def traced(bench: Bench, *asks: Ask) -> list[Any]:
    tracing = Traced(bench)
    for each in asks:
        run(bench.run_exchange(each))
    return tracing.finished


def up(*scripts: Script) -> ScriptedUpstream:
    return ScriptedUpstream(*scripts, Script(pieces=[Wait(2), *CHAT_STREAM]))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_exchange_is_a_span_with_one_below_it_for_the_model(dialect: str) -> None:
    asked = ask(dialect, headers={"user-agent": "agent/1"})
    asked.caller = Caller(id="config-1", name="ci")
    outer, inner = traced(Bench({"up": up()}, model="large"), asked)
    assert outer.name == f"dragoman {dialect}"
    assert outer.kind.name == "SERVER"
    assert outer.parent is None
    assert outer.attributes["dragoman.ending"] == "finished"
    assert outer.attributes["dragoman.target"] == "up/large"
    assert outer.attributes["dragoman.key"] == "ci"
    assert outer.attributes["user_agent.original"] == "agent/1"
    assert outer.attributes["http.response.status_code"] == 200
    assert inner.name == "chat large"
    assert inner.kind.name == "CLIENT"
    assert inner.parent.span_id == outer.context.span_id
    assert inner.context.trace_id == outer.context.trace_id
    assert outer.end_time - outer.start_time == 2_000_000_000
    assert outer.start_time <= inner.start_time <= inner.end_time <= outer.end_time


def test_the_span_of_a_model_follows_the_conventions_for_generative_ai() -> None:
    local = msgspec.structs.replace(provider("up"), base_url="http://models.invalid:8000/v1")
    _, inner = traced(Bench({"up": up()}, [local], model="large"), ask("anthropic"))
    assert dict(inner.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "large",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "chatcmpl-upstream1",
        "gen_ai.response.model": "model",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 2.0,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "server.address": "models.invalid",
        "server.port": 8000,
        "dragoman.provider": "up",
        "dragoman.tries": 1,
    }
    known = {value for name, value in vars(gen_ai).items() if name.startswith("GEN_AI_")}
    assert {name for name in inner.attributes if name.startswith("gen_ai.")} <= known


@pytest.mark.parametrize(
    ("name", "dialect", "vendor", "operation"),
    [
        ("anthropic", "anthropic", "anthropic", "chat"),
        ("mine", "anthropic", "anthropic", "chat"),
        ("deepseek", "openai_chat", "deepseek", "chat"),
        ("xai", "openai_chat", "x_ai", "chat"),
        ("mine", "gemini", "gcp.gemini", "generate_content"),
    ],
)
def test_a_provider_has_the_name_that_the_conventions_give_it(
    name: str, dialect: str, vendor: str, operation: str
) -> None:
    failing = ScriptedUpstream(Script(status=400, pieces=[error("no")]))
    _, inner = traced(Bench({name: failing}, [provider(name, dialect)]), ask("openai_chat"))
    assert inner.attributes["gen_ai.provider.name"] == vendor
    assert inner.attributes["gen_ai.operation.name"] == operation


@pytest.mark.parametrize("flags", ["01", "00"])
def test_the_trace_of_the_client_is_continued_as_it_wishes(flags: str) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-{flags}", "tracestate": "vendor=1"}
    spans = traced(Bench({"up": up()}), ask("openai_chat", headers=headers))
    if flags == "00":
        assert spans == []
        return
    outer, inner = spans
    assert outer.context.trace_id == inner.context.trace_id == int(TRACE, 16)
    assert outer.parent.span_id == int(PARENT, 16)
    assert outer.context.trace_state.get("vendor") == "1"


@pytest.mark.parametrize("traceparent", ["nonsense", "00-0-0-01", f"00-{'0' * 32}-{PARENT}-01", "x" * 5000])
def test_a_trace_that_is_none_is_passed_over(traceparent: str) -> None:
    outer, _ = traced(Bench({"up": up()}), ask("openai_chat", headers={"traceparent": traceparent}))
    assert outer.parent is None


def test_every_target_that_was_tried_has_a_span_with_its_retries() -> None:
    down = ScriptedUpstream(Script(status=503, pieces=[error(f"busy, your key is {SECRET}")]))
    bench = Bench({"down": down, "up": up()}, [provider("down", retries=1, keys=[SECRET])], model="m")
    # The other target cools down, so the first one is tried twice.
    busy = Failure(kind="overloaded", message="busy")
    bench.gateway.health.record_failure(TargetKey(TargetName("up", "m"), 0), busy, 0.0)
    outer, *inner = traced(bench, ask("openai_chat"))
    by_provider = {span.attributes["dragoman.provider"]: span for span in inner}
    failed, worked = by_provider["down"], by_provider["up"]
    assert (failed.attributes["dragoman.tries"], worked.attributes["dragoman.tries"]) == (2, 1)
    assert failed.attributes["error.type"] == "overloaded"
    assert failed.status.status_code.name == "ERROR"
    assert worked.status.is_unset
    assert outer.status.is_unset
    assert failed.end_time <= worked.start_time
    assert "gen_ai.response.id" not in failed.attributes
    assert SECRET not in str([span.to_json() for span in (outer, *inner)])


def test_a_failed_exchange_has_an_error_type() -> None:
    refusing = ScriptedUpstream(Script(status=400, pieces=[error("too long")]))
    outer, inner = traced(Bench({"up": refusing}), ask("openai_chat"))
    for span in (outer, inner):
        assert span.attributes["error.type"] == "invalid_request"
        assert span.status.description.startswith("too long")
    assert outer.attributes["http.response.status_code"] == 400


def test_a_request_without_a_target_is_one_span() -> None:
    asked = ask("openai_chat")
    asked.body = b"{"
    (outer,) = traced(Bench({"up": up()}), asked)
    assert outer.attributes["error.type"] == "invalid_request"
    assert "dragoman.target" not in outer.attributes


def test_an_exchange_that_was_called_off_still_shows_whom_it_waited_for() -> None:
    async def scenario() -> list[Any]:
        tracing = Traced(Bench({"up": ScriptedUpstream(Script(pieces=[Wait(9), *CHAT_STREAM]))}, model="m"))
        exchange = tracing.bench.exchange(ask("anthropic"), RememberingClient())
        asyncio.get_running_loop().call_later(1, exchange.abandon)
        await exchange.run()
        return tracing.finished

    outer, inner = run(scenario())
    assert outer.attributes["dragoman.ending"] == "cancelled"
    assert inner.name == "chat m"
    assert inner.end_time - inner.start_time == 1_000_000_000


def test_no_span_holds_the_words_of_a_conversation() -> None:
    outer, inner = traced(Bench({"up": up()}), ask("anthropic"))
    spans = outer.to_json() + inner.to_json()
    assert "good" not in spans
    assert "hello" not in spans


@pytest.mark.parametrize("suffix", ["", "/", "/v1/traces"])
def test_spans_reach_a_collector(suffix: str) -> None:
    module = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
    messages = pytest.importorskip(module, reason="the extra for traces is optional")
    with collecting() as (address, got):
        bench = Bench({"up": up()})
        spans = build_tracer(address + suffix, lambda: bench.gateway.config)
        bench.gateway.observers.append(spans.trace_exchange)
        run(bench.run_exchange(ask("openai_chat")))
        spans.close()
    ((path, body),) = got
    assert path == "/v1/traces"
    request = messages.ExportTraceServiceRequest.FromString(body)
    (resource,) = request.resource_spans
    about = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert about["service.name"] == "dragoman"
    assert {span.name for span in resource.scope_spans[0].spans} == {"dragoman openai_chat", "chat model"}


@pytest.mark.rule("M23")
def test_without_the_packages_the_error_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError) as caught:
        build_tracer("http://127.0.0.1:4318", Config)
    assert "pip install opentelemetry-sdk" in caught.value.hint
    assert "pipx inject dragoman opentelemetry-sdk" in caught.value.hint


def test_a_collector_that_cannot_be_reached_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.telemetry.spans.CLOSE_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bench = Bench({"up": up()})
        spans = build_tracer(f"http://127.0.0.1:{silent.getsockname()[1]}", lambda: bench.gateway.config)
        bench.gateway.observers.append(spans.trace_exchange)
        run(bench.run_exchange(ask("openai_chat")))
        ending = threading.Thread(target=spans.close)
        ending.start()
    # The exporter gets an error when the server closes, and does not retry.
    ending.join(5)
    assert not ending.is_alive()
