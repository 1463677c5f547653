"""What a demand would do: shares, replicas and states, before anything is done."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.api.rollout_asked import (
    Asked,
    Situation,
    current_share,
    possible_demands,
    sizes_of,
)
from controlplane.api.rollout_plan import create_plan
from controlplane.api.rollout_views import RolloutPlan
from controlplane.rollouts.machine import RolloutState, UnmetDemandError
from controlplane.rollouts.verdict import Decision, Verdict
from controlplane.store.deployments import find_deployment
from controlplane.store.revisions import apply_documents
from controlplane.store.rollouts import StoredRollout, find_last
from tests.controlplane.config_documents import config_database, documents
from tests.controlplane.rolling_documents import OTHER_MODEL, OTHER_POLICY, ROLLING_SERVICE

_SURGING = [text.replace("replicas: 2", "replicas: 10") for text in ROLLING_SERVICE]
"""Each arm has its own replicas, and one may be missing: of 11 at most one is the candidate's."""


def begun(folder: Path, text: str) -> tuple[StoredRollout, Situation]:
    """A rollout at its first step, and what is known beside it."""
    database = config_database(folder)
    for texts in (_SURGING, [text]):
        with database.session() as session:
            apply_documents(session, documents(*texts), author="ann", reason="x")
    with database.reading() as session:
        rollout, deployment = find_last(session, "chat"), find_deployment(session, "chat")
    database.close()
    assert rollout is not None
    now = time.time_ns()
    situation = Situation(now_unix_ns=now, deployment=deployment, is_newest=True, num_offered=1000)
    return at(rollout, RolloutState.RUNNING, 0), situation


def at(rollout: StoredRollout, state: RolloutState, step: int) -> StoredRollout:
    return replace(rollout, progress=replace(rollout.progress, state=state, step=step))


@pytest.fixture
def of_policy(tmp_path: Path) -> tuple[StoredRollout, Situation]:
    return begun(tmp_path, OTHER_POLICY)


@pytest.fixture
def of_model(tmp_path: Path) -> tuple[StoredRollout, Situation]:
    return begun(tmp_path, OTHER_MODEL)


def shares(plan: RolloutPlan) -> tuple[float, float]:
    return round(plan.share, 4), round(plan.share_after, 4)


def replicas(plan: RolloutPlan) -> tuple[int | None, ...]:
    return (
        plan.stable_replicas,
        plan.candidate_replicas,
        plan.stable_replicas_after,
        plan.candidate_replicas_after,
    )


def test_a_policy_moves_no_replica(of_policy: tuple[StoredRollout, Situation]) -> None:
    rollout, situation = of_policy
    for asked, then in ((Asked.PROMOTE, 0.25), (Asked.PAUSE, 0.05), (Asked.ABORT, 0.0)):
        plan = create_plan(rollout, asked, situation)
        assert shares(plan) == (0.05, then), asked
        assert replicas(plan) == (None, None, None, None), asked


def test_a_candidate_with_few_replicas_gets_no_more_than_its_part_of_them(
    of_model: tuple[StoredRollout, Situation],
) -> None:
    rollout, situation = of_model
    plan = create_plan(rollout, Asked.PROMOTE, situation)
    assert shares(plan) == (0.05, 0.1), "the step gives it 0.25, and 1 of 10 replicas is its"
    assert replicas(plan) == (9, 1, 9, 1)
    assert "25 %" in "".join(plan.effects)


def test_going_back_gives_the_stable_arm_all_its_replicas(
    of_model: tuple[StoredRollout, Situation],
) -> None:
    plan = create_plan(*_before(of_model, Asked.ABORT))
    assert (plan.state_after, plan.share_after) == ("aborted", 0.0)
    assert replicas(plan)[2:] == (10, 0)


def _before(
    of: tuple[StoredRollout, Situation], asked: Asked
) -> tuple[StoredRollout, Asked, Situation]:
    return of[0], asked, of[1]


def test_after_the_last_step_the_candidate_is_all_of_it(
    of_model: tuple[StoredRollout, Situation],
) -> None:
    rollout, situation = of_model
    plan = create_plan(at(rollout, RolloutState.PAUSED, 2), Asked.PROMOTE, situation)
    assert (plan.state, plan.state_after, plan.step_after) == ("paused", "promoted", 3)
    assert replicas(plan)[2:] == (0, 10)
    assert plan.share_after == 1


def test_a_promotion_says_what_it_passes_over(
    of_policy: tuple[StoredRollout, Situation],
) -> None:
    rollout, situation = of_policy
    decision = Decision(verdict=Verdict.UNDECIDED, reason="ttft: 3 requests are alike")
    first = create_plan(rollout, Asked.PROMOTE, situation).effects[0]
    then = create_plan(rollout, Asked.PROMOTE, replace(situation, decision=decision)).effects[0]
    assert "without an analysis" in first
    assert decision.reason in then


def test_what_may_be_asked_follows_from_where_it_is(
    of_policy: tuple[StoredRollout, Situation],
) -> None:
    rollout, situation = of_policy
    asked = {state: possible_demands(at(rollout, state, 0), situation) for state in RolloutState}
    assert asked == {
        RolloutState.WAITING: ["abort"],
        RolloutState.RUNNING: ["promote", "pause", "abort"],
        RolloutState.PAUSED: ["promote", "resume", "abort"],
        RolloutState.PROMOTED: [],
        RolloutState.ABORTED: ["retry"],
    }


def test_frozen_it_goes_back_and_not_forward(of_policy: tuple[StoredRollout, Situation]) -> None:
    rollout, situation = of_policy
    frozen = replace(situation, freeze="the night of the sale")
    assert possible_demands(rollout, frozen) == ["pause", "abort"]
    with pytest.raises(UnmetDemandError, match="the night of the sale"):
        create_plan(rollout, Asked.PROMOTE, frozen)


def test_only_the_newest_is_retried_and_only_from_what_it_began_with(
    of_policy: tuple[StoredRollout, Situation],
) -> None:
    rollout, situation = of_policy
    aborted = at(rollout, RolloutState.ABORTED, 0)
    assert possible_demands(aborted, replace(situation, is_newest=False)) == []
    assert situation.deployment is not None
    revisions = replace(situation.deployment.revisions, policy=rollout.candidate.policy)
    moved = replace(situation.deployment, revisions=revisions)
    assert possible_demands(aborted, replace(situation, deployment=moved)) == []


def test_of_a_deployment_that_cannot_be_read_replicas_are_unknown(
    of_model: tuple[StoredRollout, Situation],
) -> None:
    rollout, _ = of_model
    assert sizes_of(rollout, None) is None
    assert current_share(rollout, None) == 0.05
