"""Every sequence of requests, process deaths and midnights keeps each budget and loses no usage."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dragoman.accounts.limits import Amount, LimitRefusal, Limits, find_period_start, list_budgets
from dragoman.accounts.store import (
    ACCOUNTS_SCHEMA,
    Reservation,
    ReservationRequest,
    find_dead_processes,
    read_account,
    release_process,
    renew_process,
    reserve,
    settle,
)
from dragoman.storage.processes import PROCESS_TIMEOUT
from tests.states import Engine, StateBed

KEY = "key_1"
START = 1_794_866_400.0  # 2026-11-16 22:00 UTC
PROCESSES = ("there 1 a", "there 2 b", "there 3 c")
LIMITS = Limits(tokens_per_day=300, tokens_per_month=500, cost_per_day=900)


class Spending(RuleBasedStateMachine):
    """`open`: the reservations of each process. A request uses at most its reserved amount."""

    engine: Engine = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.state = StateBed(self.engine, ACCOUNTS_SCHEMA)
        self.now = START
        self.open: dict[str, list[Reservation]] = {name: [] for name in PROCESSES}
        #: The used amounts by the day of the request, and the largest amounts of all requests.
        self.used: dict[int, Amount] = {}
        self.largest = Amount()

    def teardown(self) -> None:
        self.state.close()

    def charge(self, at: float, amount: Amount) -> None:
        day = find_period_start("day", at)
        self.used[day] = self.used.get(day, Amount()).plus(amount)

    @rule(process=st.sampled_from(PROCESSES), tokens=st.integers(1, 120), cost=st.integers(0, 400))
    def begin(self, process: str, tokens: int, cost: int) -> None:
        least = Amount(tokens // 3, cost // 3)
        request = ReservationRequest(key=KEY, limits=LIMITS, maximum=Amount(tokens, cost), minimum=least)
        self.state.do(renew_process, process, self.now)
        outcome = self.state.do(reserve, process, request, self.now)
        if not isinstance(outcome, LimitRefusal):
            self.open[process].append(outcome)
            self.largest = Amount(max(self.largest.tokens, tokens), max(self.largest.cost, cost))

    @precondition(lambda self: any(self.open.values()))
    @rule(pick=st.integers(0, 1000), share=st.integers(0, 100))
    def end(self, pick: int, share: int) -> None:
        busy = [process for process, held in self.open.items() if held]
        held = self.open[busy[pick % len(busy)]]
        reservation = held.pop(pick % len(held))
        most, least = reservation.request.maximum, reservation.request.minimum
        used = Amount(
            least.tokens + (most.tokens - least.tokens) * share // 100,
            least.cost + (most.cost - least.cost) * share // 100,
        )
        self.state.do(settle, [(reservation, used)], self.now)
        self.charge(reservation.at, used)

    @rule(process=st.sampled_from(PROCESSES))
    def die_and_be_noticed(self, process: str) -> None:
        """The process is not renewed for a while. Another process notices it."""
        self.now += PROCESS_TIMEOUT + 1
        others = [name for name in PROCESSES if name != process]
        for other in others:
            # Each is renewed before another one can consider it dead.
            self.state.do(renew_process, other, self.now)
        for dead in self.state.do(find_dead_processes, others[0], self.now):
            self.state.do(release_process, dead)
        self.release(process)

    @rule(process=st.sampled_from(PROCESSES))
    def end_in_order(self, process: str) -> None:
        self.state.do(release_process, process)
        self.release(process)

    def release(self, process: str) -> None:
        for reservation in self.open[process]:
            self.charge(reservation.at, reservation.request.minimum)
        self.open[process] = []

    @rule(hours=st.integers(1, 30))
    def wait(self, hours: int) -> None:
        self.now += hours * 3600
        for process in PROCESSES:
            self.state.do(renew_process, process, self.now)

    @invariant()
    def every_budget_holds(self) -> None:
        held = self.state.do(read_account, KEY, self.now)
        for unit, period, limit in list_budgets(LIMITS):
            used, reserved = getattr(held.used[period], unit), getattr(held.reserved[period], unit)
            assert used + reserved < limit + max(getattr(self.largest, unit), 1)

    @invariant()
    def used_amounts_are_stored(self) -> None:
        day = find_period_start("day", self.now)
        assert self.state.do(read_account, KEY, self.now).used["day"] == self.used.get(day, Amount())

    @invariant()
    def reservations_belong_to_open_requests(self) -> None:
        day = find_period_start("day", self.now)
        open_today = [each for held in self.open.values() for each in held if each.at >= day]
        reserved = self.state.do(read_account, KEY, self.now).reserved["day"]
        assert reserved.tokens == sum(each.request.maximum.tokens for each in open_today)


class SharedSpending(Spending):
    engine = "postgres"


TestSpending = Spending.TestCase
TestSpending.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestSharedSpending = SharedSpending.TestCase
TestSharedSpending.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
