"""A queue that is asked to keep a pace, and the time of a first token."""

from dataclasses import dataclass, field

import pytest

from dataplane.lifecycle import Disposition
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy
from dataplane.queueing.pace_limits import MIN_ANSWERS
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket
from dataplane.routing.first_token_time import MIN_FIRST_TOKENS
from dataplane.routing.request import RoutingRequest

CHAT = ClassPolicy(name="chat", first_token_seconds=4)
NUM_OUTPUT = 11


@dataclass
class Service:
    """One replica of eight slots, on which a prompt token takes 10 ms, and each output token as
    long as `tpot` says."""

    tpot: float = 0.1
    now: float = 0.0
    queue: DeploymentQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = DeploymentQueue(clock=lambda: self.now, unserved_seconds=60)
        self.queue.set_replicas({"r": 8})

    def promise_pace(self, tpot_seconds: float | None) -> None:
        terms = AdmissionPolicyTerms(revision="p@1", classes=(CHAT,), tpot_seconds=tpot_seconds)
        self.queue.keep_promises(terms)

    def enter(self, num_prompt_tokens: int = 50) -> Ticket:
        routing = RoutingRequest(num_prompt_tokens=num_prompt_tokens, num_output_tokens=100)
        return self.queue.enter(CHAT, QueueDemand(routing=routing))

    def answer(self, ticket: Ticket, num_prompt_tokens: int = 50) -> None:
        lease = ticket.outcome
        assert isinstance(lease, Lease)
        self.now += 0.01 * num_prompt_tokens
        lease.placement.note_first_token()
        self.now += self.tpot * (NUM_OUTPUT - 1)
        lease.settle(num_prompt_tokens + NUM_OUTPUT, num_output_tokens=NUM_OUTPUT)
        lease.release()
        self.queue.check_integrity()


def test_a_replica_is_given_as_many_at_once_as_keep_the_pace() -> None:
    service = Service()
    service.promise_pace(0.45)
    for _ in range(2 * MIN_ANSWERS):
        service.answer(service.enter())
    running = [service.enter() for _ in range(6)]
    assert [isinstance(ticket.outcome, Lease) for ticket in running] == 4 * [True] + 2 * [False]
    service.answer(running[0])
    assert isinstance(running[4].outcome, Lease)

    service.promise_pace(None)
    assert isinstance(running[5].outcome, Lease)
    assert service.queue.promises.pace is None


@pytest.mark.parametrize("num_told", [20, 50, 450])
def test_a_pace_is_of_output_tokens_however_wrong_the_prompt_was_guessed(num_told: int) -> None:
    service = Service(tpot=0.9)
    service.promise_pace(0.45)
    for _ in range(2 * MIN_ANSWERS):
        service.answer(service.enter(num_prompt_tokens=50), num_told)
    assert service.queue.promises.pace is not None
    assert service.queue.promises.pace.limit("r") == 1


def test_what_its_client_held_up_says_nothing_of_a_replicas_pace() -> None:
    service = Service(tpot=5.0)
    service.promise_pace(0.45)
    for _ in range(2 * MIN_ANSWERS):
        ticket = service.enter()
        lease = ticket.outcome
        assert isinstance(lease, Lease)
        lease.placement.note_first_token()
        lease.placement.forget_pace()
        service.now += 60
        lease.settle(50 + NUM_OUTPUT, num_output_tokens=NUM_OUTPUT)
        lease.release()
    assert service.queue.promises.pace is not None
    assert service.queue.promises.pace.limit("r") is None


def test_who_has_a_long_prompt_waits_for_less_and_leaves_before_it_is_too_late() -> None:
    service = Service()
    service.queue.keep_promises(AdmissionPolicyTerms(revision="p@1", classes=(CHAT,)))
    for number in range(2 * MIN_FIRST_TOKENS):
        num_tokens = 50 + 10 * number
        service.answer(service.enter(num_tokens), num_tokens)
    held = [service.enter() for _ in range(8)]
    assert all(isinstance(ticket.outcome, Lease) for ticket in held)
    short, long = service.enter(50), service.enter(250)
    assert short.deadline_at is not None
    assert long.deadline_at is not None
    assert short.deadline_at - service.now == pytest.approx(3.5, abs=0.2)
    assert long.deadline_at - service.now == pytest.approx(1.5, abs=0.2)

    service.now = long.deadline_at
    service.queue.expire()
    assert isinstance(long.outcome, Departure)
    assert long.outcome.disposition is Disposition.DEADLINE
    assert short.outcome is None


def test_what_runs_already_when_a_first_token_is_promised_says_nothing_of_it() -> None:
    service = Service(now=40_000.0)
    running = [service.enter() for _ in range(8)]
    service.queue.keep_promises(AdmissionPolicyTerms(revision="p@2", classes=(CHAT,)))
    for ticket in running:
        service.answer(ticket)
    assert service.queue.promises.read_first_token(50) is None
    for _ in range(MIN_FIRST_TOKENS):
        service.answer(service.enter())
    reading = service.queue.promises.read_first_token(50)
    assert reading is not None
    assert reading.of_this == pytest.approx(0.5)


def test_what_comes_of_a_replica_that_is_ejected_says_nothing_of_the_others() -> None:
    service = Service()
    service.queue.set_replicas({"r": 8, "hung": 8})
    service.queue.router.set_replicas({"r", "hung"}, {"r", "hung"})
    service.queue.keep_promises(AdmissionPolicyTerms(revision="p@1", classes=(CHAT,)))
    tickets = [service.enter() for _ in range(16)]
    leases = [ticket.outcome for ticket in tickets if isinstance(ticket.outcome, Lease)]
    service.now += 0.2
    for lease in leases:
        if lease.replica_id == "r":
            lease.placement.note_first_token()
            lease.release()
    served = [service.enter() for _ in range(8)]
    for ticket in served:
        service.answer(ticket, 20)
    service.now += 60
    service.queue.check_replicas()
    assert set(service.queue.router.ejections.ejected()) == {"hung"}
    before = service.queue.promises.read_first_token(50)
    assert before is not None
    for lease in leases:
        if lease.replica_id == "hung":
            lease.placement.note_first_token()
            lease.release()
    assert service.queue.promises.read_first_token(50) == before


def test_nothing_is_measured_for_a_policy_that_asks_for_nothing() -> None:
    service = Service()
    service.queue.keep_promises(
        AdmissionPolicyTerms(revision="p@1", classes=(ClassPolicy(name="all"),))
    )
    service.answer(service.enter())
    assert service.queue.promises.pace is None
    assert service.queue.promises.read_first_token(50) is None


def test_of_a_class_that_waits_behind_another_it_is_known_how_fast_it_begins() -> None:
    service = Service()
    batch = ClassPolicy(name="batch", priority=-1, deadline_seconds=600)
    service.queue.keep_promises(AdmissionPolicyTerms(revision="p@1", classes=(CHAT, batch)))
    held = [service.enter() for _ in range(8)]
    for _ in range(3):
        service.queue.enter(batch)
    waiting = [service.enter() for _ in range(20)]
    for ticket in (*held, *waiting[:8]):  # of these, none is batch
        service.now += 0.1
        assert isinstance(ticket.outcome, Lease)
        ticket.outcome.release()
    of_all = service.queue.drain.read()
    own = service.queue.promises.read_drain_of("batch")
    assert of_all is not None
    assert own is not None
    assert of_all.requests_per_second == pytest.approx(10, rel=0.1)
    assert own.requests_per_second < 0.3 * of_all.requests_per_second
    assert service.queue.promises.read_drain_of("chat") is None
