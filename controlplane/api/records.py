"""Where gateways deliver the records of ended requests."""

from random import Random

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from controlplane.api.body import read_body
from controlplane.api.changes import request_changes
from controlplane.store.database import Database
from controlplane.store.records import (
    BatchError,
    IngestReport,
    RecordBatch,
    ReservoirSizes,
    decode_batch,
    store_batch,
)

router = APIRouter(prefix="/api/v1", tags=["records"])

MAX_BODY_BYTES = 128 * 2**20


@router.post("/records")
async def put_records(request: Request) -> IngestReport:
    """Store a batch whole, or refuse it whole: 422 names the path of what is wrong.

    A record that is already stored, by gateway and sequence number, is counted as a duplicate.
    """
    body = await read_body(request, MAX_BODY_BYTES, "send smaller batches")
    report = await run_in_threadpool(_take, request.app.state.request_db, body)
    if report.stored:
        request_changes(request.app.state).note()
    return report


def _take(database: Database, body: bytes) -> IngestReport:
    try:
        batch: RecordBatch = decode_batch(body)
    except BatchError as error:
        raise HTTPException(422, detail=f"nothing was stored; {error}") from error
    with database.session() as session:
        return store_batch(session, batch, Random(), ReservoirSizes())
