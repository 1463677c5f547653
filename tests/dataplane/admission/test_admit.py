"""The decision as a table: what is there, and what a request that comes then is told."""

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.admission.admit import Admitted, Rejected, RejectionKind, admit
from dataplane.admission.class_matching import RequestFacts
from dataplane.admission.load_signals import QueueLoad
from dataplane.admission.retry_budget import RetryStanding
from dataplane.enforced_snapshot import CompiledPolicy, compile_snapshot
from dataplane.leases.prompt_tokens_in_flight import PromptShortage
from dataplane.leases.tenant_use import UseLimit, UseShortage
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DegradeTerms,
    DeploymentPolicy,
    OverloadTerms,
    QueueLimits,
    Snapshot,
    SnapshotError,
    TenantPolicy,
)
from dataplane.queueing.drain_rate import DrainReading

GOLD = TenantPolicy(name="acme", tier="gold")
FACTS = RequestFacts(
    model="m",
    stream=True,
    num_prompt_tokens=10,
    max_output_tokens=20,
    headers={"x-job": "nightly"},
    num_bytes=50,
)
CHAT = ClassPolicy(name="chat", priority=100, max_queue=8, deadline_seconds=10)
BATCH = ClassPolicy(name="batch", priority=10, max_queue=100, aging_per_second=1)
TERMS = AdmissionPolicyTerms(revision="p@7", classes=(CHAT, BATCH))
FREE = QueueLoad(num_waiting_by_class={}, has_free_slot=True, num_replicas=1)


def per_second(requests: float, age: float = 0.0) -> DrainReading:
    return DrainReading(requests_per_second=requests, tokens_per_second=1.0, age_seconds=age)


def waiting(chat: int = 0, batch: int = 0, **fields: Any) -> QueueLoad:
    """Nobody can start, and so many wait."""
    counts = {name: num for name, num in (("chat", chat), ("batch", batch)) if num}
    given = {"num_waiting": chat + batch, "num_replicas": 1} | fields
    return QueueLoad(num_waiting_by_class=counts, has_free_slot=False, **given)


def with_terms(**fields: Any) -> AdmissionPolicyTerms:
    return dataclasses.replace(TERMS, **fields)


def rejection(
    terms: AdmissionPolicyTerms, load: QueueLoad, of: ClassPolicy | None = CHAT
) -> Rejected:
    decision = admit(terms, of, FACTS, load)
    assert isinstance(decision, Rejected), decision
    assert decision.policy_revision == "p@7"
    return decision


def admission(terms: AdmissionPolicyTerms, load: QueueLoad, of: ClassPolicy = CHAT) -> Admitted:
    decision = admit(terms, of, FACTS, load)
    assert isinstance(decision, Admitted), decision
    assert (decision.policy_revision, decision.request_class) == ("p@7", of)
    return decision


FLOODED = UseShortage(
    limit=UseLimit.TOKENS, reason="acme has used its minute", retry_after_seconds=12.4
)
TOO_MANY = UseShortage(limit=UseLimit.CONCURRENCY, reason="acme has 3", retry_after_seconds=None)
RETRIED = RetryStanding(
    why_retry="its client says that it is retry 2",
    num_retries=10,
    num_first=100,
    num_allowed=10,
)
BUDGET = with_terms(overload=OverloadTerms(retry_budget=0.1))


