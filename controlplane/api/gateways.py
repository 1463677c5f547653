"""The gateways' side of the API: snapshots go out on a stream, reports come in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from controlplane.access.gateway_keys import GatewayKeys
from controlplane.access.refused_gateways import RefusedGateways
from controlplane.api.authentication import is_still_known
from controlplane.api.authorization import check_gateway_name
from controlplane.api.body import read_body
from controlplane.api.gateway_reports import ReportError, decode_report
from controlplane.api.gateway_samples import gateway_samples, store_samples
from controlplane.operator.feed import PublishedSnapshot, SnapshotFeed
from controlplane.operator.observed import ObservedState
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1/gateways", tags=["gateways"])

KEEP_ALIVE_SECONDS = 10.0
MAX_REPORT_BYTES = 4 * 2**20


@router.get("")
def list_gateways(request: Request) -> dict[str, Any]:
    """The last report of every gateway, each with its age in seconds.

    `refused`: gateways that call, though they may have reported never, and are refused for their
    key, with the reason and the age of their last call.
    """
    observed: ObservedState = request.app.state.observed
    refusals = observed.refusals()
    return {
        "gateways": [
            {
                **msgspec.to_builtins(report),
                "age_seconds": age,
                "refused_because": refusals[report.name].why if report.name in refusals else None,
            }
            for report, age in observed.gateways()
        ],
        "refused": [
            {"name": name, "why": refusal.why, "age_seconds": refusal.age_seconds}
            for name, refusal in refusals.items()
        ],
    }


@router.put("/{name}", status_code=204)
async def put_report(name: str, request: Request) -> Response:
    """Keep a gateway's report. 422 names the path of what is wrong in it."""
    check_gateway_name(request, name)
    body = await read_body(request, MAX_REPORT_BYTES, "no gateway has that much to report")
    try:
        report = decode_report(body)
    except ReportError as error:
        raise HTTPException(422, str(error)) from error
    if report.name != name:
        raise HTTPException(422, f"the report is about gateway {report.name}, the path {name}")
    state = request.app.state
    observed: ObservedState = state.observed
    observed.put_gateway(report)
    refused: RefusedGateways = state.refused_gateways
    await run_in_threadpool(refused.note_accepted, name)
    await _prepare_key(request, name)
    minute = gateway_samples(state).note(report, observed.deployments_by_replica(), wall_clock())
    if minute:
        await run_in_threadpool(store_samples, state.request_db, minute)
    return Response(status_code=204)


@router.get("/{name}/snapshots", response_class=StreamingResponse)
async def watch_snapshots(name: str, request: Request, changes: bool = False) -> StreamingResponse:
    """Server-sent events: the current snapshot at once, then each new one, whole; with `changes`
    as a `change` event that says what is different from the one before.

    A watcher that is slower than the changes is sent only the newest. The stream ends when
    the control plane does, and soon after the watcher's key was revoked.
    """
    check_gateway_name(request, name)
    state = request.app.state
    return StreamingResponse(
        snapshot_events(
            state.snapshots,
            state.closing,
            may_go_on=partial(is_still_known, request),
            sends_changes=changes,
        ),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _prepare_key(request: Request, name: str) -> None:
    """Our key for this gateway must be in its snapshot before we ask it anything."""
    keys: GatewayKeys | None = request.app.state.gateway_keys
    if keys is not None:
        _, is_new = await run_in_threadpool(keys.get, name)
        if is_new:
            request.app.state.on_config_change()


async def snapshot_events(
    feed: SnapshotFeed,
    closing: asyncio.Event,
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
    may_go_on: Callable[[], Awaitable[bool]] | None = None,
    sends_changes: bool = False,
) -> AsyncIterator[bytes]:
    """The stream's bytes. `may_go_on` is asked before anything is sent; the first is sent whole,
    also with `sends_changes`."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    sent: PublishedSnapshot | None = None
    closed = asyncio.create_task(closing.wait())
    try:
        with feed.listening(lambda: loop.call_soon_threadsafe(changed.set)):
            # At once, so that the watcher sees the stream open though there is no snapshot yet.
            yield b": watching\n\n"
            while not closed.done():
                if may_go_on is not None and not await may_go_on():
                    return
                changed.clear()
                current = feed.current
                if current is not None and (sent is None or current.version != sent.version):
                    if sent is not None and sends_changes:
                        yield _event("change", current.version, feed.change(sent, current))
                    else:
                        yield _event("snapshot", current.version, current.data)
                    sent = current
                elif not await _wait(changed, closed, keep_alive_seconds):
                    yield b": still here\n\n"
    finally:
        closed.cancel()


def _event(kind: str, version: int, data: bytes) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (kind.encode(), version, data)


async def _wait(changed: asyncio.Event, closed: "asyncio.Task[bool]", seconds: float) -> bool:
    """False when neither happened in time."""
    change = asyncio.create_task(changed.wait())
    try:
        done, _ = await asyncio.wait(
            (change, closed), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        return bool(done)
    finally:
        change.cancel()
