"""The status of the gateway, for `dragoman status`: a table of sections, each built on request."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

from dragoman import __version__
from dragoman.config.config import Config
from dragoman.config.provider import TargetName
from dragoman.exchange.exchange import Exchange
from dragoman.routing.health import TargetCalls
from dragoman.server.state import ServerState
from dragoman.telemetry.log import make_printable

#: Open exchanges that are listed, the oldest first.
MAX_LISTED = 100
#: The reason of a cooldown that another gateway with the same state has reported.
ELSEWHERE = "fails at another gateway"


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
        "path": state.gateway.config.absolute_path,
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
        "oldest": [describe_exchange(exchange) for exchange in exchanges[:MAX_LISTED]],
    }


def describe_exchange(exchange: Exchange) -> Mapping[str, object]:
    """One open exchange as JSON, without contents."""
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
    """One row for each configured target, and for each other target that was called."""
    config, now = state.gateway.config, asyncio.get_running_loop().time()
    health = state.gateway.health
    cooling: dict[TargetName, list[dict[str, object]]] = {}
    for (target, key), cooldown in health.list_cooldowns(now).items():
        cooling.setdefault(target, []).append(
            {
                "key": key + 1,
                "reason": cooldown.reason,
                "failures": cooldown.failures,
                "seconds": round(cooldown.until - now, 1),
            }
        )
    for (target, key), until in health.list_hints(now).items():
        cooling.setdefault(target, []).append(
            {"key": key + 1, "reason": ELSEWHERE, "failures": 0, "seconds": round(until - now, 1)}
        )
    called = [target for target in health.calls if target.provider in config.providers]
    return [
        _describe_target(state, name, cooling.get(name, []))
        for name in dict.fromkeys([*_list_targets(config, called), *called, *cooling])
    ]


def _list_targets(config: Config, called: Collection[TargetName]) -> Iterator[TargetName]:
    """The configured targets. `provider/*` stands for a provider of which no model is named or was called."""
    named = [target for route in config.routes for target in route.targets]
    named += config.default
    providers = {target.provider for target in (*named, *called)}
    for target in named:
        if target.model != "*" or not any(target.provider == each.provider for each in called):
            yield target
    for name in config.providers:
        if name not in providers:
            yield TargetName(name, "*")


def _describe_target(
    state: ServerState, target: TargetName, cooldowns: list[dict[str, object]]
) -> dict[str, object]:
    provider = state.gateway.config.providers.get(target.provider)
    calls = state.gateway.health.calls.get(target, TargetCalls())
    keys = len(provider.keys) if provider else 0
    obstacle = provider.obstacle if provider else ""
    return {
        "target": make_printable(str(target)),
        "dialect": provider.dialect if provider else "",
        "keys": keys,
        "health": "unusable" if obstacle else _judge_health(calls, len(cooldowns), keys),
        "obstacle": obstacle,
        "cooldowns": cooldowns,
        "tries": calls.tries,
        "failed": calls.failed,
        "failures_in_row": calls.failures_in_row,
        "last_failure": calls.reason,
        "first_token": round(state.metrics.first_token.mean(state.metrics.find_labels(target)), 5),
    }


def _judge_health(calls: TargetCalls, cooled: int, keys: int) -> str:
    """`failing`: the last call failed, and no cooldown delays the next one."""
    if cooled:
        return "cooling" if cooled >= max(1, keys) else "partly cooling"
    if calls.failures_in_row:
        return "failing"
    return "ok" if calls.tries else "unused"


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


async def _build_records(state: ServerState) -> object:
    """How much is recorded, and what the recorder's thread has written and lost since the start."""
    level = state.gateway.config.records.record
    if state.recorder is None:
        return {"record": "off", "file": "", "written": 0, "lost": 0, "error": "", "broken_prefixes": 0}
    return {"record": level, **state.recorder.status._asdict()}


#: The sections, and the functions that build them.
SECTIONS: dict[str, Callable[[ServerState], Awaitable[object]]] = {
    "gateway": _build_gateway,
    "config": _build_config,
    "exchanges": _build_exchanges,
    "targets": _build_targets,
    "keys": _build_keys,
    "tools": _build_tools,
    "sessions": _build_sessions,
    "records": _build_records,
}
