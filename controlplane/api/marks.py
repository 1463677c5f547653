"""What changed within a span of time, as marks for charts: from config to processes."""

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.api.override_views import effect_of
from controlplane.api.rollout_words import share_words
from controlplane.process_history import ProcessEvent, ProcessHistory
from controlplane.rollouts.machine import RolloutState
from controlplane.store.database import Database
from controlplane.store.deployments import (
    DeploymentChange,
    list_changes_between,
)
from controlplane.store.desired_revisions import DesiredRevisions
from controlplane.store.incident import StoredIncident
from controlplane.store.incident_lists import list_begun_between
from controlplane.store.overrides import StoredOverride, list_overrides_between
from controlplane.store.replicas import ReplicaTransition, list_transitions_between
from controlplane.store.rollout_moves import DatedMove, list_moves_between
from controlplane.store.series import SeriesSpan

_MAX_MARKS = 200
_PROCESS_TEXTS = {
    "failed": "failed",
    "started": "starts",
    "refused": "is refused",
    "accepted": "is accepted",
    "lost": "is lost",
    "regained": "is there again",
}
_SEEN = frozenset({"ready", "unreachable", "failed"})
"""States that a replica is found in; into the others it is brought."""
_TEXTS = {
    "starting": "starts",
    "ready": "is ready",
    "unreachable": "is not reached",
    "draining": "drains",
    "stopped": "stopped",
    "failed": "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One change."""

    at_unix_ns: int
    kind: str
    """config, rollout, override, replica, process, failure, incident or silence."""
    deployment: str
    """Empty for what happened to a gateway, a control plane or the installation: that is of all of
    them."""
    text: str
    subject: str = ""
    """The replica or process that it is about; empty: none alone."""
    is_observation: bool = False
    """It was seen to be so, as that it answers; nobody did it by this."""


def read_marks(
    database: Database,
    span: SeriesSpan,
    deployment: str | None,
    processes: ProcessHistory | None = None,
) -> list[Mark]:
    """Oldest first; of more than 200 of a sort, the newest."""
    start, end = span.start_unix * 10**9, span.end_unix * 10**9
    with database.reading() as session:
        changes = list_changes_between(session, start, end, deployment, _MAX_MARKS)
        overrides = list_overrides_between(session, start, end, deployment, _MAX_MARKS)
        transitions = list_transitions_between(session, start, end, deployment, _MAX_MARKS)
        moves = list_moves_between(session, start, end, deployment, _MAX_MARKS)
    marks = [_of_change(change, before) for change, before in changes]
    marks += [mark for each in overrides for mark in _of_override(each, start, end)]
    marks += [_of_transition(each) for each in transitions]
    marks += [_of_move(each) for each in moves]
    if processes is not None:
        marks += [_of_process(each) for each in processes.read_between(start, end, _MAX_MARKS)]
    return sorted(marks, key=lambda mark: (mark.at_unix_ns, mark.text))


def read_incident_marks(database: Database, span: SeriesSpan, deployment: str | None) -> list[Mark]:
    """What diagnosis and alerts found within the span, oldest first: no changes, but what may
    follow them."""
    start, end = span.start_unix * 10**9, span.end_unix * 10**9
    with database.reading() as session:
        found = list_begun_between(session, start, end, deployment, _MAX_MARKS)
    return [_of_incident(each) for each in reversed(found)]


def describe_change(revisions: DesiredRevisions, before: DesiredRevisions | None) -> str:
    """`policy chat@12 → chat@13`: which of the revisions are others than before."""
    if before is None:
        return "first deployed"
    pairs = (
        ("model", before.model, revisions.model),
        ("engine config", before.engine_config, revisions.engine_config),
        ("policy", before.policy, revisions.policy),
        ("contract", before.contract, revisions.contract),
        ("deployment", before.deployment, revisions.deployment),
    )
    parts = [
        f"{word} {old.label if old else 'none'} → {new.label if new else 'none'}"
        for word, old, new in pairs
        if (old and old.id) != (new and new.id)
    ]
    return ", ".join(parts) or "the same revisions again"


def _of_change(change: DeploymentChange, before: DeploymentChange | None) -> Mark:
    what = describe_change(change.revisions, before.revisions if before else None)
    why = f": {change.reason}" if change.reason else ""
    return Mark(
        at_unix_ns=change.at_unix_ns,
        kind="config",
        deployment=change.name,
        text=f"{change.name}: {what} by {change.author}{why}",
    )


def _of_override(override: StoredOverride, start: int, end: int) -> Iterator[Mark]:
    """Its beginning, and its end once it is over, where they lie within."""
    what = f"{override.deployment or 'every deployment'}: override, {effect_of(override)}"
    over_at = override.ended_at_unix_ns or override.until_unix_ns
    ended = f"ended by {override.ended_by}" if override.ended_by else "ended at its time"
    why = f": {override.end_reason}" if override.ended_by and override.end_reason else ""
    for at, text in (
        (override.created_at_unix_ns, f"{what}, by {override.created_by}: {override.reason}"),
        (over_at, f"{what}, {ended}{why}"),
    ):
        if start <= at <= end:
            yield Mark(
                at_unix_ns=at, kind="override", deployment=override.deployment or "", text=text
            )


def _of_move(move: DatedMove) -> Mark:
    step = f"step {move.step + 1}, {share_words(move.share)}"
    match move.state:
        case RolloutState.WAITING:
            what = "begun"
        case RolloutState.RUNNING:
            what = f"{step} to the candidate"
        case RolloutState.PAUSED | RolloutState.PROMOTED | RolloutState.ABORTED:
            what = f"{move.state} at {step}"
    return Mark(
        at_unix_ns=move.at_unix_ns,
        kind="rollout",
        deployment=move.deployment,
        text=f"{move.deployment}: rollout {move.rollout}, {what}, by {move.actor}: {move.reason}",
    )


def _of_incident(incident: StoredIncident) -> Mark:
    whose = f"{incident.deployment}: " if incident.deployment else ""
    return Mark(
        at_unix_ns=incident.opened_at_unix_ns,
        kind="incident",
        deployment=incident.deployment or "",
        text=f"{whose}incident {incident.incident_id}, {incident.title}",
    )


def _of_transition(transition: ReplicaTransition) -> Mark:
    return Mark(
        at_unix_ns=transition.at_unix_ns,
        kind="failure" if transition.state == "failed" else "replica",
        deployment=transition.deployment,
        text=f"{transition.replica_id} {_TEXTS[transition.state]}: {transition.reason}",
        subject=transition.replica_id,
        is_observation=transition.state in _SEEN,
    )


def _of_process(event: ProcessEvent) -> Mark:
    name = f"database {event.name}" if event.role == "database" else event.name
    return Mark(
        at_unix_ns=event.at_unix_ns,
        kind="failure" if event.what in ("failed", "refused", "lost") else "process",
        deployment="",
        text=f"{name} {_PROCESS_TEXTS.get(event.what, event.what)}: {event.reason}",
        subject=event.name,
        is_observation=event.what != "started",
    )
