"""The counters of one gateway. An exchange is counted once, when it has ended.

Clients choose the model names. A model is a label only if the configuration names it; otherwise it is `*`.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dragoman.accounts.activity import ACTIVITY_NAMES, ActivityCounts
from dragoman.config.config import Config
from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure
from dragoman.hub.usage import Usage
from dragoman.routing.choose import is_pattern
from dragoman.telemetry.instruments import MAX_SERIES, Counter, Histogram, Labels, Sum

if TYPE_CHECKING:
    from dragoman.exchange.kind import ExchangeKind
    from dragoman.exchange.record import ExchangeRecord

#: The label of all models that the configuration does not name.
UNNAMED = "*"
MICRO = 1e-6
#: The outcome of a try without a failure. Other outcomes are kinds of failure.
OK = "ok"

TARGET = ("provider", "model")
AGENT = ("agent", "part", "role", "class")
TOKEN_CLASSES = ("input", "cache_read", "cache_write", "output", "reasoning")

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1800)
FIRST_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 25, 50, 100)


class Metrics:
    """Counts exchanges since the start of the gateway. `config` returns the current configuration."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._read_config = config
        self._config: Config | None = None
        self._named: frozenset[TargetName] = frozenset()
        self._series: dict[ExchangeKind, ExchangeSeries] = {}
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
        series = self._find_series(record)
        series.requests.value += 1
        series.agent_requests.value += 1
        series.key_requests.value += 1
        series.seconds.add(record.seconds)
        if record.first_token_seconds:
            series.first_token.add(record.first_token_seconds)
        tally = record.tally
        if tally is not None:
            series.calls.value += tally.calls
            if tally.usage is not None:
                series.count_tokens(tally.usage)
        if record.cost:
            dollars = record.cost * MICRO
            series.cost.value += dollars
            series.agent_cost.value += dollars
            series.key_cost.value += dollars
        self._count_attempts(record, series)
        failure = record.refused or record.broken
        if failure is not None:
            self.errors.add((record.dialect, *series.target, failure.kind))
        if record.losses:
            self.losses.add((record.dialect, *series.target, "request"), len(record.losses))
        if record.reply_losses:
            self.losses.add((record.dialect, *series.target, "reply"), len(record.reply_losses))
        if record.interventions.is_governed:
            self._count_interventions(record)

    def find_labels(self, target: TargetName | None) -> Labels:
        """The labels of a target; both are empty if there is no target."""
        if target is None:
            return ("", "")
        self._follow_config()
        return (target.provider, target.model if target in self._named else UNNAMED)

    def _follow_config(self) -> None:
        """Label the targets that the current configuration names."""
        config = self._read_config()
        if config is not self._config:
            self._config, self._named = config, frozenset(list_named_targets(config))
            self._series.clear()

    def _find_series(self, record: "ExchangeRecord") -> "ExchangeSeries":
        """The series that count exchanges of this kind. Most exchanges have a kind that is known."""
        if self._read_config() is not self._config:
            self._follow_config()
        kind = record.kind
        series = self._series.get(kind)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                self._series.clear()
            series = self._series[kind] = ExchangeSeries(self, record)
        return series

    def _count_attempts(self, record: "ExchangeRecord", series: "ExchangeSeries") -> None:
        for number, attempt in enumerate(record.attempts):
            failure = attempt.failure
            if failure is None and not number and attempt.target == record.target:
                # The only one of most exchanges.
                series.answers.value += 1
                continue
            target = self.find_labels(attempt.target)
            self.attempts.add((*target, failure.kind if failure else OK))
            if number:
                self.retries.add(target)
            if attempt.cools and failure:
                self.cooldowns.add((*target, failure.kind))

    def _count_interventions(self, record: "ExchangeRecord") -> None:
        for logged in record.interventions:
            labels = self.find_labels(logged.target)
            self.interventions.add((*labels, logged.counter_name))
            if logged.intervention.held:
                self.held.add(labels, logged.intervention.held)


class ExchangeSeries:
    """The series that count the exchanges of one kind, found once for all of them."""

    def __init__(self, metrics: Metrics, record: "ExchangeRecord") -> None:
        kind, identity, traits = record.kind, record.identity, record.traits
        self.target = target = metrics.find_labels(record.target)
        self.requests = metrics.requests.find((kind.client, kind.route, *target, kind.ending))
        self.seconds = metrics.seconds.find(target)
        self.first_token = metrics.first_token.find(target)
        self.input, self.cache_read, self.cache_write, self.output, self.reasoning = (
            metrics.tokens.find((*target, name)) for name in TOKEN_CLASSES
        )
        self.cost = metrics.cost.find(target)
        self.calls = metrics.calls.find(target)
        self.answers = metrics.attempts.find((*target, OK))
        # Without a key there is nothing to count by key.
        has_key = bool(kind.key)
        self.key_requests = metrics.key_requests.find((kind.key, kind.ending)) if has_key else Sum()
        self.key_tokens = metrics.key_tokens.find((kind.key,)) if has_key else Sum()
        self.key_cost = metrics.key_cost.find((kind.key,)) if has_key else Sum()
        agent = (identity.known_agent, identity.part, traits.get("role", ""), traits.get("class", ""))
        self.agent_requests = metrics.agent_requests.find((*agent, kind.rule, kind.ending))
        self.agent_tokens = metrics.agent_tokens.find(agent)
        self.agent_cost = metrics.agent_cost.find(agent)

    def count_tokens(self, usage: Usage) -> None:
        """Count the tokens of a reply."""
        prompt, read, written, output, reasoning = count_classes(usage)
        self.input.value += prompt
        self.cache_read.value += read
        self.cache_write.value += written
        self.output.value += output
        self.reasoning.value += reasoning
        total = usage.total
        self.key_tokens.value += total
        self.agent_tokens.value += total


def count_classes(usage: Usage) -> tuple[int, int, int, int, int]:
    """The tokens of each of the `TOKEN_CLASSES`. Each token is counted once."""
    read, written, reasoning = usage.cache_read or 0, usage.cache_write or 0, usage.reasoning or 0
    prompt = max(0, (usage.input or 0) + (usage.tool_input or 0) - read - written)
    return (prompt, read, written, max(0, (usage.output or 0) - reasoning), reasoning)


def list_named_targets(config: Config) -> Iterator[TargetName]:
    """The targets that the configuration names: in routes, as the default, or below a provider."""
    for targets in (*(route.targets for route in config.routes), config.default):
        yield from (target for target in targets if target.model != UNNAMED)
    for provider in config.providers.values():
        yield from (TargetName(provider.name, name) for name in provider.models if not is_pattern(name))
