"""What a reply costs: prices per million tokens, and the usage they are multiplied with.

A dollar per million tokens is a micro-dollar per token, which is the unit here. Costs are whole
micro-dollars, rounded up once, at the end: a budget may be told a hair too much, never too little.
"""

import msgspec

from dragoman.hub.usage import Usage
from dragoman.providers.profile import Profile

#: Prices have at most this many digits behind the point; sums of them are then exact.
_PARTS = 1_000_000


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Micro-dollars for a token of each kind."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    #: For a life of one hour.
    cache_write_long: float


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """A model's prices. Prompts of more than `long_prompt` tokens have rates of their own; 0: none have."""

    rates: Rates
    long_prompt: int = 0
    long_rates: Rates | None = None

    def for_prompt(self, tokens: int) -> Rates:
        if self.long_rates is not None and 0 < self.long_prompt < tokens:
            return self.long_rates
        return self.rates


def prices_in(profile: Profile) -> Prices | None:
    """The prices that a profile states; None unless both the prompt's and the answer's are known."""
    if profile.price_input is None or profile.price_output is None:
        return None
    rates = _rates(
        profile.price_input,
        profile.price_output,
        profile.price_cache_read,
        profile.price_cache_write,
        profile.price_cache_write_long,
    )
    if not profile.long_prompt:
        return Prices(rates=rates)
    long_rates = _rates(
        _first(profile.long_price_input, rates.input),
        _first(profile.long_price_output, rates.output),
        profile.long_price_cache_read,
        profile.long_price_cache_write,
        profile.long_price_cache_write_long,
    )
    return Prices(rates=rates, long_prompt=profile.long_prompt, long_rates=long_rates)


def cost(prices: Prices, usage: Usage) -> int:
    """What this usage costs, in micro-dollars. What was not told counts as nothing."""
    prompt = (usage.input or 0) + (usage.tool_input or 0)
    rates = prices.for_prompt(prompt)
    read, written = usage.cache_read or 0, usage.cache_write or 0
    # A report may name a part without the whole.
    long_lived = min(usage.cache_write_long or 0, written)
    parts = (
        (max(0, prompt - read - written), rates.input),
        (read, rates.cache_read),
        (written - long_lived, rates.cache_write),
        (long_lived, rates.cache_write_long),
        (usage.output or 0, rates.output),
    )
    total = sum(tokens * round(rate * _PARTS) for tokens, rate in parts)
    return -(-total // _PARTS)


def _rates(
    prompt: float, answer: float, read: float | None, write: float | None, write_long: float | None
) -> Rates:
    write = _first(write, prompt)
    return Rates(
        input=prompt,
        output=answer,
        cache_read=_first(read, prompt),
        cache_write=write,
        cache_write_long=_first(write_long, write),
    )


def _first(price: float | None, otherwise: float) -> float:
    return otherwise if price is None else price
