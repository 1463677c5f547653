"""Tenants of one class share its slots by tokens and weights, and waiting raises a class."""

import itertools
import random
from collections import Counter

from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.class_lane import Charge, ClassLane, lane_key
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket
from dataplane.taken_share import TakenShare

BATCH = ClassPolicy(name="batch", priority=0, aging_per_second=1.0)
CHAT = ClassPolicy(name="chat", priority=60)


class Bench:
    """One slot that somebody holds; it is passed on by `next`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.queue = DeploymentQueue(clock=lambda: self.now, unserved_seconds=5.0)
        self.queue.set_replicas({"a": 1})
        self.running = self.queue.enter(BATCH)
        self.tickets: list[Ticket] = []

    def ask(
        self,
        tenant: str,
        num_tokens: int = 100,
        weight: float = 1.0,
        request_class: ClassPolicy = BATCH,
        deadline_at: float | None = None,
    ) -> Ticket:
        demand = QueueDemand(
            tenant=tenant,
            weight=weight,
            num_tokens=num_tokens,
            num_expected_tokens=num_tokens,
            num_bytes=10,
            deadline_at=deadline_at,
        )
        self.tickets.append(self.queue.enter(request_class, demand))
        return self.tickets[-1]

    def next(self, num_taken: int | None = None) -> Ticket:
        """Who starts when the one that runs has ended, having taken so many tokens."""
        lease = self.running.outcome
        assert isinstance(lease, Lease)
        if num_taken is not None:
            lease.settle(num_taken)
        lease.release()
        self.queue.check_integrity()
        [self.running] = [t for t in self.tickets if isinstance(t.outcome, Lease)]
        self.tickets.remove(self.running)
        return self.running

    def tenants(self, num: int, num_taken: int | None = None) -> str:
        return "".join(self.next(num_taken).demand.tenant for _ in range(num))


def test_a_tenant_that_floods_waits_behind_its_own_requests() -> None:
    bench = Bench()
    for _ in range(20):
        bench.ask("f")
    for _ in range(3):
        bench.ask("x")
        bench.ask("y")
    assert bench.tenants(9) == "fxyfxyfxy"


def test_twice_the_weight_gets_twice_the_tokens() -> None:
    bench = Bench()
    for _ in range(30):
        bench.ask("h", weight=2.0)
        bench.ask("l", weight=1.0)
    assert Counter(bench.tenants(30)) == {"h": 20, "l": 10}


def test_tokens_are_shared_and_not_requests() -> None:
    bench = Bench()
    for _ in range(20):
        bench.ask("long", 1000)
        bench.ask("short", 100)
    started = Counter(bench.next().demand.tenant for _ in range(11))
    assert started == {"long": 1, "short": 10}


def test_what_was_expected_and_not_taken_is_given_back() -> None:
    bench = Bench()
    for _ in range(8):
        bench.ask("a", 1000)
        bench.ask("b", 100)
    # Of "a" a thousand is expected, and each of them really takes fifty.
    order = bench.next().demand.tenant
    while len(order) < 8:
        order += bench.next(50 if order.endswith("a") else 100).demand.tenant
    assert order == "abaabaab"


def test_who_comes_back_after_idling_has_no_credit_for_it() -> None:
    bench = Bench()
    for _ in range(40):
        bench.ask("b")
    bench.ask("i")
    assert bench.tenants(20) == "bi" + 18 * "b"
    for _ in range(10):
        bench.ask("i")
    assert bench.tenants(8) == "bibibibi", "and not as often as it did not ask before"


def test_a_refund_takes_back_a_debt_and_gives_no_credit() -> None:
    lane = ClassLane(lane_key(BATCH), TakenShare())
    numbers = itertools.count(1)

    def ask(tenant: str, num_tokens: int) -> Ticket:
        demand = QueueDemand(tenant=tenant, num_expected_tokens=num_tokens)
        ticket = Ticket(BATCH, demand, next(numbers), 0.0, None, frozenset())
        lane.add(ticket)
        return ticket

    def start(ticket: Ticket) -> Charge:
        assert lane.front is ticket
        charge = lane.charge(ticket)
        lane.remove(ticket)
        return charge

    slow = start(ask("s", 1000))
    busy = [ask("b", 100) for _ in range(6)]
    for ticket in busy[:3]:
        start(ticket)
    back = [ask("s", 100) for _ in range(3)]
    assert lane.front is busy[3], "it owes 1000"
    lane.settle(slow, 10)
    start(busy[3])  # while b took 300 tokens s asked for nothing, and is owed nothing
    start(back[0])
    lane.check_integrity()


def test_a_limit_that_nobody_comes_near_is_soon_no_charge() -> None:
    bench = Bench()
    for _ in range(300):
        bench.ask("l", 4000)  # a limit: each takes a hundred
        bench.ask("k", 100)
    bench.tenants(200, num_taken=100)
    bench.queue.set_replicas({"a": 4})  # three more at once: nothing of them is settled yet
    started = [t.demand.tenant for t in bench.tickets if isinstance(t.outcome, Lease)]
    assert len(started) == 3
    assert Counter(started).most_common(1)[0][1] == 2, "and not all of those who name no limit"


def test_of_one_tenant_the_earliest_deadline_goes_first_and_none_that_has_passed() -> None:
    bench = Bench()
    whenever, late = bench.ask("a"), bench.ask("a", deadline_at=9.0)
    soon, gone = bench.ask("a", deadline_at=5.0), bench.ask("a", deadline_at=1.0)
    bench.now = 1.0
    assert [bench.next() for _ in range(3)] == [soon, late, whenever]
    outcome = gone.outcome
    assert isinstance(outcome, Departure)
    assert outcome.disposition is Disposition.DEADLINE


def test_nobody_starts_who_comes_with_a_deadline_that_has_passed() -> None:
    bench = Bench()
    bench.queue.set_replicas({"a": 2})
    bench.now = 3.0
    outcome = bench.ask("a", deadline_at=3.0).outcome
    assert isinstance(outcome, Departure)
    assert bench.queue.num_outstanding("a") == 1


def test_waiting_raises_a_class_above_a_higher_one_by_its_rate() -> None:
    bench = Bench()
    old = bench.ask("a")
    chat = [bench.ask("b", request_class=CHAT) for _ in range(3)]
    bench.now = 60.0
    assert bench.next() is old, "60 seconds at one a second, and it came first"
    young = bench.ask("a")
    bench.now = 119.9
    assert [bench.next() for _ in range(3)] == chat
    assert bench.next() is young


def test_who_is_shed_is_the_newest_of_whoever_has_the_most_waiting() -> None:
    bench = Bench()
    small = bench.ask("small", 100)
    flood = [bench.ask("flood", 100) for _ in range(3)]
    last = bench.ask("small", 100)
    shed = bench.queue.shed("batch", "chat cannot wait")
    assert shed is flood[-1]
    outcome = shed.outcome
    assert isinstance(outcome, Departure)
    assert (outcome.disposition, outcome.reason) == (Disposition.SHED, "chat cannot wait")
    assert bench.queue.shed("chat", "nobody of it waits") is None
    assert bench.queue.num_waiting_tokens == 400
    assert bench.queue.num_waiting_bytes == 40
    assert [small.outcome, last.outcome] == [None, None]


def test_a_hundred_thousand_random_enters_and_ends_leave_nothing() -> None:
    draw = random.Random(7)
    now = 0.0
    queue = DeploymentQueue(clock=lambda: now, unserved_seconds=1e9)
    replicas: dict[str, int | None] = {f"r{number}": 4 for number in range(5)}
    queue.set_replicas(replicas)
    policies = [
        ClassPolicy(name=f"c{n}", priority=n % 3, aging_per_second=n % 2, deadline_seconds=9.0 * n)
        for n in range(1, 6)
    ]
    waiting: list[Ticket] = []
    held: list[Lease] = []
    gone = Departure(disposition=Disposition.CANCELLED, reason="the client left")

    def sort_out() -> None:
        held.extend(t.outcome for t in waiting if isinstance(t.outcome, Lease))
        waiting[:] = [ticket for ticket in waiting if ticket.outcome is None]

    for number in range(100_000):
        now += 0.01
        match draw.choice("eeeeelllcccsrx"):
            case "e":
                excluded = frozenset(draw.sample(sorted(replicas), draw.choice((0, 0, 0, 1, 2))))
                tokens = draw.randrange(1, 3000)
                demand = QueueDemand(
                    draw.choice((1, 1, 1, 3)), f"t{draw.randrange(30)}", 1.0, tokens, tokens, 99
                )
                waiting.append(queue.enter(draw.choice(policies), demand, excluded))
            case "l" if held:
                lease = held.pop(draw.randrange(len(held)))
                lease.settle(draw.randrange(3000))
                lease.release()
            case "c" if waiting:
                queue.leave(draw.choice(waiting), gone)
            case "s":
                queue.shed(draw.choice(policies).name, "it gives way")
            case "r" if number % 7 == 0:
                queue.set_replicas(dict(draw.sample(sorted(replicas.items()), 4)))
            case _:
                queue.expire()
        if number % 20 == 0:
            sort_out()
        if number % 5000 == 0:
            queue.check_integrity()
    queue.set_replicas(replicas)
    sort_out()
    for ticket in waiting:
        queue.leave(ticket, gone)
        if isinstance(ticket.outcome, Lease):
            held.append(ticket.outcome)
    for lease in held:
        lease.release()
    queue.check_integrity()
    assert queue.is_empty
    assert [queue.num_outstanding(each) for each in replicas] == [0] * 5
    assert (queue.num_waiting, queue.num_waiting_tokens, queue.num_waiting_bytes) == (0, 0, 0)


def test_how_many_go_before_one_more_is_told_by_tenant() -> None:
    bench = Bench()
    for _ in range(20):
        bench.ask("flood", 100)
    for _ in range(2):
        bench.ask("some", 100)
    queue = bench.queue
    assert queue.num_before("batch", "flood") == 22
    assert queue.num_before("batch", "new") == 2, "the first of each"
    assert queue.num_before("batch", "some") == 5, "as many of the other as of its own, and one"
    assert queue.num_before("chat", "new") == 0
    for tenant in ("new", "some"):
        before = queue.num_before("batch", tenant)
        ticket = bench.ask(tenant, 100)
        assert queue.positions()[ticket] == before + 1
        queue.leave(ticket, Departure(disposition=Disposition.CANCELLED, reason="as before"))
