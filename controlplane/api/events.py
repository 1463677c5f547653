"""The event stream of live pages: `requests` and `overview` say that asking again pays off."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from controlplane.api.authentication import is_still_known
from controlplane.api.changes import observed_mark, request_changes

router = APIRouter(prefix="/api/v1", tags=["events"])

ASK_SECONDS = 10.0
"""Between two times of asking whether the reader is still somebody."""
_LOOK_SECONDS = 0.5
_KEEP_ALIVE_SECONDS = 10.0
_RENEW_SECONDS = 300.0
"""A stream ends after this and the browser opens the next, so that none outlives its reader."""


@router.get("/events", response_class=StreamingResponse)
async def watch(request: Request) -> StreamingResponse:
    """Server-sent events `requests` and `overview`, without content: read the API again.

    The stream ends with the server, and soon after a logout or a revocation.
    """
    return StreamingResponse(
        events(request),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def events(request: Request, ask_seconds: float = ASK_SECONDS) -> AsyncIterator[str]:
    """The stream's text; every `ask_seconds` the reader must still be known."""
    state = request.app.state
    changes = request_changes(state)
    seen = (changes.number, observed_mark(state.observed))
    started = last_sent = last_asked = time.monotonic()
    yield "retry: 2000\n\n"
    closing: asyncio.Event = state.closing
    while time.monotonic() - started < _RENEW_SECONDS and not await request.is_disconnected():
        if time.monotonic() - last_asked >= ask_seconds:
            if not await is_still_known(request):
                return
            last_asked = time.monotonic()
        now = (changes.number, observed_mark(state.observed))
        if now != seen:
            if now[0] != seen[0]:
                yield f"event: requests\ndata: {now[0]}\n\n"
            yield f"event: overview\ndata: {now[0]}\n\n"
            seen, last_sent = now, time.monotonic()
        elif time.monotonic() - last_sent > _KEEP_ALIVE_SECONDS:
            yield ": still here\n\n"
            last_sent = time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(closing.wait(), _LOOK_SECONDS)
            return
