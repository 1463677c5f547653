"""The queue does what its plain rule says, call by call, whatever it remembers to be quick."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket
from tests.dataplane.queueing.plain_queue import PlainQueue, PlainTicket

CLASSES = (
    ClassPolicy(name="batch", priority=1),
    ClassPolicy(name="chat", priority=10, deadline_seconds=2.0),
    ClassPolicy(name="idle", priority=-5, deadline_seconds=6.0),
    ClassPolicy(name="batch", priority=1, aging_per_second=2.0),
    ClassPolicy(name="aging", priority=-3, aging_per_second=2.0),
)
REPLICAS = ("r0", "r1", "r2", "r3")
WEIGHTS = {"": 1.0, "acme": 1.0, "globex": 2.0, "initech": 0.5}
GONE = Departure(disposition=Disposition.CANCELLED, reason="the client left")

ENTER = st.tuples(
    st.just("enter"),
    st.sampled_from(CLASSES),
    st.one_of(st.just(frozenset[str]()), st.frozensets(st.sampled_from(REPLICAS))),
    st.builds(
        lambda num_slots, tenant, expected, more, due: (num_slots, tenant, expected, more, due),
        st.sampled_from((1, 1, 1, 2, 5)),
        st.sampled_from(sorted(WEIGHTS)),
        st.sampled_from((0, 1, 64, 100, 100, 1000)),
        st.sampled_from((0, 50)),
        st.sampled_from((None, None, None, 0, 1, 3)),
    ),
)
SET_REPLICAS = st.tuples(
    st.just("replicas"),
    st.dictionaries(st.sampled_from(REPLICAS), st.sampled_from((None, 0, 1, 2, 3))),
    st.dictionaries(st.sampled_from(REPLICAS), st.integers(1, 3)),
)
RELEASE = st.tuples(
    st.just("release"), st.integers(0, 50), st.sampled_from((None, 0, 10, 100, 3000))
)
LEAVE = st.tuples(st.just("leave"), st.integers(0, 50))
SHED = st.tuples(st.just("shed"), st.sampled_from(("batch", "chat", "aging")))
PASS = st.tuples(st.just("time"), st.integers(1, 3))


@dataclass
class Pair:
    """Both queues, and what each told of each ticket."""

    now: float = 0.0
    plain: PlainQueue = field(default_factory=lambda: PlainQueue(unserved_seconds=5.0))
    told: list[tuple[int, str]] = field(default_factory=list)
    tickets: list[tuple[PlainTicket, Ticket]] = field(default_factory=list)
    held: list[tuple[PlainTicket, Lease]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = DeploymentQueue(clock=lambda: self.now, unserved_seconds=5.0)

    def enter(
        self, policy: ClassPolicy, demand: QueueDemand, excluded: frozenset[str] = frozenset()
    ) -> Ticket:
        plain = self.plain.enter(policy, demand, excluded)
        ticket = self.queue.enter(policy, demand, excluded)
        self.tickets.append((plain, ticket))

        def note(outcome: Lease | Departure) -> None:
            if isinstance(outcome, Lease):
                self.held.append((plain, outcome))
                self.told.append((plain.number, outcome.replica_id))
            else:
                self.told.append((plain.number, str(outcome.disposition)))

        ticket.on_leaving(note)
        return ticket

    def play(self, step: tuple[object, ...]) -> None:
        match step:
            case ("enter", ClassPolicy() as policy, frozenset() as excluded, tuple() as asked):
                self.enter(policy, demand_of(*asked, now=self.now), excluded)
            case ("replicas", dict() as slots, dict() as elsewhere):
                self.plain.set_replicas(slots, elsewhere)
                self.queue.set_replicas(slots, elsewhere)
            case ("release", int(number), int() | None as num_tokens) if self.held:
                self.release(number % len(self.held), num_tokens)
            case ("leave", int(number)) if self.tickets:
                plain, ticket = self.tickets[number % len(self.tickets)]
                self.plain.leave(plain)
                self.queue.leave(ticket, GONE)
            case ("shed", str(class_name)):
                self.plain.shed(class_name)
                self.queue.shed(class_name, "it gives way")
            case ("time", int(seconds)):
                self.pass_time(seconds)
                self.plain.expire()
                self.queue.expire()

    def pass_time(self, seconds: float) -> None:
        self.now = self.plain.now = self.now + seconds

    def release(self, index: int, num_tokens: int | None) -> None:
        plain, lease = self.held.pop(index)
        self.plain.release(plain, num_tokens)
        if num_tokens is not None:
            lease.settle(num_tokens)
        lease.release()

    def compare(self) -> None:
        # Told in the same order within a call, but for who was settled before it could be asked.
        assert sorted(self.told) == sorted(self.plain.told)
        self.queue.check_integrity()
        waiting = self.plain.waiting
        assert self.queue.num_waiting == len(waiting)
        assert self.queue.num_waiting_tokens == sum(t.demand.num_tokens for t in waiting)
        assert self.queue.num_waiting_bytes == sum(t.demand.num_bytes for t in waiting)
        oldest = min((t.entered_at for t in waiting), default=None)
        assert self.queue.oldest_entered_at() == oldest
        assert self.queue.oldest_entered_at_by_class() == {
            t.policy.name: t.entered_at for t in reversed(waiting)
        }
        for num_slots in (1, 2, 5):
            assert self.queue.has_room_for(num_slots) == self.plain.has_room_for(num_slots)
        for replica_id in REPLICAS:
            assert self.queue.num_outstanding(replica_id) == self.plain.held.get(replica_id, 0)
        places = {each: place for place, each in enumerate(self.plain.order(), 1)}
        self.tickets = [pair for pair in self.tickets if pair[0].outcome is None]
        assert self.queue.positions() == {ticket: places[plain] for plain, ticket in self.tickets}


def demand_of(
    num_slots: int, tenant: str, expected: int, more: int, due: int | None, *, now: float
) -> QueueDemand:
    return QueueDemand(
        num_slots=num_slots,
        tenant=tenant,
        weight=WEIGHTS[tenant],
        num_tokens=expected + more,
        num_expected_tokens=expected,
        num_bytes=7 * more,
        deadline_at=None if due is None else now + due,
    )


@given(
    st.lists(
        st.one_of(ENTER, ENTER, ENTER, SET_REPLICAS, RELEASE, RELEASE, LEAVE, SHED, PASS),
        max_size=40,
    )
)
@settings(max_examples=250, deadline=None)
def test_the_queue_follows_its_plain_rule(steps: list[tuple[object, ...]]) -> None:
    pair = Pair()
    pair.play(("replicas", {"r0": 1, "r1": 2}, {}))
    for step in steps:
        num_told = len(pair.told)
        pair.play(step)
        pair.compare()
        if step[0] != "enter":
            assert pair.told[num_told:] == pair.plain.told[num_told:], "the order of being told"


# One slot, held from the beginning, and none but those who may go there: all is order.
CROWD = st.tuples(
    st.just("enter"),
    st.sampled_from((CLASSES[0], CLASSES[3], CLASSES[4], CLASSES[4])),
    st.just(frozenset[str]()),
    st.tuples(
        st.just(1),
        st.sampled_from(sorted(WEIGHTS)),
        st.sampled_from((64, 100, 100, 1000)),
        st.sampled_from((0, 50)),
        st.sampled_from((None, None, 9, 3)),
    ),
)


@given(st.lists(st.one_of(CROWD, CROWD, CROWD, RELEASE, RELEASE, SHED, PASS), max_size=60))
@settings(max_examples=150, deadline=None)
def test_a_crowd_before_one_slot_goes_in_the_order_of_the_plain_rule(
    steps: list[tuple[object, ...]],
) -> None:
    pair = Pair()
    pair.play(("replicas", {"r0": 1}, {}))
    pair.enter(CLASSES[0], QueueDemand())
    for step in steps:
        pair.play(step)
        pair.compare()
    while pair.held:
        pair.release(0, 80)
        pair.compare()
    assert pair.queue.num_waiting == 0
    assert [number for number, _ in pair.told] == [number for number, _ in pair.plain.told]


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_that_never_ends_goes_in_the_order_of_the_plain_rule(seed: int) -> None:
    """Nobody is ever alone, so that all that was charged is remembered."""
    draw = random.Random(seed)
    pair = Pair()
    pair.play(("replicas", {"r0": 2}, {}))
    for number in range(1500):
        tenant = draw.choice(sorted(WEIGHTS))
        expected, due = draw.choice((64, 100, 1000)), draw.choice((None, None, 6))
        if len(pair.plain.waiting) < draw.choice((3, 9)):
            policy = draw.choice((CLASSES[0], CLASSES[0], CLASSES[3]))
            pair.enter(policy, demand_of(1, tenant, expected, 0, due, now=pair.now))
        elif pair.held:
            pair.release(draw.randrange(len(pair.held)), draw.choice((None, 0, 30, 2500)))
        pair.pass_time(draw.choice((0, 0.25)))
        if number % 5 == 0:
            pair.compare()
    assert pair.told == pair.plain.told
    while pair.held:
        pair.release(0, 0)
    pair.compare()
    assert pair.queue.num_waiting == 0


def test_who_is_told_of_a_slot_may_end_at_once_and_nobody_is_passed_over() -> None:
    pair = Pair()
    queue = pair.queue
    queue.set_replicas({"r0": 1})
    order: list[int] = []
    running = queue.enter(CLASSES[0]).outcome
    assert isinstance(running, Lease)
    for number in range(2000):  # deeper than any stack, were it to recurse

        def take(outcome: Lease | Departure, number: int = number) -> None:
            order.append(number)
            assert isinstance(outcome, Lease)
            outcome.release()

        queue.enter(CLASSES[0]).on_leaving(take)
    running.release()
    assert order == list(range(2000))
    assert queue.num_outstanding("r0") == 0
    queue.check_integrity()


def test_the_next_expiry_is_that_of_whoever_still_waits() -> None:
    pair = Pair()
    queue = pair.queue
    chat = queue.enter(CLASSES[1])
    pair.now = 1.0
    queue.enter(CLASSES[2])
    assert queue.next_expiry_at == 2.0
    queue.leave(chat, GONE)
    assert queue.next_expiry_at == 6.0, "no replica came for five seconds"
    queue.set_replicas({"r0": 0})
    assert queue.next_expiry_at == 7.0
