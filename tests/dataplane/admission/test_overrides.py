"""Break-glass: what overrides make of a snapshot, and when they end."""

from dataclasses import replace
from typing import Any

import pytest

from dataplane.admission.overrides import (
    applied_to,
    effect_of,
    ended_by,
    ends_of,
    find_bypass,
    in_force,
    without_limits,
)
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    OverloadTerms,
    Override,
    OverrideKind,
    Snapshot,
    SnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from tests.dataplane.gateway.running_gateway import deployment, snapshot

_SECOND = 10**9
_PINNED = AdmissionPolicyTerms(revision="chat@12", classes=(ClassPolicy(name="old"),))


def override(override_id: str, kind: OverrideKind, **fields: Any) -> Override:
    """One of deployment chat, made at second 100 for a minute."""
    given: dict[str, Any] = {
        "deployment": "chat",
        "reason": "the new policy refuses everybody",
        "created_by": "anna",
        "created_at_unix_ns": 100 * _SECOND,
        "until_unix_ns": 160 * _SECOND,
    }
    return Override(override_id=override_id, kind=kind, **(given | fields))


def _with(*overrides: Override) -> Snapshot:
    plain = snapshot(deployment("a", "b"), deployment("c", name="other"))
    return Snapshot(
        version=9, deployments=plain.deployments, tenants=plain.tenants, overrides=overrides
    )


def test_a_pinned_policy_stands_in_the_place_of_the_desired_one_until_it_ends() -> None:
    pinned = _with(override("p", OverrideKind.PIN_POLICY, policy=_PINNED))
    assert [each.policy.revision for each in in_force(pinned).deployments] == [
        "chat@12",
        "policy@3",
    ]
    after = in_force(pinned, {"p"})
    assert [each.policy.revision for each in after.deployments] == ["policy@3", "policy@3"]
    assert after.overrides == ()


def test_pinned_replicas_are_named_in_their_deployment_alone() -> None:
    pinned = in_force(_with(override("p", OverrideKind.PIN_REPLICAS, replica_ids=("replica-b",))))
    assert [each.pinned_replicas for each in pinned.deployments] == [("replica-b",), None]
    assert len(pinned.deployments[0].replicas) == 2, "the others keep what they have begun"


def test_of_several_the_newest_counts_so_that_one_can_be_extended_by_another() -> None:
    newer = override(
        "a",
        OverrideKind.PIN_POLICY,
        policy=AdmissionPolicyTerms(revision="chat@13", classes=_PINNED.classes),
        created_at_unix_ns=101 * _SECOND,
    )
    both = _with(newer, override("b", OverrideKind.PIN_POLICY, policy=_PINNED))
    assert in_force(both).deployments[0].policy.revision == "chat@13"
    assert in_force(both, {"a"}).deployments[0].policy.revision == "chat@12"


@pytest.mark.parametrize(
    ("scope", "taken"),
    [
        ({}, {("acme", "batch"), ("acme", "chat"), ("beta", "batch"), ("beta", "chat")}),
        ({"request_class": "batch"}, {("acme", "batch"), ("beta", "batch")}),
        ({"tenant": "acme"}, {("acme", "batch"), ("acme", "chat")}),
        ({"tenant": "acme", "request_class": "batch"}, {("acme", "batch")}),
    ],
)
def test_a_bypass_takes_its_class_and_its_tenant_and_nobody_else(
    scope: dict[str, str], taken: set[tuple[str, str]]
) -> None:
    bypass = override("b", OverrideKind.BYPASS, **scope)
    found = {
        (tenant, request_class)
        for tenant in ("acme", "beta")
        for request_class in ("batch", "chat")
        if find_bypass([bypass], "chat", tenant, request_class) is bypass
    }
    assert found == taken
    assert find_bypass([bypass], "other", "acme", "batch") is None


