"""More work than can be done, for long: what is taken is served in time, the rest told at once."""

from collections.abc import Sequence

import pytest

from dataplane.decision import AdmissionOutcome
from dataplane.lifecycle import Disposition, EventKind, find_event
from dataplane.policy import (
    ClassPolicy,
    DegradeTerms,
    OverloadTerms,
    QueueLimits,
    TenantLimits,
)
from dataplane.record import RequestRecord
from dataplane.simulation.arrivals import Regular
from dataplane.simulation.call import Caller
from dataplane.simulation.clients import PATIENT, ClientBehaviour, Retries
from dataplane.simulation.distributions import Constant
from dataplane.simulation.traffic import TrafficSpec
from tests.dataplane.simulation.small_fleet import in_order, small_fleet, steady

# Four slots, each taken for three or four seconds by an answer of three tokens.
CAPACITY_PER_SECOND = 4 / 3
DURATION = 600.0
BY_TIER = (
    ClassPolicy(name="gold", match='tenant.tier == "gold"', priority=10, deadline_seconds=20),
    ClassPolicy(name="batch", max_queue=10_000),
)


def of_tenant(name: str, every: float, client: ClientBehaviour = PATIENT) -> TrafficSpec:
    return TrafficSpec(
        name=name,
        process=Regular(every),
        callers=[(Caller(tenant=name, client=client, headers={}), 1.0)],
        prompt=Constant(5),
        output=Constant(3),
    )


