"""The counters of one gateway. An exchange is counted once, when it has ended.

Clients choose the model names. A model is a label only if the configuration names it; otherwise it is `*`.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dragoman.accounts.activity import ACTIVITY_NAMES, ActivityCounts
from dragoman.config.model import Config
from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure
from dragoman.hub.usage import Usage
from dragoman.routing.choose import is_pattern
from dragoman.telemetry.instruments import Counter, Histogram, Labels

if TYPE_CHECKING:
    from dragoman.exchange.record import ExchangeRecord

#: The label of all models that the configuration does not name.
UNNAMED = "*"
MICRO = 1e-6
#: The outcome of a try without a failure. Other outcomes are kinds of failure.
OK = "ok"

TARGET = ("provider", "model")
AGENT = ("agent", "part", "role", "class")

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1800)
FIRST_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 25, 50, 100)


class Metrics:
    """Counts exchanges since the start of the gateway. `config` returns the current configuration."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._read_config = config
        self._config: Config | None = None
        self._named: frozenset[TargetName] = frozenset()
        self.requests = Counter(
            "dragoman_requests_total",
            ("client", "route", *TARGET, "ending"),
            "Exchanges that have ended: finished, failed, truncated or cancelled.",
        )
        self.seconds = Histogram(
            "dragoman_request_seconds", TARGET, "Seconds from a request to the end of its reply.", SECONDS
        )
        self.first_token = Histogram(
            "dragoman_first_token_seconds", TARGET, "Seconds to the first token of a reply.", FIRST_SECONDS
        )
        self.tokens = Counter(
            "dragoman_tokens_total",
            (*TARGET, "class"),
            "Tokens by class: input, cache_read, cache_write, output, reasoning. Each token is in one class.",
        )
        self.cost = Counter("dragoman_cost_dollars_total", TARGET, "Cost of replies with a known price.")
        self.errors = Counter(
            "dragoman_errors_total",
            ("client", *TARGET, "kind"),
            "Exchanges that failed or broke off, by the kind of failure that the client received.",
        )
        self.refusals = Counter(
            "dragoman_refusals_total", ("kind",), "Requests that were refused before they became exchanges."
        )
        self.attempts = Counter(
            "dragoman_attempts_total",
            (*TARGET, "outcome"),
            "Tries of a target: ok, or the kind of failure, even if another target answered.",
        )
        self.retries = Counter(
            "dragoman_retries_total", TARGET, "Tries after the first of an exchange, by the target tried."
        )
        self.cooldowns = Counter(
            "dragoman_cooldowns_total", (*TARGET, "reason"), "Cooldowns of a target that began or continued."
        )
        self.losses = Counter(
            "dragoman_losses_total",
            ("client", *TARGET, "side"),
            "Parts of a request or a reply that could not be translated.",
        )
        self.calls = Counter("dragoman_tool_calls_total", TARGET, "Tool calls in replies that were read.")
        self.interventions = Counter(
            "dragoman_tool_interventions_total", (*TARGET, "kind"), "Interventions of governance."
        )
        self.held = Counter(
            "dragoman_tool_held_seconds_total", TARGET, "Seconds for which governance held tool calls back."
        )
        self._create_caller_counters()

    def _create_caller_counters(self) -> None:
        """Create the counters by client key and by agent."""
        self.key_requests = Counter(
            "dragoman_key_requests_total", ("key", "ending"), "Exchanges that have ended, by client key."
        )
        self.key_tokens = Counter("dragoman_key_tokens_total", ("key",), "Tokens used, by client key.")
        self.key_cost = Counter(
            "dragoman_key_cost_dollars_total", ("key",), "Cost of replies with a known price, by client key."
        )

        self.agent_requests = Counter(
            "dragoman_agent_requests_total",
            (*AGENT, "rule", "ending"),
            "Exchanges that have ended, by agent, main agent or sub-agent, and what rules found out.",
        )
        self.agent_tokens = Counter("dragoman_agent_tokens_total", AGENT, "Tokens used, by agent.")
        self.agent_cost = Counter(
            "dragoman_agent_cost_dollars_total", AGENT, "Cost of replies with a known price, by agent."
        )
        self.activity = Counter(
            "dragoman_agent_activity_total",
            ("key", "kind"),
            "What agents report about their work: lines, commits, edits, tool decisions, active seconds.",
        )

    @property
    def instruments(self) -> tuple[Counter | Histogram, ...]:
        return tuple(value for value in vars(self).values() if isinstance(value, Counter | Histogram))

    def count_refusal(self, failure: Failure) -> None:
        """Count a request that did not become an exchange."""
        self.refusals.add((failure.kind,))

    def count_activity(self, key: str, counts: ActivityCounts) -> None:
        """Count what an agent with this key has reported."""
        for kind in ACTIVITY_NAMES:
            amount = getattr(counts, kind)
            if amount:
                self.activity.add((key, kind), amount)

    def count_exchange(self, record: "ExchangeRecord") -> None:
        """Count an exchange that has ended."""
        target, ending = self.find_labels(record.target), record.ending
        self.requests.add((record.dialect, record.route, *target, ending))
        self.seconds.add(target, record.seconds)
        if record.first_token_seconds:
            self.first_token.add(target, record.first_token_seconds)
        for kind, count in count_classes(record.tally.usage if record.tally else None):
            self.tokens.add((*target, kind), count)
        if record.cost:
            self.cost.add(target, record.cost * MICRO)
        if record.failure is not None:
            self.errors.add((record.dialect, *target, record.failure.kind))
        for side, losses in (("request", record.losses), ("reply", record.reply_losses)):
            if losses:
                self.losses.add((record.dialect, *target, side), len(losses))
        self._count_attempts(record)
        self._count_tools(record, target)
        self._count_key(record, ending)
        self._count_agent(record, ending)

    def find_labels(self, target: TargetName | None) -> Labels:
        """The labels of a target; both are empty if there is no target."""
        if target is None:
            return ("", "")
        config = self._read_config()
        if config is not self._config:
            self._config, self._named = config, frozenset(list_named_targets(config))
        return (target.provider, target.model if target in self._named else UNNAMED)

    def _count_attempts(self, record: "ExchangeRecord") -> None:
        for number, attempt in enumerate(record.attempts):
            target = self.find_labels(attempt.target)
            self.attempts.add((*target, attempt.failure.kind if attempt.failure else OK))
            if number:
                self.retries.add(target)
            if attempt.cools and attempt.failure:
                self.cooldowns.add((*target, attempt.failure.kind))

    def _count_tools(self, record: "ExchangeRecord", target: Labels) -> None:
        if record.tally and record.tally.calls:
            self.calls.add(target, record.tally.calls)
        for logged in record.interventions:
            labels = self.find_labels(logged.target)
            self.interventions.add((*labels, logged.counter_name))
            if logged.intervention.held:
                self.held.add(labels, logged.intervention.held)

    def _count_key(self, record: "ExchangeRecord", ending: str) -> None:
        name = record.caller.name
        if not name:
            return
        self.key_requests.add((name, ending))
        if record.tally and record.tally.usage:
            self.key_tokens.add((name,), record.tally.usage.total)
        if record.cost:
            self.key_cost.add((name,), record.cost * MICRO)

    def _count_agent(self, record: "ExchangeRecord", ending: str) -> None:
        identity, traits = record.identity, record.traits
        labels = (
            identity.known_agent,
            identity.part,
            traits.get("role", ""),
            traits.get("class", ""),
        )
        self.agent_requests.add((*labels, record.rule, ending))
        if record.tally and record.tally.usage:
            self.agent_tokens.add(labels, record.tally.usage.total)
        if record.cost:
            self.agent_cost.add(labels, record.cost * MICRO)


def count_classes(usage: Usage | None) -> list[tuple[str, int]]:
    """The tokens of each class. Each token is counted once."""
    if usage is None:
        return []
    read, written, reasoning = usage.cache_read or 0, usage.cache_write or 0, usage.reasoning or 0
    counts = {
        "input": max(0, (usage.input or 0) + (usage.tool_input or 0) - read - written),
        "cache_read": read,
        "cache_write": written,
        "output": max(0, (usage.output or 0) - reasoning),
        "reasoning": reasoning,
    }
    return [(kind, count) for kind, count in counts.items() if count]


def list_named_targets(config: Config) -> Iterator[TargetName]:
    """The targets that the configuration names: in routes, as the default, or below a provider."""
    for targets in (*(route.targets for route in config.routes), config.default):
        yield from (target for target in targets if target.model != UNNAMED)
    for provider in config.providers.values():
        yield from (TargetName(provider.name, name) for name in provider.models if not is_pattern(name))
