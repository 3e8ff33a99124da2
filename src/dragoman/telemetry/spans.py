"""OpenTelemetry traces by its conventions for generative AI, built from the record of an exchange.

An exchange is one span, below the client's span if the client sends `traceparent`. Below it there is one
span for each target that was tried, including its retries. No span holds text of a conversation.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from dragoman import __version__
from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import ConfigError, Failure
from dragoman.providers.presets import load_presets
from dragoman.telemetry.log import make_printable

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

    from dragoman.exchange.record import ExchangeRecord

Attribute = str | bool | int | float | list[str]
Attributes = dict[str, Attribute | None]

#: The packages of the extra `otel`.
PACKAGES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
#: The path of a collector below its address.
PATH = "/v1/traces"
NANO = 1_000_000_000
#: Seconds for sending the remaining spans at the end.
CLOSE_TIMEOUT = 2.0
MAX_MESSAGE = 300


class DialectNames(NamedTuple):
    """The names that the conventions define for the API of a provider."""

    provider: str
    operation: str = "chat"
    #: The model runs in this process, so the span has no remote side.
    is_internal: bool = False


UNKNOWN = DialectNames("_OTHER")


def _find_names(provider: Provider) -> DialectNames:
    """The OpenTelemetry provider and operation names of a provider."""
    http_api, program = dialect_named(provider.wire_dialect).http_api, provider.program
    return DialectNames(
        (program and program.telemetry_provider) or http_api.telemetry_provider,
        http_api.telemetry_operation,
        is_internal=program is not None and program.is_internal,
    )


def _find_preset_name(provider: str) -> str:
    """The name that the conventions define for a provider with the name of a preset; empty if none."""
    preset = load_presets().get(provider)
    return preset.telemetry_provider if preset else ""


class TargetSpan(NamedTuple):
    """The time in which one target was tried, in seconds since the start of the exchange."""

    target: TargetName
    start: float
    end: float
    failure: Failure | None
    tries: int


class ExchangeTracer:
    """Sends spans. `config` returns the current configuration; `stop_export` ends a running export."""

    def __init__(
        self,
        provider: "TracerProvider",
        config: Callable[[], Config],
        stop_export: Callable[[], None] = lambda: None,
    ) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._stop_export = stop_export
        self._config = config
        self._tracer = provider.get_tracer("dragoman", __version__)
        self._extract = TraceContextTextMapPropagator().extract
        self._trace = trace

    def trace_exchange(self, record: "ExchangeRecord") -> None:
        """Build the spans of an exchange that has ended. They are sent in the background."""
        duration = round(record.seconds * NANO)
        start = time.time_ns() - duration
        span = self._tracer.start_span(
            f"dragoman {record.dialect}",
            context=self._find_parent(record),
            kind=self._trace.SpanKind.SERVER,
            attributes=_drop_empty(_build_exchange_attributes(record)),
            start_time=start,
        )
        if span.is_recording():
            context = self._trace.set_span_in_context(span)
            for target_span in list_target_spans(record):
                self._trace_target(record, target_span, context, start)
            self._set_failure(span, record.failure)
        span.end(start + duration)

    def close(self) -> None:
        """Send the remaining spans. Waits at most `CLOSE_TIMEOUT` for the collector."""
        sending = threading.Thread(target=self._provider.force_flush, daemon=True)
        sending.start()
        sending.join(CLOSE_TIMEOUT)
        # Also ends the retries of the exporter, which would take longer.
        self._stop_export()
        self._provider.shutdown()

    def _find_parent(self, record: "ExchangeRecord") -> "Context | None":
        if not record.traceparent:
            return None
        return self._extract({"traceparent": record.traceparent, "tracestate": record.tracestate})

    def _trace_target(
        self, record: "ExchangeRecord", target_span: TargetSpan, context: "Context", start: int
    ) -> None:
        target = target_span.target
        provider = self._config().providers.get(target.provider)
        names = _find_names(provider) if provider else UNKNOWN
        model = make_printable(target.model)
        address = urlsplit(provider.base_url if provider else "")
        attributes: Attributes = {
            "gen_ai.operation.name": names.operation,
            "gen_ai.provider.name": _find_preset_name(target.provider) or names.provider,
            "gen_ai.request.model": model,
            "gen_ai.request.stream": record.stream,
            "server.address": address.hostname,
            "server.port": address.port,
            "dragoman.provider": target.provider,
            "dragoman.tries": target_span.tries,
        }
        if target == record.target:
            attributes |= _build_reply_attributes(record)
        kinds = self._trace.SpanKind
        span = self._tracer.start_span(
            f"{names.operation} {model}",
            context=context,
            kind=kinds.INTERNAL if names.is_internal else kinds.CLIENT,
            attributes=_drop_empty(attributes),
            start_time=start + round(target_span.start * NANO),
        )
        self._set_failure(span, target_span.failure)
        span.end(start + round(target_span.end * NANO))

    def _set_failure(self, span: "Span", failure: Failure | None) -> None:
        if failure is not None:
            span.set_attribute("error.type", failure.kind)
            span.set_status(self._trace.StatusCode.ERROR, failure.message[:MAX_MESSAGE])


def list_target_spans(record: "ExchangeRecord") -> Iterator[TargetSpan]:
    """The targets in the order of the tries. Consecutive tries of one target, with any key, are one span."""
    last: TargetSpan | None = None
    for attempt in record.attempts:
        if last is not None and last.target == attempt.target:
            last = last._replace(end=attempt.ended, failure=attempt.failure, tries=last.tries + 1)
            continue
        if last is not None:
            yield last
        last = TargetSpan(attempt.target, attempt.began, attempt.ended, attempt.failure, 1)
    if record.target is not None and len(record.attempts) < record.tries:
        # The exchange was cancelled during a try.
        if last is None or last.target != record.target:
            if last is not None:
                yield last
            last = TargetSpan(record.target, last.end if last else 0.0, record.seconds, None, 0)
        last = last._replace(end=record.seconds, failure=record.failure, tries=last.tries + 1)
    if last is not None:
        yield last


def _build_exchange_attributes(record: "ExchangeRecord") -> Attributes:
    return {
        "dragoman.request_id": record.request_id,
        "dragoman.client": record.dialect,
        "dragoman.model": make_printable(record.model),
        "dragoman.route": record.route,
        "dragoman.target": make_printable(str(record.target)) if record.target else None,
        "dragoman.lane": record.lane,
        "dragoman.ending": record.ending,
        "dragoman.retries": record.retries,
        "dragoman.losses": len(record.losses) + len(record.reply_losses),
        "dragoman.interventions": len(record.interventions) or None,
        "dragoman.key": record.caller.name,
        "dragoman.cost_dollars": None if record.cost is None else record.cost / 1e6,
        "http.response.status_code": record.status or None,
        "user_agent.original": make_printable(record.agent),
    }


def _build_reply_attributes(record: "ExchangeRecord") -> Attributes:
    """What the target reported about its reply."""
    tally = record.tally
    if tally is None:
        return {}
    attributes: Attributes = {}
    if tally.started is not None:
        attributes["gen_ai.response.id"] = make_printable(record.redact(tally.started.id))
        attributes["gen_ai.response.model"] = make_printable(record.redact(tally.started.model))
    if record.cause:
        attributes["gen_ai.response.finish_reasons"] = [make_printable(record.cause)]
    if record.stream and record.first_token_seconds:
        attributes["gen_ai.response.time_to_first_chunk"] = record.first_token_seconds
    if (usage := tally.usage) is not None:
        attributes |= {
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
        }
    return attributes


def _drop_empty(attributes: Attributes) -> Mapping[str, Attribute]:
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def build_tracer(address: str, config: Callable[[], Config]) -> ExchangeTracer:
    """A tracer that sends to the collector at this address. Raises if the extra `otel` is missing."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigError(
            "telemetry.traces needs packages that are not installed",
            hint=f"pip install {PACKAGES}, or pipx inject dragoman {PACKAGES}",
        ) from None
    service = Resource({SERVICE_NAME: "dragoman", SERVICE_VERSION: __version__})
    provider = TracerProvider(resource=service.merge(OTELResourceDetector().detect()))
    endpoint = address if address.endswith(PATH) else address.rstrip("/") + PATH
    exporter = OTLPSpanExporter(endpoint=endpoint)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return ExchangeTracer(provider, config, exporter.shutdown)
