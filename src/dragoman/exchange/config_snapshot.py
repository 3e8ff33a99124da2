"""`ConfigSnapshot`: the configuration that one exchange uses from its beginning to its end.

A snapshot never changes. Provider handles outlive it: the next snapshot takes over those whose provider is
unchanged, and the others are closed when the last exchange that may use them has ended.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dragoman.accounts.estimates import PriceList
from dragoman.config.agents import SessionLimits
from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.exchange.context_windows import find_certain_size
from dragoman.exchange.rule_functions import RuleFunctions
from dragoman.gateway_tools.toolbox import Toolbox, build_toolbox
from dragoman.prompts.rules import compile_prompts
from dragoman.routing.choose import RouteChoice, choose
from dragoman.routing.health import TargetKey
from dragoman.routing.rules import RuleTable
from dragoman.steps.selection import StepSelection
from dragoman.telemetry.redaction import Redactor
from dragoman.upstream.port import EarlyUpstream, Upstream

#: Choices by the model's name, and characters of such a name. Bounded, because clients choose the names.
MAX_CHOICES = 1000
MAX_NAME = 200


class TargetsFacts(NamedTuple):
    """What the configuration states about the targets of a request, in the order of trial."""

    #: The bytes of a body that certainly fits into the window of every target.
    certain_size: int
    #: The provider of a target has several keys, of which a session keeps one.
    has_several_keys: bool
    #: Each target with the first key of its provider.
    target_keys: tuple[TargetKey, ...]


class ProviderHandle:
    """One provider with its upstream, which is built on first use. Snapshots share handles."""

    def __init__(self, provider: Provider, build: Callable[[Provider], Upstream]) -> None:
        self.provider = provider
        #: The number of snapshots that use the handle.
        self.snapshots = 0
        self._build = build
        self._upstream: Upstream | None = None
        self._early: EarlyUpstream | None = None
        self._redactor: Redactor | None = None

    @property
    def upstream(self) -> Upstream:
        if self._upstream is None:
            self._upstream = built = self._build(self.provider)
            self._early = built if isinstance(built, EarlyUpstream) else None
        return self._upstream

    def open_early(self) -> None:
        """A request is expected: open a connection, if the upstream has been used and can do that."""
        if self._early is not None:
            self._early.open_early()

    @property
    def existing_upstream(self) -> Upstream | None:
        """The upstream, if it has been built."""
        return self._upstream

    @property
    def redactor(self) -> Redactor:
        if self._redactor is None:
            self._redactor = Redactor(self.provider)
        return self._redactor

    async def close(self) -> None:
        if self._upstream is not None:
            await self._upstream.close()


class ConfigSnapshot:
    """One configuration and the handles of its providers."""

    def __init__(
        self,
        config: Config,
        build: Callable[[Provider], Upstream],
        earlier: "ConfigSnapshot | None" = None,
    ) -> None:
        self.config = config
        self.prices = PriceList(config)
        self.rules = RuleTable(config.rules)
        self.functions = RuleFunctions(config)
        self.prompts = compile_prompts(config.prompts)
        self.steps = StepSelection(config)
        conditions = [rule.when for rule in config.rules] + [rule.when for rule in config.prompts]
        #: The first segments of paths that rules ask for.
        self.entries = frozenset(path for when in conditions for path in when.path)
        #: A rule asks for roles, so that logs, metrics and statistics contain the role of every request.
        self.has_roles = any(rule.when.role for rule in config.rules)
        #: Sessions have a limit, at least those of one route.
        self.has_session_limits = config.session_limits != SessionLimits() or any(
            route.session_limits for route in config.routes
        )
        #: A route balances its targets, so that all calls of targets are counted.
        self.is_balanced = any(route.order != "listed" for route in config.routes)
        #: The number of keys of each provider.
        self.keys = {name: len(provider.keys) for name, provider in config.providers.items()}
        #: The number of exchanges that began with this snapshot and have not ended.
        self.open = 0
        self._is_released = False
        self._choices: dict[str, RouteChoice] = {}
        self._facts: dict[tuple[TargetName, ...], TargetsFacts] = {}
        kept = earlier.handles if earlier else {}
        self.handles: Mapping[str, ProviderHandle] = {
            name: kept[name]
            if name in kept and kept[name].provider == provider
            else ProviderHandle(provider, build)
            for name, provider in config.providers.items()
        }
        is_kept = earlier is not None and earlier.config.tools == config.tools
        #: The tools that the gateway runs itself; None if there are none.
        self.toolbox: Toolbox | None = (
            earlier.toolbox if earlier is not None and is_kept else build_toolbox(config)
        )
        for shared in self._list_shared():
            shared.snapshots += 1

    def choose(self, model: str) -> RouteChoice:
        """The targets of a model's name. Raises `ModelNotFound` if there are none."""
        choice = self._choices.get(model)
        if choice is None:
            choice = choose(self.config, model)
            if len(self._choices) >= MAX_CHOICES:
                self._choices.clear()
            if len(model) <= MAX_NAME:
                self._choices[model] = choice
        return choice

    def find_facts(self, targets: tuple[TargetName, ...]) -> TargetsFacts:
        """What the configuration states about these targets."""
        facts = self._facts.get(targets)
        if facts is None:
            if len(self._facts) >= MAX_CHOICES:
                self._facts.clear()
            facts = self._facts[targets] = TargetsFacts(
                find_certain_size(self.config, targets),
                any(self.keys[target.provider] > 1 for target in targets),
                tuple(TargetKey(target, 0) for target in targets),
            )
        return facts

    def release(self) -> list[ProviderHandle | Toolbox]:
        """Give up what snapshots share. Returns what no other snapshot uses: the caller closes it."""
        if self._is_released:
            return []
        self._is_released = True
        for shared in self._list_shared():
            shared.snapshots -= 1
        return [shared for shared in self._list_shared() if not shared.snapshots]

    def _list_shared(self) -> list[ProviderHandle | Toolbox]:
        return [*self.handles.values(), *([self.toolbox] if self.toolbox else ())]
