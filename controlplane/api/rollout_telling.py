"""Stored rollouts, converted into what is shown of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from controlplane.api.rollout_views import (
    ArmChange,
    ArmView,
    ComparisonView,
    LookView,
    MoveView,
    RolloutLine,
    ShadowView,
    StandingView,
    StepView,
)
from controlplane.rollouts.machine import RolloutState, is_in_shadow
from controlplane.rollouts.told import tell, tell_shadow, tell_standing
from controlplane.rollouts.worker import Look
from controlplane.store.rollouts import ArmRevisions, RolloutMove, StoredRollout

_ROLES = ("model", "engine config", "policy")


def view_line(rollout: StoredRollout, share: float) -> RolloutLine:
    """`share`: what the candidate gets now."""
    return RolloutLine(
        number=rollout.number,
        deployment=rollout.deployment,
        state=rollout.progress.state.value,
        reason=rollout.progress.reason,
        step=rollout.progress.step + 1,
        num_steps=len(rollout.strategy.steps),
        share=share,
        is_in_shadow=is_in_shadow(rollout.progress, rollout.strategy),
        changes=list(view_changes(rollout)),
        created_by=rollout.created_by,
        created_reason=rollout.created_reason,
        created_at_unix_ns=rollout.created_at_unix_ns,
        ended_at_unix_ns=rollout.ended_at_unix_ns,
    )


def view_changes(rollout: StoredRollout) -> Iterable[ArmChange]:
    """Where the arms differ."""
    pairs = zip(_ROLES, rollout.stable.all, rollout.candidate.all, strict=True)
    for role, stable, candidate in pairs:
        if stable.id != candidate.id:
            yield ArmChange(
                role=role,
                kind=stable.kind.value,
                name=stable.name,
                from_number=stable.number,
                to_number=candidate.number,
                to_name=candidate.name,
                text=f"{role} {stable.label} → {candidate.label}",
            )


def view_steps(rollout: StoredRollout) -> list[StepView]:
    """In order."""
    progress = rollout.progress
    is_whole = progress.state is RolloutState.PROMOTED

    def place(number: int) -> str:
        if is_whole or number < progress.step:
            return "done"
        is_here = number == progress.step and progress.state is not RolloutState.WAITING
        return "current" if is_here else "ahead"

    return [
        StepView(
            number=number + 1,
            share=step.share,
            for_seconds=step.seconds,
            pause=step.waits_for_person,
            is_shadow=step.is_shadow,
            different_at_most=step.different_at_most,
            place=place(number),
        )
        for number, step in enumerate(rollout.strategy.steps)
    ]


def view_arm(
    revisions: ArmRevisions, share: float, num_replicas: int | None, num_ready: int | None
) -> ArmView:
    """One of the two."""
    return ArmView(
        model=revisions.model.label,
        engine_config=revisions.engine_config.label,
        policy=revisions.policy.label,
        share=share,
        num_replicas=num_replicas,
        num_ready=num_ready,
    )


def view_look(look: Look, now_unix_ns: int) -> LookView:
    """The last one of a living rollout."""
    analysis = look.analysis
    deciding = analysis.decision.deciding
    return LookView(
        at_unix_ns=look.at_unix_ns,
        age_seconds=max(0.0, (now_unix_ns - look.at_unix_ns) / 1e9),
        verdict=analysis.decision.verdict.value,
        reason=analysis.decision.reason,
        deciding=None if deciding is None else deciding.metric,
        comparisons=_comparisons([tell(each) for each in analysis.comparisons]),
        standings=_standings([tell_standing(each) for each in analysis.standings]),
        shadow=(
            None
            if analysis.shadow is None
            else _shadow(tell_shadow(analysis.shadow, analysis.differing))
        ),
    )


def view_moves(rollout: StoredRollout, moves: Iterable[RolloutMove]) -> list[MoveView]:
    """Its history, oldest first."""
    steps = rollout.strategy.steps
    return [
        MoveView(
            at_unix_ns=each.at_unix_ns,
            state=each.state.value,
            step=each.step + 1,
            share=steps[each.step].share,
            actor=each.actor,
            reason=each.reason,
            comparisons=None if each.comparisons is None else _comparisons(each.comparisons),
            standings=None if each.standings is None else _standings(each.standings),
            shadow=None if each.shadow is None else _shadow(each.shadow),
        )
        for each in moves
    ]


def _shadow(told: Mapping[str, Any]) -> ShadowView:
    return msgspec.convert(dict(told), ShadowView)


def _standings(told: Sequence[Mapping[str, Any]]) -> list[StandingView]:
    return msgspec.convert(list(told), list[StandingView])


def _comparisons(told: Sequence[Mapping[str, Any]]) -> list[ComparisonView]:
    return msgspec.convert(list(told), list[ComparisonView])
