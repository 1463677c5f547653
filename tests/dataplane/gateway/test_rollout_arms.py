"""A rollout at the gateway: who is served by which arm, and that a lost candidate costs nobody an
answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane.arm import Arm
from dataplane.gateway.arms import ROLLOUT_HEADER
from dataplane.lifecycle import Disposition
from dataplane.policy import (
    ClassPolicy,
    DeploymentPolicy,
    OverrideKind,
    RolloutTerms,
    Snapshot,
    SnapshotError,
    TenantLimits,
    decode_snapshot,
    encode_snapshot,
)
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
from tests.dataplane.gateway.scripted_engine import REPLICAS, ScriptedReplica
from tests.dataplane.gateway.test_override_enforcement import lasting

pytestmark = [pytest.mark.usefixtures("scripted_engine"), pytest.mark.anyio]

STABLE = deployment("a")
OWN = replace(
    deployment("b"),
    model_revision="tiny@2",
    arm=Arm.CANDIDATE,
    has_own_lane=True,
)
"""A candidate with a replica of its own."""
OF_POLICY = replace(
    STABLE,
    arm=Arm.CANDIDATE,
    replicas=(),
    policy=replace(STABLE.policy, revision="policy@4", classes=(ClassPolicy(name="other"),)),
)
"""A candidate that is another policy, before the same replicas."""


@pytest.fixture
def stable() -> Iterator[ScriptedReplica]:
    yield add_replica("a")
    REPLICAS.clear()


@pytest.fixture
def candidate(stable: ScriptedReplica) -> ScriptedReplica:
    return add_replica("b")


def rolling(candidate: DeploymentPolicy, share: float, version: int = 5, **fields: Any) -> Snapshot:
    rollout = RolloutTerms(number=7, share=share, candidate=candidate, **fields)
    return replace(snapshot(STABLE, version=version), rollouts=(rollout,))


@asynccontextmanager
async def serving(state_dir: Path, enforced: Snapshot) -> AsyncIterator[RunningGateway]:
    async with running_gateway(state_dir, enforced) as gateway:
        yield gateway
        await gateway.settle()


async def ask(gateway: RunningGateway, **fields: Any) -> httpx.Response:
    headers = fields.pop("headers", {})
    return await gateway.http.post(CHAT, json=say(max_tokens=2, **fields), headers=headers)


@pytest.mark.usefixtures("candidate")
async def test_a_share_is_served_by_the_candidate_and_every_record_says_by_whom(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, rolling(OWN, 0.3)) as gateway:
        answers = [await ask(gateway) for _ in range(60)]
        await until(lambda: len(gateway.records) == 60)
    assert {answer.status_code for answer in answers} == {200}
    seen = Counter(
        (r.rollout.number, r.rollout.arm, r.model_revision, r.replica_ids, r.deployment)
        for r in gateway.records
        if r.rollout is not None
    )
    assert set(seen) == {
        (7, Arm.STABLE, "tiny@1", ("replica-a",), "chat"),
        (7, Arm.CANDIDATE, "tiny@2", ("replica-b",), "chat"),
    }
    assert 5 <= seen[7, Arm.CANDIDATE, "tiny@2", ("replica-b",), "chat"] <= 32
    told = Counter(answer.headers[ROLLOUT_HEADER] for answer in answers)
    assert told["7 candidate"] == sum(n for key, n in seen.items() if key[1] is Arm.CANDIDATE)


@pytest.mark.usefixtures("candidate")
@pytest.mark.parametrize("field", ["prompt_cache_key", "user", None])
async def test_a_session_of_a_tenant_stays_in_its_arm(tmp_path: Path, field: str | None) -> None:
    terms = rolling(OWN, 0.5, sticky_header="x-session-id")
    async with serving(tmp_path, terms) as gateway:
        arms = {}
        for number in range(12):
            name = f"s{number}"
            fields = {field: name} if field else {"headers": {"x-session-id": name}}
            told = {(await ask(gateway, **fields)).headers[ROLLOUT_HEADER] for _ in range(3)}
            assert len(told) == 1
            arms[name] = told.pop()
    assert set(arms.values()) == {"7 stable", "7 candidate"}


@pytest.mark.usefixtures("stable")
async def test_a_policy_is_tried_before_the_same_replicas(tmp_path: Path) -> None:
    async with serving(tmp_path, rolling(OF_POLICY, 1.0)) as gateway:
        answer = await ask(gateway)
        record = await gateway.last_record(0)
    assert answer.headers["x-pilothouse-policy"] == "policy@4"
    assert (record.policy_revision, record.request_class) == ("policy@4", "other")
    assert record.replica_ids == ("replica-a",)


@pytest.mark.usefixtures("candidate")
async def test_tenants_have_their_limits_once_and_not_once_in_each_arm(tmp_path: Path) -> None:
    limited = {"tenants": {"default": TenantLimits(max_concurrent=1)}}
    stable = deployment("a", terms=limited)
    own = replace(OWN, policy=stable.policy)
    enforced = rolling(own, 0.5, sticky_header="x-session-id")
    async with serving(tmp_path, replace(enforced, deployments=(stable,))) as gateway:
        by_arm: dict[str, dict[str, str]] = {}
        for number in range(12):
            headers = {"x-session-id": f"s{number}"}
            by_arm[(await ask(gateway, headers=headers)).headers[ROLLOUT_HEADER]] = headers
        REPLICAS["a"].step_seconds = REPLICAS["b"].step_seconds = 0.1
        first = asyncio.create_task(ask(gateway, headers=by_arm["7 stable"]))
        await until(lambda: bool(REPLICAS["a"].held))
        second = await ask(gateway, headers=by_arm["7 candidate"])
        assert (await first).status_code == 200
    assert second.status_code == 429


@pytest.mark.usefixtures("stable")
async def test_nobody_waits_for_a_candidate_that_cannot_be_reached(tmp_path: Path) -> None:
    add_replica("b", is_dead=True)
    async with serving(tmp_path, rolling(OWN, 1.0)) as gateway:
        answer = await ask(gateway)
        record = await gateway.last_record(0)
    assert answer.status_code == 200
    assert ROLLOUT_HEADER not in answer.headers
    assert (record.rollout, record.replica_ids) == (None, ("replica-a",))


async def test_who_waits_for_a_candidate_that_is_lost_is_answered_by_the_stable_arm(
    tmp_path: Path, candidate: ScriptedReplica
) -> None:
    own = replace(OWN, policy=replace(OWN.policy, max_active_per_replica=1))
    candidate.step_seconds = 0.2
    async with serving(tmp_path, rolling(own, 1.0)) as gateway:
        calls = [asyncio.create_task(ask(gateway)) for _ in range(6)]
        await until(lambda: gateway.app.report().num_queued == 5)
        candidate.is_dead = True
        answers = await asyncio.gather(*calls)
        await until(lambda: len(gateway.records) == 6)
    assert [answer.status_code for answer in answers] == [200] * 6
    for record in gateway.records:
        assert record.rollout is not None
        # what it suffered by being sent there is the candidate's
        assert record.rollout.arm is Arm.CANDIDATE
        assert record.replica_ids[-1] == "replica-a"
        assert record.model_revision == "tiny@1"


@pytest.mark.usefixtures("stable", "candidate")
async def test_while_replicas_are_replaced_each_record_names_what_its_own_replica_runs(
    tmp_path: Path,
) -> None:
    both = deployment("a", "b")
    old, new = both.replicas
    new = replace(new, model_revision="tiny@2", engine_config_revision="scripted@2")
    async with serving(tmp_path, snapshot(replace(both, replicas=(old, new)))) as gateway:
        await until(lambda: len(gateway.app.gateway.fleet.connected()) == 2)
        await asyncio.gather(*(ask(gateway) for _ in range(8)))
        await until(lambda: len(gateway.records) == 8)
    assert {
        (record.replica_ids[-1], record.model_revision, record.engine_config_revision)
        for record in gateway.records
    } == {("replica-a", "tiny@1", "scripted@1"), ("replica-b", "tiny@2", "scripted@2")}


async def test_a_rollout_that_is_aborted_ends_no_request(
    tmp_path: Path, candidate: ScriptedReplica
) -> None:
    own = replace(OWN, policy=replace(OWN.policy, max_active_per_replica=1))
    candidate.step_seconds = 0.05
    async with serving(tmp_path, rolling(own, 1.0)) as gateway:
        calls = [asyncio.create_task(ask(gateway)) for _ in range(6)]
        await until(lambda: gateway.app.report().num_queued == 5 and bool(candidate.submitted))
        gateway.app.gateway.enforce(encode_snapshot(snapshot(STABLE, version=6)))
        answers = await asyncio.gather(*calls)
        await until(lambda: len(gateway.records) == 6)
    assert [answer.status_code for answer in answers] == [200] * 6
    assert {record.disposition for record in gateway.records} == {Disposition.LENGTH}
    by_replica = Counter(record.replica_ids for record in gateway.records)
    assert by_replica == {("replica-b",): 1, ("replica-a",): 5}


async def test_a_candidate_that_is_promoted_stays_connected_and_gives_no_slot_twice(
    tmp_path: Path, candidate: ScriptedReplica
) -> None:
    own = replace(OWN, policy=replace(OWN.policy, max_active_per_replica=1))
    promoted = replace(own, arm=Arm.STABLE, has_own_lane=False)
    candidate.step_seconds = 0.1
    async with serving(tmp_path, rolling(own, 1.0)) as gateway:
        calls = [asyncio.create_task(ask(gateway)) for _ in range(3)]
        await until(lambda: gateway.app.report().num_queued == 2 and bool(candidate.submitted))
        gateway.app.gateway.enforce(encode_snapshot(snapshot(promoted, version=6)))
        assert gateway.app.gateway.fleet.connected() == {"replica-b"}
        calls += [asyncio.create_task(ask(gateway)) for _ in range(3)]
        await until(lambda: gateway.app.report().num_queued == 5)
        assert len(candidate.held) == 1
        answers = await asyncio.gather(*calls)
        await until(lambda: len(gateway.records) == 6)
    assert [answer.status_code for answer in answers] == [200] * 6
    assert {record.replica_ids for record in gateway.records} == {("replica-b",)}


@pytest.mark.usefixtures("candidate")
@pytest.mark.parametrize("arm", list(Arm))
async def test_one_arm_can_be_forced_for_a_time(tmp_path: Path, arm: Arm) -> None:
    forced = lasting("f0", OverrideKind.FORCE_ARM, 60, deployment="chat", arm=arm)
    enforced = replace(rolling(OWN, 0.5), overrides=(forced,))
    async with serving(tmp_path, enforced) as gateway:
        told = {(await ask(gateway)).headers[ROLLOUT_HEADER] for _ in range(12)}
        record = await gateway.last_record(0)
    assert told == {f"7 {arm}"}
    assert record.decision is not None
    assert [each.effect for each in record.decision.overrides] == [
        f"all requests go to the {arm} arm of its rollout"
    ]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (rolling(OWN, 1.5), "a share of 1.5"),
        (rolling(replace(OWN, arm=Arm.STABLE), 0.5), "to the arm stable"),
        (rolling(replace(OWN, name="nobody"), 0.5), "no such deployment"),
        (rolling(replace(OWN, has_own_lane=False), 0.5), "no lane for them"),
        (rolling(replace(OWN, replicas=STABLE.replicas), 0.5), "named twice: replica-a"),
        (
            replace(rolling(OWN, 0.5), rollouts=rolling(OWN, 0.5).rollouts * 2),
            "rollout named twice: chat",
        ),
    ],
)
def test_a_snapshot_whose_rollout_cannot_be_is_refused(wrong: Snapshot, says: str) -> None:
    with pytest.raises(SnapshotError, match=says):
        decode_snapshot(encode_snapshot(wrong))
