"""What admission gives out is counted once, and comes back however a request ends."""

import dataclasses

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dataplane.admission.admit import Admitted, Rejected, RejectionKind
from dataplane.admission.deployment_admission import (
    AdmissionHold,
)
from dataplane.admission_record import admission_record, rejection_record
from dataplane.decision import AdmissionOutcome
from dataplane.lifecycle import Disposition
from dataplane.policy import (
    OverloadTerms,
    Override,
    OverrideKind,
    QueueLimits,
    TenantLimits,
)
from dataplane.queueing.queue import Departure, Lease, Ticket
from tests.dataplane.admission.desk import BATCH, LIMITS, Desk, arrival, compiled


def test_a_policy_that_asks_for_nothing_holds_nothing() -> None:
    desk = Desk(compiled())
    came = desk.come(arrival())
    assert not isinstance(came, Rejected)
    assert came[1] is None


def test_a_hold_ends_the_use_of_its_tenant_and_its_prompt_and_what_it_took_stays_charged() -> None:
    desk = Desk(compiled(tenants=LIMITS, max_prompt_tokens_in_flight=25), num_slots=8)
    holds = []
    for _ in range(2):
        came = desk.come(arrival())
        assert not isinstance(came, Rejected)
        holds.append(came[1])
    assert desk.refused(arrival()) is RejectionKind.TENANT_CONCURRENCY
    assert desk.refused(arrival("other")) is RejectionKind.PROMPT_TOKENS
    for hold in holds:
        assert hold is not None
        hold.settle(12)
        hold.release()
        hold.release()
    assert desk.admission.prompt_tokens.num_tokens == 0
    assert desk.admission.use.num_tokens("acme") == 24
    assert desk.refused(arrival(max_output_tokens=80)) is RejectionKind.TENANT_TOKENS
    desk.clock.now += 61
    desk.wait(arrival(max_output_tokens=80))
    desk.admission.check_integrity()


def test_what_such_requests_generate_is_charged_once_enough_of_them_have_ended() -> None:
    desk = Desk(compiled(tenants={"default": TenantLimits(tokens_per_minute=10**6)}), num_slots=99)
    for _ in range(40):
        came = desk.come(arrival(max_output_tokens=500))
        assert not isinstance(came, Rejected)
        assert came[1] is not None
        came[1].settle(17, [7])
        came[1].release()
    assert desk.consider(arrival(max_output_tokens=500)).num_expected_tokens < 20
    assert desk.consider(arrival(max_output_tokens=3)).num_expected_tokens == 13


SHED = {"overload": OverloadTerms(shed=("batch",)), "queue": QueueLimits(max_tokens=100)}


def test_no_more_make_way_than_it_takes_to_fit() -> None:
    desk = Desk(compiled(**SHED))
    desk.wait(arrival("other"))
    waiting = [desk.wait(arrival("other", max_output_tokens=10)) for _ in range(5)]
    desk.wait(arrival(max_output_tokens=20))

    left = [ticket.outcome for ticket in waiting]
    assert left[:3] == [None, None, None]
    for outcome in left[3:]:
        assert isinstance(outcome, Departure)
        assert outcome.disposition is Disposition.SHED
        assert outcome.reason == "it made way for class chat"
    assert desk.queue.num_waiting_tokens == 90


def test_who_cannot_fit_when_all_have_made_way_is_refused() -> None:
    desk = Desk(compiled(**SHED))
    desk.wait(arrival("other"))
    desk.wait(arrival("other", max_output_tokens=10))
    assert desk.refused(arrival(max_output_tokens=500)) is RejectionKind.QUEUE_FULL
    assert desk.queue.num_waiting == 0


def test_a_queue_that_one_tenant_has_filled_makes_way_for_another_up_to_its_share() -> None:
    few = dataclasses.replace(BATCH, match=None, max_queue=4)
    desk = Desk(compiled(classes=(few,), tenants={"paying": TenantLimits(weight=2)}))
    flood = [desk.wait(arrival("flood")) for _ in range(5)]
    assert desk.refused(arrival("flood")) is RejectionKind.QUEUE_FULL

    desk.wait(arrival("calm"))
    assert isinstance(flood[-1].outcome, Departure)
    assert flood[-1].outcome.disposition is Disposition.SHED
    assert "a tenant of its class that has less waiting" in flood[-1].outcome.reason
    desk.wait(arrival("paying"))
    # Now two of the flood wait, and one of each other: another one of calm would be as many.
    assert desk.refused(arrival("calm")) is RejectionKind.QUEUE_FULL
    desk.wait(arrival("paying"))
    assert [ticket.outcome is None for ticket in flood[1:]] == [True, False, False, False]
    assert desk.queue.num_waiting == 4


def test_nobody_makes_way_where_nobody_may_wait() -> None:
    none = dataclasses.replace(BATCH, match=None, max_queue=0)
    desk = Desk(compiled(classes=(none,)))
    desk.wait(arrival("flood"))
    assert desk.refused(arrival("calm")) is RejectionKind.QUEUE_FULL