@pytest.mark.parametrize(
    ("terms", "load", "kind", "status", "retry_after", "said"),
    [
        (
            TERMS,
            msgspec.structs.replace(FREE, is_draining=True),
            RejectionKind.DRAINING, 503, 1, "shutting down",
        ),
        (
            TERMS,
            msgspec.structs.replace(FREE, num_replicas=0),
            RejectionKind.NO_REPLICA, 503, 5, "no replica serves",
        ),
        (
            TERMS,
            msgspec.structs.replace(FREE, tenant_shortage=FLOODED),
            RejectionKind.TENANT_TOKENS, 429, 13, "acme has used its minute",
        ),
        (
            TERMS,
            msgspec.structs.replace(FREE, tenant_shortage=TOO_MANY, drain=per_second(0.25)),
            RejectionKind.TENANT_CONCURRENCY, 429, 4, "acme has 3",
        ),
        (
            TERMS,
            msgspec.structs.replace(FREE, prompt_shortage=PromptShortage(num_in_flight=9, limit=9)),
            RejectionKind.PROMPT_TOKENS, 503, 1, "9 prompt tokens are in flight, and at most 9",
        ),
        (
            BUDGET,
            waiting(chat=4, retry=RETRIED, drain=per_second(2)),
            RejectionKind.RETRY_BUDGET, 503, 2, "10 retries were let in beside 100 first tries, wh",
        ),
        (
            TERMS,
            waiting(chat=8, drain=per_second(2)),
            RejectionKind.QUEUE_FULL, 503, 5, "8 requests of class chat are waiting, and max_queue",
        ),
        (
            TERMS,
            waiting(chat=6, drain=per_second(0.5)),
            RejectionKind.DEADLINE, 503, 4, "begin in 14.0 s, and the deadline of class chat is 10",
        ),
        (
            with_terms(queue=QueueLimits(max_requests=5)),
            waiting(chat=5, drain=per_second(1)),
            RejectionKind.QUEUE_FULL, 503, 5, "5 requests are waiting, and limits.queue.requests",
        ),
        (
            with_terms(queue=QueueLimits(max_tokens=129)),
            waiting(chat=5, num_waiting_tokens=100),
            RejectionKind.QUEUE_FULL, 503, 1, "100 tokens are waiting, this request may come to 30",
        ),
        (
            with_terms(queue=QueueLimits(max_bytes=149)),
            waiting(chat=5, num_waiting_bytes=100),
            RejectionKind.QUEUE_FULL, 503, 1, "100 bytes are waiting, this request has 50, and lim",
        ),
        (
            with_terms(queue=QueueLimits(max_age_seconds=2)),
            waiting(chat=5, oldest_age_by_class={"chat": 2.5}),
            RejectionKind.QUEUE_AGE, 503, 1, "the oldest has waited 2.5 s, and limits.queue.age",
        ),
    ],
)  # fmt: skip
def test_who_is_refused_is_told_why_with_the_numbers_and_when_to_come_again(
    terms: AdmissionPolicyTerms,
    load: QueueLoad,
    kind: RejectionKind,
    status: int,
    retry_after: int,
    said: str,
) -> None:
    rejected = rejection(terms, load)

    assert (rejected.kind, rejected.status) == (kind, status)
    assert rejected.retry_after_seconds == retry_after
    assert said in rejected.reason


@pytest.mark.parametrize(
    ("terms", "load"),
    [
        (TERMS, waiting(chat=7, batch=99)),
        # Of a rate that nobody measured, or too long ago, nothing is concluded.
        (TERMS, waiting(chat=7, drain=None)),
        (TERMS, waiting(chat=7, drain=per_second(0.1, age=61))),
        # 99 of another class go behind it.
        (TERMS, waiting(chat=4, batch=99, drain=per_second(0.5))),
        (with_terms(queue=QueueLimits(max_requests=5)), waiting(chat=4)),
        (with_terms(queue=QueueLimits(max_tokens=130)), waiting(num_waiting_tokens=100)),
        (with_terms(queue=QueueLimits(max_bytes=150)), waiting(num_waiting_bytes=100)),
        (
            with_terms(queue=QueueLimits(max_age_seconds=2)),
            waiting(chat=1, oldest_age_by_class={"chat": 2.0}),
        ),
        (BUDGET, waiting(retry=dataclasses.replace(RETRIED, num_retries=8.9))),
        # What can start at once waits for nobody and makes nobody wait.
        (BUDGET, msgspec.structs.replace(FREE, retry=RETRIED)),
        (with_terms(queue=QueueLimits(max_requests=0)), FREE),
    ],
)
def test_what_is_within_every_bound_may_wait(terms: AdmissionPolicyTerms, load: QueueLoad) -> None:
    assert admission(terms, load).makes_way == ()


def test_a_request_that_no_class_takes_is_refused_for_good() -> None:
    rejected = rejection(TERMS, FREE, None)
    assert (rejected.kind, rejected.status) == (RejectionKind.NO_CLASS, 403)
    assert rejected.retry_after_seconds is None


