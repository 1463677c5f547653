"""Blocks of KV cache that are reserved with a slot: who waits for them, and who lets go."""

from random import Random

from dataplane.leases.kv_reservation import KVDemand, KVSight
from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket
from dataplane.routing.router import plain_router

CHAT = ClassPolicy(name="chat")
GONE = Departure(disposition=Disposition.CANCELLED, reason="the client left")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def open_queue(*replicas: str, num_blocks: int = 100) -> tuple[DeploymentQueue, Clock]:
    clock = Clock()
    queue = DeploymentQueue(clock, unserved_seconds=5.0)
    queue.set_replicas(dict.fromkeys(replicas, 8))
    for replica_id in replicas:
        tell(queue, clock, replica_id, 0, num_blocks)
    return queue, clock


def tell(
    queue: DeploymentQueue,
    clock: Clock,
    replica_id: str,
    num_referenced: int,
    num_blocks: int = 100,
) -> None:
    queue.note_blocks(
        replica_id,
        KVSight(
            num_blocks=num_blocks,
            block_size=16,
            num_referenced_blocks=num_referenced,
            told_at=clock.now,
        ),
    )


def wants(num_blocks: int, doubt: str | None = None) -> QueueDemand:
    return QueueDemand(
        kv=KVDemand(num_prompt_tokens=16 * num_blocks, num_output_tokens=0, doubt=doubt)
    )


def lease_of(ticket: Ticket) -> Lease:
    assert isinstance(ticket.outcome, Lease)
    return ticket.outcome


def test_a_request_waits_for_blocks_beside_free_slots_and_starts_when_they_come_back() -> None:
    queue, _ = open_queue("a")
    first = lease_of(queue.enter(CHAT, wants(70)))
    second = queue.enter(CHAT, wants(40))
    assert second.outcome is None
    assert "KV blocks" in second.waits_for
    assert not queue.has_room_for(1, wants(10).kv)
    queue.check_integrity()
    first.release()
    lease_of(second).release()
    assert queue.kv.reserved_by_replica() == {}
    queue.check_integrity()


def test_the_replica_that_has_the_blocks_takes_it_even_where_another_has_more_slots() -> None:
    queue, clock = open_queue("a", "b")
    tell(queue, clock, "a", 90)
    assert lease_of(queue.enter(CHAT, wants(50))).replica_id == "b"
    assert lease_of(queue.enter(CHAT, wants(5))).replica_id == "a"


def test_nobody_passes_a_request_that_needs_more_blocks() -> None:
    queue, _ = open_queue("a")
    running = lease_of(queue.enter(CHAT, wants(50)))
    large = queue.enter(CHAT, wants(80))
    small = queue.enter(CHAT, wants(1))
    assert (large.outcome, small.outcome) == (None, None)
    running.release()
    assert lease_of(large).replica_id == lease_of(small).replica_id == "a"


def test_an_engine_that_tells_of_room_lets_the_next_one_start() -> None:
    queue, clock = open_queue("a")
    tell(queue, clock, "a", 95)
    ticket = queue.enter(CHAT, wants(20))
    assert ticket.outcome is None
    clock.now = 1.0
    tell(queue, clock, "a", 10)
    lease_of(ticket)


def test_what_an_engine_told_too_long_ago_holds_nobody_up() -> None:
    queue, clock = open_queue("a")
    tell(queue, clock, "a", 95)
    ticket = queue.enter(CHAT, wants(20))
    clock.now = 6.0
    queue.expire()
    lease_of(ticket)


def test_the_routing_decision_says_what_was_taken_and_what_could_not_be_told() -> None:
    clock = Clock()
    router = plain_router(clock)
    router.explains = True
    queue = DeploymentQueue(clock, 5.0, router)
    queue.set_replicas({"a": 8})
    blind = lease_of(queue.enter(CHAT, wants(3, doubt="31 of class chat have ended"))).placement
    assert blind.decision is not None
    assert blind.decision.degraded == (
        "cannot tell: a does not show its KV blocks",
        "KV reserved at most: 31 of class chat have ended",
    )
    tell(queue, clock, "a", 40)
    told = lease_of(queue.enter(CHAT, wants(3))).placement.decision
    assert told is not None
    assert told.degraded == ()
    [candidate] = told.candidates
    signal = next(each for each in candidate.signals if each.name == "kv_blocks_taken")
    assert (signal.value, signal.limit, signal.source) == (43, 100, "a")


def test_blocks_of_a_replica_that_is_gone_are_nobody_s_and_its_leases_still_end() -> None:
    queue, clock = open_queue("a", "b")
    leases = [lease_of(queue.enter(CHAT, wants(90))) for _ in range(2)]
    waiting = queue.enter(CHAT, wants(90))
    queue.set_replicas({"b": 8})
    queue.kv.keep_only({"b"})
    for lease in leases:
        lease.release()
    assert lease_of(waiting).replica_id == "b"
    queue.set_replicas({"a": 8, "b": 8})
    tell(queue, clock, "a", 0)
    assert lease_of(queue.enter(CHAT, wants(90))).replica_id == "a"
    queue.check_integrity()


def test_nothing_is_left_of_a_hundred_thousand_requests_that_wanted_blocks() -> None:
    queue, clock = open_queue("a", "b", "c")
    stream = Random(4)
    live: list[Ticket] = []
    for _ in range(100_000):
        clock.now += 0.01
        live.append(queue.enter(CHAT, wants(stream.randrange(1, 40))))
        if stream.random() < 0.02:
            replica_id = stream.choice("abc")
            tell(queue, clock, replica_id, stream.randrange(60))
            if stream.random() < 0.05:
                queue.kv.lose(replica_id)
        while len(live) > 12 or (live and stream.random() < 0.4):
            ticket = live.pop(stream.randrange(len(live)))
            if not isinstance(ticket.outcome, Lease):
                queue.leave(ticket, GONE)
            else:
                ticket.outcome.release()
    while live:
        ticket = live.pop()
        if isinstance(ticket.outcome, Lease):
            ticket.outcome.release()
        else:
            queue.leave(ticket, GONE)
    assert queue.kv.reserved_by_replica() == {}
    assert [queue.num_outstanding(replica_id) for replica_id in "abc"] == [0, 0, 0]
    queue.kv.check_integrity()
    queue.check_integrity()
