"""`ExchangeUsage`: checks, reserves and settles the usage of one exchange."""

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from dragoman.accounts.accounts import Accounts
from dragoman.accounts.errors import PriceUnknown, build_limit_error
from dragoman.accounts.estimates import (
    BYTES_PER_TOKEN,
    DEFAULT_OUTPUT,
    ExchangeOutcome,
    OtherCall,
    PriceList,
    add_safety_margin,
    build_amount,
    estimate_max_output,
    estimate_other,
    estimate_usage,
)
from dragoman.accounts.keys import ANONYMOUS, Caller, check_model
from dragoman.accounts.limits import (
    NOTHING,
    Amount,
    BudgetUse,
    LimitRefusal,
    RateLimitStatus,
)
from dragoman.accounts.statistics import MAX_USAGE_KEYS, UsageCounts, UsageKey
from dragoman.accounts.store import Reservation, ReservationRequest
from dragoman.config.config import Config
from dragoman.config.provider import TargetName
from dragoman.hub.errors import DragomanError
from dragoman.hub.request import Request
from dragoman.hub.usage import Usage
from dragoman.tokens.request import estimate_from_samples
from dragoman.tokens.tokenizers import find_tokenizer

LOGGER = logging.getLogger("dragoman")

#: Characters of a model name in the statistics.
MAX_NAME = 200


class Charge(NamedTuple):
    """The usage of calls, its cost, and what the prompt cache saved.

    Amounts are in micro-dollars, and None if a price is unknown.
    """

    used: Usage
    cost: int | None
    saved: int | None

    def add(self, other: "Charge") -> "Charge":
        return Charge(self.used.add(other.used), _add(self.cost, other.cost), _add(self.saved, other.saved))


