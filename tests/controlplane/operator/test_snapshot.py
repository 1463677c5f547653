"""What gateways are told of what the operator decided."""

import pytest
from sqlalchemy import text

from controlplane.store.revisions import apply_documents
from tests.controlplane.config_documents import (
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    documents,
)
from tests.controlplane.operator.room import DEPLOYMENT, Room
from tests.controlplane.quiet_gateway import quiet_report


def test_engine_and_gateway_are_told_the_same_longest_sequence(room: Room) -> None:
    model = f"path: {room.weights}}}, max_model_len: 512, tokenizer: {{path: /t"
    room.apply(model=model)
    first = room.bring_up()
    assert first.spec.settings == {"max_model_len": 512}
    assert room.snapshot().deployments[0].max_model_len == 512
    room.apply(model=model, settings="{max_model_len: 256}")
    second = room.bring_up()
    assert second.spec.settings == {"max_model_len": 256}
    assert room.snapshot().deployments[0].max_model_len == 256


def test_versions_go_on_above_what_a_gateway_enforces_when_the_database_was_lost(
    room: Room,
) -> None:
    room.apply()
    room.bring_up()
    room.observed.put_gateway(quiet_report(snapshot_version=70))
    room.reconciler.reconcile()
    assert room.snapshot().version == 71
    room.reconciler.reconcile()
    assert room.snapshot().version == 71
    room.observed.put_gateway(quiet_report(snapshot_version=71))
    room.apply(replicas=0)
    room.reconciler.reconcile()
    assert room.snapshot().version == 72


def test_a_snapshot_carries_policy_contract_and_revisions_and_grows_with_changes(
    room: Room,
) -> None:
    room.apply()
    room.bring_up()
    first = room.snapshot()
    for _ in range(3):
        room.reconciler.reconcile()
    assert room.snapshot() == first
    (chat,) = first.deployments
    assert (chat.model_name, chat.model_revision) == ("m", "m@1")
    assert [c.name for c in chat.policy.classes] == ["interactive", "batch"]
    assert chat.contract is not None
    assert chat.contract.revision == "chat@1"
    assert chat.tokenizer_artifact == str(room.weights)
    with room.database.session() as session:
        tenant = "kind: Tenant\nmetadata: {name: acme}\nspec: {tier: gold}\n"
        apply_documents(session, documents(tenant), author="t", reason="t")
    room.reconciler.reconcile()
    assert room.snapshot().version == first.version + 1
    assert [t.name for t in room.snapshot().tenants] == ["acme"]


def test_a_version_that_no_counting_reaches_is_not_followed(room: Room) -> None:
    room.apply()
    room.bring_up()
    own = room.snapshot().version
    room.observed.put_gateway(quiet_report(snapshot_version=2**63 - 1))
    room.reconciler.reconcile()
    assert room.snapshot().version == own


@pytest.mark.parametrize(
    ("kind", "stored", "says"),
    [
        ("Deployment", '{"spec": {"replicas": "many"}}', "stored Deployment document"),
        ("AdmissionPolicy", "[]", "stored AdmissionPolicy document"),
        ("Deployment", "{no JSON", "property name"),
    ],
)
def test_a_stored_document_that_cannot_be_read_holds_its_deployment_alone(
    room: Room, kind: str, stored: str, says: str
) -> None:
    room.apply()
    chat = room.bring_up()
    with room.database.session() as session:
        other = DEPLOYMENT.format(replicas=1, observe_only="false", surge=0, unavailable=1).replace(
            "chat", "other"
        )
        policy = DESIGN_POLICY.replace("name: chat", "name: other")
        contract = DESIGN_CONTRACT.replace("name: chat", "name: other")
        made = documents(other, policy, contract)
        apply_documents(session, made, author="test", reason="test")
    with room.database.session() as session:
        damage = text(
            "UPDATE revisions SET document = :d, digest = :k WHERE kind = :k AND name = 'chat'"
        )
        session.execute(damage, {"d": stored, "k": kind})

    room.reconcile_until(lambda: len(room.snapshot().deployments[-1].replicas) == 1)

    assert says in room.reconciler.holds["chat"]
    assert "other" not in room.reconciler.holds
    served = {policy.name: policy.replicas for policy in room.snapshot().deployments}
    assert [each.replica_id for each in served["chat"]] == [chat.replica_id], "it runs on"
    assert len(served["other"]) == 1
