"""The endpoints of the admin API about the configuration: models and their facts, routes, keys."""

import asyncio
import sqlite3
from functools import partial

import msgspec

from dragoman.accounts.key_report import describe_key
from dragoman.accounts.keys import list_keys
from dragoman.accounts.store import read_account
from dragoman.config.config import Config
from dragoman.config.effective import describe_config, write_toml
from dragoman.config.model_facts import explain_facts, explain_governance
from dragoman.config.rules import Rule
from dragoman.dialects.registry import DEFAULT_DIALECT
from dragoman.exchange.rule_functions import RuleFunctionFailed, RuleFunctions
from dragoman.exchange.selection import build_traits
from dragoman.hub.errors import ClientProtocolError
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.records.reading import RecordNotFound, build_metadata, read_raw, read_turn
from dragoman.records.stored_turn import Row
from dragoman.routing.choose import RouteChoice, choose
from dragoman.routing.explain import RouteExplanation, explain_route
from dragoman.routing.rules import compile_rules
from dragoman.routing.traits import RequestTraits
from dragoman.server.admin_endpoint import PREFIX, AdminEndpoint, AdminRequest
from dragoman.server.models import describe_models
from dragoman.server.records_api import query_records
from dragoman.storage.port import Transaction
from dragoman.wire.fields import encode


async def _get_config(request: AdminRequest) -> object:
    """The effective configuration as TOML, without secrets, and what is wrong with its file."""
    config, reloader = request.state.gateway.config, request.state.reloader
    return {
        "path": config.path,
        "toml": "\n".join(write_toml(describe_config(config))),
        "warnings": [msgspec.to_builtins(warning) for warning in config.warnings],
        "error": reloader.error,
        "needs_restart": list(reloader.needs_restart),
    }


async def _list_models(request: AdminRequest) -> object:
    return describe_models(request.state.gateway.config)


async def _get_facts(request: AdminRequest) -> object:
    """The facts about the targets of a model name, with their sources."""
    config, name = request.state.gateway.config, _require(request, "model")
    choice = choose(config, name)
    route, targets = choice.route, []
    for target in choice.targets:
        provider = config.providers[target.provider]
        governance = explain_governance(provider, target.model, route.match, route.governance)
        targets.append(
            {
                "target": str(target),
                "dialect": provider.dialect,
                "facts": [msgspec.to_builtins(fact) for fact in explain_facts(provider, target.model)],
                "governance": [msgspec.to_builtins(setting) for setting in governance],
            }
        )
    return {"model": name, "route": route.match, "targets": targets}


async def _explain(request: AdminRequest) -> object:
    """The route of a model name (`model`), or of a recorded turn (`session` and `number`)."""
    config, clock = request.state.gateway.config, request.state.gateway.clock
    if "session" in request.query:
        plan, key = await _read_recorded_plan(request)
    else:
        body = encode({"model": _require(request, "model"), "messages": []})
        plan, key = RequestPlan(RequestMetadata(dialect=DEFAULT_DIALECT, headers={}), body), ""
    plan.peek()
    explain = partial(explain_request, config, build_traits(config, plan, key, clock))
    return msgspec.to_builtins(await asyncio.to_thread(explain))


async def _read_recorded_plan(request: AdminRequest) -> tuple[RequestPlan, str]:
    number = _require(request, "number")
    if not number.isdecimal():
        raise ClientProtocolError("expected the number of a turn", path="number")

    def read(connection: sqlite3.Connection) -> tuple[Row, bytes | None]:
        turn = read_turn(connection, request.query["session"], int(number))
        return turn, read_raw(connection, turn["id"], "client_request")

    turn, body = await query_records(request, read)
    if body is None:
        raise RecordNotFound(f'turn {number} has no contents: set `record = "bodies"` to record them')
    return RequestPlan(build_metadata(turn), body), str(turn["key"])


def explain_request(config: Config, traits: RequestTraits) -> RouteExplanation:
    """Which rule decides about a request, and why the others do not. The functions of rules run.

    Called outside of the event loop.
    """
    functions = RuleFunctions(config)

    def call_function(rule: Rule, asked: RequestTraits) -> RouteChoice | str:
        try:
            choice = asyncio.run(functions.choose(rule, asked.model, asked))
        except RuleFunctionFailed as error:
            cause = f": {error.__cause__}" if error.__cause__ else ""
            return f"the function decides nothing: {error}{cause}"
        return choice or "the function names no target"

    return explain_route(config, compile_rules(config.rules), traits, call_function)


async def _list_keys(request: AdminRequest) -> object:
    """The stored client keys with their limits and usage, and the number of configured keys."""
    accounts, now = request.state.gateway.accounts, request.state.gateway.clock()

    async def read(transaction: Transaction) -> list[dict[str, object]]:
        return [
            describe_key(key, await read_account(transaction, key.caller.id, now), now)
            for key in await list_keys(transaction)
        ]

    # Without keys there is no file, and reading would create it.
    keys = await accounts.storage.read(read) if accounts.keys.has_keys else []
    return {"keys": keys, "configured": len(request.state.gateway.config.server.keys)}


def _require(request: AdminRequest, name: str) -> str:
    value = request.query.get(name, "")
    if not value:
        raise ClientProtocolError("this query needs a value", path=name)
    return value


OVERVIEW_ENDPOINTS: tuple[AdminEndpoint, ...] = (
    AdminEndpoint("GET", f"{PREFIX}/config", _get_config, "The effective configuration and its problems."),
    AdminEndpoint("GET", f"{PREFIX}/models", _list_models, "Routes, providers and their models."),
    AdminEndpoint("GET", f"{PREFIX}/facts", _get_facts, "The facts about a model (`?model=`)."),
    AdminEndpoint(
        "GET", f"{PREFIX}/explain", _explain, "Which rule decides (`?model=`, or `?session=&number=`)."
    ),
    AdminEndpoint("GET", f"{PREFIX}/keys", _list_keys, "The client keys with limits and usage."),
)
