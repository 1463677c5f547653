"""Revisions: storing documents as immutable, numbered versions, and finding them again."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.specs.document import Document
from controlplane.specs.kind import Kind
from controlplane.store.audit import record_change
from controlplane.store.deployments import move_deployments
from controlplane.store.revision import Revision, read_revision, revision_label
from controlplane.store.tables import RevisionRow
from dataplane.clock import WallClock, wall_clock

__all__ = [
    "Applied",
    "Change",
    "Revision",
    "apply_documents",
    "find_latest",
    "find_revision",
    "list_latest",
    "list_newest",
    "list_revisions",
    "revision_label",
]


class Change(StrEnum):
    """What applying a document did."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One document after it was applied: the revision that now is its latest."""

    kind: Kind
    name: str
    number: int
    digest: str
    change: Change

    @property
    def label(self) -> str:
        """`name@number`."""
        return revision_label(self.name, self.number)


def apply_documents(
    session: Session,
    documents: Sequence[Document],
    *,
    author: str,
    reason: str,
    clock: WallClock = wall_clock,
) -> list[Applied]:
    """Store what changed as new revisions, and move the deployments that this concerns.

    All or nothing, in the caller's unit of work. Applying the same documents again changes
    nothing. Raises UnresolvedReferenceError, and then the unit of work must roll back.
    """
    now = clock()
    applied = [_put(session, document, author, reason, now) for document in documents]
    session.flush()
    move_deployments(session, author=author, reason=reason, now_unix_ns=now)
    return applied


def list_latest(session: Session, kind: Kind | None = None) -> list[Revision]:
    """The latest revision of every document of `kind`, or of all kinds, by kind and name."""
    newest = select(
        RevisionRow.kind, RevisionRow.name, func.max(RevisionRow.number).label("number")
    )
    if kind is not None:
        newest = newest.where(RevisionRow.kind == kind.value)
    latest = newest.group_by(RevisionRow.kind, RevisionRow.name).subquery()
    rows = session.scalars(
        select(RevisionRow)
        .join(
            latest,
            (RevisionRow.kind == latest.c.kind)
            & (RevisionRow.name == latest.c.name)
            & (RevisionRow.number == latest.c.number),
        )
        .order_by(RevisionRow.kind, RevisionRow.name)
    )
    return [read_revision(row) for row in rows]


def find_latest(session: Session, kind: Kind, name: str) -> Revision | None:
    """The latest revision of one document, or None when there is none."""
    revisions = list_revisions(session, kind, name, limit=1)
    return revisions[0] if revisions else None


def find_revision(session: Session, kind: Kind, name: str, number: int) -> Revision | None:
    """One revision by its number, or None."""
    row = session.scalars(
        select(RevisionRow).where(
            RevisionRow.kind == kind.value, RevisionRow.name == name, RevisionRow.number == number
        )
    ).one_or_none()
    return None if row is None else read_revision(row)


def list_revisions(
    session: Session, kind: Kind, name: str, limit: int | None = None
) -> list[Revision]:
    """Every revision of one document, newest first."""
    rows = session.scalars(
        select(RevisionRow)
        .where(RevisionRow.kind == kind.value, RevisionRow.name == name)
        .order_by(RevisionRow.number.desc())
        .limit(limit)
    )
    return [read_revision(row) for row in rows]


def list_newest(session: Session, kind: Kind, limit: int) -> list[Revision]:
    """The newest revisions of every document of `kind`, newest first."""
    rows = session.scalars(
        select(RevisionRow)
        .where(RevisionRow.kind == kind.value)
        .order_by(RevisionRow.id.desc())
        .limit(limit)
    )
    return [read_revision(row) for row in rows]


def _put(session: Session, document: Document, author: str, reason: str, now: int) -> Applied:
    latest = find_latest(session, document.kind, document.name)
    digest = document.digest
    if latest is not None and latest.digest == digest:
        number, change = latest.number, Change.UNCHANGED
    else:
        number = latest.number + 1 if latest else 1
        change = Change.UPDATED if latest else Change.CREATED
        session.add(
            RevisionRow(
                kind=document.kind.value,
                name=document.name,
                number=number,
                digest=digest,
                document=document.canonical,
                author=author,
                reason=reason,
                created_at_unix_ns=now,
            )
        )
        record_change(
            session,
            actor=author,
            action=f"config.{change.removesuffix('d')}",
            subject=f"{document.kind}/{document.name}",
            reason=reason,
            before=None if latest is None else _facts(latest.number, latest.document),
            after=_facts(number, document.canonical),
            clock=lambda: now,
        )
    return Applied(
        kind=document.kind, name=document.name, number=number, digest=digest, change=change
    )


def _facts(number: int, document: dict[str, Any]) -> dict[str, Any]:
    return {"number": number, "document": document}