def answered(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    return [record for record in records if record.status_code == 200]


def rejected(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    return [record for record in records if record.disposition is Disposition.REJECTED]


@pytest.mark.parametrize("times", [2, 5])
def test_nobody_waits_in_vain_for_a_deadline_and_no_slot_idles_for_it(times: int) -> None:
    late = ClassPolicy(name="all", deadline_seconds=20, max_queue=10_000)
    traffic = steady(1 / (times * CAPACITY_PER_SECOND))
    fleet, records = small_fleet(classes=(late,), traffic=[traffic], duration=DURATION)
    fleet.run()

    ended = in_order(records)
    served, refused = answered(ended), rejected(ended)
    assert len(served) > 0.9 * CAPACITY_PER_SECOND * DURATION * 3 / 4
    # Before anybody had begun after a wait, nobody could tell: those few were let in.
    in_vain = [record for record in ended if record.disposition is Disposition.DEADLINE]
    assert len(in_vain) < 0.05 * len(served)
    assert len(served) + len(refused) + len(in_vain) == len(ended)
    for record in refused:
        assert record.status_code == 503
        assert record.reason is not None
        assert "the deadline of class all is 20 s" in record.reason
        assert record.events[-1].at == 0
    waits = [record.latencies.queue_time for record in served]
    # A slot in time, and then the step that begins.
    assert max(wait for wait in waits if wait is not None) <= 21


def test_a_full_record_says_what_was_decided_and_by_what() -> None:
    late = ClassPolicy(name="all", deadline_seconds=20, max_queue=10_000)
    terms = {"overload": OverloadTerms(degrade=DegradeTerms(queue_age_seconds=5, max_tokens=2))}
    traffic = [steady(0.2, output=Constant(6))]
    fleet, records = small_fleet(classes=(late,), traffic=traffic, duration=60, terms=terms)
    fleet.run()

    by_outcome = {each.decision.outcome: each for each in records.taken if each.decision}
    assert set(by_outcome) == set(AdmissionOutcome)
    assert len([each for each in records.taken if each.decision is None]) == 0
    told = by_outcome[AdmissionOutcome.REJECTED].decision
    assert told is not None
    assert told.kind == "deadline_unreachable"
    assert (told.policy_revision, told.snapshot_version) == ("small@1", 1)
    assert {each.name for each in told.signals} >= {"drain_rate", "expected_wait", "queue_age"}
    degraded = by_outcome[AdmissionOutcome.DEGRADED].decision
    assert degraded is not None
    assert degraded.degraded == ("max_tokens=2",)
    assert degraded.asked_output_tokens == 95


def test_a_class_that_is_shed_leaves_the_slots_to_the_class_above() -> None:
    terms = {
        "overload": OverloadTerms(shed=("batch",)),
        "queue": QueueLimits(max_requests=8),
    }
    traffic = [of_tenant("gold", 1.25), of_tenant("other", 0.25)]
    fleet, records = small_fleet(classes=BY_TIER, traffic=traffic, duration=DURATION, terms=terms)
    fleet.run()

    ended = in_order(records)
    gold = [record for record in ended if record.request_class == "gold"]
    batch = [record for record in ended if record.request_class == "batch"]
    assert len(answered(gold)) > 0.99 * len(gold)
    assert len(answered(batch)) < 0.2 * len(batch)
    assert {record.status_code for record in batch} == {200, 503}
    assert {record.disposition for record in batch} > {Disposition.SHED, Disposition.REJECTED}


def test_a_tenant_that_floods_is_kept_to_its_limits_and_another_notices_little() -> None:
    terms = {"tenants": {"default": TenantLimits(max_concurrent=4)}}
    traffic = [of_tenant("calm", 6.0), of_tenant("flood", 0.1)]
    fleet, records = small_fleet(traffic=traffic, duration=DURATION, terms=terms)
    fleet.run()

    ended = in_order(records)
    calm = [record for record in ended if record.tenant == "calm"]
    flood = [record for record in ended if record.tenant == "flood"]
    assert len(answered(calm)) == len(calm)
    waits = [record.latencies.queue_time or 0.0 for record in calm]
    assert max(waits) <= 8
    assert {record.status_code for record in rejected(flood)} == {429}
    assert len(answered(flood)) > 0.7 * (CAPACITY_PER_SECOND * DURATION * 3 / 4 - len(calm))


def test_shorter_answers_let_more_be_answered() -> None:
    late = ClassPolicy(name="all", deadline_seconds=20, max_queue=10_000)
    degrade = DegradeTerms(queue_age_seconds=5, max_tokens=2)
    num_answered = []
    for overload in (OverloadTerms(), OverloadTerms(degrade=degrade)):
        traffic = steady(0.2, output=Constant(6))
        terms = {"overload": overload}
        fleet, records = small_fleet(
            classes=(late,), traffic=[traffic], duration=DURATION, terms=terms
        )
        fleet.run()
        num_answered.append(len(answered(in_order(records))))
    assert num_answered[1] > 1.5 * num_answered[0]


HASTY = ClientBehaviour(name="hasty", retries=Retries(max_retries=6, backoff=0.5, factor=1.0))


def test_a_retry_storm_is_kept_within_its_budget_and_first_tries_come_before_it() -> None:
    shares = []
    for budget in (None, 0.1):
        terms = {
            "overload": OverloadTerms(retry_budget=budget),
            "queue": QueueLimits(max_requests=6),
        }
        fleet, records = small_fleet(
            traffic=[of_tenant("other", 0.25, HASTY)], duration=DURATION, terms=terms
        )
        fleet.run()
        ended = in_order(records)
        let_in = [r for r in ended if find_event(r.events, EventKind.ADMITTED) is not None]
        assert len(answered(ended)) > 0.9 * CAPACITY_PER_SECOND * DURATION * 3 / 4
        refused = [r for r in rejected(ended) if "retries were let in" in (r.reason or "")]
        shares.append(len(refused) / len(ended))
        assert len(let_in) < len(ended)
    assert shares[0] == 0
    assert shares[1] > 0.5


def test_the_same_seed_ends_in_the_same_records() -> None:
    def run() -> list[RequestRecord]:
        terms = {
            "overload": OverloadTerms(
                shed=("batch",),
                degrade=DegradeTerms(queue_age_seconds=2, max_tokens=2),
                retry_budget=0.1,
            ),
            "queue": QueueLimits(max_requests=8, max_age_seconds=30),
            "tenants": {"default": TenantLimits(max_concurrent=9, tokens_per_minute=4000)},
            "max_prompt_tokens_in_flight": 90,
        }
        traffic = [of_tenant("gold", 0.9, HASTY), of_tenant("other", 0.4, HASTY)]
        fleet, records = small_fleet(classes=BY_TIER, traffic=traffic, duration=200, terms=terms)
        fleet.run()
        return in_order(records)

    assert run() == run()
