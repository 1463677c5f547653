"""Config: every document, one with its revisions, and the difference of two of them."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from controlplane.api.config_history import (
    DiffView,
    DocumentHistory,
    DocumentNotFoundError,
    RevisionHistoryEntry,
    read_diff,
    read_document_history,
)
from controlplane.console.answers import error_page, page, sentence
from controlplane.specs.kind import Kind, UnknownKindError, find_kind, plural
from controlplane.specs.yaml_writer import write_yaml
from controlplane.store.revisions import Revision, find_revision, list_latest
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)

_REMEDY = "The list of documents has those there are; each lists its revisions."
_MAX_DIGITS = 18
_ABOUT = {
    Kind.DEPLOYMENT: "named services: one model, one engine config, one policy, N replicas",
    Kind.MODEL: "the weights that replicas load",
    Kind.ENGINE_CONFIG: "which engine runs them, with which settings",
    Kind.ADMISSION_POLICY: "who may enter, wait or be shed",
    Kind.SLO_CONTRACT: "what callers are promised",
    Kind.TENANT: "who is billed, limited and isolated",
}


class _NumberError(ValueError):
    """A revision number that is none; the message names the parameter."""


@router.get("/config")
def config(request: Request) -> Response:
    """Every document by kind, in its latest revision."""
    with request.app.state.config_db.reading() as session:
        latest = list_latest(session)
    groups: list[tuple[str, str, list[Revision]]] = [
        (plural(kind), about, [each for each in latest if each.kind is kind])
        for kind, about in _ABOUT.items()
    ]
    return page("config.html", page="config", groups=groups, now=wall_clock(), count=len(latest))


@router.get("/config/{kind}/{name}")
def document(kind: str, name: str, request: Request) -> Response:
    """One document: what is in force, who changed what and why, who uses it."""
    database = request.app.state.config_db
    try:
        known = find_kind(kind)
        number = _number(request, "number")
        view = read_document_history(database, known, name)
        shown = view.revisions[0].number if number is None else number
        with database.reading() as session:
            revision = find_revision(session, known, name, shown)
        if revision is None:
            raise DocumentNotFoundError(f"there is no {known} {name}@{shown}")
    except (UnknownKindError, DocumentNotFoundError) as error:
        return error_page(404, sentence(error), _REMEDY, menu="config")
    except _NumberError as error:
        return error_page(422, sentence(error), menu="config")
    return page(
        "document.html",
        page="config",
        view=view,
        shown=_entry(view, shown),
        number=shown,
        text=write_yaml(revision.document),
        now=wall_clock(),
    )


@router.get("/config/{kind}/{name}/diff")
def diff(kind: str, name: str, request: Request) -> Response:
    """What turns one revision into another, place by place."""
    database = request.app.state.config_db
    try:
        known = find_kind(kind)
        before, after = _number(request, "from"), _number(request, "to")
        view: DiffView = read_diff(database, known, name, before, after)
        history = read_document_history(database, known, name)
    except (UnknownKindError, DocumentNotFoundError) as error:
        return error_page(404, sentence(error), _REMEDY, menu="config")
    except _NumberError as error:
        return error_page(422, sentence(error), menu="config")
    to_number = int(view.to_revision.rpartition("@")[2])
    from_number = int(view.from_revision.rpartition("@")[2]) if view.from_revision else 0
    return page(
        "diff.html",
        page="config",
        view=view,
        history=history,
        from_number=from_number,
        to_number=to_number,
        between=_between(history, from_number, to_number),
        now=wall_clock(),
    )


@router.get("/config/{kind}")
def kind_of_documents(kind: str) -> Response:
    """The part of the list that is about one kind."""
    try:
        known = find_kind(kind)
    except UnknownKindError as error:
        return error_page(404, sentence(error), _REMEDY, menu="config")
    return RedirectResponse(f"/config#{plural(known)}", 303)


def _entry(view: DocumentHistory, number: int) -> RevisionHistoryEntry | None:
    return next((each for each in view.revisions if each.number == number), None)


def _between(view: DocumentHistory, one: int, other: int) -> list[RevisionHistoryEntry]:
    """The revisions whose changes add up to the difference, newest first."""
    low, high = sorted((one, other))
    return [each for each in view.revisions if low < each.number <= high]


def _number(request: Request, parameter: str) -> int | None:
    text = request.query_params.get(parameter, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise _NumberError(f"{parameter}: {text[:32]!r} is no revision number, such as 3")
    return int(text)
