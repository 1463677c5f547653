"""Rollouts as they are stored, with what is known of them at this moment."""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session
from starlette.datastructures import State

from controlplane.api.rollout_asked import Situation, current_share, possible_demands, sizes_of
from controlplane.api.rollout_telling import (
    view_arm,
    view_line,
    view_look,
    view_moves,
    view_steps,
)
from controlplane.api.rollout_views import ArmView, RolloutDetail, RolloutList
from controlplane.operator.observed import ObservedState
from controlplane.rollouts.worker import Look, RolloutWorker, find_freeze
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment, list_readable_deployments
from controlplane.store.overrides import StoredOverride
from controlplane.store.requests import count_since
from controlplane.store.rollouts import (
    RolloutMove,
    StoredRollout,
    find_last,
    find_rollout,
    list_living,
    list_moves,
    list_rollouts,
)
from dataplane.arm import Arm
from dataplane.policy import OverrideKind

_HOUR = 3600
_NS = 10**9


class UnknownRolloutError(LookupError):
    """No rollout has that number."""


def find_known(session: Session, number: int) -> StoredRollout:
    """The rollout with that number. Raises UnknownRolloutError."""
    rollout = find_rollout(session, number)
    if rollout is None:
        raise UnknownRolloutError(f"there is no rollout {number}; see the list")
    return rollout


def read_rollouts(
    state: State,
    now_unix_ns: int,
    deployment: str | None = None,
    is_living: bool = False,
    limit: int = 100,
) -> RolloutList:
    """The newest first."""
    database: Database = state.config_db
    with database.reading() as session:
        found: Sequence[StoredRollout]
        if is_living:
            found = _newest_first(list_living(session), deployment)[:limit]
        else:
            found = list_rollouts(session, deployment=deployment, limit=limit)
        desired = _desired(session)
    forces = {each.deployment: _arm_of(find_force(state, each.deployment)) for each in found}
    return RolloutList(
        as_of_unix_ns=now_unix_ns,
        rollouts=[
            view_line(
                each,
                current_share(each, desired.get(each.deployment), forces[each.deployment]),
            )
            for each in found
        ],
    )


def read_rollout(state: State, number: int, now_unix_ns: int) -> RolloutDetail:
    """One, whole. Raises UnknownRolloutError."""
    database: Database = state.config_db
    with database.reading() as session:
        rollout = find_known(session, number)
        moves = list_moves(session, number)
        situation = read_situation(session, state, rollout, now_unix_ns)
    return _detail(state, rollout, moves, situation)


def read_situation(
    session: Session, state: State, rollout: StoredRollout, now_unix_ns: int
) -> Situation:
    """What is known beside it. `session`: of the config database."""
    look, last = current_look(state, rollout), find_last(session, rollout.deployment)
    return Situation(
        now_unix_ns=now_unix_ns,
        deployment=_desired(session).get(rollout.deployment),
        is_newest=last is not None and last.number == rollout.number,
        decision=None if look is None else look.analysis.decision,
        freeze=find_freeze(state.observed.overrides(), rollout.deployment),
        force=_arm_of(find_force(state, rollout.deployment)),
        num_offered=_num_offered(state, rollout.deployment, now_unix_ns),
    )


def current_look(state: State, rollout: StoredRollout) -> Look | None:
    """The last look at the step that it is at; None: there was none yet, or it is over."""
    worker: RolloutWorker = state.rollouts
    look = worker.looks.get(rollout.number)
    if look is None or rollout.progress.state.is_over:
        return None
    return look if look.step_since_unix_ns == rollout.progress.step_since_unix_ns else None


def find_force(state: State, deployment: str) -> StoredOverride | None:
    """The newest override that sends all requests of it to one arm."""
    observed: ObservedState = state.observed
    for each in observed.overrides():
        if each.kind is OverrideKind.FORCE_ARM and each.deployment == deployment:
            return each
    return None


def _arm_of(override: StoredOverride | None) -> Arm | None:
    return None if override is None else override.arm


def _detail(
    state: State, rollout: StoredRollout, moves: Sequence[RolloutMove], situation: Situation
) -> RolloutDetail:
    look, progress, now = current_look(state, rollout), rollout.progress, situation.now_unix_ns
    stable, candidate = _arms(state.observed, rollout, situation)
    force = None if progress.state.is_over else find_force(state, rollout.deployment)
    return RolloutDetail(
        as_of_unix_ns=now,
        rollout=view_line(rollout, candidate.share),
        step_since_unix_ns=progress.step_since_unix_ns,
        steps=view_steps(rollout),
        stable=stable,
        candidate=candidate,
        step_share=rollout.strategy.steps[progress.step].share,
        has_own_replicas=rollout.has_own_replicas,
        timeout_seconds=rollout.strategy.timeout_seconds,
        on_timeout=rollout.strategy.on_timeout.value,
        sticky_header=rollout.spec.sticky_header,
        min_requests=rollout.spec.analysis.min_requests,
        confidence=rollout.spec.analysis.confidence,
        freeze=None if progress.state.is_over else situation.freeze,
        force=None if force is None else f"{force.arm}, by {force.created_by}: {force.reason}",
        demands=possible_demands(rollout, situation),
        look=None if look is None else view_look(look, now),
        moves=view_moves(rollout, moves),
    )


def _arms(
    observed: ObservedState, rollout: StoredRollout, situation: Situation
) -> tuple[ArmView, ArmView]:
    """Stable and candidate, with their replicas while both have some."""
    share = current_share(rollout, situation.deployment, situation.force)
    sizes = sizes_of(rollout, situation.deployment)
    if sizes is None or rollout.progress.state.is_over:
        return (
            view_arm(rollout.stable, 1 - share, None, None),
            view_arm(rollout.candidate, share, None, None),
        )
    ready = [
        each.rollout == rollout.number
        for each in observed.replicas()
        if each.deployment == rollout.deployment and each.state == "ready"
    ]
    num_candidate = sum(ready)
    return (
        view_arm(rollout.stable, 1 - share, sizes.stable, len(ready) - num_candidate),
        view_arm(rollout.candidate, share, sizes.candidate, num_candidate),
    )


def _desired(session: Session) -> Mapping[str, DesiredDeployment]:
    return {each.name: each for each in list_readable_deployments(session)[0]}


def _newest_first(found: Sequence[StoredRollout], deployment: str | None) -> list[StoredRollout]:
    wanted = [each for each in found if deployment in (None, each.deployment)]
    return sorted(wanted, key=lambda each: -each.number)


def _num_offered(state: State, deployment: str, now_unix_ns: int) -> int:
    database: Database = state.request_db
    with database.reading() as session:
        counts = count_since(session, now_unix_ns // _NS - _HOUR, ["offered"])
    return counts.get(deployment, {}).get("offered", 0)
