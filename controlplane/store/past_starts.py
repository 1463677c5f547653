"""What starts of replicas took that are over or still serve."""

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.rollouts.change_plan.start_times import PastStart
from controlplane.store.replicas import measured_stages
from controlplane.store.tables import ReplicaRow
from dataplane.engine import ReplicaSpec

_NEWEST = 200


def list_past_starts(session: Session) -> list[PastStart]:
    """The newest of all deployments whose stages were measured, newest first."""
    rows = session.scalars(
        select(ReplicaRow).order_by(ReplicaRow.created_at_unix_ns.desc()).limit(_NEWEST)
    )
    found = []
    for row in rows:
        if not row.start_stages:
            continue
        try:
            spec = msgspec.convert(row.spec, type=ReplicaSpec)
        except msgspec.ValidationError:
            continue  # of another version: it tells nothing about what would start now
        seconds = sum(measured_stages(row.start_stages).values())
        found.append(PastStart(spec=spec, digest=row.spec_digest, seconds=seconds))
    return found
