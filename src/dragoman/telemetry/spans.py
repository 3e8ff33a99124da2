"""Traces by OpenTelemetry's conventions for generative AI, made of an exchange's record when it has ended.

An exchange is one span, under the client's own if it names one; below it is one span for every target that
was tried, with all its retries. Words of a conversation are in none of them.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from dragoman import __version__
from dragoman.config.model import Config, TargetName
from dragoman.exchange.record import Record, printable
from dragoman.hub.errors import ConfigError, Failure
from dragoman.hub.events import ReplyFinished

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

Attribute = str | bool | int | float | list[str]
Attributes = dict[str, Attribute | None]

#: Where collectors take traces, below the address that people know.
PATH = "/v1/traces"
NANO = 1_000_000_000
#: Seconds to send what is left at the end.
LAST_WORDS = 2.0
MAX_MESSAGE = 300

#: What the conventions call a vendor, by the name that its preset has here.
VENDORS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "gemini": "gcp.gemini",
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
#: And by the dialect, for providers of other names.
FLAVOURS = {
    "anthropic": "anthropic",
    "claude_code": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gcp.gemini",
    "embedded": "dragoman",
}
OPERATIONS = {"gemini": "generate_content"}


class Stretch(NamedTuple):
    """The time for which one target was tried, in seconds since the exchange began."""

    target: TargetName
    began: float
    ended: float
    failure: Failure | None
    tries: int


class Spans:
    """Makes spans of records. `config` tells what is known about providers; `give_up` ends the sending."""

    def __init__(
        self,
        provider: "TracerProvider",
        config: Callable[[], Config],
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._give_up = give_up
        self._config = config
        self._tracer = provider.get_tracer("dragoman", __version__)
        self._extract = TraceContextTextMapPropagator().extract
        self._trace = trace

    def finished(self, record: Record) -> None:
        """Tell of an exchange that is over."""
        lasted = round(record.seconds * NANO)
        began = time.time_ns() - lasted
        span = self._tracer.start_span(
            f"dragoman {record.dialect}",
            context=self._parent(record),
            kind=self._trace.SpanKind.SERVER,
            attributes=_present(_of_exchange(record)),
            start_time=began,
        )
        if span.is_recording():
            below = self._trace.set_span_in_context(span)
            for stretch in stretches(record):
                self._tell_stretch(record, stretch, below, began)
            self._tell_failure(span, record.failure)
        span.end(began + lasted)

    def close(self) -> None:
        """Send what is left; a collector that cannot be reached is not waited for."""
        sending = threading.Thread(target=self._provider.force_flush, daemon=True)
        sending.start()
        sending.join(LAST_WORDS)
        # Ends also the exporter's own tries, which would go on for longer.
        self._give_up()
        self._provider.shutdown()

    def _parent(self, record: Record) -> "Context | None":
        if not record.traceparent:
            return None
        return self._extract({"traceparent": record.traceparent, "tracestate": record.tracestate})

    def _tell_stretch(self, record: Record, stretch: Stretch, below: "Context", began: int) -> None:
        provider = self._config().providers.get(stretch.target.provider)
        dialect = provider.dialect if provider else ""
        operation, model = OPERATIONS.get(dialect, "chat"), printable(stretch.target.model)
        address = urlsplit(provider.base_url) if provider else urlsplit("")
        attributes: Attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": VENDORS.get(stretch.target.provider, FLAVOURS.get(dialect, "_OTHER")),
            "gen_ai.request.model": model,
            "gen_ai.request.stream": record.stream,
            "server.address": address.hostname,
            "server.port": address.port,
            "dragoman.provider": stretch.target.provider,
            "dragoman.tries": stretch.tries,
        }
        if stretch.target == record.target:
            attributes |= _of_reply(record)
        kinds = self._trace.SpanKind
        span = self._tracer.start_span(
            f"{operation} {model}",
            context=below,
            kind=kinds.INTERNAL if dialect == "embedded" else kinds.CLIENT,
            attributes=_present(attributes),
            start_time=began + round(stretch.began * NANO),
        )
        self._tell_failure(span, stretch.failure)
        span.end(began + round(stretch.ended * NANO))

    def _tell_failure(self, span: "Span", failure: Failure | None) -> None:
        if failure is not None:
            span.set_attribute("error.type", failure.kind)
            span.set_status(self._trace.StatusCode.ERROR, failure.message[:MAX_MESSAGE])


def stretches(record: Record) -> Iterator[Stretch]:
    """The targets in the order in which they were tried; several tries of one, with any key, are one."""
    last: Stretch | None = None
    for tried in record.attempts:
        if last is not None and last.target == tried.target:
            last = last._replace(ended=tried.ended, failure=tried.failure, tries=last.tries + 1)
            continue
        if last is not None:
            yield last
        last = Stretch(tried.target, tried.began, tried.ended, tried.failure, 1)
    if record.target is not None and len(record.attempts) < record.tries:
        # The exchange was called off in the middle of a try.
        if last is None or last.target != record.target:
            if last is not None:
                yield last
            last = Stretch(record.target, last.ended if last else 0.0, record.seconds, None, 0)
        last = last._replace(ended=record.seconds, failure=record.failure, tries=last.tries + 1)
    if last is not None:
        yield last


def _of_exchange(record: Record) -> Attributes:
    return {
        "dragoman.request_id": record.request_id,
        "dragoman.client": record.dialect,
        "dragoman.model": printable(record.model),
        "dragoman.route": record.route,
        "dragoman.target": printable(str(record.target)) if record.target else None,
        "dragoman.lane": record.lane,
        "dragoman.ending": record.ending,
        "dragoman.retries": record.retries,
        "dragoman.losses": len(record.losses) + len(record.reply_losses),
        "dragoman.interventions": len(record.interventions) or None,
        "dragoman.key": record.caller.name,
        "dragoman.cost_dollars": None if record.cost is None else record.cost / 1e6,
        "http.response.status_code": record.status or None,
        "user_agent.original": printable(record.agent),
    }


def _of_reply(record: Record) -> Attributes:
    """What the target that answered said about its answer."""
    tally = record.tally
    if tally is None:
        return {}
    attributes: Attributes = {}
    if tally.started is not None:
        attributes["gen_ai.response.id"] = printable(tally.started.id)
        attributes["gen_ai.response.model"] = printable(tally.started.model)
    if isinstance(tally.ending, ReplyFinished):
        attributes["gen_ai.response.finish_reasons"] = [
            printable(tally.ending.raw_cause or tally.ending.cause)
        ]
    if record.stream and record.first_token:
        attributes["gen_ai.response.time_to_first_chunk"] = record.first_token
    if (usage := tally.usage) is not None:
        attributes |= {
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
        }
    return attributes


def _present(attributes: Attributes) -> Mapping[str, Attribute]:
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def spans_to(address: str, config: Callable[[], Config]) -> Spans:
    """Spans that are sent to the collector at this address, in the background."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigError(
            "telemetry.traces needs packages that are not installed",
            hint="pip install 'dragoman[otel]', or leave telemetry.traces out",
        ) from None
    about = Resource({SERVICE_NAME: "dragoman", SERVICE_VERSION: __version__})
    provider = TracerProvider(resource=about.merge(OTELResourceDetector().detect()))
    endpoint = address if address.endswith(PATH) else address.rstrip("/") + PATH
    exporter = OTLPSpanExporter(endpoint=endpoint)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Spans(provider, config, exporter.shutdown)
