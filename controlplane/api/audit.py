"""Reading the audit. Nothing writes it through the API but the changes themselves."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import BaseModel

from controlplane.api.request_query import QueryError, parse_window
from controlplane.specs.diff import diff_documents
from controlplane.store.audit import MAX_EVENTS, AuditEvent, AuditFilter, find_event, list_events
from controlplane.store.database import Database
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["audit"])

Text = Annotated[str | None, Query(max_length=320)]
_MAX_ID = 2**63 - 1


class AuditEventView(BaseModel):
    """One change; see controlplane.store.audit."""

    id: int
    at_unix_ns: int
    actor: str
    action: str
    subject: str
    reason: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changes: list[str]
    """What differs, a line for each place."""


class AuditPage(BaseModel):
    """Changes, the newest first."""

    events: list[AuditEventView]
    next: int | None
    """What to give as `after` for the following page; None on the last."""


@router.get("/audit")
def read_audit(
    request: Request,
    actor: Text = None,
    action: Text = None,
    subject: Text = None,
    since: Text = None,
    until: Text = None,
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS)] = 100,
    after: Annotated[int | None, Query(ge=1, le=_MAX_ID)] = None,
) -> AuditPage:
    """Every change and every login, with its actor, reason, before and after.

    `action` and `subject` may be given whole (config.update, Deployment/chat) or by their
    first part (config, Deployment); `since` and `until` as an age (2d) or an ISO 8601 time.
    """
    try:
        wanted = create_filter(actor, action, subject, since, until)
    except QueryError as error:
        raise HTTPException(422, str(error)) from error
    return read_page(request.app.state.config_db, wanted, limit, after)


@router.get("/audit/{event_id}", responses={404: {"description": "There is no such event."}})
def read_event(event_id: int, request: Request) -> AuditEventView:
    """One change by its number."""
    with request.app.state.config_db.reading() as session:
        event = find_event(session, event_id) if 0 < event_id <= _MAX_ID else None
    if event is None:
        raise HTTPException(404, f"there is no audit event {event_id}")
    return view_event(event)


def create_filter(
    actor: str | None,
    action: str | None,
    subject: str | None,
    since: str | None,
    until: str | None,
) -> AuditFilter:
    """Empty text means any. Raises QueryError."""
    first, last = parse_window(since, until, wall_clock())
    return AuditFilter(
        actor=actor or None,
        action=action or None,
        subject=subject or None,
        since_unix_ns=first,
        until_unix_ns=last,
    )


def read_page(database: Database, wanted: AuditFilter, limit: int, after: int | None) -> AuditPage:
    """One page."""
    with database.reading() as session:
        events = list_events(session, wanted, limit + 1, before_id=after)
    has_more = len(events) > limit
    events = events[:limit]
    return AuditPage(
        events=[view_event(event) for event in events],
        next=events[-1].id if has_more else None,
    )


def view_event(event: AuditEvent) -> AuditEventView:
    """As the API shows it."""
    differences = diff_documents(_as_document(event.before), _as_document(event.after))
    return AuditEventView(**asdict(event), changes=[str(each) for each in differences])


def _as_document(state: dict[str, Any] | None) -> dict[str, Any] | None:
    """Config changes keep whole documents, all others plain facts."""
    if state is None:
        return None
    document = state.get("document")
    if isinstance(document, dict):
        return document
    return {"spec": {name: value for name, value in state.items() if value is not None}}
