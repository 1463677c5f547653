"""A plan in the terminal: documents, deployments, drift, and a line that sums up."""

from collections.abc import Iterator, Sequence

from controlplane.api.rollout_words import share_words
from controlplane.cli.local_check import problem_text
from controlplane.cli.plan_contract_output import contract_lines
from controlplane.cli.plan_traffic_output import traffic_lines
from controlplane.cli.planned import PlanAnswer
from controlplane.rollouts.change_plan.change_plan import ChangePlan, DeploymentPlan, ReplicaImpact
from controlplane.rollouts.change_plan.documents import (
    ChangedField,
    DocumentAction,
    PlannedDocument,
)
from controlplane.rollouts.change_plan.drift import Drift, DriftKind
from controlplane.rollouts.change_plan.memory_fit import MemoryFit
from controlplane.rollouts.change_plan.moves import PlannedStep, Way
from controlplane.specs.quantity import format_duration

_MARKS = {DocumentAction.CREATE: "+", DocumentAction.UPDATE: "~"}
_MOST_NAMED = 5
_WAYS = {Way.AT_ONCE: "at once", Way.ROLLOUT: "by a rollout"}


def plan_lines(answer: PlanAnswer) -> Iterator[str]:
    """All of it."""
    plan = answer.plan
    for warning in answer.warnings:
        yield f"warning: {problem_text(warning)}"
    for document in plan.documents:
        yield from _document_lines(document)
    for deployment in plan.deployments:
        yield ""
        yield from _deployment_lines(deployment)
    if plan.drift:
        yield ""
        yield "drift, which is shown and not repaired:"
        yield from _drift_lines(plan.drift)
    yield ""
    yield _summary(plan) if answer.has_changes else "nothing to do: it is stored as the files say"


def _document_lines(document: PlannedDocument) -> Iterator[str]:
    if document.action is DocumentAction.NOTHING:
        return
    of = "new" if document.before is None else f"of {document.before}"
    yield f"{_MARKS[document.action]} {document.kind} {document.after}, {of}"
    for field in document.fields:
        yield f"    {_field(field)}"


def _field(field: ChangedField) -> str:
    match field.kind:
        case "added":
            return f"+ {field.path}: {field.after}"
        case "removed":
            return f"- {field.path}: {field.before}"
        case "reordered":
            return f"~ {field.path}, order: {field.before} -> {field.after}"
    return f"~ {field.path}: {field.before} -> {field.after}"


def _deployment_lines(plan: DeploymentPlan) -> Iterator[str]:
    yield f"deployment {plan.deployment}" + (" (new)" if plan.is_new else "")
    for move in plan.moves:
        before, after = move.before or "none", move.after or "none"
        yield f"  {move.field}: {before} -> {after}, {_WAYS[move.way]}"
    if plan.steps:
        yield f"  a rollout begins: {'; '.join(_step(each) for each in plan.steps)}"
    if plan.ends_rollout is not None:
        ends = plan.ends_rollout
        yield f"  rollout {ends.number}, which is under way, is {ends.state}: {ends.reason}"
    yield from _replica_lines(plan.replicas)
    if plan.traffic is not None:
        yield from traffic_lines(plan.traffic)
    if plan.contract is not None:
        yield from contract_lines(plan.contract)


def _step(step: PlannedStep) -> str:
    pause = ", then waits for a person" if step.waits_for_person else ""
    what = "in shadow" if step.is_shadow else f"{share_words(step.share)} of the traffic"
    return f"{what} for {format_duration(step.seconds)}{pause}"


def _replica_lines(impact: ReplicaImpact) -> Iterator[str]:
    turnover = impact.turnover
    if impact.problem is not None:
        yield f"  replicas: none can be started: {impact.problem}"
        return
    if not turnover.num_starts and not turnover.num_stops:
        yield "  replicas: none restarts"
        return
    what = "replicas of the candidate" if impact.digest_candidate is not None else "replicas"
    yield (
        f"  {what}: {turnover.num_starts} start, {turnover.num_stops} are ended, at most "
        f"{turnover.at_a_time} start at a time (max_surge {impact.max_surge}, max_unavailable "
        f"{impact.max_unavailable})"
    )
    yield f"  capacity: {_capacity(impact)}"
    yield from (f"  memory: {line}" for line in _fit_lines(impact.fits))
    if impact.max_surge and turnover.num_ready_before and turnover.num_starts:
        yield "  memory: unknown whether there is room for replicas of both at once (max_surge)"


def _capacity(impact: ReplicaImpact) -> str:
    turnover, times = impact.turnover, impact.start_times
    if not turnover.starts_while_short:
        return f"never below the {turnover.num_ready_before} that serve now"
    least = f"down to {turnover.least_ready} of {turnover.num_ready_before}"
    if times is None or impact.seconds_short is None:
        return (
            f"{least} during {turnover.starts_while_short} starts; how long one takes is unknown: "
            f"no replica alike has started here"
        )
    return (
        f"{least} for about {impact.seconds_short:.3g} s, and what drains comes on top (a start "
        f"takes {times.median:.3g} s, at most {times.longest:.3g} s, by {times.num_starts} "
        f"{times.basis})"
    )


def _fit_lines(fits: Sequence[MemoryFit]) -> Iterator[str]:
    """Devices of which the same is so are one line."""
    alike: dict[tuple[bool | None, str], list[str]] = {}
    for fit in fits:
        alike.setdefault((fit.fits, fit.why), []).append(fit.replica_id)
    for (is_fitting, why), replicas in alike.items():
        word = {True: "fits", False: "does not fit", None: "unknown whether it fits"}[is_fitting]
        more = len(replicas) - _MOST_NAMED
        named = ", ".join(replicas[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield f"{word} where {named} runs: {why}"


def _drift_lines(drift: Sequence[Drift]) -> Iterator[str]:
    lost = [each for each in drift if each.kind is DriftKind.NOT_IN_FILES]
    for each in drift:
        if each.kind is not DriftKind.NOT_IN_FILES:
            yield f"  {each.subject}: {each.kind.replace('_', ' ')}: {each.says}"
    if lost:
        named = ", ".join(each.subject for each in lost[:_MOST_NAMED])
        more = len(lost) - _MOST_NAMED
        yield f"  in no file: {named}" + (f" and {more} more" if more > 0 else "")


def _summary(plan: ChangePlan) -> str:
    actions = [each.action for each in plan.documents]
    created = actions.count(DocumentAction.CREATE)
    updated = actions.count(DocumentAction.UPDATE)
    rollouts = sum(bool(each.steps) for each in plan.deployments)
    return (
        f"documents: {created} new, {updated} changed; deployments: {len(plan.deployments)} "
        f"affected, {rollouts} of them by a rollout. Nothing was changed."
    )
