"""When documents change what a deployment is to be: does it move at once, or does a rollout begin?

Only another Model, EngineConfig or AdmissionPolicy is tried in steps. Whatever else a deployment is
changes at once, its contract above all: two of them at a time would share one budget.
"""

from dataclasses import replace

from sqlalchemy.orm import Session

from controlplane.rollouts.machine import RolloutState
from controlplane.specs.deployment import DeploymentSpec
from controlplane.store.desired_revisions import DesiredRevisions
from controlplane.store.rollouts import (
    ArmRevisions,
    NewRollout,
    StoredRollout,
    begin_rollout,
    find_last,
    move_rollout,
)


def arm_of(desired: DesiredRevisions) -> ArmRevisions:
    """What a rollout would move."""
    return ArmRevisions(
        model=desired.model, engine_config=desired.engine_config, policy=desired.policy
    )


def with_arm(desired: DesiredRevisions, arm: ArmRevisions) -> DesiredRevisions:
    """The same deployment with that arm."""
    return replace(desired, model=arm.model, engine_config=arm.engine_config, policy=arm.policy)


def keep_equal(asked: DesiredRevisions, running: ArmRevisions) -> DesiredRevisions:
    """As asked, with the revisions that run where those have the same content: a document that was
    changed and changed back has another number, and there is nothing to try."""
    pairs = zip(arm_of(asked).all, running.all, strict=True)
    model, engine_config, policy = (
        now if (now.name, now.digest) == (new.name, new.digest) else new for new, now in pairs
    )
    return with_arm(asked, ArmRevisions(model=model, engine_config=engine_config, policy=policy))


def enter(
    session: Session,
    name: str,
    asked: DesiredRevisions,
    running: ArmRevisions,
    *,
    author: str,
    reason: str,
    now_unix_ns: int,
) -> DesiredRevisions:
    """What the deployment is from now on, where its documents ask for `asked`. A rollout begins,
    goes on, or ends, as that has it."""
    spec = asked.deployment.spec(DeploymentSpec).rollout
    wanted, last = arm_of(asked), find_last(session, name)
    if last is not None and not last.progress.state.is_over:
        if spec is not None and last.candidate.ids == wanted.ids:
            return with_arm(asked, running)  # it goes on by the steps that it began with
        _end(session, last, wanted, author=author, now_unix_ns=now_unix_ns)
    if wanted.ids == running.ids or spec is None:
        return asked
    if not _is_held_back(last, wanted, running):
        is_policy_tried = running.policy.id != wanted.policy.id
        steps = spec if is_policy_tried else spec.without_shadow()
        new = NewRollout(deployment=name, stable=running, candidate=wanted, spec=steps)
        begin_rollout(session, new, actor=author, reason=reason, now_unix_ns=now_unix_ns)
    return with_arm(asked, running)


def _is_held_back(last: StoredRollout | None, wanted: ArmRevisions, running: ArmRevisions) -> bool:
    """The same was tried from the same, and came back: it is not tried again by itself."""
    return (
        last is not None
        and last.progress.state is RolloutState.ABORTED
        and (last.stable.ids, last.candidate.ids) == (running.ids, wanted.ids)
    )


def _end(
    session: Session,
    living: StoredRollout,
    wanted: ArmRevisions,
    *,
    author: str,
    now_unix_ns: int,
) -> None:
    """Its documents ask for something else, or no longer for steps."""
    if wanted.ids == living.candidate.ids:
        state, why = RolloutState.PROMOTED, "its deployment asks for no steps any more"
    elif wanted.ids == living.stable.ids:
        state, why = RolloutState.ABORTED, "its deployment asks for the stable revisions again"
    else:
        state, why = RolloutState.ABORTED, "its deployment asks for other revisions"
    progress = replace(living.progress, state=state, reason=why)
    move_rollout(session, living, progress, actor=author, now_unix_ns=now_unix_ns)
