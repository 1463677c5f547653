import msgspec
import pytest

from dataplane.admission import (
    Admitted,
    CompiledPolicy,
    QueueLoad,
    Rejected,
    RejectionKind,
    RequestFacts,
    admit,
    compile_snapshot,
)
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    Snapshot,
    SnapshotError,
    TenantPolicy,
)

GOLD = TenantPolicy(name="acme", tier="gold")
PLAIN = TenantPolicy(name="other")
FACTS = RequestFacts(
    model="m", stream=True, num_prompt_tokens=10, max_output_tokens=20, headers={"x-job": "nightly"}
)
FREE = QueueLoad(num_waiting_by_class={}, has_free_slot=True, num_replicas=1)
FULL = QueueLoad(num_waiting_by_class={"only": 3}, has_free_slot=False, num_replicas=1)


def compile_classes(*classes: ClassPolicy) -> CompiledPolicy:
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


def class_of(policy: CompiledPolicy, tenant: TenantPolicy, facts: RequestFacts = FACTS) -> str:
    decision = admit(policy, tenant, facts, FREE)
    assert isinstance(decision, Admitted)
    assert decision.policy_revision == "p@7"
    return decision.request_class.name


def rejection_of(policy: CompiledPolicy, load: QueueLoad) -> Rejected:
    decision = admit(policy, PLAIN, FACTS, load)
    assert isinstance(decision, Rejected)
    assert decision.policy_revision == "p@7"
    return decision


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ('tenant.tier == "gold"', "special"),
        ('tenant.name == "other"', "rest"),
        ("request.num_prompt_tokens + request.max_output_tokens > 29", "special"),
        ("request.stream", "special"),
        ('request.headers["x-job"] == "nightly"', "special"),
        ('"x-missing" in request.headers', "rest"),
        ('request.headers["x-missing"] == "1"', "rest"),
        ('request.model.startsWith("m")', "special"),
    ],
)
def test_the_first_class_whose_match_holds_takes_the_request(match: str, expected: str) -> None:
    policy = compile_classes(ClassPolicy(name="special", match=match), ClassPolicy(name="rest"))
    assert class_of(policy, GOLD) == expected


@pytest.mark.parametrize("match", ["tenat.tier == 'gold'", "1 +", "tenant.tier", "'gold'"])
def test_a_match_that_cannot_decide_refuses_the_whole_snapshot(match: str) -> None:
    with pytest.raises(SnapshotError, match="policy p@7 of deployment chat, class odd"):
        compile_classes(ClassPolicy(name="odd", match=match))


def test_a_request_that_no_class_takes_is_rejected_and_told_not_to_come_again() -> None:
    rejected = rejection_of(compile_classes(ClassPolicy(name="vip", match="false")), FREE)
    assert rejected.kind is RejectionKind.NO_CLASS
    assert rejected.retry_after_seconds is None


def test_a_full_queue_rejects_with_its_numbers_and_a_time_to_retry() -> None:
    rejected = rejection_of(compile_classes(ClassPolicy(name="only", max_queue=3)), FULL)
    assert rejected.kind is RejectionKind.QUEUE_FULL
    assert "3 requests of class only" in rejected.reason
    assert rejected.retry_after_seconds == 1


def test_a_queue_bound_of_zero_still_admits_what_can_start_at_once() -> None:
    policy = compile_classes(ClassPolicy(name="only", max_queue=0))
    assert class_of(policy, PLAIN) == "only"


def test_another_class_is_not_held_back_by_a_full_one() -> None:
    policy = compile_classes(ClassPolicy(name="other", max_queue=3))
    assert isinstance(admit(policy, PLAIN, FACTS, FULL), Admitted)


def test_without_replicas_nothing_waits() -> None:
    policy = compile_classes(ClassPolicy(name="only"))
    load = msgspec.structs.replace(FREE, num_replicas=0)
    assert rejection_of(policy, load).kind is RejectionKind.NO_REPLICA


def test_a_draining_gateway_admits_nobody() -> None:
    policy = compile_classes(ClassPolicy(name="only"))
    load = msgspec.structs.replace(FREE, is_draining=True)
    assert rejection_of(policy, load).kind is RejectionKind.DRAINING
