"""Which revision a name stands for, for many names at once and without reading any document."""

from collections.abc import Collection

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from controlplane.specs.kind import Kind
from controlplane.specs.names import Reference
from controlplane.store.tables import RevisionRow


def latest_ids(session: Session) -> dict[tuple[str, str], int]:
    """The latest revision of every document, by kind and name; also of kinds that only a newer
    version knows."""
    newest = (
        select(RevisionRow.kind, RevisionRow.name, func.max(RevisionRow.number).label("number"))
        .group_by(RevisionRow.kind, RevisionRow.name)
        .subquery()
    )
    rows = session.execute(
        select(RevisionRow.kind, RevisionRow.name, RevisionRow.id).join(
            newest,
            (RevisionRow.kind == newest.c.kind)
            & (RevisionRow.name == newest.c.name)
            & (RevisionRow.number == newest.c.number),
        )
    )
    return {(kind, name): number for kind, name, number in rows}


def find_ids(
    session: Session, references: Collection[tuple[Kind, Reference]]
) -> dict[tuple[Kind, Reference], int]:
    """Of references that name a number: the revision, where there is one."""
    by_key = {
        (kind.value, each.name, each.number): (kind, each)
        for kind, each in references
        if each.number is not None
    }
    if not by_key:
        return {}
    key = RevisionRow.kind, RevisionRow.name, RevisionRow.number
    rows = session.execute(select(RevisionRow.id, *key).where(tuple_(*key).in_(list(by_key))))
    return {by_key[kind, name, number]: found for found, kind, name, number in rows}
