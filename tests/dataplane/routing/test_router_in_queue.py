"""Whatever a queue does with its router, work is counted while it is there and no longer."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy, RoutingTerms
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket
from dataplane.routing.prompt_blocks import hash_blocks
from dataplane.routing.request import RoutingRequest
from dataplane.routing.router import Router
from dataplane.routing.terms import create_builtin, create_routing

ONLY = ClassPolicy(name="only")
NAMES = ("r0", "r1", "r2", "r3")
GONE = Departure(disposition=Disposition.CANCELLED, reason="the client left")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.integers(0, 30)),
        st.tuples(st.just("enter"), st.integers(0, 30)),
        st.tuples(st.just("token"), st.integers(0, 30)),
        st.tuples(st.just("release"), st.integers(0, 30)),
        st.tuples(st.just("fail"), st.integers(0, 30)),
        st.tuples(st.just("leave"), st.integers(0, 30)),
        st.tuples(st.just("replicas"), st.integers(0, 15)),
        st.tuples(st.just("time"), st.integers(1, 12)),
    ),
    max_size=60,
)


class World:
    """A queue before four replicas of two slots, and a clock."""

    def __init__(self, policy: str) -> None:
        self.now = 0.0
        random = Random(1)
        terms = RoutingTerms(policy=policy, settings={"ejection": {"consecutive_failures": 2}})
        routing = create_routing(terms, random, create_builtin)
        self.router = Router(lambda: self.now, routing, random, explains=True, on_change=self.tell)
        self.queue = DeploymentQueue(lambda: self.now, 5.0, self.router)
        self.connected = set(NAMES)
        self.tickets: list[Ticket] = []
        self.held: list[Lease] = []
        self.tell()

    def tell(self) -> None:
        self.router.set_replicas(set(NAMES), self.connected)
        self.queue.set_replicas(dict.fromkeys(sorted(self.router.ejections.usable()), 2))

    def enter(self, number: int) -> None:
        tokens = range(1000 * (number % 3), 1000 * (number % 3) + 64 + number)
        request = RoutingRequest(
            num_prompt_tokens=len(tokens),
            num_output_tokens=number,
            blocks=hash_blocks(tokens, "acme"),
            affinity_key=f"s-{number}" if number % 5 == 0 else None,
        )
        excluded = frozenset({NAMES[number % 4]}) if number % 7 == 6 else frozenset()
        demand = QueueDemand(num_slots=1 + number % 2, routing=request)
        self.tickets.append(self.queue.enter(ONLY, demand, excluded))

    def play(self, action: str, number: int) -> None:
        match action:
            case "enter":
                self.enter(number)
            case "token" if self.held:
                placement = self.held[number % len(self.held)].placement
                placement.note_cached(number)
                placement.note_first_token()
            case "release" | "fail" if self.held:
                lease = self.held.pop(number % len(self.held))
                if action == "fail":
                    lease.placement.fail()
                lease.release()
            case "leave" if self.tickets:
                self.queue.leave(self.tickets[number % len(self.tickets)], GONE)
            case "replicas":
                self.connected = {name for bit, name in enumerate(NAMES) if number >> bit & 1}
                self.tell()
            case "time":
                self.now += number
                self.queue.check_replicas()
        self.collect()

    def collect(self) -> None:
        for ticket in [each for each in self.tickets if each.outcome is not None]:
            self.tickets.remove(ticket)
            if isinstance(lease := ticket.outcome, Lease):
                assert lease.replica_id not in ticket.excluded
                self.held.append(lease)

    def check(self) -> None:
        self.queue.check_integrity()
        self.router.index.check_integrity()
        for name in NAMES:
            candidate = self.queue.find_candidate(name)
            held = [each for each in self.held if each.replica_id == name]
            assert candidate is not None or not held
            if candidate is not None and not held:
                assert candidate.num_prompt_tokens_ahead == candidate.num_output_tokens_ahead == 0
            if candidate is not None:
                assert candidate.num_prompt_tokens_ahead >= 0


@given(st.sampled_from(("two_choices", "least_outstanding", "prefix")), STEPS)
@settings(max_examples=120, deadline=None)
def test_work_is_counted_while_it_is_there_and_no_longer(
    policy: str, steps: list[tuple[str, int]]
) -> None:
    world = World(policy)
    for action, number in steps:
        world.play(action, number)
        world.check()
    while world.held:
        world.play("release", 0)
    world.check()
