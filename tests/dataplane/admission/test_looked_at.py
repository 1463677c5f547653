"""Requests that are only looked at: what would be decided, however long they are."""

import dataclasses
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dataplane.admission.admit import Admitted, Rejected
from dataplane.admission.deployment_admission import (
    DeploymentAdmission,
)
from dataplane.policy import (
    ClassPolicy,
    OverloadTerms,
    QueueLimits,
)
from dataplane.queueing.queue import Departure, DeploymentQueue
from tests.dataplane.admission.desk import BATCH, CHAT, LIMITS, Desk, arrival, compiled
from tests.dataplane.plain_clock import PlainClock

_OVERLOAD_TERMS = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.builds(
            QueueLimits,
            max_requests=st.sampled_from([None, 0, 1, 3]),
            max_tokens=st.sampled_from([None, 50, 200]),
            max_age_seconds=st.sampled_from([None, 0.5]),
        ),
        "tenants": st.just(LIMITS),
        "max_prompt_tokens_in_flight": st.sampled_from([5, 40]),
        "overload": st.builds(
            OverloadTerms, shed=st.just(("batch",)), retry_budget=st.sampled_from([None, 0.1])
        ),
        "classes": st.just((dataclasses.replace(CHAT, max_queue=1, deadline_seconds=1.0), BATCH)),
    },
)


@given(
    _OVERLOAD_TERMS,
    st.lists(st.tuples(st.sampled_from(["acme", "other"]), st.integers(1, 30)), max_size=8),
    st.sampled_from(["acme", "other"]),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_who_is_refused_however_short_is_refused_at_any_length(
    terms: dict[str, Any], before: list[tuple[str, int]], tenant: str, prompt: int, output: int
) -> None:
    desk = Desk(compiled(**terms))
    for name, num_tokens in before:
        desk.clock.now += 0.2
        desk.come(arrival(name, num_prompt_tokens=num_tokens))

    shortest = arrival(tenant, num_prompt_tokens=1, max_output_tokens=1)
    short = desk.admission.consider(desk.policy, shortest, 1, only_looks=True).decision
    if isinstance(short, Rejected):
        real = desk.consider(arrival(tenant, num_prompt_tokens=prompt, max_output_tokens=output))
        assert isinstance(real.decision, Rejected)


def test_whose_class_depends_on_its_length_is_not_refused_before_that_is_known() -> None:
    by_length = dataclasses.replace(CHAT, match="request.num_prompt_tokens < 100", max_queue=0)
    desk = Desk(compiled(), num_slots=0)

    assert desk.admission.may_refuse(desk.policy, "acme")
    assert not desk.admission.may_refuse(compiled(classes=(by_length, BATCH)), "acme")


def test_where_a_slot_is_free_only_a_tenant_at_its_limit_is_looked_at() -> None:
    desk = Desk(compiled(tenants=LIMITS), num_slots=8)
    for _ in range(2):
        assert not desk.admission.may_refuse(desk.policy, "acme")
        desk.wait(arrival())
    assert desk.admission.may_refuse(desk.policy, "acme")
    assert not desk.admission.may_refuse(desk.policy, "other")


@given(
    max_queue=st.integers(0, 3),
    num_slots=st.integers(1, 2),
    num_before=st.integers(0, 6),
    num_replicas=st.integers(0, 1),
    terms=st.sampled_from(
        [
            {},
            {"queue": QueueLimits(max_requests=1)},
            {"tenants": LIMITS},
            {"max_prompt_tokens_in_flight": 25},
            {"overload": OverloadTerms(retry_budget=0.1)},
        ]
    ),
)
def test_what_is_let_in_openly_is_what_would_be_considered_to_be(
    max_queue: int, num_slots: int, num_before: int, num_replicas: int, terms: dict[str, Any]
) -> None:
    policy = compiled(classes=(ClassPolicy(name="all", max_queue=max_queue),), **terms)
    queue = DeploymentQueue(PlainClock(), 60)
    queue.set_replicas({"r": 2})
    admission = DeploymentAdmission("chat", queue, queue.clock)
    for _ in range(num_before):
        queue.enter(policy.terms.classes[0])
    one = msgspec.structs.replace(arrival(), num_slots=num_slots)
    openly = admission.let_in_openly(policy, 20, num_slots, num_replicas)
    considered = admission.consider(policy, one, num_replicas)
    if openly is not None:
        assert considered.decision == openly
        assert admission.hold(one, considered) is None
    else:
        assert policy.open_class is None or isinstance(considered.decision, Rejected)


def test_nobody_makes_way_for_one_that_is_only_looked_at() -> None:
    terms = {"queue": QueueLimits(max_requests=1), "overload": OverloadTerms(shed=("batch",))}
    desk = Desk(compiled(**terms))
    desk.wait(arrival("other"))
    waiting = desk.wait(arrival("other"))

    looked = desk.admission.consider(desk.policy, arrival(), 1, only_looks=True)
    assert isinstance(looked.decision, Admitted)
    assert waiting.outcome is None
    assert isinstance(desk.consider(arrival()).decision, Admitted)
    assert isinstance(waiting.outcome, Departure)
