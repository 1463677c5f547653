"""Where gateways deliver the records of ended requests."""

from random import Random

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from controlplane.api.authorization import check_gateway_ids
from controlplane.api.body import read_body
from controlplane.api.changes import request_changes
from controlplane.api.contract_terms import contract_terms
from controlplane.api.span_counters import span_counters
from controlplane.slo.reading import StandingReader
from controlplane.store.database import Database
from controlplane.store.records import (
    BatchError,
    IngestReport,
    RecordBatch,
    ReservoirSizes,
    decode_batch,
    oldest_minute,
    store_batch,
)
from controlplane.store.span_reports import join_records, lock_for_records
from dataplane import names

router = APIRouter(prefix="/api/v1", tags=["records"])

MAX_BODY_BYTES = 128 * 2**20


@router.post("/records", max_body_size=MAX_BODY_BYTES)
async def put_records(request: Request) -> IngestReport:
    """Store a batch whole, or refuse it whole: 422 names the path of what is wrong.

    A record that is already stored, by gateway and sequence number, is counted as a duplicate.
    507 while the request database has no room: send it again later.
    """
    body = await read_body(request, MAX_BODY_BYTES, "send smaller batches")
    report = await run_in_threadpool(_take, request, body)
    if report.stored:
        request_changes(request.app.state).note()
    return report


def _take(request: Request, body: bytes) -> IngestReport:
    try:
        batch: RecordBatch = decode_batch(body)
    except BatchError as error:
        raise HTTPException(422, detail=f"nothing was stored; {error}") from error
    check_gateway_ids(request, {batch.gateway_id, *(each.gateway_id for each in batch.records)})
    state = request.app.state
    database: Database = state.request_db
    with database.adding(len(body)) as session:
        lock_for_records(session)
        report = store_batch(session, batch, Random(), ReservoirSizes())
        joined = join_records(session, batch.records, contract_terms(state).find)
    span_counters(state).add(names.CONTROLPLANE_SPANS_JOINED_TOTAL, joined)
    if report.stored:
        standings: StandingReader = state.standings
        standings.note_changed(oldest_minute(batch.records))
    return report
