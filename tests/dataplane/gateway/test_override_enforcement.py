"""A gateway enforces break-glass overrides, also alone, and ends them on its own clock."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dataplane.clock import wall_clock
from dataplane.gateway.control_link import SNAPSHOT_FILE
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    Override,
    OverrideKind,
    Snapshot,
    SnapshotError,
    encode_snapshot,
)
from tests.dataplane.admission.test_overrides import override
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    RunningGateway,
    add_replica,
    deployment,
    running_gateway,
    say,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

_PINNED = AdmissionPolicyTerms(revision="chat@12", classes=(ClassPolicy(name="old"),))


def lasting(override_id: str, kind: OverrideKind, seconds: float, **fields: object) -> Override:
    """From now on."""
    now = wall_clock()
    return replace(
        override(override_id, kind, **fields),
        created_at_unix_ns=now,
        until_unix_ns=now + int(seconds * 1e9),
    )


def overridden(*overrides: Override) -> Snapshot:
    return replace(snapshot(deployment("a", "b")), overrides=overrides)


async def answered_under(gateway: RunningGateway) -> tuple[str | None, str | None]:
    """Class and policy of one request."""
    answer = await gateway.http.post(CHAT, json=say(max_tokens=1))
    assert answer.status_code == 200, answer.text
    record = await gateway.record_of(answer.headers["x-request-id"])
    return record.request_class, record.policy_revision


@pytest.fixture(autouse=True)
def both(replica: ScriptedReplica) -> ScriptedReplica:
    """A second replica beside the first; it is called replica-b."""
    return add_replica("b", capabilities=replica.capabilities)


async def test_a_pinned_policy_is_enforced_with_nobody_to_talk_to_and_ends_at_its_time(
    tmp_path: Path,
) -> None:
    pin = lasting("p", OverrideKind.PIN_POLICY, 2.0, policy=_PINNED)
    async with running_gateway(tmp_path, overridden(pin)) as gateway:
        assert await answered_under(gateway) == ("old", "chat@12")
        metrics = (await gateway.http.get("/metrics")).text
        assert 'pilothouse_gateway_overrides{deployment="chat",kind="pin_policy"} 1.0' in metrics
        assert [each.override_id for each in gateway.app.report().overrides or ()] == ["p"]
        await until(lambda: gateway.app.report().overrides == (), 10)
        assert await answered_under(gateway) == ("only", "policy@3")
        metrics = (await gateway.http.get("/metrics")).text
        assert "pilothouse_gateway_overrides{" not in metrics


async def test_new_requests_go_to_pinned_replicas_alone_and_what_runs_elsewhere_runs_on(
    tmp_path: Path, replica: ScriptedReplica, both: ScriptedReplica
) -> None:
    async with running_gateway(tmp_path, overridden()) as gateway:
        replica.hold()
        both.hold()
        before = [
            asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1))) for _ in range(2)
        ]
        await until(lambda: len(replica.held) == len(both.held) == 1)
        pin = lasting("p", OverrideKind.PIN_REPLICAS, 60, replica_ids=("replica-b",))
        gateway.app.gateway.enforce(encode_snapshot(replace(overridden(pin), version=6)))
        replica.resume()
        both.resume()
        assert [(await call).status_code for call in before] == [200, 200]
        for _ in range(4):
            await answered_under(gateway)
    went = Counter(replica_id for record in gateway.records for replica_id in record.replica_ids)
    assert went == {"replica-a": 1, "replica-b": 5}


async def test_a_snapshot_without_it_ends_it_at_once(tmp_path: Path) -> None:
    pin = lasting("p", OverrideKind.PIN_POLICY, 60, policy=_PINNED)
    async with running_gateway(tmp_path, overridden(pin)) as gateway:
        gateway.app.gateway.enforce(encode_snapshot(replace(overridden(), version=6)))
        assert await answered_under(gateway) == ("only", "policy@3")


async def test_one_that_ended_while_the_gateway_was_away_is_not_enforced_when_it_returns(
    tmp_path: Path,
) -> None:
    long_over = override("p", OverrideKind.PIN_POLICY, policy=_PINNED)
    async with running_gateway(tmp_path, overridden(long_over)) as gateway:
        assert await answered_under(gateway) == ("only", "policy@3")
        assert (tmp_path / SNAPSHOT_FILE).exists()


async def test_what_an_override_hides_must_work_once_it_ends(tmp_path: Path) -> None:
    pin = lasting("p", OverrideKind.PIN_POLICY, 60, policy=_PINNED)
    broken = deployment("a", classes=(ClassPolicy(name="only", match="request.nothing +"),))
    hiding = replace(snapshot(broken, version=6), overrides=(pin,))
    async with running_gateway(tmp_path, overridden(pin)) as gateway:
        with pytest.raises(SnapshotError, match="class only"):
            gateway.app.gateway.enforce(encode_snapshot(hiding))
        assert gateway.app.report().snapshot_version == 5
        assert await answered_under(gateway) == ("old", "chat@12")


async def test_a_bypass_lets_in_what_the_policy_would_refuse_and_says_so_in_its_record(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    tight = deployment("a", max_active=1, classes=(ClassPolicy(name="only", max_queue=0),))
    async with running_gateway(tmp_path, snapshot(tight)) as gateway:
        replica.hold()
        running = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: bool(replica.held))
        refused = await gateway.http.post(CHAT, json=say(max_tokens=1))
        assert refused.json()["error"]["code"] == "queue_full"

        lifted = lasting("b", OverrideKind.BYPASS, 60, request_class="only")
        snapshot_with = replace(snapshot(tight, version=6), overrides=(lifted,))
        gateway.app.gateway.enforce(encode_snapshot(snapshot_with))
        waiting = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: gateway.app.report().num_queued == 1)
        replica.resume()
        assert [(await call).status_code for call in (running, waiting)] == [200, 200]
        record = await gateway.record_of((await waiting).headers["x-request-id"])
        plain = await gateway.record_of(refused.headers["x-request-id"])
    assert record.decision is not None
    assert [(each.override_id, each.effect) for each in record.decision.overrides] == [
        ("b", "limits are off for class only")
    ]
    assert plain.decision is not None
    assert (plain.decision.kind, plain.decision.overrides) == ("queue_full", ())


async def test_a_bypass_of_one_tenant_leaves_the_others_under_their_limits(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    tight = deployment("a", max_active=1, classes=(ClassPolicy(name="only", max_queue=0),))
    lifted = lasting("b", OverrideKind.BYPASS, 60, tenant="acme")
    async with running_gateway(tmp_path, replace(snapshot(tight), overrides=(lifted,))) as gateway:
        replica.hold()
        running = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: bool(replica.held))
        assert (await gateway.http.post(CHAT, json=say(max_tokens=1))).status_code == 503
        headers = {"x-pilothouse-tenant": "acme"}
        acme = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1), headers=headers))
        await until(lambda: gateway.app.report().num_queued == 1)
        replica.resume()
        assert [(await call).status_code for call in (running, acme)] == [200, 200]


async def test_a_pin_is_in_the_decision_of_each_request_that_it_touched(tmp_path: Path) -> None:
    pin = lasting("p", OverrideKind.PIN_REPLICAS, 60, replica_ids=("replica-b",))
    async with running_gateway(tmp_path, overridden(pin)) as gateway:
        answer = await gateway.http.post(CHAT, json=say(max_tokens=1))
        record = await gateway.record_of(answer.headers["x-request-id"])
    assert record.decision is not None
    assert [each.override_id for each in record.decision.overrides] == ["p"]
