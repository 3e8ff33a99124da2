"""Limits while the shared state does not answer."""

from collections.abc import Callable

from dragoman.accounts.errors import build_outage_error
from dragoman.accounts.limits import Buckets, LimitGrant, LimitRefusal, decide_locally, list_budgets
from dragoman.accounts.store import Reservation, ReservationRequest

#: Keys whose rate limits are kept in memory while the state does not answer.
MAX_KEYS = 1000


class OutageLimits:
    """The rates of keys while the state does not answer. Budgets refuse: they cannot be checked.

    `draw` gives a number from 0 to 1.
    """

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._buckets: dict[str, Buckets] = {}

    def reserve(self, request: ReservationRequest, now: float, gateways: int) -> Reservation | LimitRefusal:
        """Admit the request if it fits this gateway's share of the key's rates: one of `gateways` parts.

        The reservation has no id, because it is not stored.
        """
        if list_budgets(request.limits):
            # The waits differ, so that the clients of many gateways do not come back at the same moment.
            raise build_outage_error(round(1.0 + 4.0 * self._draw(), 1))
        buckets = self._buckets.setdefault(request.key, {})
        if len(self._buckets) > MAX_KEYS:
            del self._buckets[next(iter(self._buckets))]
        decision = decide_locally(request.limits, buckets, request.maximum, now, gateways)
        if not isinstance(decision, LimitGrant):
            return decision
        buckets.update(decision.buckets)
        return Reservation(id=0, request=request, at=now, rate_limits=decision.rate_limits)

    def forget(self, key: str) -> None:
        """The state has answered for this key."""
        self._buckets.pop(key, None)
