"""The gateway's tie to the control plane: snapshots in, reports and records out.

None of it is on the request path. The snapshot in force is kept on disk, so that a gateway
starts and serves while the control plane is away; a refused one changes nothing and is told
in the next report.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import httpx
import msgspec
import structlog

from dataplane.atomic_file import replace_file
from dataplane.line_stream import LineTooLongError, read_lines
from dataplane.policy import SnapshotError
from dataplane.report import GatewayReport
from dataplane.snapshot_change import OutOfStepError

SNAPSHOT_FILE = "snapshot.json"
SNAPSHOT, CHANGE = b"snapshot", b"change"
"""Kinds of events: a whole one, and what is different in the next."""

_FIRST_BACKOFF_SECONDS = 0.2
_LAST_BACKOFF_SECONDS = 5.0
_LAST_BLIND_BACKOFF_SECONDS = 0.5
"""Without any snapshot a gateway can serve nobody, and every second of it is an outage."""
# The control plane sends a comment every 10 s; after three missing ones it is gone.
_SILENCE_SECONDS = 30.0
_CALL_SECONDS = 5.0
_MAX_REFUSAL_CHARACTERS = 500
_MAX_LINE_BYTES = 64 * 2**20
"""A snapshot is one line."""


class TakesSnapshots(Protocol):
    """Who enforces what comes."""

    def enforce(self, data: bytes) -> None:
        """Take a snapshot over whole, or raise SnapshotError and change nothing."""
        ...

    def enforce_change(self, data: bytes) -> None:
        """The same of a change; OutOfStepError: it needs a whole one instead."""
        ...

    def document(self) -> bytes:
        """The last one that was taken over, whole."""
        ...


_log = structlog.get_logger(__name__)


class ControlLink:
    """Talks to one control plane for the gateway called `name`.

    Without a `base_url` there is none to talk to, and nothing here is called. `has_snapshot` says
    whether there is anything to enforce meanwhile: without, it asks more often.
    """

    def __init__(
        self,
        base_url: str | None,
        name: str,
        state_dir: Path,
        taker: TakesSnapshots,
        key: str | None = None,
        has_snapshot: Callable[[], bool] = lambda: True,
    ) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._http = httpx.AsyncClient(
            base_url=base_url or "", timeout=_CALL_SECONDS, headers=headers
        )
        self._path = f"/api/v1/gateways/{name}"
        self._snapshot_path = state_dir / SNAPSHOT_FILE
        self._taker = taker
        self._has_snapshot = has_snapshot
        self._refusal: str | None = None
        self._is_away = False
        self._came_back = asyncio.Event()
        self.num_reports_refused = 0
        """Reports that were answered with an error."""

    async def watch_snapshots(self) -> None:
        """Follow the snapshot stream for ever, reconnecting with a growing pause."""
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            try:
                async for kind, data in self._snapshots():
                    backoff = _FIRST_BACKOFF_SECONDS
                    await self._take(kind, data)
                why = "the stream ended"
            except (httpx.HTTPError, LineTooLongError, OutOfStepError) as error:
                why = f"{type(error).__name__}: {error}"
            _log.info("snapshot stream lost", why=why, retry_seconds=backoff)
            await self._pause(backoff)
            backoff = next_backoff(backoff, self._has_snapshot())

    async def _pause(self, seconds: float) -> None:
        """At most so long: a report that is taken again ends it. Who took over must not have to
        wait for what this gateway enforces until its own patience ends."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._came_back.wait(), seconds)
        self._came_back.clear()

    async def report_forever(self, report: Callable[[], GatewayReport], seconds: float) -> None:
        """Send a report every so often; what is missed is not made up for."""
        while True:
            await self._report(msgspec.json.encode(report()))
            await asyncio.sleep(seconds)

    async def _report(self, body: bytes) -> None:
        try:
            answer = await self._http.put(self._path, content=body)
        except httpx.HTTPError:
            self._is_away = True
            return  # it is away, and counts reports' age itself: a lost one needs no other word
        if self._is_away:
            self._is_away = False
            self._came_back.set()
        refusal = None
        if answer.is_error:
            self.num_reports_refused += 1
            refusal = f"{answer.status_code}: {answer.text[:_MAX_REFUSAL_CHARACTERS]}"
        if refusal != self._refusal:  # said once: every report would say it again
            if refusal is None:
                _log.info("reports are taken again")
            else:
                _log.error("report refused", answer=refusal)
        self._refusal = refusal

    async def send_records(self, body: bytes) -> None:
        """Deliver one batch of records, for the spool. Raises httpx.HTTPError when it was not
        stored, which the spool sorts out."""
        response = await self._http.post(
            "/api/v1/records", content=body, headers={"content-type": "application/json"}
        )
        response.raise_for_status()

    async def close(self) -> None:
        """Give the connections up."""
        await self._http.aclose()

    async def _take(self, kind: bytes, data: bytes) -> None:
        """Raises OutOfStepError: the next stream begins with a whole one."""
        try:
            if kind == CHANGE:
                self._taker.enforce_change(data)
            else:
                self._taker.enforce(data)
        except OutOfStepError:
            raise
        except SnapshotError as error:
            _log.error("snapshot refused", error=str(error))
            return
        document = self._taker.document() if kind == CHANGE else data
        try:
            await asyncio.to_thread(replace_file, self._snapshot_path, document, is_private=True)
        except OSError as error:  # it is enforced all the same, and the next one must be heard of
            _log.error("the snapshot could not be kept", error=str(error))

    async def _snapshots(self) -> AsyncIterator[tuple[bytes, bytes]]:
        timeout = httpx.Timeout(_CALL_SECONDS, read=_SILENCE_SECONDS)
        path = f"{self._path}/snapshots"
        stream = self._http.stream("GET", path, params={"changes": "true"}, timeout=timeout)
        async with stream as response:
            response.raise_for_status()
            async for event in read_events(read_lines(response.aiter_bytes(), _MAX_LINE_BYTES)):
                yield event


def next_backoff(seconds: float, has_snapshot: bool) -> float:
    """How long to wait for the control plane after a wait of `seconds` was in vain."""
    return min(2 * seconds, _LAST_BACKOFF_SECONDS if has_snapshot else _LAST_BLIND_BACKOFF_SECONDS)


async def read_events(lines: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
    """Kind and data of every `snapshot` and `change` event of a server-sent event stream."""
    kind, data = b"message", list[bytes]()
    async for line in lines:
        if not line:
            if kind in (SNAPSHOT, CHANGE) and data:
                yield kind, b"\n".join(data)
            kind, data = b"message", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            kind = value
        elif name == b"data":
            data.append(value)


def load_snapshot(state_dir: Path, enforce: Callable[[bytes], None]) -> None:
    """Enforce the snapshot kept on disk, if there is one that can be."""
    path = state_dir / SNAPSHOT_FILE
    if not path.exists():
        return
    try:
        enforce(path.read_bytes())
    except SnapshotError as error:
        _log.error("the snapshot on disk is refused", path=str(path), error=str(error))
