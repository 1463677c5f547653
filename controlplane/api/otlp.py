"""The OTLP receiver: `POST /v1/traces` takes what clients and engines tell about requests.

OTLP over HTTP, as protobuf or JSON; there is no gRPC, so exporters are set to `http/protobuf`.
Bodies are read within bounds of size, time and number, and decoded and stored one at a time in
a thread: however much is sent, requests and pages go on. A sender that is told 503 sends again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import OperationalError
from starlette.datastructures import State

from controlplane.api.authorization import tenant_of
from controlplane.api.changes import request_changes
from controlplane.api.contract_terms import contract_terms
from controlplane.api.errors import RPC_ERROR_RESPONSES
from controlplane.api.span_counters import span_counters
from controlplane.otlp.encoding import Form, encode_failure, encode_success, find_form, inflate
from controlplane.otlp.json_form import decode_json
from controlplane.otlp.protobuf_form import decode_protobuf
from controlplane.otlp.reading import REJECTED, Ignored, ReadSpans, read_spans
from controlplane.otlp.received import MAX_BODY_BYTES, NotDecodableError, TooLargeError
from controlplane.otlp.report import Side
from controlplane.store.room import NoRoomError
from controlplane.store.span_reports import TakenReports, take_reports
from dataplane import names
from dataplane.clock import wall_clock

router = APIRouter(tags=["telemetry"])

MAX_IN_PROGRESS = 32
"""Requests whose bodies may be in memory at once."""
READ_SECONDS = 15.0
_RETRY_SECONDS = 2
_GRPC_CODES = {400: 3, 408: 4, 413: 8, 415: 3, 503: 14}
_DECODERS = {Form.PROTOBUF: decode_protobuf, Form.JSON: decode_json}
_LOG = structlog.get_logger(__name__)


class RefusalError(Exception):
    """A request that is not taken, with its HTTP status and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class SpanIntake:
    """Who is being read, and whose turn it is. Belongs to one event loop."""

    num_in_progress: int = 0
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Raises RefusalError when there are too many already."""
        if self.num_in_progress >= MAX_IN_PROGRESS:
            raise RefusalError(503, "too many trace requests at once; send again later")
        self.num_in_progress += 1
        try:
            yield
        finally:
            self.num_in_progress -= 1


@router.post("/v1/traces", responses=RPC_ERROR_RESPONSES)
async def post_traces(request: Request) -> Response:
    """Take an ExportTraceServiceRequest.

    Of it are kept the spans of clients and engines that belong to a request, known or soon to
    be; others are passed over and counted. 200 names the spans that were broken, 400, 413 and
    415 say why nothing was taken, 503 asks to send it again.
    """
    form = find_form(request.headers.get("content-type"))
    try:
        if form is None:
            raise RefusalError(415, f"send {Form.PROTOBUF} (http/protobuf) or {Form.JSON}")
        intake = _intake(request.app.state)
        async with intake.place():
            body = await _read_body(request)
            async with intake.turn:
                read = await run_in_threadpool(_take, request, form, body)
    except RefusalError as refusal:
        return _refuse(request.app.state, form or Form.JSON, refusal)
    num_rejected = sum(read.ignored[reason] for reason in REJECTED)
    span_counters(request.app.state).add(names.CONTROLPLANE_SPAN_BATCHES_TOTAL, {200: 1})
    return Response(encode_success(form, num_rejected, _why(read.ignored)), media_type=form.value)


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise RefusalError(
                        413, f"more than {MAX_BODY_BYTES} bytes; send smaller batches"
                    )
    except TimeoutError as error:
        raise RefusalError(408, f"the body did not come within {READ_SECONDS:.0f} s") from error
    return bytes(body)


def _take(request: Request, form: Form, body: bytes) -> ReadSpans:
    """Decode, read and store; in a thread."""
    state = request.app.state
    sender = tenant_of(request)
    # Who is bound to a tenant is a client of it, and knows nothing of what an engine did.
    sides = frozenset(Side) if sender is None else frozenset({Side.CLIENT})
    try:
        data = inflate(body, request.headers.get("content-encoding"))
        read = read_spans(_DECODERS[form](data), sides)
    except NotDecodableError as error:
        raise RefusalError(400, str(error)) from error
    except TooLargeError as error:
        raise RefusalError(413, str(error)) from error
    except LookupError as error:
        raise RefusalError(415, str(error.args[0])) from error
    if read.reports:
        _store(state, read, sender or "", len(data))
    span_counters(state).add(names.CONTROLPLANE_SPANS_IGNORED_TOTAL, read.ignored)
    return read


def _store(state: State, read: ReadSpans, sender: str, num_bytes: int) -> None:
    find_terms = contract_terms(state).find
    try:
        with state.request_db.adding(num_bytes) as session:
            taken = take_reports(session, read.reports, sender, find_terms, wall_clock())
    except NoRoomError as error:
        raise RefusalError(503, f"{error}. Send again later") from error
    except OperationalError as error:
        _LOG.warning("spans not stored", error=str(error.orig), num_spans=len(read.reports))
        raise RefusalError(503, "the request database does not answer; send again later") from error
    _count(state, read, taken)
    if taken.joined:
        request_changes(state).note()


def _count(state: State, read: ReadSpans, taken: TakenReports) -> None:
    read.ignored[Ignored.DUPLICATE] += taken.num_duplicates
    counters = span_counters(state)
    counters.add(names.CONTROLPLANE_SPANS_TAKEN_TOTAL, taken.stored)
    counters.add(names.CONTROLPLANE_SPANS_JOINED_TOTAL, taken.joined)
    counters.add(
        names.CONTROLPLANE_SPANS_DROPPED_TOTAL,
        {"expired": taken.num_expired, "displaced": taken.num_displaced},
    )
    counters.set_waiting(taken.num_waiting)


def _why(ignored: Counter[Ignored]) -> str:
    parts = []
    if ignored[Ignored.BAD_ID]:
        parts.append(f"{ignored[Ignored.BAD_ID]} spans without valid trace and span ids")
    if ignored[Ignored.BAD_TIMES]:
        parts.append(f"{ignored[Ignored.BAD_TIMES]} spans whose times contradict each other")
    return "; ".join(parts)


def _refuse(state: State, form: Form, refusal: RefusalError) -> Response:
    span_counters(state).add(names.CONTROLPLANE_SPAN_BATCHES_TOTAL, {refusal.status: 1})
    headers = {"retry-after": str(_RETRY_SECONDS)} if refusal.status == 503 else None
    return Response(
        encode_failure(form, _GRPC_CODES[refusal.status], str(refusal)),
        refusal.status,
        headers=headers,
        media_type=form.value,
    )


def _intake(state: State) -> SpanIntake:
    intake: SpanIntake = state.span_intake
    return intake
