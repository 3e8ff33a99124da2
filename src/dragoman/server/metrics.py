"""`GET /metrics`: the counters of telemetry, and values that are read at each request."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from dragoman import __version__
from dragoman.accounts.errors import InvalidKey
from dragoman.config.settings import Secret, TelemetrySettings
from dragoman.hub.errors import DragomanError, Failure
from dragoman.server.access import has_bearer
from dragoman.server.request import HttpRequest
from dragoman.server.siblings import merge_metrics
from dragoman.server.state import ServerState
from dragoman.telemetry.instruments import (
    CONTENT_TYPE,
    Labels,
    MetricInfo,
    MetricKind,
    Sample,
    write_exposition,
)

#: The counts of sessions that are states. The others count events.
SESSION_STATES = ("live", "parked")


class LiveMetric(NamedTuple):
    """A metric whose value is read at each request."""

    info: MetricInfo
    read: Callable[[ServerState], Awaitable[Iterable[Sample]]]


async def handle_metrics(request: HttpRequest, state: ServerState, admin_token: Secret | None) -> None:
    check_reader(request, state.gateway.config.telemetry, admin_token)
    text = (await write_all_metrics(state.select_workers(request))).encode()
    headers = {"content-type": CONTENT_TYPE, "cache-control": "no-store", "content-length": str(len(text))}
    await request.client.respond(200, headers, text)


def check_reader(request: HttpRequest, telemetry: TelemetrySettings, admin_token: Secret | None) -> None:
    """Raise unless the request may read metrics. They show which client key uses which model."""
    if telemetry.metrics == "off":
        message = "there are no metrics here (see telemetry.metrics)"
        raise DragomanError(message, failure=Failure(kind="not_found", status=404, message=message))
    if telemetry.metrics == "open":
        return
    keys = [key.reveal() for key in (telemetry.metrics_key, admin_token) if key]
    matches = [has_bearer(request.headers, key) for key in keys]
    if not any(matches):
        raise InvalidKey(
            "metrics need telemetry.metrics_key or the admin token, as a bearer token",
            hint='or set metrics = "open" in [telemetry]',
        )


async def write_all_metrics(state: ServerState) -> str:
    """The metrics of this worker and of the others."""
    own = await write_metrics(state)
    if state.siblings is None:
        return own
    others = await state.siblings.ask("GET", "/metrics")
    return merge_metrics([own, *(text.decode() for text in others)])


async def write_metrics(state: ServerState) -> str:
    """All metrics in Prometheus' text format."""
    counted = [(instrument.info, instrument.samples()) for instrument in state.metrics.instruments]
    live = [(metric.info, await metric.read(state)) for metric in LIVE_METRICS]
    return write_exposition([*counted, *live])


async def _read_exchanges(state: ServerState) -> list[Sample]:
    return [Sample((), len(state.exchanges))]


async def _read_streams(state: ServerState) -> list[Sample]:
    return [Sample((), sum(exchange.record.stream for exchange in state.exchanges))]


async def _read_cooling(state: ServerState) -> list[Sample]:
    now = asyncio.get_running_loop().time()
    places = Counter(
        state.metrics.find_labels(target) for target, _ in state.gateway.health.list_cooldowns(now)
    )
    return [Sample(place, count) for place, count in places.items()]


async def _read_sessions(state: ServerState) -> list[Sample]:
    return [
        Sample((name, state), upstream.count_sessions().get(state, 0))
        for name, upstream in state.list_session_upstreams()
        for state in SESSION_STATES
    ]


async def _read_session_events(state: ServerState) -> list[Sample]:
    return [
        Sample((name, event), count)
        for name, upstream in state.list_session_upstreams()
        for event, count in upstream.count_sessions().items()
        if event not in SESSION_STATES
    ]


async def _read_near_limits(state: ServerState) -> list[Sample]:
    found = await state.gateway.accounts.find_nearly_used_limits()
    return [Sample((name, use.unit, use.period), use.share) for name, use in found]


async def _read_reloads(state: ServerState) -> list[Sample]:
    return [Sample(("done",), state.reloader.count), Sample(("refused",), state.reloader.refused)]


async def _read_config(state: ServerState) -> list[Sample]:
    return [Sample((), not state.reloader.error)]


async def _read_storage(state: ServerState) -> list[Sample]:
    return [Sample((), state.gateway.storage.is_available)]


async def _read_info(state: ServerState) -> list[Sample]:
    return [Sample((__version__,), 1)]


async def _read_started(state: ServerState) -> list[Sample]:
    return [Sample((), state.started_at)]


async def _read_cpu(state: ServerState) -> list[Sample]:
    return [Sample((), time.process_time())]


async def _read_memory(state: ServerState) -> list[Sample]:
    """Only on systems with Linux' /proc."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:
        return [Sample((), int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))]
    return []


async def _read_files(state: ServerState) -> list[Sample]:
    with suppress(OSError):
        return [Sample((), len(os.listdir("/proc/self/fd")))]
    return []


def _build_metric(
    name: str,
    kind: MetricKind,
    labels: Labels,
    meaning: str,
    read: Callable[[ServerState], Awaitable[Iterable[Sample]]],
) -> LiveMetric:
    return LiveMetric(MetricInfo(name, kind, labels, meaning), read)


#: A new metric is a new row here and in docs/metrics.md.
LIVE_METRICS: tuple[LiveMetric, ...] = (
    _build_metric("dragoman_open_exchanges", "gauge", (), "Exchanges that are under way.", _read_exchanges),
    _build_metric(
        "dragoman_open_streams", "gauge", (), "Streamed replies that are under way.", _read_streams
    ),
    _build_metric(
        "dragoman_cooling",
        "gauge",
        ("provider", "model"),
        "Targets, counted once for each key, that cool down at the moment.",
        _read_cooling,
    ),
    _build_metric(
        "dragoman_sessions",
        "gauge",
        ("provider", "state"),
        "Sessions of Claude Code that are live; parked are those of them that wait for a tool's result.",
        _read_sessions,
    ),
    _build_metric(
        "dragoman_session_events_total",
        "counter",
        ("provider", "event"),
        "What has happened to sessions of Claude Code: spawned, replayed, evicted, timed_out and more.",
        _read_session_events,
    ),
    _build_metric(
        "dragoman_key_limit_used_ratio",
        "gauge",
        ("key", "of", "period"),
        "How much of a client key's limit is used; shown from 0.8 on. `of` is requests, tokens or cost.",
        _read_near_limits,
    ),
    _build_metric(
        "dragoman_reloads_total", "counter", ("outcome",), "Reloads: done or refused.", _read_reloads
    ),
    _build_metric(
        "dragoman_config_ok",
        "gauge",
        (),
        "0 if the configuration file was refused when last read.",
        _read_config,
    ),
    _build_metric(
        "dragoman_state_ok",
        "gauge",
        (),
        "0 while the database of the state does not answer.",
        _read_storage,
    ),
    _build_metric("dragoman_info", "gauge", ("version",), "Always 1; its label is the version.", _read_info),
    _build_metric(
        "process_start_time_seconds",
        "gauge",
        (),
        "When the gateway began, in seconds since 1970.",
        _read_started,
    ),
    _build_metric("process_cpu_seconds_total", "counter", (), "Processor time used.", _read_cpu),
    _build_metric("process_resident_memory_bytes", "gauge", (), "Memory in use.", _read_memory),
    _build_metric("process_open_fds", "gauge", (), "Open files and sockets.", _read_files),
)
