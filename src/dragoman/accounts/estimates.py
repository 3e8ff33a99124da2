"""Estimates of tokens and costs: before a request is sent, and after a reply without final usage.

An upstream reports usage at the end of a reply. If the reply stops early, the gateway charges the usage
reported so far, and estimates the rest from the received bytes. Otherwise a client could avoid all charges
by closing the connection.
"""

import msgspec

from dragoman.accounts.limits import Amount
from dragoman.config.config import Config
from dragoman.config.model_facts import find_prices
from dragoman.config.provider import TargetName
from dragoman.dialects.registry import dialect_named
from dragoman.hub.usage import Usage
from dragoman.providers.prices import Prices, TokenPrices, compute_cost, compute_saving

#: Output tokens that are reserved if the request sets no maximum.
DEFAULT_OUTPUT = 4096
#: The reserve for a prompt is the estimate plus 1/SAFETY_SHARE of it plus SAFETY tokens. The estimate works
#: without the vendor's tokenizer and is accurate to a few percent; vendors add a few tokens of their own.
SAFETY_SHARE = 4
SAFETY = 16
#: Bytes of a request body for one prompt token, if the prompt was not counted.
BYTES_PER_TOKEN = 4

#: The largest plausible token count of a reply. A larger number is an error or an attack.
MAX_TOKENS = 10**9
MAX_CANDIDATES = 128
#: Micro-dollars. The largest plausible cost of a reply; sums of it fit into an SQLite integer.
MAX_COST = 10**15
#: Targets in the price cache. It is bounded because clients choose the model names.
MAX_PRICED_TARGETS = 1000

#: The last field of `Usage` is no count.
_COUNTS = Usage.__struct_fields__[:-1]
_NO_USAGE = Usage()
_FREE = Prices(per_token=TokenPrices(input=0, output=0, cache_read=0, cache_write=0, cache_write_long=0))


class OtherCall(msgspec.Struct, frozen=True):
    """A call whose usage is charged besides that of the last one, at the prices of its target.

    An earlier round of a reply has the counts of its prompt: what it generated is in the reply's usage.
    """

    target: TargetName
    usage: Usage
    #: It was cancelled after so many bytes of its reply, so that its usage is not complete.
    is_cancelled: bool = False
    received_bytes: int = 0


class ExchangeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an exchange ended, as far as accounting needs it."""

    #: The last target that was tried, if any.
    target: TargetName | None = None
    #: The usage that the upstream reported, if any.
    usage: Usage | None = None
    #: The upstream received the request and did not refuse it.
    was_accepted: bool = False
    is_finished: bool = False
    has_failed: bool = False
    #: Further calls that upstreams answered.
    others: tuple[OtherCall, ...] = ()
    #: Bytes of the reply that arrived.
    received_bytes: int = 0
    is_stream: bool = False
    #: The coding agent that sent the request, and its role.
    agent: str = ""
    role: str = ""


def estimate_usage(outcome: ExchangeOutcome, prompt_tokens: int, stream_dialect: str = "") -> Usage:
    """The usage to charge. `prompt_tokens` was counted before; `input` and `output` of the result are set.

    `stream_dialect` is the dialect of the upstream's stream, or empty for a whole reply.
    """
    if not outcome.was_accepted:
        return Usage(input=0, output=0)
    reported = _clamp_counts(outcome.usage) if outcome.usage else _NO_USAGE
    prompt, output = reported.input, reported.output
    # Some servers start with zero and correct it at the end of the reply.
    if prompt is None or (prompt == 0 and not outcome.is_finished):
        prompt = prompt_tokens
    if output is None or not outcome.is_finished:
        stream = dialect_named(stream_dialect).http_api.stream_bytes_per_token if stream_dialect else 0
        estimate = outcome.received_bytes // (stream or BYTES_PER_TOKEN)
        output = max(reported.output or 0, min(estimate, MAX_TOKENS))
    if prompt == reported.input and output == reported.output:
        return reported
    return msgspec.structs.replace(reported, input=prompt, output=output)


def estimate_other(other: OtherCall, prompt_tokens: int, stream_dialect: str = "") -> Usage:
    """The usage to charge for a further call. `prompt_tokens` counts if the upstream reported no input."""
    if other.is_cancelled:
        outcome = ExchangeOutcome(usage=other.usage, was_accepted=True, received_bytes=other.received_bytes)
        return estimate_usage(outcome, prompt_tokens, stream_dialect)
    reported = _clamp_counts(other.usage)
    return reported if reported.input is not None else msgspec.structs.replace(reported, input=prompt_tokens)


def _clamp_counts(usage: Usage) -> Usage:
    """Bound the counts of an upstream: they are untrusted input."""
    reported = list(filter(None, msgspec.structs.astuple(usage)[:-1]))
    if not reported or 0 <= min(reported) <= max(reported) <= MAX_TOKENS:
        return usage
    counts = {name: getattr(usage, name) for name in _COUNTS}
    return msgspec.structs.replace(
        usage, **{name: min(max(0, each), MAX_TOKENS) for name, each in counts.items() if each is not None}
    )


def add_safety_margin(tokens: int) -> int:
    """The prompt tokens to reserve for a prompt with this estimate."""
    return tokens + tokens // SAFETY_SHARE + SAFETY


def estimate_max_output(requested: int | None, candidates: int | None, model_limit: int | None) -> int:
    """The output tokens to reserve: the requested maximum, bounded by the model, for each candidate."""
    output = min(max(1, requested or DEFAULT_OUTPUT), model_limit or MAX_TOKENS, MAX_TOKENS)
    return output * min(max(1, candidates or 1), MAX_CANDIDATES)


def build_amount(usage: Usage, micro_dollars: int) -> Amount:
    return Amount(usage.total + (usage.tool_input or 0), micro_dollars)


class PriceList:
    """The prices of one configuration. Caches the prices of a target: a profile merges many facts."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._cache: dict[TargetName, Prices | None] = {}

    def cost(self, target: TargetName, usage: Usage) -> int | None:
        """The cost in micro-dollars; None if the price is unknown, which is not the same as free."""
        prices = self._find_prices(target)
        return None if prices is None else min(compute_cost(prices, usage), MAX_COST)

    def compute_saving(self, target: TargetName, usage: Usage) -> int | None:
        """What the prompt cache saved, in micro-dollars; None if the price is unknown."""
        prices = self._find_prices(target)
        return None if prices is None else min(compute_saving(prices, usage), MAX_COST)

    def _find_prices(self, target: TargetName) -> Prices | None:
        if target not in self._cache:
            if len(self._cache) >= MAX_PRICED_TARGETS:
                self._cache.clear()
            provider = self._config.providers[target.provider]
            is_free = provider.program is not None and provider.program.is_free
            self._cache[target] = _FREE if is_free else find_prices(self._config, target)
        return self._cache[target]
