"""What a target costs, as far as that is known."""

from dragoman.config.model import Config, TargetName
from dragoman.providers.prices import Prices, read_prices


def prices_of(config: Config, target: TargetName) -> Prices | None:
    """The prices of a model at its provider; None if they are not known, which is not the same as free."""
    provider = config.providers.get(target.provider)
    return read_prices(provider.profile(target.model).facts) if provider else None
