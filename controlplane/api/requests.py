"""Reading requests: the list, those in flight, and one whole."""

from dataclasses import replace

from fastapi import APIRouter, HTTPException, Request
from sqlalchemy.orm import Session

from controlplane.access.gateway_keys import GatewayKeys
from controlplane.api.authorization import tenant_of
from controlplane.api.live import LiveRequests, ask_gateways
from controlplane.api.missed import with_limits
from controlplane.api.reported import with_report
from controlplane.api.request_query import (
    QueryError,
    RequestQuery,
    page_end,
    parse_request_query,
)
from controlplane.api.request_views import (
    RecordPage,
    RequestDetail,
    RequestPage,
    describe,
    summarize,
)
from controlplane.store.database import Database
from controlplane.store.kept_records import key_of, list_records
from controlplane.store.requests import (
    MAX_MATCHES,
    PageKey,
    find_page_key,
    find_record,
    find_requests,
    list_requests,
)
from controlplane.store.span_reports import find_span_reports, find_span_reports_of
from dataplane.clock import wall_clock
from dataplane.record import record_to_dict

router = APIRouter(prefix="/api/v1", tags=["requests"])

_MAX_RECORD_BYTES = 8 * 2**20
"""Of the records on one page."""


class RequestNotFoundError(LookupError):
    """No request has this id."""

    def __init__(self, identifier: str) -> None:
        super().__init__(
            f"no request or trace {identifier[:128]!r} is known. It may still be in flight, its "
            "record may not have arrived yet, or it is older than what is kept"
        )


class AmbiguousRequestError(LookupError):
    """Several requests share this trace id or beginning."""

    def __init__(self, identifier: str, request_ids: list[str]) -> None:
        count = f"{len(request_ids)} or more" if len(request_ids) == MAX_MATCHES else "several"
        super().__init__(
            f"{identifier[:128]!r} names {count} requests; give one of them whole: "
            + ", ".join(request_ids[:5])
        )
        self.request_ids = request_ids


@router.get("/requests")
def get_requests(request: Request) -> RequestPage:
    """Ended requests, the newest first. 422 names the parameter that is wrong.

    Parameters: deployment, class, tenant, disposition, in_contract (true or false), missed (ttft,
    first_answer, tpot, max_itl, chunk_gap, e2e, acceptance or availability), since and until (an
    age such as 30m, a time such as 02:14, or an ISO 8601 time), limit (1 to 500), after (`next` of
    a page).
    """
    now = wall_clock()
    try:
        return read_page(request.app.state.request_db, _read_query(request, now), now)
    except QueryError as error:
        raise HTTPException(422, detail=str(error)) from error


@router.get("/records")
def get_records(request: Request) -> RecordPage:
    """Full records as gateways delivered them, with what clients reported since; of those
    requests alone whose records were kept, the newest first.

    Parameters as of /requests. A page ends early where its records are large: what follows it is
    behind `next`.
    """
    try:
        return _read_records(request.app.state.request_db, _read_query(request, wall_clock()))
    except QueryError as error:
        raise HTTPException(422, detail=str(error)) from error


@router.get("/requests/live")
async def get_live_requests(request: Request) -> LiveRequests:
    """Requests in flight, as their gateways tell them now."""
    return await read_live(request)


@router.get("/requests/{request_id:path}")
def get_request(request_id: str, request: Request) -> RequestDetail:
    """One request by its id, its trace id, or the beginning of either if only one has it.

    404 when there is none, 409 when there are several.
    """
    try:
        database = request.app.state.request_db
        return read_request(database, request_id, wall_clock(), tenant_of(request))
    except RequestNotFoundError as error:
        raise HTTPException(404, detail=str(error)) from error
    except AmbiguousRequestError as error:
        raise HTTPException(409, detail=str(error)) from error


async def read_live(request: Request) -> LiveRequests:
    """Those in flight that the caller may see."""
    state = request.app.state
    keys: GatewayKeys | None = state.gateway_keys
    find_key = None if keys is None else lambda name: keys.get(name)[0]
    return await ask_gateways(state.observed, find_key, tenant_of(request))


def read_page(database: Database, query: RequestQuery, now_unix_ns: int) -> RequestPage:
    """One page of the list. Raises QueryError when it is to begin behind what is not there."""
    tenant = query.wanted.only_tenant
    with database.reading() as session:
        rows = list_requests(session, query.wanted, query.limit + 1, _page_key(session, query))
    has_more = len(rows) > query.limit
    rows = rows[: query.limit]
    return RequestPage(
        requests=[summarize(row, tenant) for row in rows],
        next=page_end(rows[-1], tenant) if has_more else None,
        as_of_unix_ns=now_unix_ns,
    )


def _read_query(request: Request, now_unix_ns: int) -> RequestQuery:
    """What is asked for, of what the caller may see. Raises QueryError."""
    query = parse_request_query(request.query_params, now_unix_ns).within(tenant_of(request))
    return with_limits(query, request.app.state.config_db)


def _read_records(database: Database, query: RequestQuery) -> RecordPage:
    wanted = replace(query.wanted, has_record=True)
    with database.reading() as session:
        page = list_records(
            session, wanted, query.limit, _MAX_RECORD_BYTES, _page_key(session, query)
        )
        reports = find_span_reports_of(session, list(page.records))
    return RecordPage(
        records=[
            record_to_dict(with_report(page.records[key], reports.get(key, [])))
            for key in map(key_of, page.rows)
            if key in page.records
        ],
        next=page_end(page.rows[-1], wanted.only_tenant) if page.has_more else None,
    )


def _page_key(session: Session, query: RequestQuery) -> PageKey | None:
    if query.after_request_id is None:
        return query.after
    key = find_page_key(session, query.after_request_id, query.wanted.only_tenant)
    if key is None:
        raise QueryError("after", "names a request that is not kept any more; begin again")
    return key


def read_request(
    database: Database, identifier: str, now_unix_ns: int, only_tenant: str | None = None
) -> RequestDetail:
    """Raises RequestNotFoundError, also for another tenant's, and AmbiguousRequestError."""
    with database.reading() as session:
        rows = find_requests(session, identifier, only_tenant)
        if not rows:
            raise RequestNotFoundError(identifier)
        if len(rows) > 1:
            raise AmbiguousRequestError(identifier, [row.request_id for row in rows])
        record, reports = find_record(session, rows[0]), find_span_reports(session, rows[0])
        return describe(rows[0], record, now_unix_ns, reports, only_tenant)
