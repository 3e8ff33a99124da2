"""The gateway's own tools in one exchange, and their requests to models.

Such a request is an exchange inside another one. It has its own record, retries, limits and costs, which the
same key pays. It runs no tools of the gateway.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from dragoman.accounts.usage import ExchangeUsage
from dragoman.config.config import Config, Route
from dragoman.config.provider import Provider, TargetName
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.record import ExchangeRecord
from dragoman.fit import fit
from dragoman.gateway_tools.memory import ToolMemory
from dragoman.gateway_tools.target_tools import TargetTools
from dragoman.gateway_tools.tool import AskModel, ToolFailed
from dragoman.gateway_tools.toolbox import Toolbox
from dragoman.hub.fold import Reply, fold
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.pipeline.bodies import read_reply_object
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.transports import SSE
from dragoman.providers.profile import build_target_facts
from dragoman.routing.choose import RouteChoice
from dragoman.wire.fields import encode
from dragoman.wire.sse import Output


class CollectingClient:
    """The client of an inner exchange: keeps the whole response."""

    transport = SSE
    direct: DirectConnection | None = None

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status

    async def send(self, output: Output) -> None:
        self.body += self.transport.encode(output)

    async def end(self, output: Output = ()) -> None:
        await self.send(output)

    async def ping(self, data: bytes) -> None:
        """An inner exchange needs no pings."""

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.body = status, body

    def abort(self, *, at_once: bool = False) -> None:
        """Does nothing: there is no connection."""


RunExchange = Callable[[RequestPlan, CollectingClient, RouteChoice], Awaitable[None]]


async def ask_target(
    config: Config, request_id: str, run_exchange: RunExchange, name: str, request: Request
) -> Reply:
    """Send a request to a target and return the whole reply. Raises `ToolFailed`.

    `request` has no dialect and no model: those of the target are used.
    """
    provider_name, _, model = name.partition("/")
    target = TargetName(provider_name, model)
    provider = config.providers[target.provider]
    facts = build_target_facts(provider.build_profile(model), provider.wire_dialect)
    request = msgspec.structs.replace(request, dialect=provider.wire_dialect, model=model)
    dialect = dialect_named(provider.wire_dialect)
    losses = Losses()
    body = encode(dialect.write_request(fit(request, facts, losses), facts, losses))
    metadata = RequestMetadata(dialect=dialect.name, model=model, is_peeked=True, request_id=request_id)
    client = CollectingClient()
    route = Route(match="tool", targets=(target,))
    await run_exchange(RequestPlan(metadata, body), client, RouteChoice(targets=route.targets, route=route))
    if client.status != 200:
        failure = dialect.read_error(client.status or 502, {}, client.body)
        raise ToolFailed(f"the model {name} did not answer: {failure.message}")
    return _read_reply(dialect, client.body)


def _read_reply(dialect: Dialect, body: bytes) -> Reply:
    reader = dialect.stream_reader(UpstreamContext(issuer=dialect.name, losses=Losses()))
    frames = dialect.explode(read_reply_object(body))
    return fold([*reader.feed_frames(frames), *reader.close()])


async def open_target_tools(
    toolbox: Toolbox,
    provider: Provider,
    route: Route,
    memory: ToolMemory,
    *,
    owner: str,
    ask_model: AskModel,
    has_budget: Callable[[], bool],
) -> TargetTools | None:
    """The tools that the configuration selects for a request to this provider; None if there are none."""
    # A local program keeps its own conversation, which the gateway cannot continue.
    if provider.keeps_sessions:
        return None
    names = provider.tools if route.tools is None else route.tools
    return await toolbox.build_target_tools(
        names, memory, owner=owner, ask_model=ask_model, has_budget=has_budget
    )


class ExchangeTools:
    """The `TargetTools` of each target of an exchange."""

    def __init__(
        self,
        gateway: Gateway,
        toolbox: Toolbox,
        record: ExchangeRecord,
        usage: ExchangeUsage,
        run_exchange: RunExchange,
    ) -> None:
        self._memory = gateway.tool_memory
        self._toolbox = toolbox
        self._owner = record.caller.owner
        self._record = record
        self._usage = usage
        self._ask = partial(ask_target, gateway.config, f"{record.request_id}-tool", run_exchange)
        self._by_target: dict[TargetName, TargetTools] = {}

    async def open(self, target: TargetName, provider: Provider, route: Route) -> None:
        """Select the tools for a request to this target. Called before each request is built."""
        self._by_target.pop(target, None)
        tools = await open_target_tools(
            self._toolbox,
            provider,
            route,
            self._memory,
            owner=self._owner,
            ask_model=self._ask,
            has_budget=self._has_budget,
        )
        if tools is not None:
            self._by_target[target] = tools

    def _has_budget(self) -> bool:
        """Whether the budgets of the key have something left after the calls of this exchange so far."""
        return self._usage.has_budget(self._record.list_calls())

    def find(self, target: TargetName) -> TargetTools | None:
        return self._by_target.get(target)
