"""Nothing starves: a class with aging waits for a bounded time, whatever comes above it.

Both bounds are those of `ops/bench/bench_starvation.py`, of a queue before one replica whose slots
are each held for at most LONGEST_HOLD, with more interactive requests than it can serve.
"""

import heapq
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand
from tests.dataplane.plain_clock import PlainClock

LONGEST_HOLD = 4.0
DURATION = 60.0
GAP = 30


@dataclass
class Waiter:
    request_class: ClassPolicy
    entered_at: float
    began_at: float = math.inf
    left_at: float = math.inf


@dataclass
class Overload:
    """Requests come at the times that are given, and each holds its slot as long as it is told."""

    num_slots: int
    holds: list[float]
    clock: PlainClock = field(default_factory=PlainClock)
    waiters: list[Waiter] = field(default_factory=list)
    _ends: list[tuple[float, int, Lease]] = field(default_factory=list)
    _num_begun: int = 0

    def __post_init__(self) -> None:
        self.queue = DeploymentQueue(self.clock, unserved_seconds=1000)
        self.queue.set_replicas({"r": self.num_slots})

    def run(self, arrivals: list[tuple[float, ClassPolicy, str]]) -> None:
        for at, request_class, tenant in sorted(arrivals, key=lambda arrival: arrival[0]):
            self._pass_until(at)
            self._enter(request_class, tenant)
        self._pass_until(DURATION + 100)
        self.queue.check_integrity()

    def _pass_until(self, at: float) -> None:
        while self._ends and self._ends[0][0] <= at:
            self.clock.now, _, lease = heapq.heappop(self._ends)
            self.queue.expire()
            lease.release()
        self.clock.now = at
        self.queue.expire()

    def _enter(self, request_class: ClassPolicy, tenant: str) -> None:
        waiter = Waiter(request_class, self.clock.now)
        self.waiters.append(waiter)
        demand = QueueDemand(1, tenant, 1.0, 100, 100)
        ticket = self.queue.enter(request_class, demand)
        ticket.on_leaving(lambda outcome: self._leave(waiter, outcome))

    def _leave(self, waiter: Waiter, outcome: Lease | Departure) -> None:
        if isinstance(outcome, Departure):
            waiter.left_at = self.clock.now
            return
        waiter.began_at = self.clock.now
        hold = self.holds[self._num_begun % len(self.holds)]
        heapq.heappush(self._ends, (self.clock.now + hold, self._num_begun, outcome))
        self._num_begun += 1


ARRIVALS = st.lists(st.floats(0, DURATION), min_size=1, max_size=40)
HOLDS = st.lists(st.floats(0.1, LONGEST_HOLD), min_size=1, max_size=7)
TENANTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=5)


@given(
    st.integers(1, 3), HOLDS, ARRIVALS, TENANTS, st.sampled_from((2, 5)), st.sampled_from((0, 1))
)
@settings(deadline=None, max_examples=30)
def test_who_has_waited_for_the_gap_is_passed_by_nobody_above_and_begins_within_its_bound(
    num_slots: int,
    holds: list[float],
    batch_at: list[float],
    tenants: list[str],
    aging: int,
    aging_above: int,
) -> None:
    above = ClassPolicy(
        name="above", priority=GAP, aging_per_second=aging_above, deadline_seconds=5
    )
    batch = ClassPolicy(name="batch", aging_per_second=aging)
    gap = (GAP + 5 * aging_above) / aging
    overload = Overload(num_slots, holds)
    arrivals = [(number * 0.2, above, "x") for number in range(int(DURATION / 0.2))]
    arrivals += [(at, batch, tenants[n % len(tenants)]) for n, at in enumerate(batch_at)]
    overload.run(arrivals)

    others = [each for each in overload.waiters if each.request_class is above]
    mine = [each for each in overload.waiters if each.request_class is batch]
    for each in mine:
        raised_at = each.entered_at + gap
        passed = [other for other in others if raised_at < other.began_at < each.began_at]
        assert not passed, "one of a lower class by then began before it"
        older = [o for o in mine if o is not each and raised_at < o.began_at <= each.began_at]
        bound = gap + LONGEST_HOLD * math.ceil((len(older) + 1) / num_slots)
        assert each.began_at - each.entered_at <= bound + 1e-9


def test_without_aging_nothing_of_it_begins_while_enough_comes_above() -> None:
    above = ClassPolicy(name="above", priority=GAP, deadline_seconds=5)
    batch = ClassPolicy(name="batch")
    overload = Overload(1, [1.0])
    arrivals = [(number * 0.2, above, "x") for number in range(int(DURATION / 0.2))]
    overload.run([*arrivals, (1.0, batch, "a")])
    [waiter] = [each for each in overload.waiters if each.request_class is batch]
    assert waiter.began_at == pytest.approx(DURATION, abs=7)
