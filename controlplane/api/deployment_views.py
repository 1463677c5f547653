"""Deployments as API and console show them. Pure conversions."""

from dataclasses import dataclass, field

from controlplane.api.marks import describe_change
from controlplane.api.replica_memory import ReplicaMemory, memory_of
from controlplane.api.slo_counts import SloCount
from controlplane.api.trouble import Trouble
from controlplane.operator.observed import ObservedReplica
from controlplane.operator.stray import Stray
from controlplane.store.deployments import DeploymentChange
from controlplane.store.desired_revisions import DesiredRevisions
from controlplane.store.replica_lanes import ReplicaLane, StateSpan
from controlplane.store.replicas import ENDED
from controlplane.store.revision import Revision
from dataplane.engine import EngineStats
from dataplane.report import GatewayReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionInUse:
    """One of the documents that a deployment stands on."""

    role: str
    """model, engine config, policy, contract or deployment."""
    kind: str
    name: str
    number: int
    revision: str
    since_unix_ns: int | None
    """Since when this deployment stands on it; None: longer than the history that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDocument:
    """A document whose revision changed with a deployment's generation."""

    role: str
    kind: str
    name: str
    from_revision: str | None
    to_revision: str | None
    from_number: int | None
    """None when the two are not revisions of one document: then there is no difference to show."""
    to_number: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEntry:
    """One line of a deployment's history."""

    generation: int
    at_unix_ns: int
    author: str
    reason: str
    text: str
    documents: list[ChangedDocument]
    """Empty for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoad:
    """What gateways and the engine say of a replica now. None: nobody does."""

    num_outstanding: int | None
    """Requests that gateways gave it and that did not finish."""
    unreachable_because: str | None
    """Why a gateway is not connected to it."""
    num_running: int | None
    num_waiting: int | None
    max_num_seqs: int | None
    blocked_on: str | None
    num_preemptions: int | None
    memory: ReplicaMemory | None
    stats_age_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """One replica over time."""

    replica_id: str
    launcher: str
    engine: str
    model_revision: str
    engine_config_revision: str
    address: str | None
    metrics_address: str | None
    state: str
    reason: str
    since_unix_ns: int
    is_ended: bool
    stage: str | None
    """Of a start under way, or `serving`; None: its process does not say."""
    probed_at_unix_ns: int | None
    observed_at_unix_ns: int | None
    """When it was last seen by its launcher, or told of by gateways; None: it ended, or then was
    another time."""
    fencing_token: int | None
    """None as well."""
    pid: int | None
    start_stages: dict[str, float]
    unobservable_stages: list[str]
    """Stages that the engine does not show: inside another one, if they were."""
    spans: list[StateSpan]
    load: ReplicaLoad | None
    """None for what ended, and for the past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentLine:
    """One line of the list."""

    name: str
    model: str
    generation: int
    observed_generation: int
    num_replicas: int
    num_ready: int
    hold: str | None
    retry_at_unix_ns: int | None
    """When what is held is tried again, where that is known."""
    launcher: str
    revisions: dict[str, str | None]
    updated_at_unix_ns: int
    replicas: list[ObservedReplica]
    last_change: ChangeEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentList:
    """Every deployment, by name."""

    as_of_unix_ns: int
    deployments: list[DeploymentLine]
    strays: list[Stray] = field(default_factory=list)
    """Processes that should not be, and those that are gone for less than an hour, newest first."""
    strays_unseen: dict[str, str] = field(default_factory=dict)
    """By launcher: why nobody knows whether there are any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentDetail:
    """One deployment, now or at an instant."""

    as_of_unix_ns: int
    at_unix_ns: int | None
    """The instant asked for; None: now."""
    name: str
    launcher: str
    num_replicas: int
    num_ready: int
    generation: int
    observed_generation: int | None
    """None for the past."""
    hold: str | None
    """Why it lacks replicas and gets none now."""
    retry_at_unix_ns: int | None
    """When that is tried again, where it is known."""
    troubles: list[Trouble]
    change: ChangeEntry
    """The one that made it what it is."""
    revisions: list[RevisionInUse]
    start_unix_ns: int
    """Of the time that the lanes show."""
    end_unix_ns: int
    range: str
    lanes: list[LaneView]
    """Newest first."""
    has_more_lanes: bool
    changes: list[ChangeEntry]
    """Newest first."""
    slo: list[SloCount] = field(default_factory=list)
    slo_since_unix_ns: int


def view_revisions(
    revisions: DesiredRevisions, history: list[DeploymentChange]
) -> list[RevisionInUse]:
    """`history` is newest first and begins with the change that these revisions came from."""
    return [
        RevisionInUse(
            role=role,
            kind=revision.kind.value,
            name=revision.name,
            number=revision.number,
            revision=revision.label,
            since_unix_ns=_since(role, revision, history),
        )
        for role, revision in _by_role(revisions).items()
        if revision is not None
    ]


def view_history(history: list[DeploymentChange]) -> list[ChangeEntry]:
    """Newest first, each compared with the one before it; the oldest with nothing it knows."""
    entries = []
    for index, change in enumerate(history):
        before = history[index + 1] if index + 1 < len(history) else None
        entries.append(_entry(change, before))
    return entries


def view_lane(
    lane: ReplicaLane, at: StateSpan, observed: ObservedReplica | None, load: ReplicaLoad | None
) -> LaneView:
    """`at` is where it stood when asked for."""
    is_ended = at.state in ENDED
    return LaneView(
        replica_id=lane.replica_id,
        launcher=lane.launcher,
        engine=lane.engine,
        model_revision=lane.model_revision,
        engine_config_revision=lane.engine_config_revision,
        address=lane.address,
        metrics_address=lane.metrics_address,
        state=at.state.value,
        reason=at.reason,
        since_unix_ns=at.since_unix_ns,
        is_ended=is_ended,
        stage=observed.stage if observed else None,
        probed_at_unix_ns=observed.probed_at_unix_ns if observed else None,
        observed_at_unix_ns=observed.observed_at_unix_ns if observed else None,
        fencing_token=observed.fencing_token if observed else None,
        pid=observed.pid if observed else None,
        start_stages=lane.start_stages or (observed.start_stages if observed else {}),
        unobservable_stages=list(
            lane.unobservable_stages or (observed.unobservable_stages if observed else ())
        ),
        spans=lane.spans,
        load=None if is_ended else load,
    )


def view_load(
    replica_id: str,
    reports: list[GatewayReport],
    stats: tuple[EngineStats, float] | None,
) -> ReplicaLoad:
    """From the current reports of all gateways and the freshest figures of the engine."""
    own = [each for report in reports for each in report.replicas if each.replica_id == replica_id]
    told, age = stats or (None, None)
    return ReplicaLoad(
        num_outstanding=sum(each.num_outstanding for each in own) if own else None,
        unreachable_because=next((e.error for e in own if not e.is_connected and e.error), None),
        num_running=told.num_running if told else None,
        num_waiting=told.num_waiting if told else None,
        max_num_seqs=told.max_num_seqs if told else None,
        blocked_on=told.blocked_on if told else None,
        num_preemptions=told.num_preemptions if told else None,
        memory=memory_of(told, age) if told and age is not None else None,
        stats_age_seconds=age,
    )


def _by_role(revisions: DesiredRevisions) -> dict[str, Revision | None]:
    return {
        "model": revisions.model,
        "engine config": revisions.engine_config,
        "policy": revisions.policy,
        "contract": revisions.contract,
        "deployment": revisions.deployment,
    }


def _since(role: str, revision: Revision, history: list[DeploymentChange]) -> int | None:
    since = None
    for change in history:
        used = _by_role(change.revisions)[role]
        if used is None or used.id != revision.id:
            return since
        since = change.at_unix_ns
    return since if history and history[-1].generation == 1 else None


def _entry(change: DeploymentChange, before: DeploymentChange | None) -> ChangeEntry:
    is_first = change.generation == 1
    text = "first deployed" if is_first else "before it: not read"
    if before is not None:
        text = describe_change(change.revisions, before.revisions)
    return ChangeEntry(
        generation=change.generation,
        at_unix_ns=change.at_unix_ns,
        author=change.author,
        reason=change.reason,
        text=text,
        documents=[] if before is None else _changed(change.revisions, before.revisions),
    )


def _changed(after: DesiredRevisions, before: DesiredRevisions) -> list[ChangedDocument]:
    old, new = _by_role(before), _by_role(after)
    return [
        _changed_document(role, old[role], new[role])
        for role in new
        if (old[role] and old[role].id) != (new[role] and new[role].id)  # type: ignore[union-attr]
    ]


def _changed_document(role: str, old: Revision | None, new: Revision | None) -> ChangedDocument:
    either = new or old
    assert either is not None
    is_same = old is not None and new is not None and old.name == new.name
    return ChangedDocument(
        role=role,
        kind=either.kind.value,
        name=either.name,
        from_revision=old.label if old else None,
        to_revision=new.label if new else None,
        from_number=old.number if old and is_same else None,
        to_number=new.number if new and is_same else None,
    )
