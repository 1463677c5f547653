"""A change makes of one snapshot exactly the other, or nothing at all."""

from dataclasses import replace

import pytest

from dataplane.access import AccessKey, Role
from dataplane.arm import Arm
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    ReplicaEndpoint,
    RolloutTerms,
    Snapshot,
    SnapshotError,
    TenantPolicy,
    encode_snapshot,
)
from dataplane.snapshot_change import (
    OutOfStepError,
    SnapshotChange,
    apply_change,
    change_between,
    decode_change,
    encode_change,
)


def served(name: str, *replicas: str, max_queue: int = 64) -> DeploymentPolicy:
    return DeploymentPolicy(
        name=name,
        model_name="tiny",
        model_revision="tiny@1",
        engine_config_revision="e@1",
        tokenizer_artifact=None,
        max_model_len=None,
        policy=AdmissionPolicyTerms(
            revision="p@1", classes=(ClassPolicy(name="only", max_queue=max_queue),)
        ),
        contract=None,
        replicas=tuple(
            ReplicaEndpoint(replica_id=each, engine="idle", address="a:1") for each in replicas
        ),
    )


BASE = Snapshot(
    version=7,
    deployments=(served("a", "a-1", "a-2"), served("b", "b-1"), served("c")),
    tenants=(TenantPolicy(name="acme"),),
)
KEY = AccessKey(key_id="k", secret_digest="d", role=Role.CLIENT)


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (replace(BASE, version=9), []),
        (
            replace(
                BASE, version=8, deployments=(BASE.deployments[0], served("b"), served("bb", "x"))
            ),
            ["b", "bb"],
        ),
        (replace(BASE, version=8, deployments=()), []),
        (replace(BASE, version=8, tenants=(), keys=(KEY,)), []),
        (
            replace(
                BASE,
                version=8,
                rollouts=(
                    RolloutTerms(
                        number=1, share=0.5, candidate=replace(served("a"), arm=Arm.CANDIDATE)
                    ),
                ),
            ),
            [],
        ),
    ],
    ids=["nothing", "deployments", "all gone", "tenants and keys", "rollouts"],
)
def test_a_change_says_what_is_different_and_makes_the_new_snapshot_of_it(
    new: Snapshot, told: list[str]
) -> None:
    change = decode_change(encode_change(change_between(BASE, new)))

    assert [each.name for each in change.deployments] == told
    assert apply_change(BASE, change) == new
    assert encode_snapshot(apply_change(BASE, change)) == encode_snapshot(new)


def test_a_change_of_another_version_is_out_of_step() -> None:
    with pytest.raises(OutOfStepError, match="version 6"):
        apply_change(BASE, SnapshotChange(base_version=6, version=8))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (SnapshotChange(base_version=7, version=8, deployments=(served("a", "x", "x"),)), "x"),
        (
            SnapshotChange(
                base_version=7,
                version=8,
                removed=("a",),
                rollouts=(
                    RolloutTerms(
                        number=4, share=0.5, candidate=replace(served("a"), arm=Arm.CANDIDATE)
                    ),
                ),
            ),
            "rollout 4 of a",
        ),
    ],
)
def test_what_comes_of_a_change_is_checked_whole(change: SnapshotChange, says: str) -> None:
    with pytest.raises(SnapshotError, match=says):
        apply_change(BASE, change)


def test_a_change_of_wrong_types_is_refused() -> None:
    with pytest.raises(SnapshotError, match="deployments"):
        decode_change(b'{"base_version": 7, "version": 8, "deployments": 3}')
