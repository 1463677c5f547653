"""What a demand would do to a rollout, before anybody makes it. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from controlplane.api.quantities import age
from controlplane.api.rollout_asked import (
    Asked,
    Situation,
    current_share,
    progress_after,
    sizes_of,
)
from controlplane.api.rollout_telling import view_changes
from controlplane.api.rollout_views import RolloutPlan
from controlplane.api.rollout_words import share_words
from controlplane.rollouts.machine import RolloutState
from controlplane.rollouts.verdict import Decision
from controlplane.store.rollouts import StoredRollout


def create_plan(rollout: StoredRollout, asked: Asked, situation: Situation) -> RolloutPlan:
    """Raises UnmetDemandError."""
    moved = replace(rollout, progress=progress_after(rollout, asked, situation))
    deployment = situation.deployment
    sizes, sizes_after = sizes_of(rollout, deployment), sizes_of(moved, deployment)
    share_after = current_share(moved, deployment, situation.force)
    return RolloutPlan(
        number=rollout.number,
        asked=asked.value,
        deployment=rollout.deployment,
        step=rollout.progress.step + 1,
        state=rollout.progress.state.value,
        state_after=moved.progress.state.value,
        step_after=moved.progress.step + 1,
        share=current_share(rollout, deployment, situation.force),
        share_after=share_after,
        stable_replicas=None if sizes is None else sizes.stable,
        stable_replicas_after=None if sizes_after is None else sizes_after.stable,
        candidate_replicas=None if sizes is None else sizes.candidate,
        candidate_replicas_after=None if sizes_after is None else sizes_after.candidate,
        effects=[
            *_effects(moved, asked, situation),
            *_of_force(moved, situation),
            _of_traffic(moved, situation, share_after),
        ],
        num_offered=situation.num_offered,
        as_of_unix_ns=situation.now_unix_ns,
    )


def _effects(moved: StoredRollout, asked: Asked, situation: Situation) -> Iterator[str]:
    """`moved`: the rollout as it would be."""
    match asked:
        case Asked.PROMOTE:
            yield _passed_over(situation.decision)
            if moved.progress.state is RolloutState.PROMOTED:
                yield from _of_end(moved, situation)
            else:
                yield from _of_step(moved, situation)
        case Asked.PAUSE:
            yield (
                "The candidate keeps its share, and no step follows until somebody resumes or "
                "promotes it."
            )
            yield "The analysis goes on: a candidate that is found worse is aborted all the same."
        case Asked.RESUME:
            yield "The step goes on, and the next follows by itself once the analysis says promote."
        case Asked.ABORT:
            yield from _of_abortion(moved)
        case Asked.RETRY:
            yield (
                f"Another rollout begins at step 1 of {len(moved.strategy.steps)}; this one stays "
                "as it is in the record."
            )
            if situation.freeze is not None:
                yield f"It waits while rollouts are frozen: {situation.freeze}."


def _passed_over(decision: Decision | None) -> str:
    if decision is None:
        return "Nothing of this step was looked at yet: it is promoted without an analysis."
    return f"The analysis of this step says {decision.verdict}: {decision.reason}."


def _of_step(moved: StoredRollout, situation: Situation) -> Iterator[str]:
    step = moved.strategy.steps[moved.progress.step]
    ends = "a person lets it go on" if step.waits_for_person else "the analysis decides"
    yield (
        f"Step {moved.progress.step + 1} of {len(moved.strategy.steps)} begins. It is looked at "
        f"for {age(step.seconds)} at least, with none of the requests of the step before, and "
        f"lasts until {ends}."
    )
    if step.is_shadow:
        yield "The candidate's policy decides on all requests, and enforces nothing."
    share = current_share(moved, situation.deployment)
    if share < step.share:
        yield (
            f"Of the step's {share_words(step.share)} of the traffic the candidate takes "
            f"{share_words(share)}: its "
            "part of the replicas, once they are ready."
        )


def _of_end(moved: StoredRollout, situation: Situation) -> Iterator[str]:
    changes = ", ".join(each.text for each in view_changes(moved))
    yield f"It was the last step: {moved.deployment} runs the candidate for everybody, {changes}."
    if not moved.has_own_replicas or situation.deployment is None:
        yield "No replica starts or ends; gateways follow with their next snapshot."
        return
    spec = situation.deployment.spec
    yield (
        f"Replicas of the stable arm are replaced until all {spec.replicas} are the candidate's, "
        f"with up to {spec.replacement.max_surge} more and up to "
        f"{spec.replacement.max_unavailable} missing at a time."
    )


def _of_abortion(moved: StoredRollout) -> Iterator[str]:
    pairs = zip(moved.stable.all, moved.candidate.all, strict=True)
    back = ", ".join(stable.label for stable, tried in pairs if stable.id != tried.id)
    yield f"New requests go to the stable arm alone: {back}. What runs in the candidate ends there."
    if moved.has_own_replicas:
        yield "Replicas that the stable arm gave up come back; the candidate's are drained and end."
    else:
        yield "No replica starts or ends; gateways follow with their next snapshot."
    yield (
        f"The same is not tried again by itself: `pilothouse rollout retry {moved.number}` begins "
        "another."
    )


def _of_force(moved: StoredRollout, situation: Situation) -> Iterator[str]:
    if situation.force is not None and not moved.progress.state.is_over:
        yield (
            f"An override sends all requests to the {situation.force} arm: the step's share is in "
            "force again once that ends."
        )


def _of_traffic(moved: StoredRollout, situation: Situation, share_after: float) -> str:
    if not situation.num_offered:
        return f"Nobody asked {moved.deployment} for anything in the last hour."
    about = round(situation.num_offered * share_after)
    return (
        f"Of {situation.num_offered:,} requests of the last hour about {about:,} would have been "
        "the candidate's."
    )
