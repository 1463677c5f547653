import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket

BATCH = ClassPolicy(name="batch", priority=1)
CHAT = ClassPolicy(name="chat", priority=10, deadline_seconds=2.0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def open_queue(slots: dict[str, int | None]) -> tuple[DeploymentQueue, Clock]:
    clock = Clock()
    queue = DeploymentQueue(clock=clock, unserved_seconds=5.0)
    queue.set_replicas(slots)
    return queue, clock


def lease_of(ticket: Ticket) -> Lease:
    lease = ticket.outcome
    assert isinstance(lease, Lease)
    return lease


def departure_of(ticket: Ticket) -> Departure:
    departure = ticket.outcome
    assert isinstance(departure, Departure)
    return departure


def test_a_request_starts_at_once_on_the_replica_with_the_fewest_outstanding() -> None:
    queue, _ = open_queue({"a": 2, "b": 2})
    replicas = [lease_of(queue.enter(BATCH)).replica_id for _ in range(4)]
    assert replicas == ["a", "b", "a", "b"]
    assert not queue.has_room_for(1)


def test_who_is_started_at_once_is_where_it_had_been_and_nobody_is_who_would_have_waited() -> None:
    entered, _ = open_queue({"a": 2, "b": 1})
    started, _ = open_queue({"a": 2, "b": 1})
    for _ in range(3):
        lease = started.start_at_once(BATCH, QueueDemand())
        assert lease is not None
        assert lease.replica_id == lease_of(entered.enter(BATCH)).replica_id
        assert started.num_outstanding("a") == entered.num_outstanding("a")
    assert started.start_at_once(BATCH, QueueDemand()) is None
    assert lease is not None
    lease.release()
    assert started.start_at_once(CHAT, QueueDemand()) is None, "it has a deadline: enter"
    waiting = started.enter(BATCH, QueueDemand(num_slots=2))
    assert waiting.outcome is None
    assert started.start_at_once(BATCH, QueueDemand()) is None, "somebody waits"
    started.check_integrity()


def test_higher_priority_goes_first_and_equals_go_in_order_of_arrival() -> None:
    queue, _ = open_queue({"a": 1})
    running = lease_of(queue.enter(BATCH))
    first, second, urgent = queue.enter(BATCH), queue.enter(BATCH), queue.enter(CHAT)
    order = []
    for _ in range(3):
        running.release()
        (started,) = (
            t for t in (first, second, urgent) if t.outcome is not None and t not in order
        )
        order.append(started)
        running = lease_of(started)
    assert order == [urgent, first, second]


def test_who_waits_is_told_its_place_and_what_has_to_come() -> None:
    queue, _ = open_queue({"a": 1})
    running = lease_of(queue.enter(BATCH))
    batch = queue.enter(BATCH, QueueDemand(num_slots=3))
    chat = queue.enter(CHAT)
    retry = queue.enter(BATCH, excluded=frozenset({"b"}))
    lost = queue.enter(BATCH, excluded=frozenset({"a"}))

    assert queue.positions() == {retry: 1, lost: 2, chat: 3, batch: 4}
    assert [ticket.waits_for for ticket in (retry, lost, chat, batch)] == [
        "a slot on a replica that has not failed it",
        "a replica that has not failed it to be reached",
        "a slot",
        "3 slots at once",
    ]

    running.release()  # the first starts, and everybody moves up
    assert queue.positions() == {lost: 1, chat: 2, batch: 3}
    queue.set_replicas({})
    assert chat.waits_for == "a replica to be reached"


def test_a_lease_gives_its_slot_back_once_however_often_it_is_released() -> None:
    queue, _ = open_queue({"a": 1})
    with lease_of(queue.enter(BATCH)) as lease:
        lease.release()
    lease.release()
    assert queue.num_outstanding("a") == 0
    queue.check_integrity()


def test_a_waiting_request_leaves_when_its_deadline_passes() -> None:
    queue, clock = open_queue({"a": 1})
    running = lease_of(queue.enter(CHAT))
    waiting = queue.enter(CHAT)
    clock.now = 1.9
    queue.expire()
    assert waiting.outcome is None
    clock.now = 2.0
    queue.expire()
    assert departure_of(waiting).disposition is Disposition.DEADLINE
    running.release()
    assert queue.has_room_for(1)


def test_a_request_that_no_replica_can_take_waits_for_a_bounded_time() -> None:
    queue, clock = open_queue({})
    waiting = queue.enter(BATCH)
    clock.now = 5.0
    queue.expire()
    assert departure_of(waiting).disposition is Disposition.ERROR


def test_a_replica_that_comes_in_time_takes_the_waiting_request() -> None:
    queue, clock = open_queue({})
    waiting = queue.enter(BATCH)
    clock.now = 4.9
    queue.set_replicas({"a": 1})
    queue.expire()
    assert lease_of(waiting).replica_id == "a"


def test_waiting_for_a_replica_to_connect_says_nothing_of_how_fast_turns_come() -> None:
    queue, clock = open_queue({"a": 1})
    first, *others = [queue.enter(BATCH) for _ in range(20)]
    for running in (first, *others[:14]):
        clock.now += 0.5
        lease_of(running).release()
    before = queue.read_drain()
    assert before is not None

    queue.set_replicas({})
    clock.now += 120
    assert queue.read_drain() is None

    queue.set_replicas({"a": 1})
    after = queue.read_drain()
    assert after is not None
    assert after.requests_per_second == pytest.approx(before.requests_per_second)


def test_a_retry_goes_before_everybody_and_never_to_the_replica_that_failed_it() -> None:
    queue, _ = open_queue({"a": 1, "b": 1})
    on_a, on_b = lease_of(queue.enter(BATCH)), lease_of(queue.enter(BATCH))
    urgent = queue.enter(CHAT)
    retry = queue.enter(BATCH, excluded=frozenset({"a"}))
    on_a.release()
    assert lease_of(urgent).replica_id == "a"
    assert retry.outcome is None
    on_b.release()
    assert lease_of(retry).replica_id == "b"


def test_leaving_twice_is_no_error_and_tells_so() -> None:
    queue, _ = open_queue({})
    ticket = queue.enter(BATCH)
    gone = Departure(disposition=Disposition.CANCELLED, reason="the client left")
    assert queue.leave(ticket, gone)
    assert not queue.leave(ticket, gone)
    assert queue.num_waiting == 0


def test_leases_on_a_removed_replica_stay_valid_and_count_nothing_twice() -> None:
    queue, _ = open_queue({"a": 1})
    lease = lease_of(queue.enter(BATCH))
    queue.set_replicas({"b": 1})
    assert queue.num_outstanding("a") == 1
    lease.release()
    queue.set_replicas({"a": 1})
    assert queue.num_outstanding("a") == 0


def test_a_request_of_several_sequences_waits_until_all_its_slots_are_free() -> None:
    queue, _ = open_queue({"a": 2})
    running = lease_of(queue.enter(BATCH))
    pair = queue.enter(BATCH, QueueDemand(num_slots=2))
    assert pair.outcome is None, "it would be the third of two"
    running.release()
    with lease_of(pair):
        assert queue.num_outstanding("a") == 2
        assert queue.enter(BATCH).outcome is None


def test_those_behind_a_request_of_several_sequences_do_not_starve_it() -> None:
    queue, _ = open_queue({"a": 2})
    first, second = lease_of(queue.enter(BATCH)), lease_of(queue.enter(BATCH))
    pair, single = queue.enter(BATCH, QueueDemand(num_slots=2)), queue.enter(BATCH)
    first.release()
    assert pair.outcome is None
    assert single.outcome is None, "the free slot is kept for who came first"
    assert not queue.has_room_for(1)
    second.release()
    lease_of(pair).release()
    assert lease_of(single).replica_id == "a"
    queue.check_integrity()


def test_who_waits_behind_several_sequences_starts_when_they_leave() -> None:
    queue, clock = open_queue({"a": 2})
    lease_of(queue.enter(BATCH))
    gone = Departure(disposition=Disposition.CANCELLED, reason="the client left")
    pair, single = queue.enter(BATCH, QueueDemand(num_slots=2)), queue.enter(BATCH)
    queue.leave(pair, gone)
    lease_of(single).release()
    hurried, late = queue.enter(CHAT, QueueDemand(num_slots=2)), queue.enter(CHAT)
    patient = queue.enter(BATCH)
    clock.now = 2.0
    queue.expire()
    assert departure_of(hurried).disposition is Disposition.DEADLINE
    assert departure_of(late).disposition is Disposition.DEADLINE
    assert lease_of(patient).replica_id == "a"
    queue.check_integrity()


def test_a_retry_of_several_sequences_keeps_its_replica_from_those_behind_it() -> None:
    queue, _ = open_queue({"a": 1, "b": 2})
    on_b = [lease_of(queue.enter(BATCH, excluded=frozenset({"a"}))) for _ in range(2)]
    retry = queue.enter(BATCH, QueueDemand(num_slots=2), frozenset({"a"}))
    on_b[0].release()
    others = [queue.enter(CHAT) for _ in range(2)]
    assert lease_of(others[0]).replica_id == "a"
    assert others[1].outcome is None
    on_b[1].release()
    assert lease_of(retry).replica_id == "b"


def test_a_request_of_more_sequences_than_a_replica_has_slots_has_it_alone() -> None:
    queue, _ = open_queue({"a": 2})
    running = lease_of(queue.enter(BATCH))
    many = queue.enter(BATCH, QueueDemand(num_slots=5))
    assert many.outcome is None
    running.release()
    assert queue.num_outstanding("a") == 5
    lease_of(many).release()
    assert queue.num_outstanding("a") == 0


def test_what_another_process_holds_is_not_given_again() -> None:
    queue, _ = open_queue({})
    queue.set_replicas({"a": 3}, {"a": 2})
    pair = queue.enter(BATCH, QueueDemand(num_slots=2))
    assert pair.outcome is None
    queue.set_replicas({"a": 3}, {"a": 1})
    assert lease_of(pair).replica_id == "a"


NUM_SLOTS = 3
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.integers(0, 15)),
        st.tuples(st.just("release"), st.integers(0, 20)),
        st.tuples(st.just("leave"), st.integers(0, 20)),
        st.tuples(st.just("replicas"), st.integers(0, 3)),
        st.tuples(st.just("time"), st.integers(1, 3)),
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_no_slot_is_lost_or_granted_twice_whatever_happens(steps: list[tuple[str, int]]) -> None:
    queue, clock = open_queue({"r0": NUM_SLOTS})
    tickets: list[Ticket] = []
    held: list[tuple[Lease, int]] = []
    for action, number in steps:
        if action == "enter":
            excluded = frozenset({"r0"}) if number % 4 == 3 else frozenset()
            policy, demand = (CHAT if number % 2 else BATCH), QueueDemand(1 + number // 4)
            tickets.append(queue.enter(policy, demand, excluded))
        elif action == "release" and held:
            held.pop(number % len(held))[0].release()
        elif action == "leave" and tickets:
            gone = Departure(disposition=Disposition.CANCELLED, reason="")
            queue.leave(tickets[number % len(tickets)], gone)
        elif action == "replicas":
            queue.set_replicas({f"r{i}": NUM_SLOTS for i in range(number)})
        elif action == "time":
            clock.now += number
            queue.expire()
        for ticket in [t for t in tickets if t.outcome is not None]:
            tickets.remove(ticket)
            if isinstance(lease := ticket.outcome, Lease):
                held.append((lease, ticket.demand.num_slots))
        queue.check_integrity()
        for replica_id in ("r0", "r1", "r2"):
            taken = [num for lease, num in held if lease.replica_id == replica_id]
            assert queue.num_outstanding(replica_id) == sum(taken)
            assert sum(taken) <= NUM_SLOTS or len(taken) == 1, "alone, where it has too few"
        assert queue.num_waiting == len(tickets)
