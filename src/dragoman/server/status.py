"""The status of the gateway, for `dragoman status`: a table of sections, each built on request."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping

from dragoman import __version__
from dragoman.config.model import Config, TargetName
from dragoman.exchange.exchange import Exchange
from dragoman.server.state import ServerState
from dragoman.telemetry.instruments import Labels
from dragoman.telemetry.log import make_printable
from dragoman.telemetry.metrics import OK

#: Open exchanges that are listed, the oldest first.
MAX_LISTED = 100

NO_TRAFFIC: dict[str, float] = {"tries": 0, "failed": 0, "first_token": 0.0}


async def build_status(state: ServerState) -> dict[str, object]:
    """The status report: a dict of all sections by name."""
    return {name: await build(state) for name, build in SECTIONS.items()}


async def _build_gateway(state: ServerState) -> object:
    now = state.gateway.clock()
    return {
        "version": __version__,
        "process": os.getpid(),
        "state": "closing" if state.exchanges.is_closing else "serving",
        "started_at": state.started_at,
        "uptime": round(now - state.started_at, 1),
    }


async def _build_config(state: ServerState) -> object:
    reloader = state.reloader
    return {
        "path": state.gateway.config.path,
        "loaded_at": reloader.loaded_at,
        "reloads": reloader.count,
        "refused": reloader.refused,
        "error": reloader.error,
        "failed_at": reloader.failed_at,
        "needs_restart": list(reloader.needs_restart),
    }


async def _build_exchanges(state: ServerState) -> object:
    exchanges = sorted(state.exchanges, key=lambda exchange: exchange.started)
    return {
        "open": len(exchanges),
        "streams": sum(exchange.record.stream for exchange in exchanges),
        "oldest": [_describe_exchange(exchange) for exchange in exchanges[:MAX_LISTED]],
    }


def _describe_exchange(exchange: Exchange) -> Mapping[str, object]:
    record = exchange.record
    return {
        "request": record.request_id,
        "client": record.dialect,
        "agent": make_printable(record.agent)[:80],
        "model": make_printable(record.model)[:200],
        "target": make_printable(str(record.target)) if record.target else "",
        "stream": record.stream,
        "tries": record.tries,
        "first_token": round(record.first_token_seconds, 3),
        "seconds": round(asyncio.get_running_loop().time() - exchange.started, 3),
    }


async def _build_targets(state: ServerState) -> object:
    """The configured targets, and other targets that are not used because requests to them failed."""
    config, now = state.gateway.config, asyncio.get_running_loop().time()
    traffic = _count_traffic(state)
    cooling: dict[TargetName, list[dict[str, object]]] = {}
    for (target, key), cooldown in state.gateway.health.list_cooldowns(now).items():
        cooling.setdefault(target, []).append(
            {
                "key": key + 1,
                "reason": cooldown.reason,
                "failures": cooldown.failures,
                "seconds": round(cooldown.until - now, 1),
            }
        )
    named = set(_list_targets(config))
    names = dict.fromkeys([*_list_targets(config), *cooling])
    return [
        {
            **_describe_target(config, name, cooling.get(name, [])),
            # Models that only clients name are counted together, as `*`.
            **(traffic.get(state.metrics.find_labels(name), NO_TRAFFIC) if name in named else NO_TRAFFIC),
        }
        for name in names
    ]


def _count_traffic(state: ServerState) -> dict[Labels, dict[str, float]]:
    """Calls and failures since the gateway started, by provider and model."""
    metrics = state.metrics
    found: dict[Labels, dict[str, float]] = {}
    for (provider, model, outcome), count in metrics.attempts.sums.items():
        place = (provider, model)
        first = round(metrics.first_token.mean(place), 3)
        seen = found.setdefault(place, {**NO_TRAFFIC, "first_token": first})
        seen["tries"] += count
        seen["failed"] += 0 if outcome == OK else count
    return found


def _list_targets(config: Config) -> Iterator[TargetName]:
    for route in config.routes:
        yield from route.targets
    yield from config.default
    for provider in config.providers.values():
        if not any(provider.name == target.provider for route in config.routes for target in route.targets):
            yield TargetName(provider.name, "*")


def _describe_target(
    config: Config, target: TargetName, cooldowns: list[dict[str, object]]
) -> dict[str, object]:
    provider = config.providers.get(target.provider)
    keys = len(provider.keys) if provider else 0
    cooled = len(cooldowns)
    obstacle = provider.obstacle if provider else ""
    return {
        "target": make_printable(str(target)),
        "dialect": provider.dialect if provider else "",
        "keys": keys,
        "health": "unusable" if obstacle else _judge_health(cooled, keys),
        "obstacle": obstacle,
        "cooldowns": cooldowns,
    }


def _judge_health(cooled: int, keys: int) -> str:
    if not cooled:
        return "ok"
    return "cooling" if cooled >= max(1, keys) else "partly cooling"


async def _build_tools(state: ServerState) -> object:
    """What governance did to the tool calls of each target since the gateway started."""
    return [
        {"target": make_printable(target), "counts": counts}
        for target, counts in state.gateway.intervention_counts.copy_counts().items()
    ]


async def _build_keys(state: ServerState) -> object:
    return [
        {
            "key": name,
            "of": use.unit,
            "period": use.period,
            "limit": use.limit,
            "used": use.used,
            "share": round(use.share, 3),
        }
        for name, use in await state.gateway.accounts.find_nearly_used_limits()
    ]


async def _build_sessions(state: ServerState) -> object:
    return {name: upstream.count_sessions() for name, upstream in state.list_session_upstreams()}


#: The sections, and the functions that build them.
SECTIONS: dict[str, Callable[[ServerState], Awaitable[object]]] = {
    "gateway": _build_gateway,
    "config": _build_config,
    "exchanges": _build_exchanges,
    "targets": _build_targets,
    "keys": _build_keys,
    "tools": _build_tools,
    "sessions": _build_sessions,
}