def test_a_queue_bound_of_zero_still_admits_what_can_start_at_once() -> None:
    none_waits = ClassPolicy(name="only", max_queue=0)
    admission(TERMS, FREE, none_waits)
    assert rejection(TERMS, waiting(), none_waits).kind is RejectionKind.QUEUE_FULL


def test_those_that_waiting_has_raised_above_a_class_count_as_before_it() -> None:
    # The oldest of 40 batch requests has gained 120 of the 90 that it lacks: a quarter has.
    load = waiting(
        chat=1, batch=40, drain=per_second(1), oldest_age_by_class={"batch": 120.0, "chat": 1.0}
    )
    rejected = rejection(TERMS, load)
    assert rejected.kind is RejectionKind.DEADLINE
    assert rejected.reason.startswith("11 requests go before it")


SHED = with_terms(overload=OverloadTerms(shed=("batch",)))


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (waiting(chat=8), "class batch gives way: 8 of class chat are waiting, as many as may"),
        (waiting(chat=6, drain=per_second(0.5)), "class chat would wait 14.0 s, and its deadline"),
    ],
)
def test_a_class_in_shed_order_is_refused_while_one_above_cannot_wait(
    load: QueueLoad, said: str
) -> None:
    rejected = rejection(SHED, load, BATCH)
    assert (rejected.kind, rejected.status) == (RejectionKind.SHED, 503)
    assert said in rejected.reason
    admission(TERMS, load, BATCH)
    admission(SHED, waiting(chat=7, drain=per_second(2)), BATCH)


def test_those_that_wait_make_way_for_a_class_above_where_that_helps() -> None:
    full = with_terms(overload=OverloadTerms(shed=("batch",)), queue=QueueLimits(max_requests=5))
    assert admission(full, waiting(chat=2, batch=3)).makes_way == ("batch",)
    assert rejection(full, waiting(chat=5)).kind is RejectionKind.QUEUE_FULL
    assert rejection(full, waiting(chat=2, batch=3), BATCH).kind is RejectionKind.QUEUE_FULL

    # Only those in front of it keep it from its deadline.
    raised = {"batch": 180.0}
    late = waiting(chat=1, batch=40, drain=per_second(1), oldest_age_by_class=raised)
    assert admission(SHED, late).makes_way == ("batch",)
    later = waiting(chat=7, batch=40, drain=per_second(0.5), oldest_age_by_class=raised)
    assert rejection(SHED, later).kind is RejectionKind.DEADLINE


LESS = DegradeTerms(queue_age_seconds=1, max_tokens=5)


@pytest.mark.parametrize(
    ("degrade", "age", "limit"),
    [
        (LESS, 1.0, 20),
        (LESS, 1.1, 5),
        (dataclasses.replace(LESS, includes_bound=True), 1.0, 5),
        (dataclasses.replace(LESS, max_tokens=400), 9.0, 20),
    ],
)
def test_answers_get_shorter_while_somebody_waits_for_too_long_and_say_so(
    degrade: DegradeTerms, age: float, limit: int
) -> None:
    terms = with_terms(overload=OverloadTerms(degrade=degrade))
    admitted = admission(terms, waiting(batch=1, oldest_age_by_class={"batch": age}))
    assert admitted.max_output_tokens == limit
    assert (admitted.why_degraded is not None) == (limit < 20)


def test_the_fallback_is_named_whether_its_own_queue_takes_the_request_or_not() -> None:
    terms = with_terms(
        overload=OverloadTerms(degrade=DegradeTerms(queue_age_seconds=1, fallback="small"))
    )
    old = {"chat": 1.5}
    admitted = admission(terms, waiting(chat=1, oldest_age_by_class=old))
    assert (admitted.fallback, admitted.max_output_tokens) == ("small", 20)
    assert admitted.why_degraded == "queue age 1.5 s is over 1 s"
    rejected = rejection(terms, waiting(chat=8, oldest_age_by_class=old))
    assert (rejected.kind, rejected.fallback) == (RejectionKind.QUEUE_FULL, "small")
    # A tenant over its own limits has no claim to another deployment.
    over = waiting(chat=1, oldest_age_by_class=old, tenant_shortage=FLOODED)
    assert rejection(terms, over).fallback is None


