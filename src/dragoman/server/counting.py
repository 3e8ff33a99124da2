"""The estimated token count of a request that is not sent."""

from functools import partial

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.config.config import Config, Route
from dragoman.config.provider import TargetName
from dragoman.dialects.interfaces import Json, Tokenizer
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.large_bodies import run_by_size
from dragoman.exchange.tools import open_target_tools
from dragoman.gateway_tools.target_tools import TargetTools
from dragoman.hub.fold import Reply
from dragoman.hub.request import Request
from dragoman.providers.profile import build_target_facts
from dragoman.routing.choose import ModelNotFound, choose
from dragoman.server.paths import Endpoint
from dragoman.tokens.request import SYSTEM_ROLES, estimate_tokens, read_count_request
from dragoman.tokens.tokenizers import find_tokenizer


class CountedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to count, and the target that would get it; None if only rules can find one."""

    request: Request
    target: TargetName | None
    route: Route | None
    tokenizer: Tokenizer


async def count_tokens(gateway: Gateway, endpoint: Endpoint, body: bytes, caller: Caller) -> Json:
    """The answer of an endpoint that counts tokens, by the tokens of the model that would answer.

    Raises `ModelNotFound` if neither a route nor a rule can serve the model.
    """
    snapshot = gateway.snapshot
    with gateway.use(snapshot):
        counted = await run_by_size(body, partial(read_counted, snapshot.config, endpoint, body))
        tools = await _open_tools(gateway, counted, caller) if _is_whole(counted.request) else None
        tokens = await run_by_size(body, partial(count, snapshot.config, counted, tools))
    return dialect_named(endpoint.dialect).counting.write_answer(tokens)


def read_counted(config: Config, endpoint: Endpoint, body: bytes) -> CountedRequest:
    """Read the body of a counting endpoint.

    A model that only rules serve is counted by its own name: rules decide by the whole request, which is not
    here.
    """
    request = read_count_request(endpoint.dialect, body, endpoint.model)
    tokenizer = find_tokenizer(request.model, endpoint.dialect)
    target, route = None, None
    if request.model:
        try:
            choice = choose(config, request.model)
            target, route = choice.targets[0], choice.route
        except ModelNotFound:
            if not config.rules:
                raise
    if target is not None and not config.providers[target.provider].is_stand_in:
        tokenizer = find_tokenizer(target.model, config.providers[target.provider].wire_dialect)
    return CountedRequest(request=request, target=target, route=route, tokenizer=tokenizer)


def count(config: Config, counted: CountedRequest, tools: TargetTools | None) -> int:
    """The tokens of a request, with what the gateway's own tools add to it."""
    request, target = counted.request, counted.target
    if tools is not None and target is not None:
        profile = config.providers[target.provider].build_profile(target.model)
        request = tools.apply(request, build_target_facts(profile, request.dialect))
    return estimate_tokens(request, counted.tokenizer)


def _is_whole(request: Request) -> bool:
    """Whether a request is one that an agent would send, with instructions and tools.

    Agents also count single parts, such as one result or one tool. These would not get the gateway's tools,
    and an agent would cut a result because of tokens that are not its own.
    """
    return bool(request.tools) and any(message.role in SYSTEM_ROLES for message in request.messages)


async def _open_tools(gateway: Gateway, counted: CountedRequest, caller: Caller) -> TargetTools | None:
    """The gateway's own tools for a request to its target."""
    toolbox, target, route = gateway.snapshot.toolbox, counted.target, counted.route
    if toolbox is None or target is None or route is None:
        return None
    return await open_target_tools(
        toolbox,
        gateway.snapshot.config.providers[target.provider],
        route,
        gateway.tool_memory,
        owner=caller.owner,
        ask_model=_ask_nothing,
        has_budget=_has_budget,
    )


async def _ask_nothing(name: str, request: Request) -> Reply:
    raise NotImplementedError


def _has_budget() -> bool:
    return True
