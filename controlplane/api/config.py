"""The config API: applying documents, and reading revisions."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from controlplane.access.principal import actor_of
from controlplane.api.authentication import principal_of
from controlplane.api.config_views import (
    AppliedView,
    ChangeView,
    ProblemView,
    RevisionView,
    view_applied,
    view_change,
    view_deployment,
    view_problem,
    view_revision,
)
from controlplane.api.errors import InvalidBody
from controlplane.api.free_text import FreeText
from controlplane.api.planned_apply import require_results, require_world
from controlplane.api.slo_observed import seen_pages
from controlplane.rollouts.change_plan.change_plan import PlannedApply
from controlplane.specs.documents import ParsedDocuments, parse_documents
from controlplane.specs.installed import INSTALLED_CHECKS
from controlplane.specs.kind import Kind, UnknownKindError, find_kind
from controlplane.specs.problem import Problem
from controlplane.specs.without_effect import check_window
from controlplane.store.catalog import StoreCatalog
from controlplane.store.database import Database
from controlplane.store.deployments import (
    find_change_at,
    find_deployment,
    list_changes,
    list_readable_deployments,
)
from controlplane.store.revisions import (
    Change,
    apply_documents,
    find_latest,
    find_revision,
    list_latest,
    list_revisions,
)

router = APIRouter(prefix="/api/v1", tags=["config"])

MAX_FILES = 200


class File(BaseModel):
    """One file of documents."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[FreeText, Field(min_length=1, max_length=4096)]
    """As messages should cite it."""
    text: str


class ApplyRequest(BaseModel):
    """What to apply, and who says so."""

    model_config = ConfigDict(extra="forbid")

    files: Annotated[list[File], Field(min_length=1, max_length=MAX_FILES)]
    author: Annotated[FreeText, Field(min_length=1, max_length=128)] = "unknown"
    reason: Annotated[FreeText, Field(max_length=1024)] = ""
    dry_run: bool = False
    """Check and say what would change; change nothing."""
    plan: PlannedApply | None = None
    """Of a plan that is to be applied exactly: what it rests on, and what is to come of it."""


class ApplyResponse(BaseModel):
    """What was applied."""

    applied: list[AppliedView]
    warnings: list[ProblemView]


class RefusedResponse(BaseModel):
    """Why nothing was applied."""

    problems: list[ProblemView]


@router.post(
    "/apply",
    response_model=ApplyResponse,
    responses={
        409: {"description": "A plan was to be applied, and the world has moved since."},
        422: {"model": RefusedResponse | InvalidBody},
    },
)
def apply(body: ApplyRequest, request: Request) -> Any:
    """Apply documents, all or none. 422 lists every problem of every file."""
    # Reading and checking may take a while: nobody else's change waits for that.
    parsed = parse_documents([(file.name, file.text) for file in body.files], INSTALLED_CHECKS)
    pages = seen_pages(request.app.state.observed)
    with _database(request).reading() as session:
        loaded = parsed.against(StoreCatalog(session), pages)
    problems = (*loaded.problems, *find_untold(request, parsed))
    if problems:
        return refuse(problems)
    with _database(request).session() as session:
        # Again: what they refer to may have changed meanwhile, and now nothing can.
        loaded = parsed.against(StoreCatalog(session), pages)
        if loaded.problems:
            return refuse(loaded.problems)
        if body.plan is not None:
            require_world(session, body.plan)
        # A dry run does all the same work, and then takes it back.
        attempt = session.begin_nested()
        author = actor_of(principal_of(request), body.author)
        applied = apply_documents(session, loaded.documents, author=author, reason=body.reason)
        if body.plan is not None:
            require_results(applied, body.plan)
        if body.dry_run:
            attempt.rollback()
    if not body.dry_run and any(each.change is not Change.UNCHANGED for each in applied):
        announce_change(request)
    return ApplyResponse(
        applied=[view_applied(each) for each in applied],
        warnings=[view_problem(each) for each in loaded.warnings],
    )


def find_untold(request: Request, parsed: ParsedDocuments) -> list[Problem]:
    """Budgets that this control plane could not tell."""
    kept_days = request.app.state.retention.retention.count_days
    return [each for item in parsed.loaded for each in check_window(item, kept_days)]


@router.get("/config")
def list_all(request: Request) -> list[RevisionView]:
    """The latest revision of every document."""
    return _list(request, None)


@router.get("/config/{kind}")
def list_kind(kind: str, request: Request) -> list[RevisionView]:
    """The latest revision of every document of a kind."""
    return _list(request, _kind(kind))


@router.get("/config/{kind}/{name}")
def read(kind: str, name: str, request: Request, number: int | None = None) -> RevisionView:
    """One document: its latest revision, or the one with that number."""
    known = _kind(kind)
    with _database(request).reading() as session:
        if number is None:
            revision = find_latest(session, known, name)
        else:
            revision = find_revision(session, known, name, number)
        if revision is None:
            what = name if number is None else f"{name}@{number}"
            raise HTTPException(404, f"there is no {known} {what}")
        deployment = find_deployment(session, name) if known is Kind.DEPLOYMENT else None
        return view_revision(revision, view_deployment(deployment) if deployment else None)


@router.get("/config/{kind}/{name}/revisions")
def read_history(kind: str, name: str, request: Request) -> list[RevisionView]:
    """Every revision of a document, newest first."""
    known = _kind(kind)
    with _database(request).reading() as session:
        revisions = list_revisions(session, known, name)
    if not revisions:
        raise HTTPException(404, f"there is no {known} {name}")
    return [view_revision(revision) for revision in revisions]


@router.get("/deployments/{name}/changes")
def read_changes(
    name: str,
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    at_unix_ns: int | None = None,
) -> list[ChangeView]:
    """What was desired of a deployment, newest first; with `at_unix_ns`, at that instant alone."""
    with _database(request).reading() as session:
        if find_deployment(session, name) is None:
            raise HTTPException(404, f"there is no Deployment {name}")
        if at_unix_ns is None:
            changes = list_changes(session, name, limit)
        else:
            change = find_change_at(session, name, at_unix_ns)
            changes = [change] if change else []
        return [view_change(change) for change in changes]


def refuse(problems: Sequence[Problem]) -> JSONResponse:
    refused = RefusedResponse(problems=[view_problem(each) for each in problems])
    return JSONResponse(refused.model_dump(), status_code=422)


def announce_change(request: Request) -> None:
    """Tell the operator after the commit, so that it reads what was just stored."""
    on_change = getattr(request.app.state, "on_config_change", None)
    if on_change is not None:
        on_change()


def _list(request: Request, kind: Kind | None) -> list[RevisionView]:
    with _database(request).reading() as session:
        revisions = list_latest(session, kind)
        has_deployments = kind in (None, Kind.DEPLOYMENT)
        deployments = list_readable_deployments(session)[0] if has_deployments else []
    views = {deployment.name: view_deployment(deployment) for deployment in deployments}
    return [
        view_revision(
            revision, views.get(revision.name) if revision.kind is Kind.DEPLOYMENT else None
        )
        for revision in revisions
    ]


def _database(request: Request) -> Database:
    database: Database = request.app.state.config_db
    return database


def _kind(word: str) -> Kind:
    try:
        return find_kind(word)
    except UnknownKindError as error:
        raise HTTPException(404, str(error)) from error
