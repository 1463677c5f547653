"""One gateway process: what it enforces, what it has in flight, and who reads its records.

It is made with everything it needs and does nothing by itself; app.py starts and ends the
parts around it.
"""

import asyncio
import contextlib
import itertools
import secrets
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from dataplane.admission.overrides import effect_of, ended_by, ends_of, in_force
from dataplane.admission.shadow import ShadowAdmissions
from dataplane.clock import MonotonicClock, WallClock
from dataplane.enforced_snapshot import EnforcedSnapshot, compile_snapshot
from dataplane.gateway.body_budget import BodyBudget
from dataplane.gateway.exchange import Exchange
from dataplane.gateway.fleet import Fleet
from dataplane.gateway.inflight import InFlightJournal
from dataplane.gateway.outlasting import outlast
from dataplane.gateway.prompts import PromptCounter
from dataplane.gateway.recorder import TakeRecord, build_entry, build_record
from dataplane.gateway.registry import InFlightRequest, Registry
from dataplane.gateway.settings import GatewaySettings
from dataplane.lifecycle import Delivery, Disposition, EventKind, Lifecycle, State
from dataplane.plugins import PluginError
from dataplane.policy import (
    EMPTY_SNAPSHOT,
    Snapshot,
    SnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from dataplane.record import RequestRecord
from dataplane.snapshot_change import OutOfStepError, apply_change, decode_change
from dataplane.telemetry import start_trace

Cancel = Callable[[Disposition, str], None]
_MAX_EVENTS_ON_LOOP = 2048

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Gateway:
    """Shared by all requests; one event loop owns it."""

    settings: GatewaySettings
    gateway_id: str
    clock: MonotonicClock
    wall_clock: WallClock
    fleet: Fleet
    prompts: PromptCounter
    journal: InFlightJournal
    bodies: BodyBudget
    takers: tuple[TakeRecord, ...] = ()
    """Who is handed each record, in order."""
    registry: Registry = field(default_factory=Registry)
    shadows: ShadowAdmissions = field(init=False)
    enforced: EnforcedSnapshot = field(default_factory=lambda: compile_snapshot(EMPTY_SNAPSHOT))
    snapshot_error: str | None = None
    is_draining: bool = False
    """It admits nothing more."""
    is_leaving: bool = False
    """Another process takes the connections; what still comes on those it has is served."""
    probe_key: str = field(default_factory=secrets.token_urlsafe)
    """Proves a request to be a probe of whoever started this process; see status.py."""
    num_unauthenticated_by_code: Counter[str] = field(default_factory=Counter)
    """Calls without a valid key. They are no requests: a flood of them must cost a tenant's
    requests neither their place in the journal nor that in the spool."""
    _received: Snapshot = EMPTY_SNAPSHOT
    """As it came, with what its overrides hide."""
    _override_ends: Mapping[str, float] = field(default_factory=dict)
    _sequence: Iterator[int] = field(default_factory=itertools.count)
    _cancels: set[Cancel] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.shadows = ShadowAdmissions(self.clock)

    @property
    def has_snapshot(self) -> bool:
        """False: it knows no deployment, tenant or key yet, and can refuse nobody for good."""
        return self.enforced.snapshot is not EMPTY_SNAPSHOT

    def enforce(self, data: bytes) -> None:
        """Check a snapshot whole, then let it replace the last one.

        Raises SnapshotError, keeps the last one and remembers why.
        """
        self._enforce(lambda: decode_snapshot(data))

    def enforce_change(self, data: bytes) -> None:
        """The same with what a change makes of the last one. Raises OutOfStepError, and remembers
        nothing, where it does not start from that one."""
        self._enforce(lambda: apply_change(self._received, decode_change(data)))

    def document(self) -> bytes:
        """The last snapshot as it came, whole."""
        return encode_snapshot(self._received)

    def _enforce(self, receive: Callable[[], Snapshot]) -> None:
        try:
            received = receive()
            ends = ends_of(received.overrides, self._override_ends, self.clock(), self.wall_clock())
            if ends:
                compile_snapshot(received)  # what overrides hide must work once they end
            active = in_force(received, ended_by(ends, self.clock()))
            enforced = compile_snapshot(active, self.enforced)
            self.fleet.load_engines(enforced.snapshot)
        except PluginError as error:
            self.snapshot_error = f"snapshot refused: {error}"
            raise SnapshotError(self.snapshot_error) from error
        except OutOfStepError:
            raise
        except SnapshotError as error:
            self.snapshot_error = str(error)
            raise
        self.snapshot_error = None
        self._received, self._override_ends = received, ends
        lanes = enforced.snapshot.lanes
        self.prompts.preload(d.tokenizer_artifact for d in lanes if d.tokenizer_artifact)
        self._switch(enforced)
        _log.info("snapshot enforced", version=enforced.snapshot.version)

    def end_overrides(self) -> None:
        """Enforce nothing more of the overrides whose time is over, whoever is away meanwhile."""
        ended = ended_by(self._override_ends, self.clock())
        over = [o for o in self.enforced.snapshot.overrides if o.override_id in ended]
        if over:
            enforced = compile_snapshot(in_force(self._received, ended))
            self.fleet.load_engines(enforced.snapshot)  # the same engines, perhaps other routing
            self._switch(enforced)
        for each in over:
            _log.warning(
                "override ended at its time", override_id=each.override_id, effect=effect_of(each)
            )

    def _switch(self, enforced: EnforcedSnapshot) -> None:
        self.enforced = enforced
        self.fleet.enforce(enforced)
        self.shadows.keep(enforced.snapshot)

    def open(self, exchange: Exchange) -> InFlightRequest:
        """A request arrived."""
        request = InFlightRequest(
            lifecycle=Lifecycle(
                request_id=exchange.request_id,
                arrived_at_unix_ns=exchange.arrival.at_unix_ns,
            ),
            trace=start_trace(
                exchange.headers.get("traceparent"), exchange.headers.get("tracestate")
            ),
            endpoint=exchange.path,
            arrival=exchange.arrival,
            snapshot_version=self.enforced.snapshot.version,
            enforced_at_arrival=self.enforced.snapshot,
            gateway_sequence=next(self._sequence),
            clock=self.clock,
        )
        request.on_progress = self._keep_progress
        request.apply(EventKind.ARRIVED, 0.0)
        self.registry.open(request)
        self.journal.open(build_entry(request, self.gateway_id))
        return request

    def _keep_progress(self, request: InFlightRequest) -> None:
        self.journal.update(build_entry(request, self.gateway_id))

    async def close(self, request: InFlightRequest, exchange: Exchange) -> None:
        """Nothing more is expected of it: write its record."""
        request.status = exchange.status
        _end_by_force(request)
        try:
            record = await self._build_record(request)
            for take in self.takers:
                take(record)
        finally:
            # Were it not for its record, it would be counted as in flight for ever.
            self.registry.close(request)
        self.journal.close(request.request_id)
        _log.info(
            "request ended",
            status=record.status_code,
            disposition=record.disposition,
            reason=record.reason,
            delivery=record.delivery,
            num_output_tokens=record.num_output_tokens,
        )

    async def _build_record(self, request: InFlightRequest) -> RequestRecord:
        """Beside the event loop where there is much to go through."""
        if len(request.lifecycle.events) <= _MAX_EVENTS_ON_LOOP:
            return build_record(request, self.gateway_id)
        return await outlast(asyncio.to_thread(build_record, request, self.gateway_id))

    @contextlib.contextmanager
    def ending_with(self, cancel: Cancel) -> Iterator[None]:
        """While inside, `end_all` ends this request through `cancel`."""
        self._cancels.add(cancel)
        try:
            yield
        finally:
            self._cancels.discard(cancel)

    def is_probe(self, key: str) -> bool:
        """The request that carries `key` is no tenant's."""
        return secrets.compare_digest(key.encode(), self.probe_key.encode())

    async def drain(self, timeout_seconds: float) -> None:
        """Admit nothing more, let what runs finish within the bound, then end the rest."""
        self.is_draining = True
        _log.info("draining", num_requests=len(self.registry))
        if not await self._wait_until_empty(timeout_seconds):
            for cancel in list(self._cancels):
                cancel(Disposition.ERROR, "the gateway is shutting down")
            await self._wait_until_empty(self.settings.release_seconds)

    async def _wait_until_empty(self, timeout_seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.registry.empty.wait(), timeout_seconds)
        except TimeoutError:
            return False
        return True


def create_gateway_id(name: str) -> str:
    """A name for one process that is never used again."""
    return f"{name}-{uuid.uuid4().hex[:12]}"


def _end_by_force(request: InFlightRequest) -> None:
    """A request whose flow failed still ends, exactly once, as the service's failure."""
    lifecycle = request.lifecycle
    if not lifecycle.is_terminal:
        if request.state in (State.ARRIVED, State.RECEIVED):
            request.apply(EventKind.INVALID, reason="the gateway failed")
        else:
            request.apply(
                EventKind.FINISHED, disposition=Disposition.ERROR, reason="the gateway failed"
            )
    if not lifecycle.is_delivered:
        delivery = Delivery.PARTIAL if request.has_written else Delivery.NONE
        request.apply(EventKind.LAST_WRITE, delivery=delivery)
