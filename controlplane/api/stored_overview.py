"""What the two databases hold that the overview shows: what should run, and how it went."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from controlplane.api.incident_views import IncidentLine, view_line
from controlplane.api.late_counts import LateCounts, read_late_counts
from controlplane.operator.observed import ObservedReplica
from controlplane.store.alerting_heard import AlertingHeard, read_heard
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment, list_readable_deployments
from controlplane.store.incident import IncidentState
from controlplane.store.incident_lists import list_incidents
from controlplane.store.replicas import (
    ReplicaTransition,
    find_last_failure,
    find_loss,
    list_transitions,
)
from controlplane.store.requests import count_since, num_records_lost, ttft_quantile

_WINDOW_SECONDS = 1800
_MEASURES = ("offered", "in_contract.good", "in_contract.total", "disposition.invalid")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConfig:
    """What should run, and what became of it."""

    desired: list[DesiredDeployment]
    unreadable: Mapping[str, str]
    """Why, by deployment."""
    changed_at_unix_ns: int | None
    """When one of the replicas that are seen changed last."""
    failures: Mapping[str, ReplicaTransition | None]
    """The last of each deployment that is desired."""
    losses: Mapping[str, ReplicaTransition]
    """By deployment, of those with a replica that cannot be reached."""
    incidents: list[IncidentLine]
    """Those that are open."""
    heard: list[AlertingHeard]
    """When each source of alerts was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPast:
    """What the requests tell, by deployment."""

    window_seconds: float
    """That `counts` and `ttft_p95` are over: half an hour, from the beginning of a minute."""
    counts: Mapping[str, dict[str, int]]
    """By measure."""
    ttft_p95: Mapping[str, float | None]
    """In seconds."""
    late: Mapping[str, LateCounts]
    """Of the last minutes."""
    num_records_lost: int


def read_config(database: Database, replicas: list[ObservedReplica]) -> StoredConfig:
    """With what became of `replicas`, which are those that are seen."""
    with database.reading() as session:
        desired, unreadable = list_readable_deployments(session)
        open_rows = list_incidents(session, state=IncidentState.OPEN, limit=None)
        return StoredConfig(
            desired=desired,
            unreadable=unreadable,
            changed_at_unix_ns=_last_change(session, {each.replica_id for each in replicas}),
            failures={each.name: find_last_failure(session, each.name) for each in desired},
            losses={
                each.deployment: loss
                for each in replicas
                if each.state == "unreachable"
                and (loss := find_loss(session, each.replica_id)) is not None
            },
            incidents=[view_line(each) for each in open_rows],
            heard=read_heard(session),
        )


def _last_change(session: Session, replica_ids: set[str]) -> int | None:
    transitions = list_transitions(session, limit=200)
    return next((t.at_unix_ns for t in transitions if t.replica_id in replica_ids), None)


def read_past(database: Database, desired: list[DesiredDeployment], now_unix_ns: int) -> StoredPast:
    """Of the half hour until now, and of the last minutes."""
    start = now_unix_ns // 10**9 - _WINDOW_SECONDS
    start -= start % 60
    with database.reading() as session:
        return StoredPast(
            window_seconds=now_unix_ns / 1e9 - start,
            counts=count_since(session, start, _MEASURES),
            ttft_p95={
                each.name: ttft_quantile(session, each.name, start * 10**9, 0.95)
                for each in desired
            },
            late=read_late_counts(session, now_unix_ns),
            num_records_lost=num_records_lost(session),
        )