def test_without_limits_nothing_is_refused_or_given_up_and_the_order_stays() -> None:
    terms = AdmissionPolicyTerms(
        revision="chat@3",
        classes=(
            ClassPolicy(name="batch", match="true", priority=7, max_queue=2, deadline_seconds=1.0),
        ),
        max_active_per_replica=4,
    )
    lifted = without_limits(terms)
    (only,) = lifted.classes
    assert (only.name, only.match, only.priority) == ("batch", "true", 7)
    assert only.deadline_seconds is None
    assert only.max_queue > 10**6
    assert lifted.max_active_per_replica == 4, "that only puts requests in order"
    assert lifted.revision == "chat@3"


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        ({"request_class": "batch"}, ("trial",)),
        ({"request_class": "batch", "tenant": "acme"}, ("trial",)),
        ({"tenant": "acme"}, ()),
        ({}, ()),
    ],
)
def test_who_waits_and_was_let_in_by_a_bypass_is_shed_for_nobody(
    scope: dict[str, str], left: tuple[str, ...]
) -> None:
    terms = AdmissionPolicyTerms(
        revision="chat@3", classes=(), overload=OverloadTerms(shed=("trial", "batch"))
    )
    plain = _with(override("b", OverrideKind.BYPASS, **scope))
    deployments = tuple(replace(each, policy=terms) for each in plain.deployments)
    mine, other = in_force(replace(plain, deployments=deployments)).deployments
    assert mine.policy.overload is not None
    assert mine.policy.overload.shed == left
    assert other.policy == terms


def test_an_override_ends_after_its_own_time_whatever_the_wall_clock_says_later() -> None:
    mine = override("p", OverrideKind.PIN_POLICY, policy=_PINNED)
    ends = ends_of([mine], {}, now=5.0, now_unix_ns=120 * _SECOND)
    assert ended_by(ends, 44.9) == frozenset()
    assert ended_by(ends, 45.0) == {"p"}
    jumped = ends_of([mine], ends, now=6.0, now_unix_ns=10 * _SECOND)
    assert jumped == ends


@pytest.mark.parametrize("wrong_clock", [0, -(10**12), 99 * _SECOND])
def test_on_a_clock_that_is_behind_it_lasts_no_longer_than_it_was_made_for(
    wrong_clock: int,
) -> None:
    mine = override("p", OverrideKind.PIN_POLICY, policy=_PINNED)
    assert ends_of([mine], {}, now=0.0, now_unix_ns=wrong_clock) == {"p": 60.0}


def test_one_that_ended_before_it_came_is_never_in_force() -> None:
    mine = override("p", OverrideKind.PIN_POLICY, policy=_PINNED)
    ends = ends_of([mine], {}, now=0.0, now_unix_ns=161 * _SECOND)
    assert ended_by(ends, 0.0) == {"p"}


def test_each_says_what_it_does_and_a_request_is_told_only_what_touches_it() -> None:
    pin = override("p", OverrideKind.PIN_POLICY, policy=_PINNED)
    replicas = override("r", OverrideKind.PIN_REPLICAS, replica_ids=("r1", "r2"))
    bypass = override("b", OverrideKind.BYPASS, request_class="batch", tenant="acme")
    assert effect_of(pin) == "policy chat@12 is pinned"
    assert effect_of(replicas) == "new requests go to r1 and r2 alone"
    assert effect_of(bypass) == "limits are off for class batch for tenant acme"
    touched = applied_to([pin, replicas, bypass], "chat", "acme", "batch")
    assert [each.override_id for each in touched] == ["p", "r", "b"]
    assert [e.override_id for e in applied_to([bypass, pin], "chat", "beta", "batch")] == ["p"]
    assert applied_to([pin, replicas, bypass], "other", "acme", "batch") == ()


def test_overrides_travel_in_a_snapshot_and_none_is_named_twice() -> None:
    sent = _with(override("p", OverrideKind.PIN_POLICY, policy=_PINNED))
    assert decode_snapshot(encode_snapshot(sent)) == sent
    twice = _with(override("p", OverrideKind.BYPASS), override("p", OverrideKind.BYPASS))
    with pytest.raises(SnapshotError, match="override named twice: p"):
        decode_snapshot(encode_snapshot(twice))
