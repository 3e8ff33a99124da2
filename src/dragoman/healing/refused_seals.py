"""Seals that a provider refused: another account of the vendor made them, or the conversation was changed.

A conversation sends the same seals again with each request. So a refused seal is remembered and not sent to
the provider again, while seals that the provider makes later are. Only hashes are kept, in memory: after a
restart the refusal comes once more.
"""

#: Hashes of one provider. A long conversation has a few hundred seals.
MAX_SEALS = 20_000


class RefusedSeals:
    """Owns the hashes of refused seals (`fit.seals.hash_seal` computes one), by provider name."""

    def __init__(self) -> None:
        self._hashes: dict[str, frozenset[str]] = {}

    def find(self, provider: str) -> frozenset[str]:
        return self._hashes.get(provider, frozenset())

    def add(self, provider: str, added: frozenset[str]) -> None:
        known = self.find(provider)
        # Nothing is known about their age, so a full set begins anew.
        self._hashes[provider] = added if len(known) + len(added) > MAX_SEALS else known | added