def test_a_bypass_lets_in_whom_a_limit_keeps_out_and_says_so() -> None:
    desk = Desk(compiled(queue=QueueLimits(max_requests=0)))
    desk.wait(arrival())
    bypass = Override(
        override_id="o1",
        kind=OverrideKind.BYPASS,
        deployment="chat",
        reason="a fire",
        created_by="ann",
        created_at_unix_ns=0,
        until_unix_ns=10**18,
        tenant="acme",
    )
    assert isinstance(desk.consider(arrival("other"), bypass).decision, Rejected)
    considered = desk.consider(arrival(), bypass)
    assert isinstance(considered.decision, Admitted)
    [applied] = considered.overrides
    assert applied.override_id == "o1"
    facts = arrival().facts
    record = admission_record(considered, considered.decision, facts, snapshot_version=4)
    assert record.overrides == considered.overrides


def test_a_record_tells_what_was_read_and_never_a_number_that_nobody_knows() -> None:
    desk = Desk(compiled(queue=QueueLimits(max_requests=1), tenants=LIMITS))
    desk.wait(arrival("other"))
    desk.wait(arrival("other"))
    desk.clock.now += 3
    considered = desk.consider(arrival())
    assert isinstance(considered.decision, Rejected)
    record = rejection_record(considered, considered.decision, snapshot_version=4)

    assert (record.outcome, record.snapshot_version) == (AdmissionOutcome.REJECTED, 4)
    assert record.reason == considered.decision.reason
    told = {signal.name: (signal.value, signal.limit) for signal in record.signals}
    expected = {
        "queue_age": (3.0, None),
        "waiting_requests": (1, 1),
        "tenant_in_flight": (0, 2),
        "drain_rate": (None, None),
    }
    assert told.items() >= expected.items()


@given(age=st.floats(0.1, 500), rate=st.integers(1, 40))
def test_a_deadline_that_cannot_be_met_is_refused_by_the_measured_rate(
    age: float, rate: int
) -> None:
    late = dataclasses.replace(BATCH, deadline_seconds=2.0, match=None)
    desk = Desk(compiled(classes=(late,)))
    leases = [desk.wait(arrival()).outcome]
    waiting = [desk.wait(arrival()) for _ in range(8)]
    for ticket in waiting[:6]:
        desk.clock.now += 1 / rate
        held = leases[-1]
        if not isinstance(held, Lease):
            return  # it had waited past its deadline: that is the queue's to test
        held.release()
        leases.append(ticket.outcome)
    decision = desk.consider(arrival()).decision
    reading = desk.queue.drain.read()
    assert reading is not None
    would_wait = reading.seconds_for(desk.queue.num_waiting)
    assert isinstance(decision, Rejected) == (would_wait > 2.0)


class Admissions(RuleBasedStateMachine):
    """Whatever comes, waits, is shed and ends: limits hold, and nothing stays held."""

    def __init__(self) -> None:
        super().__init__()
        policy = compiled(
            tenants=LIMITS,
            max_prompt_tokens_in_flight=40,
            queue=QueueLimits(max_requests=2),
            overload=OverloadTerms(shed=("batch",), retry_budget=0.5),
        )
        self.desk = Desk(policy)
        self.inside: list[tuple[Ticket, AdmissionHold]] = []

    @rule(
        tenant=st.sampled_from(["acme", "b", "c"]),
        num_prompt=st.integers(1, 30),
        is_retry=st.booleans(),
    )
    def come(self, tenant: str, num_prompt: int, is_retry: bool) -> None:
        who = arrival(tenant, num_prompt_tokens=num_prompt)
        if is_retry:
            who = msgspec.structs.replace(who, why_retry="it says so")
        came = self.desk.come(who)
        if not isinstance(came, Rejected):
            ticket, hold = came
            assert hold is not None
            self.inside.append((ticket, hold))
        self.let_go()

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.desk.clock.now += seconds

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.inside:
            index = data.draw(st.integers(0, len(self.inside) - 1))
            ticket, hold = self.inside.pop(index)
            hold.settle(data.draw(st.integers(0, 60)), [5])
            if ticket.outcome is None:
                gone = Departure(disposition=Disposition.CANCELLED, reason="it left")
                self.desk.queue.leave(ticket, gone)
            if isinstance(ticket.outcome, Lease):
                ticket.outcome.release()
            hold.release()

    def let_go(self) -> None:
        """Those that were shed are over."""
        for entry in [each for each in self.inside if isinstance(each[0].outcome, Departure)]:
            self.inside.remove(entry)
            entry[1].release()

    @invariant()
    def limits_hold(self) -> None:
        admission = self.desk.admission
        admission.check_integrity()
        assert self.desk.queue.num_waiting <= 2
        assert all(num <= 2 for num in admission.use.in_flight_by_tenant().values())
        assert sum(admission.use.in_flight_by_tenant().values()) == len(self.inside)
        assert admission.prompt_tokens.num_tokens <= 40

    def teardown(self) -> None:
        for _, hold in self.inside:
            hold.release()
        assert self.desk.admission.prompt_tokens.num_tokens == 0
        assert not self.desk.admission.use.in_flight_by_tenant()


TestAdmissions = Admissions.TestCase
