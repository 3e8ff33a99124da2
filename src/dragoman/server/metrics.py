"""`GET /metrics`: the counters of telemetry, and what is looked up at the moment somebody asks."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from dragoman import __version__
from dragoman.accounts.errors import InvalidKey
from dragoman.hub.errors import DragomanError, Failure
from dragoman.server.admin import shows
from dragoman.server.admin_sessions import keepers
from dragoman.telemetry.instruments import (
    CONTENT_TYPE,
    Labels,
    MetricInfo,
    MetricKind,
    Sample,
    write_exposition,
)

if TYPE_CHECKING:
    from dragoman.server.app import App, Arrival

#: What a session is, not what has happened to it.
SESSION_STATES = ("live", "parked")


class Look(NamedTuple):
    """Something that is looked up when it is asked for."""

    info: MetricInfo
    read: Callable[["App"], Awaitable[Iterable[Sample]]]


async def answer(app: "App", arrival: "Arrival") -> None:
    check_reader(app, arrival)
    text = (await page(app)).encode()
    headers = {"content-type": CONTENT_TYPE, "cache-control": "no-store", "content-length": str(len(text))}
    await arrival.client.respond(200, headers, text)


def check_reader(app: "App", arrival: "Arrival") -> None:
    """Metrics tell who works with which model, so they are not for everybody who reaches the port."""
    telemetry = app.gateway.config.telemetry
    if telemetry.metrics == "off":
        message = "there are no metrics here (see telemetry.metrics)"
        raise DragomanError(message, failure=Failure(kind="not_found", status=404, message=message))
    if telemetry.metrics == "open":
        return
    keys = [key.reveal() for key in (telemetry.metrics_key, app.admin_token) if key]
    matches = [shows(arrival.headers, key) for key in keys]
    if not any(matches):
        raise InvalidKey(
            "metrics need telemetry.metrics_key or the admin token, as a bearer token",
            hint='or say metrics = "open" in [telemetry]',
        )


async def page(app: "App") -> str:
    counted = [(instrument.info, instrument.samples()) for instrument in app.metrics.instruments]
    looked_up = [(look.info, await look.read(app)) for look in LOOKS]
    return write_exposition([*counted, *looked_up])


async def _exchanges(app: "App") -> list[Sample]:
    return [Sample((), len(app.open))]


async def _streams(app: "App") -> list[Sample]:
    return [Sample((), sum(exchange.record.stream for exchange in app.open))]


async def _cooling(app: "App") -> list[Sample]:
    now = asyncio.get_running_loop().time()
    places = Counter(app.metrics.find_labels(target) for target, _ in app.gateway.health.list_cooldowns(now))
    return [Sample(place, count) for place, count in places.items()]


async def _sessions(app: "App") -> list[Sample]:
    return [
        Sample((name, state), keeper.count_sessions().get(state, 0))
        for name, keeper in keepers(app)
        for state in SESSION_STATES
    ]


async def _session_events(app: "App") -> list[Sample]:
    return [
        Sample((name, event), count)
        for name, keeper in keepers(app)
        for event, count in keeper.count_sessions().items()
        if event not in SESSION_STATES
    ]


async def _near_limits(app: "App") -> list[Sample]:
    found = await app.gateway.accounts.find_nearly_used_limits()
    return [Sample((name, use.unit, use.period), use.share) for name, use in found]


async def _reloads(app: "App") -> list[Sample]:
    return [Sample(("done",), app.reloads.count), Sample(("refused",), app.reloads.refused)]


async def _config(app: "App") -> list[Sample]:
    return [Sample((), not app.reloads.error)]


async def _info(app: "App") -> list[Sample]:
    return [Sample((__version__,), 1)]


async def _started(app: "App") -> list[Sample]:
    return [Sample((), app.started_at)]


async def _cpu(app: "App") -> list[Sample]:
    return [Sample((), time.process_time())]


async def _memory(app: "App") -> list[Sample]:
    """Where the system tells it in the way of Linux."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:
        return [Sample((), int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))]
    return []


async def _files(app: "App") -> list[Sample]:
    with suppress(OSError):
        return [Sample((), len(os.listdir("/proc/self/fd")))]
    return []


def _look(
    name: str,
    kind: MetricKind,
    labels: Labels,
    meaning: str,
    read: Callable[["App"], Awaitable[Iterable[Sample]]],
) -> Look:
    return Look(MetricInfo(name, kind, labels, meaning), read)


#: Everything that is looked up; a new one is a new row here and in docs/metrics.md.
LOOKS: tuple[Look, ...] = (
    _look("dragoman_open_exchanges", "gauge", (), "Exchanges that are under way.", _exchanges),
    _look("dragoman_open_streams", "gauge", (), "Streamed replies that are under way.", _streams),
    _look(
        "dragoman_cooling",
        "gauge",
        ("provider", "model"),
        "Targets, counted once for each key, that cool down at the moment.",
        _cooling,
    ),
    _look(
        "dragoman_sessions",
        "gauge",
        ("provider", "state"),
        "Sessions of Claude Code that are live; parked are those of them that wait for a tool's result.",
        _sessions,
    ),
    _look(
        "dragoman_session_events_total",
        "counter",
        ("provider", "event"),
        "What has happened to sessions of Claude Code: spawned, replayed, evicted, timed_out and more.",
        _session_events,
    ),
    _look(
        "dragoman_key_limit_used_ratio",
        "gauge",
        ("key", "of", "period"),
        "How much of a client key's limit is used; shown from 0.8 on. `of` is requests, tokens or cost.",
        _near_limits,
    ),
    _look("dragoman_reloads_total", "counter", ("outcome",), "Reloads: done or refused.", _reloads),
    _look(
        "dragoman_config_ok", "gauge", (), "0 if the configuration file was refused when last read.", _config
    ),
    _look("dragoman_info", "gauge", ("version",), "Always 1; its label is the version.", _info),
    _look(
        "process_start_time_seconds", "gauge", (), "When the gateway began, in seconds since 1970.", _started
    ),
    _look("process_cpu_seconds_total", "counter", (), "Processor time used.", _cpu),
    _look("process_resident_memory_bytes", "gauge", (), "Memory in use.", _memory),
    _look("process_open_fds", "gauge", (), "Open files and sockets.", _files),
)
