"""Prices of a model, and the cost of a reply.

A dollar per million tokens is a micro-dollar per token, which is the unit here. Costs are whole
micro-dollars, rounded up once, at the end: a budget may count a fraction too much, never too little.
"""

import msgspec

from dragoman.hub.usage import Usage
from dragoman.providers.facts import Facts

#: Prices have at most six decimal places. Costs are summed as integers of this fraction, so sums are exact.
_FRACTIONS = 1_000_000


class TokenPrices(msgspec.Struct, frozen=True, kw_only=True):
    """Micro-dollars per token, by kind of token."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    #: For a lifetime of one hour.
    cache_write_long: float


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of a model. Prompts of more than `long_prompt` tokens have `long_per_token`; 0: none do."""

    per_token: TokenPrices
    long_prompt: int = 0
    long_per_token: TokenPrices | None = None

    def for_prompt(self, tokens: int) -> TokenPrices:
        """The token prices of a request whose prompt has this many tokens."""
        if self.long_per_token is not None and 0 < self.long_prompt < tokens:
            return self.long_per_token
        return self.per_token


def read_prices(facts: Facts) -> Prices | None:
    """The prices among the facts; None unless both the prompt's and the answer's are known."""
    if facts.price_input is None or facts.price_output is None:
        return None
    per_token = _build_token_prices(
        facts.price_input,
        facts.price_output,
        facts.price_cache_read,
        facts.price_cache_write,
        facts.price_cache_write_long,
    )
    if not facts.long_prompt:
        return Prices(per_token=per_token)
    long_per_token = _build_token_prices(
        _or_default(facts.long_price_input, per_token.input),
        _or_default(facts.long_price_output, per_token.output),
        facts.long_price_cache_read,
        facts.long_price_cache_write,
        facts.long_price_cache_write_long,
    )
    return Prices(per_token=per_token, long_prompt=facts.long_prompt, long_per_token=long_per_token)


def compute_cost(prices: Prices, usage: Usage) -> int:
    """The cost of this usage in micro-dollars. A count that the upstream did not report is 0."""
    prompt = (usage.input or 0) + (usage.tool_input or 0)
    per_token = prices.for_prompt(prompt)
    read, written = usage.cache_read or 0, usage.cache_write or 0
    # Some upstreams report the long-lived part without the whole.
    long_lived = min(usage.cache_write_long or 0, written)
    parts = (
        (max(0, prompt - read - written), per_token.input),
        (read, per_token.cache_read),
        (written - long_lived, per_token.cache_write),
        (long_lived, per_token.cache_write_long),
        (usage.output or 0, per_token.output),
    )
    total = sum(tokens * round(price * _FRACTIONS) for tokens, price in parts)
    return -(-total // _FRACTIONS)


def compute_saving(prices: Prices, usage: Usage) -> int:
    """What the tokens from the cache would have cost more at the price of the others, in micro-dollars.

    Rounded down. It is not negative, also if a cache costs more than it saves.
    """
    if not usage.cache_read:
        return 0
    prompt = (usage.input or 0) + (usage.tool_input or 0)
    per_token = prices.for_prompt(prompt)
    difference = round(per_token.input * _FRACTIONS) - round(per_token.cache_read * _FRACTIONS)
    return max(0, min(usage.cache_read, prompt) * difference // _FRACTIONS)


def _build_token_prices(
    prompt: float, answer: float, read: float | None, write: float | None, write_long: float | None
) -> TokenPrices:
    write = _or_default(write, prompt)
    return TokenPrices(
        input=prompt,
        output=answer,
        cache_read=_or_default(read, prompt),
        cache_write=write,
        cache_write_long=_or_default(write_long, write),
    )


def _or_default(price: float | None, default: float) -> float:
    return default if price is None else price
