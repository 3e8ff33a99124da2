"""What is counted about exchanges, once each has ended: nothing here runs while a reply streams.

Clients make up model names, so a model is a label only if the configuration names it; else it is `*`.
"""

from collections.abc import Iterator

from dragoman.config.model import Config, TargetName
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.interventions import find_counter_name
from dragoman.exchange.record import Record
from dragoman.hub.errors import Failure
from dragoman.hub.usage import Usage
from dragoman.routing.choose import is_pattern
from dragoman.telemetry.instruments import Counter, Histogram, Labels

#: Any model that the configuration does not name.
UNNAMED = "*"
MICRO = 1e-6
#: The outcome of a try that went well; the others are kinds of failure.
OK = "ok"

PLACE = ("provider", "model")

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1800)
FIRST_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 25, 50, 100)


class KeyMetrics:
    """What client keys have used; their names are the operator's."""

    def __init__(self) -> None:
        self.requests = Counter(
            "dragoman_key_requests_total", ("key", "ending"), "Exchanges that have ended, by client key."
        )
        self.tokens = Counter("dragoman_key_tokens_total", ("key",), "Tokens used, by client key.")
        self.cost = Counter("dragoman_key_cost_dollars_total", ("key",), "What was spent, by client key.")

    def finished(self, record: Record, usage: Usage | None, ending: str) -> None:
        name = record.caller.name
        if not name:
            return
        self.requests.add((name, ending))
        if usage is not None:
            self.tokens.add((name,), usage.total)
        if record.cost:
            self.cost.add((name,), record.cost * MICRO)


class Metrics:
    """The counters of one gateway, since it began."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._config: Config | None = None
        self._named: frozenset[TargetName] = frozenset()
        self.requests = Counter(
            "dragoman_requests_total",
            ("client", "route", *PLACE, "ending"),
            "Exchanges that have ended: finished, failed, truncated or cancelled.",
        )
        self.seconds = Histogram(
            "dragoman_request_seconds", PLACE, "Seconds from a request to the end of its reply.", SECONDS
        )
        self.first_token = Histogram(
            "dragoman_first_token_seconds",
            PLACE,
            "Seconds from a request to the first word of its reply.",
            FIRST_SECONDS,
        )
        self.tokens = Counter(
            "dragoman_tokens_total",
            (*PLACE, "class"),
            "Tokens by class: input, cache_read, cache_write, output, reasoning. Each token is in one class.",
        )
        self.cost = Counter(
            "dragoman_cost_dollars_total", PLACE, "What replies cost, where prices are known."
        )
        self.errors = Counter(
            "dragoman_errors_total",
            ("client", *PLACE, "kind"),
            "Exchanges that failed or broke off, by the kind of failure that the client was told.",
        )
        self.refusals = Counter(
            "dragoman_refusals_total", ("kind",), "Requests that were refused before they became exchanges."
        )
        self.attempts = Counter(
            "dragoman_attempts_total",
            (*PLACE, "outcome"),
            "Tries of a target: ok, or the kind of failure, also where another target helped out.",
        )
        self.retries = Counter(
            "dragoman_retries_total", PLACE, "Tries beyond the first of an exchange, by the target tried."
        )
        self.cooldowns = Counter(
            "dragoman_cooldowns_total",
            (*PLACE, "reason"),
            "Times that a target began, or went on, to cool down.",
        )
        self.losses = Counter(
            "dragoman_losses_total",
            ("client", *PLACE, "side"),
            "Things that could not be translated, in the request or in the reply.",
        )
        self.calls = Counter("dragoman_tool_calls_total", PLACE, "Tool calls in replies that were read.")
        self.interventions = Counter(
            "dragoman_tool_interventions_total", (*PLACE, "kind"), "What governance did to tool calls."
        )
        self.held = Counter(
            "dragoman_tool_held_seconds_total", PLACE, "Seconds for which governance held tool calls back."
        )
        self.keys = KeyMetrics()

    @property
    def instruments(self) -> tuple[Counter | Histogram, ...]:
        values = (*vars(self).values(), *vars(self.keys).values())
        return tuple(value for value in values if isinstance(value, Counter | Histogram))

    def refused(self, failure: Failure) -> None:
        self.refusals.add((failure.kind,))

    def finished(self, record: Record) -> None:
        """Count an exchange that is over."""
        place = self.place(record.target)
        ending = record.ending
        self.requests.add((record.dialect, record.route, *place, ending))
        self.seconds.add(place, record.seconds)
        if record.first_token:
            self.first_token.add(place, record.first_token)
        usage = record.tally.usage if record.tally else None
        for kind, count in classes(usage):
            self.tokens.add((*place, kind), count)
        if record.cost:
            self.cost.add(place, record.cost * MICRO)
        if record.failure is not None:
            self.errors.add((record.dialect, *place, record.failure.kind))
        for side, losses in (("request", record.losses), ("reply", record.reply_losses)):
            if losses:
                self.losses.add((record.dialect, *place, side), len(losses))
        self._tries(record)
        self._tools(record, place)
        self.keys.finished(record, usage, ending)

    def place(self, target: TargetName | None) -> Labels:
        """A target as labels; both are empty where there was none."""
        if target is None:
            return ("", "")
        config = self._gateway.config
        if config is not self._config:
            self._config, self._named = config, frozenset(named_targets(config))
        return (target.provider, target.model if target in self._named else UNNAMED)

    def _tries(self, record: Record) -> None:
        for number, tried in enumerate(record.attempts):
            place = self.place(tried.target)
            self.attempts.add((*place, tried.failure.kind if tried.failure else OK))
            if number:
                self.retries.add(place)
            if tried.cools and tried.failure:
                self.cooldowns.add((*place, tried.failure.kind))

    def _tools(self, record: Record, place: Labels) -> None:
        if record.tally and record.tally.calls:
            self.calls.add(place, record.tally.calls)
        for noted in record.interventions:
            where = self.place(noted.target)
            self.interventions.add((*where, find_counter_name(noted.intervention)))
            if noted.intervention.held:
                self.held.add(where, noted.intervention.held)


def classes(usage: Usage | None) -> Iterator[tuple[str, int]]:
    """The tokens of each class, none of them counted twice."""
    if usage is None:
        return
    read, written, reasoning = usage.cache_read or 0, usage.cache_write or 0, usage.reasoning or 0
    counts = {
        "input": max(0, (usage.input or 0) + (usage.tool_input or 0) - read - written),
        "cache_read": read,
        "cache_write": written,
        "output": max(0, (usage.output or 0) - reasoning),
        "reasoning": reasoning,
    }
    yield from ((kind, count) for kind, count in counts.items() if count)


def named_targets(config: Config) -> Iterator[TargetName]:
    """The targets that the configuration itself names."""
    for targets in (*(route.targets for route in config.routes), config.default):
        yield from (target for target in targets if target.model != UNNAMED)
    for provider in config.providers.values():
        yield from (TargetName(provider.name, name) for name in provider.models if not is_pattern(name))