class ExchangeUsage:
    """The usage of one exchange. Call `check_model`, `estimate`, `reserve`, then `settle` exactly once.

    `settle` must also be called if one of the others raised or was never called. The limits of the key are
    those at the time of `check_model`, not those at the start of the connection.
    """

    #: The state of the limits per minute, for the response headers. `reserve` sets it.
    rate_limits: tuple[RateLimitStatus, ...] = ()
    #: The budgets of the key before this exchange. `reserve` sets them.
    budgets: tuple[BudgetUse, ...] = ()
    _reservation: Reservation | None = None
    _is_refused = False

    def __init__(
        self, accounts: Accounts, caller: Caller, config: Config, prices: PriceList, body_size: int
    ) -> None:
        self._accounts = accounts
        self._caller = caller
        self._config = config
        self._prices = prices
        #: Prompt tokens. An estimate from the size of the body until the prompt is counted.
        self._prompt_tokens = body_size // BYTES_PER_TOKEN

    @property
    def has_limits(self) -> bool:
        """Whether the exchange needs a reservation."""
        return self._caller.limits.has_any

    async def check_model(self, model: str) -> None:
        """Raise if the key is no longer valid or does not allow the model."""
        if self._caller is ANONYMOUS:
            return
        self._is_refused = True
        self._caller = await self._accounts.keys.renew_caller(self._caller)
        check_model(self._caller, model)
        self._is_refused = False

    def estimate(
        self, read_request: Callable[[], Request], targets: Sequence[TargetName], calls: int = 1
    ) -> ReservationRequest | None:
        """The most that the request may use with any of the targets; None for a key without limits.

        `calls`: how many of the targets may be called at once.

        `read_request` is called only if a limit counts tokens. If it raises a `DragomanError`, the estimate
        uses the size of the body. A large request needs a thread. Raises if the price is unknown.
        """
        caller = self._caller
        if not caller.limits.has_any:
            return None
        self._is_refused = True
        maximum, minimum = self._estimate_amounts(read_request, targets, calls)
        return ReservationRequest(key=caller.id, limits=caller.limits, maximum=maximum, minimum=minimum)

    async def reserve(self, request: ReservationRequest | None) -> None:
        """Reserve what `estimate` returned. Raises if a limit refuses it."""
        if request is None:
            return
        result = await self._accounts.ledger.reserve(request)
        self.rate_limits, self.budgets = result.rate_limits, result.budgets
        if isinstance(result, LimitRefusal):
            raise build_limit_error(self._caller.name, result, self._accounts.clock())
        self._reservation = result
        self._is_refused = False

    def has_budget(self, calls: Sequence[OtherCall]) -> bool:
        """Whether each budget of the key has something left after these calls of the exchange."""
        if not self.budgets:
            return True
        tokens = sum(call.usage.total for call in calls)
        cost = sum(self._prices.cost(call.target, call.usage) or 0 for call in calls)
        return all(
            each.used + (cost if each.unit == "cost" else tokens) < each.limit for each in self.budgets
        )

    def settle(self, outcome: ExchangeOutcome) -> Charge:
        """Charge the exchange and add it to the statistics."""
        target = outcome.target
        used = estimate_usage(outcome, self._prompt_tokens, self._find_stream_dialect(outcome, target))
        charge = self._price(target, used)
        if outcome.others:
            charge = self._add_shares(outcome, charge)
        else:
            self._add_statistics(target, outcome, self._build_counts(outcome, charge))
        if self._reservation is not None:
            self._accounts.ledger.settle(self._reservation, build_amount(charge.used, charge.cost or 0))
        return charge

    def _price(self, target: TargetName | None, used: Usage) -> Charge:
        if target is None:
            return Charge(used, None, None)
        return Charge(used, self._prices.cost(target, used), self._prices.compute_saving(target, used))

    def _add_shares(self, outcome: ExchangeOutcome, charge: Charge) -> Charge:
        """Add an exchange with several calls to the statistics of each target. Returns the sum.

        `charge` is that of the last call. Each call has its own prices: they depend on the target, and some
        on the length of the prompt.
        """
        shares = {outcome.target: charge}
        for other in outcome.others:
            dialect = self._find_stream_dialect(outcome, other.target)
            added = self._price(other.target, estimate_other(other, self._prompt_tokens, dialect))
            share = shares.get(other.target)
            shares[other.target] = share.add(added) if share else added
            charge = charge.add(added)
        for target, share in shares.items():
            counts = self._build_counts(outcome, share)
            if target != outcome.target:
                # An exchange is one request, which its last target has answered.
                counts.requests = counts.failures = 0
            self._add_statistics(target, outcome, counts)
        return charge

    def _find_stream_dialect(self, outcome: ExchangeOutcome, target: TargetName | None) -> str:
        """The dialect of a target's stream; empty for a whole reply."""
        return self._config.providers[target.provider].wire_dialect if target and outcome.is_stream else ""

    def _add_statistics(
        self, target: TargetName | None, outcome: ExchangeOutcome, counts: UsageCounts
    ) -> None:
        usage_key = _build_usage_key(self._caller.id, target, outcome.agent, outcome.role)
        self._accounts.ledger.add_usage(usage_key, counts, is_settled=self._reservation is not None)

    def _estimate_amounts(
        self, read_request: Callable[[], Request], targets: Sequence[TargetName], calls: int
    ) -> tuple[Amount, Amount]:
        """The amounts that the request uses at most, and at least as soon as it was sent."""
        if not self._caller.limits.counts_tokens:
            return NOTHING, NOTHING
        self._prompt_tokens, output = self._estimate_tokens(read_request, targets[0])
        sent = Usage(input=self._prompt_tokens, output=0)
        answered = Usage(input=add_safety_margin(self._prompt_tokens), output=output)
        highest = sorted(self._find_cost(target, answered) for target in targets)[-calls:]
        tokens = build_amount(answered, 0).tokens * len(highest)
        return (
            Amount(tokens, sum(highest)),
            build_amount(sent, max(self._find_cost(target, sent) for target in targets)),
        )

    def _estimate_tokens(self, read_request: Callable[[], Request], target: TargetName) -> tuple[int, int]:
        """The prompt tokens, and the maximum of the output tokens."""
        try:
            request = read_request()
        except DragomanError:
            # An upstream of the same dialect may accept what the gateway cannot read. The exchange decides.
            return self._prompt_tokens, DEFAULT_OUTPUT
        provider = self._config.providers[target.provider]
        tokens = estimate_from_samples(request, find_tokenizer(target.model, provider.wire_dialect))
        model_limit = provider.build_profile(target.model).facts.max_output_tokens
        return tokens, estimate_max_output(request.max_tokens, request.candidates, model_limit)

    def _find_cost(self, target: TargetName, usage: Usage) -> int:
        """The cost in micro-dollars; 0 if the key has no budget of money."""
        if not self._caller.limits.counts_cost:
            return 0
        cost = self._prices.cost(target, usage)
        if cost is None:
            raise PriceUnknown(
                f"the key {self._caller.name!r} has a budget of money, and the price of {target} is unknown",
                hint=f"set price_input and price_output for it, in [providers.{target.provider}.models]",
            )
        return cost

    def _build_counts(self, outcome: ExchangeOutcome, charge: Charge) -> UsageCounts:
        used, cost = charge.used, charge.cost
        return UsageCounts(
            requests=1,
            failures=int(outcome.has_failed and not self._is_refused),
            refused=int(self._is_refused),
            input=(used.input or 0) + (used.tool_input or 0),
            cache_read=used.cache_read or 0,
            cache_write=used.cache_write or 0,
            output=used.output or 0,
            reasoning=used.reasoning or 0,
            unpriced=int(cost is None and outcome.was_accepted),
            cost=cost or 0,
        )


def _add(amount: int | None, other: int | None) -> int | None:
    """The sum; None if one is unknown."""
    return None if amount is None or other is None else amount + other


# Bounded, because clients choose the model names.
@lru_cache(maxsize=MAX_USAGE_KEYS)
def _build_usage_key(caller: str, target: TargetName | None, agent: str, role: str) -> UsageKey:
    """The row of the statistics for an exchange, without its hour."""
    if target is None:
        return UsageKey(0, caller, "", "", agent, role)
    return UsageKey(0, caller, target.provider, _clean_name(target.model), agent, role)


def _clean_name(name: str) -> str:
    """A model name that the client chose, shortened, as text that SQLite can store."""
    name = name[:MAX_NAME]
    return name if name.isascii() else name.encode("utf-8", "replace").decode()
