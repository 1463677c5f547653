"""What a gateway tells the control plane about itself, every second or two."""

from collections.abc import Mapping
from dataclasses import dataclass

from dataplane.engine import EngineStats
from dataplane.lifecycle import RequestCounts
from dataplane.policy import OverrideKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """One replica as a gateway sees it."""

    replica_id: str
    is_connected: bool
    num_outstanding: int
    """Requests of this gateway that the replica has and has not finished."""
    error: str | None = None
    """Why it is not connected."""
    stats: EngineStats | None = None
    held_back: str | None = None
    """Why it is sent nothing, or less than the others, though it is connected."""
    not_believed: str | None = None
    """Why what it last told of itself cannot be, and is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideReport:
    """One break-glass override that a gateway enforces."""

    override_id: str
    deployment: str
    kind: OverrideKind


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReport:
    """One dated snapshot of one gateway process."""

    gateway_id: str
    """Of this process; never reused."""
    name: str
    """Of the place, such as gateway-0; survives restarts."""
    address: str
    """Base URL."""
    started_at_unix_ns: int
    reported_at_unix_ns: int
    snapshot_version: int
    """What it enforces."""
    snapshot_error: str | None
    """Why a newer snapshot was refused."""
    counts: RequestCounts
    num_queued: int
    oldest_queued_seconds: float | None
    num_records_spooled: int
    num_records_lost: int
    replicas: tuple[ReplicaReport, ...]
    is_draining: bool = False
    """It takes no more connections, and ends once what it has in flight has ended."""
    num_queued_by_deployment: Mapping[str, int] | None = None
    """None: this gateway is of a version that does not say. So for those below."""
    num_records_refused: int | None = None
    """Records the control plane would never take; they count as lost too."""
    num_journal_unwritten: int | None = None
    """Changes of requests in flight that a crash would forget."""
    num_reports_refused: int | None = None
    """Reports the control plane answered with an error."""
    num_unauthenticated_by_code: Mapping[str, int] | None = None
    """Calls without a valid key, by the code they were answered with. They are counted here
    alone: none of them is a request that arrived."""
    overrides: tuple[OverrideReport, ...] | None = None
    """Those it enforces now."""
    held: Mapping[str, int] | None = None
    """What requests in flight hold, by kind; all 0 where there are none."""
    remembered: Mapping[str, int] | None = None
    """Entries that outlive requests, by kind; each kind is bounded."""
