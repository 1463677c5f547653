"""The queue does what its plain rule says, call by call, whatever it remembers to be quick."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing import Departure, DeploymentQueue, Lease, Ticket
from tests.dataplane.plain_queue import PlainQueue, PlainTicket

CLASSES = (
    ClassPolicy(name="batch", priority=1),
    ClassPolicy(name="chat", priority=10, deadline_seconds=2.0),
    ClassPolicy(name="idle", priority=-5, deadline_seconds=6.0),
)
REPLICAS = ("r0", "r1", "r2", "r3")
GONE = Departure(disposition=Disposition.CANCELLED, reason="the client left")

ENTER = st.tuples(
    st.just("enter"),
    st.sampled_from(CLASSES),
    st.one_of(st.just(frozenset[str]()), st.frozensets(st.sampled_from(REPLICAS))),
    st.sampled_from((1, 1, 1, 2, 5)),
    st.sampled_from((0.0, 0.0, 1.5)),
)
SET_REPLICAS = st.tuples(
    st.just("replicas"),
    st.dictionaries(st.sampled_from(REPLICAS), st.sampled_from((None, 0, 1, 2, 3))),
    st.dictionaries(st.sampled_from(REPLICAS), st.integers(1, 3)),
)
PICK = st.tuples(st.sampled_from(("release", "leave")), st.integers(0, 50))
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
        self, policy: ClassPolicy, excluded: frozenset[str], num_slots: int, age: float
    ) -> None:
        entered_at = self.now - age
        plain = self.plain.enter(policy, excluded, num_slots, entered_at)
        ticket = self.queue.enter(policy, excluded, entered_at, num_slots)
        self.tickets.append((plain, ticket))

        def note(outcome: Lease | Departure) -> None:
            if isinstance(outcome, Lease):
                self.held.append((plain, outcome))
                self.told.append((plain.number, outcome.replica_id))
            else:
                self.told.append((plain.number, str(outcome.disposition)))

        ticket.on_leaving(note)

    def play(self, step: tuple[object, ...]) -> None:
        match step:
            case ("enter", ClassPolicy() as policy, frozenset() as excluded, int(n), float(age)):
                self.enter(policy, excluded, n, age)
            case ("replicas", dict() as slots, dict() as elsewhere):
                self.plain.set_replicas(slots, elsewhere)
                self.queue.set_replicas(slots, elsewhere)
            case ("release", int(number)) if self.held:
                plain, lease = self.held.pop(number % len(self.held))
                self.plain.release(plain)
                lease.release()
            case ("leave", int(number)) if self.tickets:
                plain, ticket = self.tickets[number % len(self.tickets)]
                self.plain.leave(plain)
                self.queue.leave(ticket, GONE)
            case ("time", int(seconds)):
                self.now = self.plain.now = self.now + seconds
                self.plain.expire()
                self.queue.expire()

    def compare(self) -> None:
        # Told in the same order within a call, but for who was settled before it could be asked.
        assert sorted(self.told) == sorted(self.plain.told)
        self.queue.check_integrity()
        assert self.queue.num_waiting == len(self.plain.waiting)
        for num_slots in (1, 2, 5):
            assert self.queue.has_room_for(num_slots) == self.plain.has_room_for(num_slots)
        for replica_id in REPLICAS:
            assert self.queue.num_outstanding(replica_id) == self.plain.held.get(replica_id, 0)
        for plain, ticket in self.tickets:
            if plain.outcome is None:
                assert self.queue.num_ahead(ticket) == self.plain.num_ahead(plain)
                assert self.queue.positions()[ticket] == self.plain.num_ahead(plain) + 1
        self.tickets = [pair for pair in self.tickets if pair[0].outcome is None]


@given(st.lists(st.one_of(ENTER, ENTER, SET_REPLICAS, PICK, PICK, PASS), max_size=40))
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
