"""What the gateway is doing, for `dragoman status`: a table of sections, looked up when somebody asks."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from dragoman import __version__
from dragoman.config.model import Config, TargetName
from dragoman.exchange.exchange import Exchange
from dragoman.server.admin_sessions import keepers
from dragoman.telemetry.instruments import Labels
from dragoman.telemetry.log import make_printable
from dragoman.telemetry.metrics import OK

if TYPE_CHECKING:
    from dragoman.server.app import App

#: How many open exchanges are shown one by one, the oldest first.
SHOWN = 100

NO_TRAFFIC: dict[str, float] = {"tries": 0, "failed": 0, "first_token": 0.0}


async def status(app: "App") -> dict[str, object]:
    return {name: await section(app) for name, section in SECTIONS.items()}


async def _gateway(app: "App") -> object:
    now = app.gateway.clock()
    return {
        "version": __version__,
        "process": os.getpid(),
        "state": "closing" if app.is_closing else "serving",
        "started_at": app.started_at,
        "uptime": round(now - app.started_at, 1),
    }


async def _config(app: "App") -> object:
    reloads = app.reloads
    return {
        "path": app.gateway.config.path,
        "loaded_at": reloads.loaded_at,
        "reloads": reloads.count,
        "refused": reloads.refused,
        "error": reloads.error,
        "failed_at": reloads.failed_at,
        "needs_restart": list(reloads.waiting),
    }


async def _exchanges(app: "App") -> object:
    exchanges = sorted(app.open, key=lambda exchange: exchange.started)
    return {
        "open": len(exchanges),
        "streams": sum(exchange.record.stream for exchange in exchanges),
        "oldest": [_open(exchange) for exchange in exchanges[:SHOWN]],
    }


def _open(exchange: Exchange) -> Mapping[str, object]:
    record = exchange.record
    return {
        "request": record.request_id,
        "client": record.dialect,
        "agent": make_printable(record.agent)[:80],
        "model": make_printable(record.model)[:200],
        "target": make_printable(str(record.target)) if record.target else "",
        "stream": record.stream,
        "tries": record.tries,
        "first_token": round(record.first_token, 3),
        "seconds": round(asyncio.get_running_loop().time() - exchange.started, 3),
    }


async def _targets(app: "App") -> object:
    """Every target that the configuration names, and others that clients have named and that cool down."""
    config, now = app.gateway.config, asyncio.get_running_loop().time()
    traffic = _traffic(app)
    cooling: dict[TargetName, list[dict[str, object]]] = {}
    for (target, key), cooldown in app.gateway.health.list_cooldowns(now).items():
        cooling.setdefault(target, []).append(
            {
                "key": key + 1,
                "reason": cooldown.reason,
                "failures": cooldown.failures,
                "seconds": round(cooldown.until - now, 1),
            }
        )
    named = set(_named_targets(config))
    names = dict.fromkeys([*_named_targets(config), *cooling])
    return [
        {
            **_target(config, name, cooling.get(name, [])),
            # What clients made up is counted together, as `*`.
            **(traffic.get(app.metrics.find_labels(name), NO_TRAFFIC) if name in named else NO_TRAFFIC),
        }
        for name in names
    ]


def _traffic(app: "App") -> dict[Labels, dict[str, float]]:
    """How targets have done since the gateway began, by provider and model, whoever helped out in the end."""
    metrics = app.metrics
    found: dict[Labels, dict[str, float]] = {}
    for (provider, model, outcome), count in metrics.attempts.sums.items():
        place = (provider, model)
        first = round(metrics.first_token.mean(place), 3)
        seen = found.setdefault(place, {**NO_TRAFFIC, "first_token": first})
        seen["tries"] += count
        seen["failed"] += 0 if outcome == OK else count
    return found


def _named_targets(config: Config) -> Iterator[TargetName]:
    for route in config.routes:
        yield from route.targets
    yield from config.default
    for provider in config.providers.values():
        if not any(provider.name == target.provider for route in config.routes for target in route.targets):
            yield TargetName(provider.name, "*")


def _target(config: Config, target: TargetName, cooldowns: list[dict[str, object]]) -> dict[str, object]:
    provider = config.providers.get(target.provider)
    keys = len(provider.keys) if provider else 0
    cooled = len(cooldowns)
    return {
        "target": make_printable(str(target)),
        "dialect": provider.dialect if provider else "",
        "keys": keys,
        "health": "ok" if not cooled else "cooling" if cooled >= max(1, keys) else "partly cooling",
        "cooldowns": cooldowns,
    }


async def _tools(app: "App") -> object:
    """What governance did to the tool calls of each target since the gateway started."""
    return [
        {"target": make_printable(target), "counts": counts}
        for target, counts in app.gateway.intervention_counts.snapshot().items()
    ]


async def _keys(app: "App") -> object:
    return [
        {
            "key": name,
            "of": use.unit,
            "period": use.period,
            "limit": use.limit,
            "used": use.used,
            "share": round(use.share, 3),
        }
        for name, use in await app.gateway.accounts.find_nearly_used_limits()
    ]


async def _sessions(app: "App") -> object:
    return {name: keeper.count_sessions() for name, keeper in keepers(app)}


#: A section of the status, and who tells it.
SECTIONS: dict[str, Callable[["App"], Awaitable[object]]] = {
    "gateway": _gateway,
    "config": _config,
    "exchanges": _exchanges,
    "targets": _targets,
    "keys": _keys,
    "tools": _tools,
    "sessions": _sessions,
}
