"""Versions of the gateways' snapshot: they only grow, and outlive a restart."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.store.tables import SnapshotVersionRow


def version_of(session: Session, digest: str, now_unix_ns: int) -> int:
    """The version of the snapshot with this digest: the newest one's if it is the same."""
    newest = session.scalars(
        select(SnapshotVersionRow).order_by(SnapshotVersionRow.version.desc()).limit(1)
    ).first()
    if newest is not None and newest.digest == digest:
        return newest.version
    row = SnapshotVersionRow(digest=digest, created_at_unix_ns=now_unix_ns)
    if newest is not None:
        row.version = newest.version + 1
    session.add(row)
    session.flush()
    return row.version
