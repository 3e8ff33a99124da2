"""Which targets have failed lately. A target that cools down is tried last, never forbidden.

So the only target of a route is never disabled: its true error reaches the client every time.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dragoman.config.model import TargetName
from dragoman.hub.errors import Failure
from dragoman.routing.retry import cools

FIRST_COOLDOWN = 5.0
LONGEST_COOLDOWN = 300.0
#: Clients make up model names; what they made up is forgotten first.
REMEMBERED = 1000


class Cooldown(NamedTuple):
    until: float
    failures: int
    reason: str


class Health:
    """Cooldowns by target and number of the provider's key; `now` is any clock that only goes forward."""

    def __init__(self) -> None:
        self._cooldowns: dict[tuple[TargetName, int], Cooldown] = {}

    def failed(self, target: TargetName, key: int, failure: Failure, now: float) -> bool:
        """Remember a failure, if it says something about the target; whether it does."""
        if not cools(failure):
            return False
        earlier = self._cooldowns.pop((target, key), None)
        failures = earlier.failures + 1 if earlier else 1
        # The exponent is bounded too: a target may fail for months.
        wait = min(FIRST_COOLDOWN * 2 ** min(failures - 1, 10), LONGEST_COOLDOWN)
        wait = max(wait, min(failure.retry_after or 0.0, LONGEST_COOLDOWN))
        if len(self._cooldowns) >= REMEMBERED:
            del self._cooldowns[min(self._cooldowns, key=lambda place: self._cooldowns[place].until)]
        self._cooldowns[(target, key)] = Cooldown(
            now + wait, failures, f"{failure.kind} {failure.http_status}"
        )
        return True

    def worked(self, target: TargetName, key: int) -> None:
        self._cooldowns.pop((target, key), None)

    def forget(self, provider: str) -> None:
        """The provider is not what it was, so its past says nothing."""
        for place in [place for place in self._cooldowns if place[0].provider == provider]:
            del self._cooldowns[place]

    def cools(self, target: TargetName, key: int, now: float) -> bool:
        cooldown = self._cooldowns.get((target, key))
        return cooldown is not None and cooldown.until > now

    def cooling(self, now: float) -> dict[tuple[TargetName, int], Cooldown]:
        return {place: cooldown for place, cooldown in self._cooldowns.items() if cooldown.until > now}

    def order(
        self, targets: Sequence[TargetName], keys: Mapping[str, int], session: int, now: float
    ) -> list[tuple[TargetName, int]]:
        """Every target with every key, the healthy first.

        `keys` is how many keys each provider has. A session sticks to one key, because prompt caches
        and sealed reasoning live with it; other sessions take the others.
        """
        places: list[tuple[TargetName, int]] = []
        for target in targets:
            count = max(1, keys.get(target.provider, 1))
            places += [(target, (session + turn) % count) for turn in range(count)]
        return sorted(places, key=lambda place: self.cools(place[0], place[1], now))
