"""The gateway as an ASGI application: its parts are made, started and ended here, in order.

`create_app` makes everything and starts nothing. The lifespan starts from the inside out,
so that the first request finds all it needs, and ends in reverse: engines, then records,
then the tie to the control plane, over which the last records leave.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import structlog
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from dataplane.clock import monotonic_clock, wall_clock
from dataplane.gateway.body_budget import BodyBudget
from dataplane.gateway.catching_up import catch_up
from dataplane.gateway.control_link import ControlLink, load_snapshot
from dataplane.gateway.endpoints import Endpoints
from dataplane.gateway.fleet import Fleet
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.handover import Grant
from dataplane.gateway.holdings import read_held, read_remembered
from dataplane.gateway.inflight import InFlightJournal, lost_record, recover
from dataplane.gateway.metrics import GatewayMetrics
from dataplane.gateway.prompts import PromptCounter
from dataplane.gateway.settings import GatewaySettings
from dataplane.gateway.spool import RecordSpool
from dataplane.report import GatewayReport, OverrideReport
from dataplane.telemetry import SpanExporter

_FLUSH_SECONDS = 10.0
_LOOK_SECONDS = 5.0
_OVERRIDE_SECONDS = 0.25
"""How often it is looked whether an override's time is over."""
_SERVICE = "pilothouse-gateway"
_JOURNALS = "inflight"

_log = structlog.get_logger(__name__)


