"""Cooldowns of targets that failed. A target that cools down is tried last, but it is never disabled.

The only target of a route is therefore always tried, and its own error reaches the client.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure
from dragoman.routing.retry import concerns_target, find_retry_action

#: Seconds.
FIRST_COOLDOWN = 5.0
MAX_COOLDOWN = 300.0
#: Cooldowns in memory. It is bounded because clients choose the model names.
MAX_COOLDOWNS = 1000
#: Seconds by which two reports of the same cooldown may differ, because clocks are compared.
HINT_TOLERANCE = 1.0


class Cooldown(NamedTuple):
    """`until` is a time of the caller's clock; `reason` is the kind and status of the last failure."""

    until: float
    failures: int
    reason: str


class TargetKey(NamedTuple):
    """A target and the index of a provider key. Cooldowns apply to this pair."""

    target: TargetName
    key: int


class TargetCalls:
    """The calls of one target since the gateway started."""

    def __init__(self) -> None:
        self.tries = 0
        self.failed = 0
        #: The failures since the last success, and the kind and status of the last one.
        self.failures_in_row = 0
        self.reason = ""

    def add(self, failure: Failure | None) -> None:
        """Count one call."""
        self.tries += 1
        if failure is None:
            self.failures_in_row, self.reason = 0, ""
            return
        self.failed += 1
        if find_retry_action(failure) != "stop":
            # Otherwise the request is at fault, which shows nothing about the target.
            self.failures_in_row += 1
            self.reason = f"{failure.kind} {failure.http_status}"


class TargetHealth:
    """Owns the cooldowns and the counts of calls. `now` is a monotonic clock."""

    def __init__(self) -> None:
        self._cooldowns: dict[TargetKey, Cooldown] = {}
        #: The ends of cooldowns at other gateways, and of those that a success here has disproved.
        self._hints: dict[TargetKey, float] = {}
        self._disproved: dict[TargetKey, float] = {}
        #: By target, the latest last.
        self.calls: dict[TargetName, TargetCalls] = {}

    def count_call(self, target: TargetName, failure: Failure | None) -> None:
        """Count a call that has ended. The targets that were called longest ago are forgotten."""
        calls = self.calls.pop(target, None) or TargetCalls()
        calls.add(failure)
        self.calls[target] = calls
        if len(self.calls) > MAX_COOLDOWNS:
            del self.calls[next(iter(self.calls))]

    def record_failure(self, target_key: TargetKey, failure: Failure, now: float) -> bool:
        """Start or extend a cooldown if the failure concerns the target. Returns whether it does."""
        if not concerns_target(failure):
            return False
        earlier = self._cooldowns.pop(target_key, None)
        failures = earlier.failures + 1 if earlier else 1
        # The exponent is bounded because a target may fail for months.
        wait = min(FIRST_COOLDOWN * 2 ** min(failures - 1, 10), MAX_COOLDOWN)
        wait = max(wait, min(failure.retry_after or 0.0, MAX_COOLDOWN))
        if len(self._cooldowns) >= MAX_COOLDOWNS:
            del self._cooldowns[min(self._cooldowns, key=lambda each: self._cooldowns[each].until)]
        reason = f"{failure.kind} {failure.http_status}"
        self._cooldowns[target_key] = Cooldown(now + wait, failures, reason)
        return True

    def record_success(self, target_key: TargetKey) -> None:
        """End the cooldown, if any."""
        if self._cooldowns:
            self._cooldowns.pop(target_key, None)
        if self._hints and target_key in self._hints:
            self._disproved[target_key] = self._hints.pop(target_key)

    def set_hints(self, hints: Mapping[TargetKey, float]) -> None:
        """Replace what other gateways report: until when targets cool down there.

        A target that has answered here since then is not affected.
        """
        self._disproved = {
            each: until
            for each, until in self._disproved.items()
            if each in hints and hints[each] < until + HINT_TOLERANCE
        }
        self._hints = {each: until for each, until in hints.items() if each not in self._disproved}

    def forget_provider(self, provider: str) -> None:
        """Delete the cooldowns of a provider whose configuration has changed."""
        for each in [each for each in self._cooldowns if each.target.provider == provider]:
            del self._cooldowns[each]
        for target in [target for target in self.calls if target.provider == provider]:
            del self.calls[target]

    def is_cooling(self, target_key: TargetKey, now: float) -> bool:
        cooldown = self._cooldowns.get(target_key)
        until = cooldown.until if cooldown is not None else self._hints.get(target_key, 0.0)
        return until > now

    def list_cooldowns(self, now: float) -> dict[TargetKey, Cooldown]:
        """The cooldowns of this gateway that have not ended."""
        return {each: cooldown for each, cooldown in self._cooldowns.items() if cooldown.until > now}

    def list_hints(self, now: float) -> dict[TargetKey, float]:
        """The ends of the cooldowns at other gateways, of targets that do not cool down here."""
        return {
            each: until for each, until in self._hints.items() if until > now and each not in self._cooldowns
        }

    def order_targets(
        self, targets: Sequence[TargetName], keys: Mapping[str, int], session: int, now: float
    ) -> Sequence[TargetKey]:
        """Each target with the index of each key of its provider. Those that cool down come last.

        `keys` is the number of keys of each provider. `session` selects the first key: a session keeps its
        key, because prompt caches and sealed reasoning belong to it.
        """
        target_keys: list[TargetKey] = []
        for target in targets:
            count = max(1, keys.get(target.provider, 1))
            if count == 1:
                target_keys.append(TargetKey(target, 0))
            else:
                target_keys += [TargetKey(target, (session + turn) % count) for turn in range(count)]
        return self.sort_by_cooldown(target_keys, now)

    def sort_by_cooldown(self, target_keys: Sequence[TargetKey], now: float) -> Sequence[TargetKey]:
        """The same order, but those that cool down come last."""
        if not self._cooldowns and not self._hints:
            return target_keys
        return sorted(target_keys, key=lambda each: self.is_cooling(each, now))
