"""`LeaseBook`: the leases of one process, and the keys that are busy enough for one."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from dragoman.accounts.leases import KeyLease, LeaseDemand, LeasePolicy, LeaseReturn
from dragoman.accounts.limits import NOTHING, Amount, Limits
from dragoman.accounts.store import Reservation, ReservationRequest

#: Keys whose demand is known. The oldest is forgotten first.
MAX_KEYS = 1000
#: Seconds for which demand is counted.
WINDOW = 1.0


class DemandWindow(msgspec.Struct):
    """The requests of a key since `start`, and those of the window before."""

    start: float
    requests: int = 0
    amount: Amount = NOTHING
    earlier_requests: int = 0
    earlier_amount: Amount = NOTHING

    def add(self, amount: Amount, now: float) -> None:
        if now - self.start >= WINDOW:
            is_recent = now - self.start < 2 * WINDOW
            self.earlier_requests = self.requests if is_recent else 0
            self.earlier_amount = self.amount if is_recent else NOTHING
            self.start, self.requests, self.amount = now, 0, NOTHING
        self.requests += 1
        self.amount = self.amount.plus(amount)


class LeaseBook:
    """Owns the leases of the process. `create_id` gives the id of a reservation.

    Call order: `admit`; if it returns None, `find_demand` and, if there is one, `open_lease` with the result
    in any case. `settle` at the end of each request. `end_lease`, and `confirm` when its return is written.
    """

    def __init__(self, process: str, create_id: Callable[[], int], policy: LeasePolicy) -> None:
        self._process = process
        self._create_id = create_id
        self._policy = policy
        self._windows: dict[str, DemandWindow] = {}
        self._active: dict[str, KeyLease] = {}
        #: Leases whose return is not written yet, by the id of the slice.
        self._ending: dict[int, KeyLease] = {}
        #: The leases of open requests, by the id of the reservation.
        self._holders: dict[int, KeyLease] = {}
        #: Keys for which a lease is being taken.
        self._asking: set[str] = set()

    def admit(self, request: ReservationRequest, now: float) -> Reservation | None:
        """Admit the request from the lease of its key. None if the state must decide."""
        window = self._windows.get(request.key)
        if window is None:
            if len(self._windows) >= MAX_KEYS:
                del self._windows[next(iter(self._windows))]
            window = self._windows[request.key] = DemandWindow(now)
        window.add(request.maximum, now)
        lease = self._active.get(request.key)
        reservation = lease.admit(request, self._create_id(), now) if lease is not None else None
        if lease is not None and reservation is not None:
            self._holders[reservation.id] = lease
        return reservation

    def find_demand(self, key: str, limits: Limits, gateways: int) -> LeaseDemand | None:
        """The demand of a key that needs a lease, unless one is being taken."""
        window = self._windows.get(key)
        if window is None or key in self._asking:
            return None
        requests, amount = max(
            (window.requests, window.amount), (window.earlier_requests, window.earlier_amount)
        )
        if requests < self._policy.busy_rate:
            return None
        self._asking.add(key)
        return LeaseDemand(key, limits, requests, amount, gateways, self._policy)

    def open_lease(self, key: str, lease: KeyLease | None) -> KeyLease | None:
        """Use the lease that the state has granted, if any. Returns the lease that it replaces."""
        self._asking.discard(key)
        if lease is None:
            return None
        former, self._active[key] = self._active.get(key), lease
        return former

    def settle(self, reservation: Reservation, used: Amount) -> bool:
        """Settle a request that a lease has admitted. False if it has a reservation of its own."""
        lease = self._holders.pop(reservation.id, None)
        if lease is None:
            return False
        lease.settle(reservation, used)
        return True

    def end_lease(self, lease: KeyLease) -> LeaseReturn | None:
        """Stop using a lease. Returns what must be written, once."""
        if self._active.get(lease.key) is lease:
            del self._active[lease.key]
        if lease.slice.id in self._ending or not lease.until:
            return None
        self._ending[lease.slice.id] = lease
        return lease.end(self._process)

    def list_active(self) -> list[KeyLease]:
        return list(self._active.values())

    def confirm(self, returns: Iterable[LeaseReturn]) -> Iterator[tuple[Reservation, Amount]]:
        """The state has written the returns. Yields settlements of requests that ended meanwhile."""
        for each in returns:
            lease = self._ending.pop(each.slice.id, None)
            if lease is not None:
                for reservation in each.open:
                    self._holders.pop(reservation.id, None)
                yield from lease.late

    def list_late(self) -> list[tuple[Reservation, Amount]]:
        """Settlements that wait for the return of their lease."""
        return [settlement for lease in self._ending.values() for settlement in lease.late]
