"""A document's history: what each revision changed, who did it and why, and who uses it."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from sqlalchemy.orm import Session

from controlplane.specs.diff import FieldChange, diff_documents
from controlplane.specs.kind import Kind, UnknownKindError, find_kind
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment, list_readable_deployments
from controlplane.store.revisions import Revision, find_latest, find_revision, list_revisions

router = APIRouter(prefix="/api/v1", tags=["config"])

MAX_REVISIONS = 200
_MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChangeView:
    """One place that differs between two revisions."""

    path: str
    kind: str
    """added, removed, changed or reordered."""
    before: Any
    after: Any
    before_text: str
    """As it would be written in a document; empty where there is nothing."""
    after_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffView:
    """What turns one revision into another."""

    kind: str
    name: str
    from_revision: str | None
    """None: nothing, the first revision added everything."""
    to_revision: str
    changes: list[FieldChangeView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionHistoryEntry:
    """One revision: who, when, why, and what it changed of the one before."""

    number: int
    revision: str
    digest: str
    author: str
    reason: str
    created_at_unix_ns: int
    changes: list[FieldChangeView] | None
    """None: the revision before it is beyond what is listed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentUse:
    """A deployment that stands on this document now."""

    deployment: str
    revision: str
    is_pinned: bool
    """It names this revision and will not follow a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHistory:
    """One document, whole."""

    kind: str
    name: str
    document: dict[str, Any]
    """The latest revision, in canonical form."""
    revisions: list[RevisionHistoryEntry]
    """Newest first."""
    used_by: list[DocumentUse]


class DocumentNotFoundError(LookupError):
    """There is no such document or revision."""


@router.get("/config/{kind}/{name}/history")
def get_history(kind: str, name: str, request: Request) -> DocumentHistory:
    """Every revision, newest first, with what it changed; and the deployments that use it."""
    try:
        return read_document_history(request.app.state.config_db, find_kind(kind), name)
    except (UnknownKindError, DocumentNotFoundError) as error:
        raise HTTPException(404, str(error)) from error


@router.get("/config/{kind}/{name}/diff")
def get_diff(
    kind: str,
    name: str,
    request: Request,
    from_number: Annotated[int | None, Query(alias="from", ge=0, le=_MAX_NUMBER)] = None,
    to_number: Annotated[int | None, Query(alias="to", ge=1, le=_MAX_NUMBER)] = None,
) -> DiffView:
    """What differs between two revisions. `to`: the latest; `from`: the one before it, 0: nothing.

    `from` may be the newer one: then it says what going back would change.
    """
    try:
        known = find_kind(kind)
        return read_diff(request.app.state.config_db, known, name, from_number, to_number)
    except (UnknownKindError, DocumentNotFoundError) as error:
        raise HTTPException(404, str(error)) from error


def read_document_history(database: Database, kind: Kind, name: str) -> DocumentHistory:
    """Raises DocumentNotFoundError."""
    with database.reading() as session:
        found = list_revisions(session, kind, name, limit=MAX_REVISIONS + 1)
        if not found:
            raise DocumentNotFoundError(f"there is no {kind} {name[:128]}")
        deployments, _ = list_readable_deployments(session)
    return DocumentHistory(
        kind=kind.value,
        name=name,
        document=found[0].document,
        revisions=[
            _entry(revision, found[index + 1] if index + 1 < len(found) else None)
            for index, revision in enumerate(found[:MAX_REVISIONS])
        ],
        used_by=[use for each in deployments for use in _uses(each, kind, name)],
    )


def read_diff(
    database: Database, kind: Kind, name: str, from_number: int | None, to_number: int | None
) -> DiffView:
    """Raises DocumentNotFoundError."""
    with database.reading() as session:
        after = _find(session, kind, name, to_number)
        wanted = after.number - 1 if from_number is None else from_number
        before = _find(session, kind, name, wanted) if wanted else None
    return DiffView(
        kind=kind.value,
        name=name,
        from_revision=before.label if before else None,
        to_revision=after.label,
        changes=view_changes(before, after),
    )


def view_changes(before: Revision | None, after: Revision) -> list[FieldChangeView]:
    """What turns `before` into `after`."""
    changes = diff_documents(before.document if before else None, after.document)
    return [_view(change) for change in changes]


def _find(session: Session, kind: Kind, name: str, number: int | None) -> Revision:
    if number is None:
        revision = find_latest(session, kind, name)
    else:
        revision = find_revision(session, kind, name, number)
    if revision is None:
        what = name[:128] if number is None else f"{name[:128]}@{number}"
        raise DocumentNotFoundError(f"there is no {kind} {what}")
    return revision


def _entry(revision: Revision, before: Revision | None) -> RevisionHistoryEntry:
    is_known = before is not None or revision.number == 1
    return RevisionHistoryEntry(
        number=revision.number,
        revision=revision.label,
        digest=revision.digest,
        author=revision.author,
        reason=revision.reason,
        created_at_unix_ns=revision.created_at_unix_ns,
        changes=view_changes(before, revision) if is_known else None,
    )


def _uses(deployment: DesiredDeployment, kind: Kind, name: str) -> list[DocumentUse]:
    revisions = deployment.revisions
    used = {
        "model": revisions.model,
        "engine": revisions.engine_config,
        "policy": revisions.policy,
        "contract": revisions.contract,
    }
    references = deployment.spec.references()
    return [
        DocumentUse(
            deployment=deployment.name,
            revision=revision.label,
            is_pinned=references[field][1].number is not None,
        )
        for field, revision in used.items()
        if revision is not None and revision.kind is kind and revision.name == name
    ]


def _view(change: FieldChange) -> FieldChangeView:
    return FieldChangeView(
        path=change.path,
        kind=change.kind.value,
        before=change.before,
        after=change.after,
        before_text=change.before_text,
        after_text=change.after_text,
    )
