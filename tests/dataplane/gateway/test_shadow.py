"""A policy that looks on at a gateway: told in every record, and felt by nobody."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataplane.admission.shadow import ShadowAdmissions
from dataplane.arm import Arm
from dataplane.decision import AdmissionOutcome
from dataplane.gateway.arms import ROLLOUT_HEADER
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    TenantLimits,
)
from dataplane.record import RequestRecord, RolloutPlace
from tests.dataplane.gateway.running_gateway import add_replica, until
from tests.dataplane.gateway.scripted_engine import REPLICAS, ScriptedReplica
from tests.dataplane.gateway.test_rollout_arms import STABLE, ask, rolling, serving

pytestmark = [pytest.mark.usefixtures("scripted_engine"), pytest.mark.anyio]


@pytest.fixture(autouse=True)
def replica() -> Any:
    yield add_replica("a")
    REPLICAS.clear()


def policy(**fields: Any) -> AdmissionPolicyTerms:
    return replace(STABLE.policy, revision="policy@4", **fields)


async def seen_in_shadow(
    folder: Path, terms: AdmissionPolicyTerms, num: int = 3, **fields: Any
) -> list[RequestRecord]:
    candidate = replace(STABLE, arm=Arm.CANDIDATE, replicas=(), policy=terms)
    async with serving(folder, rolling(candidate, 0.0, is_shadow=True)) as gateway:
        for _ in range(num):
            answer = await ask(gateway, **fields)
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-pilothouse-policy"] == STABLE.policy.revision
            assert answer.headers[ROLLOUT_HEADER] == "7 stable"
        await until(lambda: len(gateway.records) == num)
        return list(gateway.records)


def outcomes(records: list[RequestRecord]) -> Counter[tuple[str, bool | None]]:
    found: Counter[tuple[str, bool | None]] = Counter()
    for record in records:
        shadow, enforced = record.shadow, record.decision
        assert shadow is not None
        assert enforced is not None
        own = shadow.decision
        assert (shadow.rollout, own.policy_revision if own else "policy@4") == (7, "policy@4")
        found[own.outcome if own else "unknown", shadow.differs_from(enforced)] += 1
    return found


async def test_the_same_policy_decides_alike(tmp_path: Path) -> None:
    records = await seen_in_shadow(tmp_path, policy())
    assert outcomes(records) == {(AdmissionOutcome.ADMITTED, False): 3}
    assert {record.rollout for record in records} == {RolloutPlace(number=7, arm=Arm.STABLE)}


async def test_its_own_accounts_make_decisions_follow_from_one_another(tmp_path: Path) -> None:
    limits = {"default": TenantLimits(tokens_per_minute=40)}
    records = await seen_in_shadow(tmp_path, policy(tenants=limits), num=6)
    found = outcomes(records)
    # Each takes 5 tokens of prompt and 2 of output: what is let in is charged, in shadow alone.
    assert found == {(AdmissionOutcome.ADMITTED, False): 5, (AdmissionOutcome.REJECTED, True): 1}
    last = records[-1].shadow
    assert last is not None
    assert last.decision is not None
    assert last.decision.kind == "tenant_tokens"


async def test_another_class_and_shorter_answers_are_told(tmp_path: Path) -> None:
    records = await seen_in_shadow(tmp_path, policy(classes=(ClassPolicy(name="other"),)), num=1)
    assert outcomes(records) == {(AdmissionOutcome.ADMITTED, True): 1}
    assert records[0].request_class != "other"


async def test_one_that_breaks_is_told_of_and_felt_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_kwargs: object) -> None:
        raise ZeroDivisionError("of its own")

    monkeypatch.setattr(ShadowAdmissions, "decide", broken)
    records = await seen_in_shadow(tmp_path, policy(), num=1)
    assert outcomes(records) == {("unknown", None): 1}
    assert records[0].shadow is not None
    assert "ZeroDivisionError" in records[0].shadow.why_none


async def test_of_what_is_refused_uncounted_nobody_knows_whether_it_had_been_let_in(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    limits = {"default": TenantLimits(max_concurrent=1)}
    stable = replace(STABLE, policy=replace(STABLE.policy, tenants=limits))
    candidate = replace(STABLE, arm=Arm.CANDIDATE, replicas=(), policy=policy())
    enforced = rolling(candidate, 0.0, is_shadow=True)
    async with serving(tmp_path, replace(enforced, deployments=(stable,))) as gateway:
        replica.step_seconds = 0.1
        first = asyncio.create_task(ask(gateway))
        await until(lambda: bool(replica.held))
        second = await ask(gateway)
        assert (second.status_code, (await first).status_code) == (429, 200)
        await until(lambda: len(gateway.records) == 2)
    refused = next(each for each in gateway.records if each.status_code == 429)
    assert refused.shadow is not None
    assert (refused.shadow.decision, refused.num_prompt_tokens) == (None, None)