class GatewayApp:
    """The ASGI application of one gateway process."""

    def __init__(
        self, settings: GatewaySettings, gateway_id: str, takes_over: Grant | None = None
    ) -> None:
        """`takes_over`: what the process whose place this one takes has reached."""
        self.address = ""
        """Base URL, told by the server once it listens; reports carry it."""
        self.start_error: BaseException | None = None
        """Why the lifespan did not start."""
        self._takes_over = takes_over
        self._settings = settings
        self._gateway_id = gateway_id
        self._started_at_unix_ns = wall_clock()
        self._running: tuple[Gateway, RecordSpool, Endpoints] | None = None
        self._link: ControlLink | None = None
        self._router = Router(
            default=self._answer, lifespan=lambda _: self._lifespan(), redirect_slashes=False
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)

    @property
    def gateway(self) -> Gateway:
        """Only while the lifespan runs."""
        return self._parts[0]

    async def drain(self, timeout_seconds: float | None = None) -> None:
        """As `Gateway.drain`, by default as long as the settings say; what has not started yet
        has nothing to drain."""
        if self._running is not None:
            limit = self._settings.drain_seconds if timeout_seconds is None else timeout_seconds
            await self.gateway.drain(limit)

    def leave(self) -> None:
        """Another process takes the connections from now on; this one serves those it has."""
        self.gateway.is_leaving = True

    def grant(self) -> Grant:
        """What a successor must have reached before it can serve."""
        gateway = self.gateway
        return Grant(
            gateway_id=self._gateway_id,
            pid=os.getpid(),
            snapshot_version=gateway.enforced.snapshot.version,
            replica_ids=tuple(sorted(gateway.fleet.connected())),
            num_held_by_replica=gateway.fleet.held(),
        )

    async def look_after_the_dead(self) -> None:
        """Deliver what gateways that died left behind, and record what they lost."""
        _, spool, _ = self._parts
        if not self.gateway.is_leaving:  # then the successor does
            await spool.adopt_abandoned()
            _record_lost(self._settings.state_dir, spool)

    def report(self) -> GatewayReport:
        """One dated snapshot of this process."""
        gateway, spool, _ = self._parts
        queues = list(gateway.fleet.queues())
        oldest = [at for queue in queues if (at := queue.oldest_entered_at()) is not None]
        return GatewayReport(
            gateway_id=gateway.gateway_id,
            name=self._settings.name,
            address=self.address,
            started_at_unix_ns=self._started_at_unix_ns,
            reported_at_unix_ns=wall_clock(),
            snapshot_version=gateway.enforced.snapshot.version,
            snapshot_error=gateway.snapshot_error,
            counts=gateway.registry.counts(),
            num_queued=sum(queue.num_waiting for queue in queues),
            oldest_queued_seconds=monotonic_clock() - min(oldest) if oldest else None,
            num_records_spooled=spool.num_spooled,
            num_records_lost=spool.num_lost,
            replicas=gateway.fleet.reports(),
            is_draining=gateway.is_draining or gateway.is_leaving,
            num_queued_by_deployment=gateway.fleet.num_queued_by_deployment(),
            num_records_refused=spool.num_refused,
            num_journal_unwritten=gateway.journal.num_unwritten,
            num_reports_refused=self._link.num_reports_refused if self._link else None,
            num_unauthenticated_by_code=dict(gateway.num_unauthenticated_by_code),
            overrides=tuple(
                OverrideReport(
                    override_id=each.override_id, deployment=each.deployment, kind=each.kind
                )
                for each in gateway.enforced.snapshot.overrides
            ),
            held=read_held(gateway),
            remembered=read_remembered(gateway),
        )

    @property
    def _parts(self) -> tuple[Gateway, RecordSpool, Endpoints]:
        if self._running is None:
            raise RuntimeError("the gateway has parts only while its lifespan runs")
        return self._running

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._parts[2](scope, receive, send)

    @contextlib.asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        try:
            async with self._all_parts():
                yield
        except BaseException as error:
            self.start_error = error
            raise

    @contextlib.asynccontextmanager
    async def _all_parts(self) -> AsyncIterator[None]:
        settings = self._settings
        settings.state_dir.mkdir(parents=True, exist_ok=True)
        async with contextlib.AsyncExitStack() as stack:
            journal = InFlightJournal(settings.state_dir / _JOURNALS, self._gateway_id)
            stack.callback(journal.shut)
            gateway = self._create_gateway(journal)
            key = settings.control_plane_key
            self._link = link = ControlLink(
                settings.control_plane,
                settings.name,
                settings.state_dir,
                gateway,
                key.get_secret_value() if key else None,
                lambda: gateway.has_snapshot,
            )
            stack.push_async_callback(link.close)
            exporter = SpanExporter.from_env(_SERVICE, self._gateway_id)
            stack.push_async_callback(exporter.close, _FLUSH_SECONDS)
            spool = RecordSpool(
                settings.state_dir / "spool",
                self._gateway_id,
                link.send_records if settings.control_plane is not None else None,
                settings.max_spool_bytes,
            )
            stack.callback(spool.close)
            _record_lost(settings.state_dir, spool)
            await stack.enter_async_context(_beside(spool.run(), "records"))
            stack.push_async_callback(_flush, spool)
            stack.callback(gateway.prompts.close)
            stack.push_async_callback(gateway.fleet.close)
            gateway.fleet.start()
            load_snapshot(settings.state_dir, gateway.enforce)
            metrics = GatewayMetrics(
                self.report, lambda: exporter.num_dropped, lambda: gateway.enforced.snapshot
            )
            gateway.takers = (spool.put, metrics.observe, exporter.export)
            self._running = (gateway, spool, Endpoints(gateway, metrics.render))
            if settings.control_plane is not None:
                await stack.enter_async_context(_beside(link.watch_snapshots(), "snapshots"))
                reports = link.report_forever(self.report, settings.report_seconds)
                await stack.enter_async_context(_beside(reports, "reports"))
            await stack.enter_async_context(_beside(self._watch_for_the_dead(), "the dead"))
            await stack.enter_async_context(_beside(self._end_overrides(), "overrides"))
            if self._takes_over is not None:
                gateway.fleet.set_held_elsewhere(self._takes_over.num_held_by_replica)
                await catch_up(gateway, self._takes_over)
            yield

    async def _watch_for_the_dead(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look_after_the_dead()

    async def _end_overrides(self) -> None:
        while True:
            await asyncio.sleep(_OVERRIDE_SECONDS)
            self.gateway.end_overrides()

    def _create_gateway(self, journal: InFlightJournal) -> Gateway:
        settings = self._settings
        return Gateway(
            settings=settings,
            gateway_id=self._gateway_id,
            clock=monotonic_clock,
            wall_clock=wall_clock,
            fleet=Fleet(
                clock=monotonic_clock,
                unserved_seconds=settings.unserved_seconds,
                surplus_slots=settings.surplus_slots,
                drain_seconds=settings.drain_seconds,
            ),
            prompts=PromptCounter(),
            journal=journal,
            bodies=BodyBudget(settings.max_bodies_bytes),
        )


def create_app(
    settings: GatewaySettings, gateway_id: str, takes_over: Grant | None = None
) -> GatewayApp:
    """The application; nothing runs before its lifespan."""
    return GatewayApp(settings, gateway_id, takes_over)


def _record_lost(state_dir: Path, spool: RecordSpool) -> None:
    """What predecessors had in flight when they died ends here, as lost."""
    abandoned = recover(state_dir / _JOURNALS, spool.can_speak_for)
    for entry in abandoned.entries:
        spool.put(lost_record(entry))
    abandoned.forget()
    if abandoned.entries:
        _log.warning("requests were lost with a predecessor", num_requests=len(abandoned.entries))


async def _flush(spool: RecordSpool) -> None:
    if not await spool.flush(_FLUSH_SECONDS) and spool.num_spooled:
        _log.warning("records stay in the spool", num_records=spool.num_spooled)


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run `work` beside the block; a bug that ends it is told, and harms nothing else."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_note_end)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def _note_end(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("background work failed", work=task.get_name(), exc_info=error)
