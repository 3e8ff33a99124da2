"""What an exchange sees of the configuration, from its beginning to its end, whatever is reloaded meanwhile.

A view never changes. The ways to providers outlive it: the next view takes over those whose provider is the
same as before, and the rest are closed when the last exchange that may use them has ended.
"""

from collections.abc import Callable, Mapping

from dragoman.accounts.estimates import PriceList
from dragoman.config.model import Config, Provider
from dragoman.exchange.secrets import Secrets
from dragoman.upstream.port import Upstream


class Contact:
    """The way to one provider; made when it is first needed, shared by all views that know the provider."""

    def __init__(self, provider: Provider, make: Callable[[Provider], Upstream]) -> None:
        self.provider = provider
        #: How many views know it.
        self.views = 0
        self._make = make
        self._upstream: Upstream | None = None
        self._secrets: Secrets | None = None

    @property
    def upstream(self) -> Upstream:
        if self._upstream is None:
            self._upstream = self._make(self.provider)
        return self._upstream

    @property
    def made(self) -> Upstream | None:
        """The upstream, if it has been needed yet."""
        return self._upstream

    @property
    def secrets(self) -> Secrets:
        if self._secrets is None:
            self._secrets = Secrets(self.provider)
        return self._secrets

    async def close(self) -> None:
        if self._upstream is not None:
            await self._upstream.close()


class View:
    """One configuration and the ways to its providers."""

    def __init__(
        self, config: Config, make: Callable[[Provider], Upstream], earlier: "View | None" = None
    ) -> None:
        self.config = config
        self.prices = PriceList(config)
        #: How many keys each provider has.
        self.keys = {name: len(provider.keys) for name, provider in config.providers.items()}
        #: Exchanges that began with this view and have not ended.
        self.open = 0
        self._has_let_go = False
        kept = earlier.contacts if earlier else {}
        self.contacts: Mapping[str, Contact] = {
            name: kept[name] if name in kept and kept[name].provider == provider else Contact(provider, make)
            for name, provider in config.providers.items()
        }
        for contact in self.contacts.values():
            contact.views += 1

    def let_go(self) -> list[Contact]:
        """Nobody will need the ways any more; gives those that no other view knows."""
        if self._has_let_go:
            return []
        self._has_let_go = True
        for contact in self.contacts.values():
            contact.views -= 1
        return [contact for contact in self.contacts.values() if not contact.views]
