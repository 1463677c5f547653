"""Versions of the gateways' snapshot: they only grow, and outlive a restart."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.store.tables import SnapshotVersionRow


def version_of(session: Session, digest: str, now_unix_ns: int, *, at_least: int = 0) -> int:
    """The version of the snapshot with this digest: the newest one's if it is the same.

    A gateway that enforces `at_least` got it from a database that is gone. What is newer than
    all that was ever given out has a greater number.
    """
    newest = session.scalars(
        select(SnapshotVersionRow).order_by(SnapshotVersionRow.version.desc()).limit(1)
    ).first()
    if newest is not None and newest.digest == digest and newest.version >= at_least:
        return newest.version
    last = max(at_least, newest.version if newest else 0)
    row = SnapshotVersionRow(version=last + 1, digest=digest, created_at_unix_ns=now_unix_ns)
    session.add(row)
    session.flush()
    return row.version
