"""What a queue costs for each that enters, begins or leaves, however many wait.

    .venv/bin/python ops/bench/bench_queue.py
    .venv/bin/python ops/bench/bench_queue.py --waiting 10000 --rounds 9

Before eight replicas with all slots held wait requests of 20 classes (half of them with aging, all
with a deadline) and 200 tenants of three weights, drawn from one seed. What is measured, with as
many waiting before as after:

    enter    one more request takes its place, and no slot is free
    begin    a lease is settled and released, and the next of all begins
    leave    a client that waits leaves
    at once  for comparison: nobody waits, a slot is free; enter and release together
    order    the place of everybody who waits, for a live list

Times are of this process alone (`process_time`), in chunks of 200 operations; of each round the
median chunk. Printed are the median of the rounds, and their range.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket

NUM_REPLICAS = 8
NUM_SLOTS = 8
NUM_CLASSES = 20
NUM_TENANTS = 200
CHUNK = 200
GONE = Departure(disposition=Disposition.CANCELLED, reason="the client left")


class Crowd:
    """A queue with so many waiting. Each action keeps that number, but for what it is about."""

    def __init__(self, num_waiting: int, seed: int) -> None:
        self._draw = random.Random(seed)
        self._now = 0.0
        self.queue = DeploymentQueue(clock=lambda: self._now, unserved_seconds=60.0)
        self.queue.set_replicas({f"r{number}": NUM_SLOTS for number in range(NUM_REPLICAS)})
        self._classes = [
            ClassPolicy(
                name=f"c{number}",
                priority=10 * number,
                aging_per_second=0.01 * (number % 2),
                deadline_seconds=1e6 + number,
            )
            for number in range(NUM_CLASSES)
        ]
        self._waiting: list[Ticket] = []
        self._held: list[Lease] = []
        for _ in range(NUM_REPLICAS * NUM_SLOTS + num_waiting):
            self.enter()

    def enter(self) -> None:
        """One more comes."""
        self._now += 1e-4
        ticket = self.queue.enter(self._draw.choice(self._classes), self._demand())
        if isinstance(ticket.outcome, Lease):
            self._held.append(ticket.outcome)
            return
        self._waiting.append(ticket)
        ticket.on_leaving(self._take)

    def begin(self) -> None:
        """One ends, and the next begins."""
        self._now += 1e-4
        held = self._held
        index = self._draw.randrange(len(held))
        lease, held[index] = held[index], held[-1]
        held.pop()
        lease.settle(self._draw.randrange(100, 2000))
        lease.release()

    def leave(self) -> None:
        """Somebody leaves."""
        ticket = self._waiting.pop(self._draw.randrange(len(self._waiting)))
        while not self.queue.leave(ticket, GONE):  # it has begun
            ticket = self._waiting.pop(self._draw.randrange(len(self._waiting)))

    def order(self) -> None:
        """Somebody asks for all places."""
        self.queue.positions()

    def _take(self, outcome: Lease | Departure) -> None:
        if isinstance(outcome, Lease):
            self._held.append(outcome)

    def _demand(self) -> QueueDemand:
        tenant, num_tokens = self._draw.randrange(NUM_TENANTS), self._draw.randrange(100, 2000)
        weight = (0.5, 1.0, 2.0)[tenant % 3]
        return QueueDemand(1, f"t{tenant}", weight, num_tokens, num_tokens, 2 * num_tokens)


def at_once(queue: DeploymentQueue, request_class: ClassPolicy, demand: QueueDemand) -> None:
    """Nobody waits, and a slot is free."""
    lease = queue.enter(request_class, demand).outcome
    assert isinstance(lease, Lease)
    lease.release()


def microseconds(action: Callable[[], object], number: int = CHUNK) -> float:
    """Of one `action`, over a chunk of them."""
    began = time.process_time()
    for _ in range(number):
        action()
    return 1e6 * (time.process_time() - began) / number


def measure(num_waiting: int, seed: int, num_chunks: int) -> dict[str, float]:
    """One round: the median chunk of each operation."""
    crowd = Crowd(num_waiting, seed)
    found: dict[str, list[float]] = {"enter": [], "begin": [], "leave": []}
    for chunk in range(num_chunks):
        found["enter"].append(microseconds(crowd.enter))
        name = "leave" if chunk % 2 else "begin"
        found[name].append(microseconds(crowd.leave if chunk % 2 else crowd.begin))
    crowd.queue.check_integrity()
    order = microseconds(crowd.order, 1) / max(1, crowd.queue.num_waiting)
    empty = DeploymentQueue(clock=time.monotonic, unserved_seconds=60.0)
    empty.set_replicas({f"r{number}": NUM_SLOTS for number in range(NUM_REPLICAS)})
    plain, demand = ClassPolicy(name="all"), QueueDemand(1, "t", 1.0, 500, 500)
    free = [microseconds(lambda: at_once(empty, plain, demand)) for _ in range(num_chunks)]
    medians = {name: statistics.median(values) for name, values in found.items()}
    return medians | {"at once": statistics.median(free), "order, each": order}


def main() -> None:
    """Measure, and print a line for each number that waits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--chunks", type=int, default=20, help="of 200 operations each, in a round")
    options = parser.parse_args()
    rounds: dict[int, list[dict[str, float]]] = {number: [] for number in options.waiting}
    for seed in range(options.rounds):
        for number in options.waiting:  # interleaved, so that all see the same machine
            rounds[number].append(measure(number, seed, options.chunks))
    print(f"{NUM_CLASSES} classes, {NUM_TENANTS} tenants, {options.rounds} rounds; microseconds")
    for number, found in rounds.items():
        told = [
            f"{name} {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
            for name in found[0]
            for values in [[each[name] for each in found]]
        ]
        print(f"{number:6} waiting   {'   '.join(told)}")


if __name__ == "__main__":
    main()