def test_a_shorter_answer_may_be_what_fits_into_the_queue() -> None:
    terms = with_terms(overload=OverloadTerms(degrade=LESS), queue=QueueLimits(max_tokens=120))
    load = waiting(chat=1, num_waiting_tokens=100, oldest_age_by_class={"chat": 0.5})
    assert rejection(terms, load).kind is RejectionKind.QUEUE_FULL
    older = msgspec.structs.replace(load, oldest_age_by_class={"chat": 2.0})
    assert admission(terms, older).max_output_tokens == 5


@given(
    st.builds(
        QueueLimits,
        max_requests=st.none() | st.integers(0, 12),
        max_tokens=st.none() | st.integers(1, 300),
        max_bytes=st.none() | st.integers(1, 500),
    ),
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 40), st.integers(0, 200)), max_size=30),
)
def test_the_bounds_of_the_queue_are_never_passed_by_those_who_wait(
    limits: QueueLimits, arrivals: list[tuple[int, int, int]]
) -> None:
    terms = with_terms(queue=limits)
    num = tokens = size = 0
    for num_prompt, most, num_bytes in arrivals:
        facts = msgspec.structs.replace(
            FACTS, num_prompt_tokens=num_prompt, max_output_tokens=most, num_bytes=num_bytes
        )
        load = waiting(batch=num, num_waiting_tokens=tokens, num_waiting_bytes=size)
        decision = admit(terms, BATCH, facts, load)
        if isinstance(decision, Admitted):
            num, tokens, size = num + 1, tokens + num_prompt + most, size + num_bytes
            assert limits.max_requests is None or num <= limits.max_requests
            assert limits.max_tokens is None or tokens <= limits.max_tokens
            assert limits.max_bytes is None or size <= limits.max_bytes
        else:
            assert decision.kind is RejectionKind.QUEUE_FULL
            assert decision.retry_after_seconds is not None


@given(
    chat=st.integers(0, 8),
    batch=st.integers(0, 100),
    rate=st.floats(1e-6, 1e6),
    ages=st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)),
    of=st.sampled_from([CHAT, BATCH]),
)
def test_every_refusal_names_a_time_within_its_bound(
    chat: int, batch: int, rate: float, ages: tuple[float, float], of: ClassPolicy
) -> None:
    terms = with_terms(
        overload=OverloadTerms(shed=("batch",), degrade=LESS),
        queue=QueueLimits(max_requests=50, max_age_seconds=60),
    )
    load = waiting(
        chat=chat,
        batch=batch,
        drain=per_second(rate),
        oldest_age_by_class={"chat": ages[0], "batch": ages[1]},
    )
    decision = admit(terms, of, FACTS, load)
    if isinstance(decision, Rejected):
        assert decision.retry_after_seconds is not None
        assert 1 <= decision.retry_after_seconds <= 600


def compiled(*classes: ClassPolicy) -> CompiledPolicy:
    deployment = DeploymentPolicy(
        name="chat",
        model_name="m",
        model_revision="m@1",
        engine_config_revision="e@1",
        tokenizer_artifact=None,
        max_model_len=None,
        policy=AdmissionPolicyTerms(revision="p@7", classes=classes),
        contract=None,
        replicas=(),
    )
    enforced = compile_snapshot(Snapshot(version=1, deployments=(deployment,)))
    return enforced.policy_of(deployment)


def test_the_class_of_a_compiled_policy_takes_the_request() -> None:
    policy = compiled(ClassPolicy(name="gold", match='tenant.tier == "gold"'), BATCH)
    found = policy.find_class(GOLD, FACTS)
    assert found is not None
    assert admission(policy.terms, FREE, found).request_class.name == "gold"


def test_a_match_that_cannot_decide_refuses_the_whole_snapshot() -> None:
    with pytest.raises(SnapshotError, match=r"p@7 of deployment chat, class odd, match '1 \+"):
        compiled(ClassPolicy(name="odd", match="1 +"))
