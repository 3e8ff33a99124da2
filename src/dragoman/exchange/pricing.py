"""What replies cost, by target: looked up once, because a profile is made of many facts."""

from dragoman.config.model import Config, TargetName
from dragoman.config.prices import prices_of
from dragoman.hub.usage import Usage
from dragoman.providers.prices import Prices, Rates, cost

#: Targets whose prices are remembered. Clients make up the names of models.
MOST_TARGETS = 1000
#: A thousand million dollars: no reply costs more, and sums of it stay numbers that a file can hold.
MOST = 10**15

_FREE = Prices(rates=Rates(input=0, output=0, cache_read=0, cache_write=0, cache_write_long=0))


class PriceList:
    """The prices of one configuration."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[TargetName, Prices | None] = {}

    def cost(self, target: TargetName, usage: Usage) -> int | None:
        """In micro-dollars; None if nobody knows the prices, which is not the same as free."""
        prices = self._prices(target)
        return None if prices is None else min(cost(prices, usage), MOST)

    def _prices(self, target: TargetName) -> Prices | None:
        if target not in self._known:
            if len(self._known) >= MOST_TARGETS:
                self._known.clear()
            provider = self._config.providers[target.provider]
            is_ours = provider.dialect == "embedded"
            self._known[target] = _FREE if is_ours else prices_of(self._config, target)
        return self._known[target]
