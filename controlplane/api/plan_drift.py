"""Drift, read off how everything stands."""

from collections.abc import Iterator

from controlplane.api.plan_attempt import Attempt
from controlplane.rollouts.change_plan.drift import Drift, DriftKind
from controlplane.rollouts.machine import RolloutState
from controlplane.specs.documents import Document
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.revision import Revision
from dataplane.policy import OverrideKind


def find_drift(attempt: Attempt, documents: list[Document]) -> tuple[Drift, ...]:
    """Before anything is applied: by deployment, then what no file holds."""
    in_files = {(each.kind, each.name) for each in documents}
    return (
        *(drift for each in attempt.before.deployments.values() for drift in _of(each, attempt)),
        *(
            Drift(
                kind=DriftKind.NOT_IN_FILES,
                subject=f"{kind}/{name}",
                says=f"{revision.label} is stored, and none of the files holds it",
            )
            for (kind, name), revision in sorted(attempt.before.latest.items())
            if (kind, name) not in in_files
        ),
    )


def _of(deployment: DesiredDeployment, attempt: Attempt) -> Iterator[Drift]:
    subject = f"Deployment/{deployment.name}"
    if deployment.rollout is not None:
        yield Drift(kind=DriftKind.UNDER_WAY, subject=subject, says=_under_way(deployment))
    references = {field: ref for field, (_, ref) in deployment.spec.references().items()}
    for field, runs in _referred(deployment).items():
        latest = attempt.before.latest[runs.kind, runs.name]
        if latest.digest == runs.digest or _is_tried(deployment, latest):
            continue
        pinned = references[field].number is not None
        yield (
            _behind(subject, field, runs, latest, attempt)
            if not pinned
            else Drift(
                kind=DriftKind.PINNED,
                subject=subject,
                says=f"it names {field} {references[field]}, and the latest is {latest.label}",
            )
        )
    if deployment.generation != deployment.observed_generation:
        yield Drift(
            kind=DriftKind.UNSETTLED,
            subject=subject,
            says=f"generation {deployment.generation} is desired, and "
            f"{deployment.observed_generation} is what the operator last brought about whole",
        )
    for each in attempt.overrides:
        is_of_it = each.deployment in (None, deployment.name)
        if is_of_it and each.kind is not OverrideKind.BYPASS:
            yield Drift(
                kind=DriftKind.OVERRIDDEN,
                subject=subject,
                says=f"{each.kind.value} {each.override_id} by {each.created_by}: {each.reason}"
                + (f" (enforces {each.policy.label})" if each.policy is not None else ""),
            )


def _behind(subject: str, field: str, runs: Revision, latest: Revision, attempt: Attempt) -> Drift:
    last = attempt.last_rollouts.get(subject.partition("/")[2])
    is_aborted = last is not None and last.progress.state is RolloutState.ABORTED
    if last is not None and is_aborted:
        why = f"rollout {last.number} was aborted: {last.progress.reason}"
        remedy = f"`pilothouse rollout retry {last.number}` tries it again"
        says = f"{field} is {runs.label} and not {latest.label}: {why}; {remedy}"
    else:
        says = f"{field} is {runs.label}, and the latest is {latest.label}"
    return Drift(kind=DriftKind.HELD_BACK, subject=subject, says=says)


def _is_tried(deployment: DesiredDeployment, latest: Revision) -> bool:
    rollout = deployment.rollout
    return rollout is not None and any(each.id == latest.id for each in rollout.candidate.all)


def _under_way(deployment: DesiredDeployment) -> str:
    rollout = deployment.rollout
    assert rollout is not None
    to = [
        candidate.label
        for stable, candidate in zip(rollout.stable.all, rollout.candidate.all, strict=True)
        if stable.id != candidate.id
    ]
    return (
        f"rollout {rollout.number} to {', '.join(to)} is {rollout.progress.state} at step "
        f"{rollout.progress.step + 1} of {len(rollout.strategy.steps)}: {rollout.progress.reason}"
    )


def _referred(deployment: DesiredDeployment) -> dict[str, Revision]:
    revisions = deployment.revisions
    found = {
        "model": revisions.model,
        "engine": revisions.engine_config,
        "policy": revisions.policy,
        "contract": revisions.contract,
    }
    return {field: revision for field, revision in found.items() if revision is not None}
