"""What the control plane answers, as far as the command line reads it.

An answer of another shape is not taken apart: see `client.convert_answer`.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The exact revisions a deployment stands for, each as `name@number`."""

    model: str
    engine_config: str
    policy: str
    contract: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentAnswer:
    """Where a deployment stands."""

    desired: Desired
    replicas: int
    launcher: str
    generation: int
    observed_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionAnswer:
    """One revision of one document."""

    kind: str
    name: str
    number: int
    revision: str
    digest: str
    author: str
    reason: str
    created_at_unix_ns: int
    document: dict[str, Any]
    deployment: DeploymentAnswer | None = None

    @property
    def spec(self) -> dict[str, Any]:
        """What the document says; {} where a stranger sent none."""
        spec = self.document.get("spec")
        return spec if isinstance(spec, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAnswer:
    """What was desired of a deployment from `at_unix_ns` on."""

    generation: int
    revision: str
    desired: Desired
    author: str
    reason: str
    at_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLookAnswer:
    """What was last seen of the metrics page of one that is only observed."""

    page: str | None
    page_at_unix_ns: int | None
    num_running: int | None
    num_waiting: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAnswer:
    """One replica as the operator last saw it."""

    replica_id: str
    deployment: str
    engine: str
    model_revision: str
    state: str
    reason: str
    stage: str | None
    pid: int | None
    address: str | None
    metrics_address: str | None
    start_stages: dict[str, float]
    probed_at_unix_ns: int | None
    observed_at_unix_ns: int
    look: PageLookAnswer | None = None
    """Of one that is only observed."""
    fencing_token: int = 0
    unobservable_stages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionAnswer:
    """One change of state of one replica."""

    replica_id: str
    deployment: str
    state: str
    reason: str
    at_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayProcessAnswer:
    """A process that should not be."""

    pid: int | None
    replica_id: str
    fencing_token: int
    command: str
    ports: list[int]
    resident_bytes: int | None
    device_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayAnswer:
    """One of them, as it was judged."""

    kind: str
    process: StrayProcessAnswer
    why: str
    found_at_unix_ns: int
    seen_at_unix_ns: int
    error: str | None
    ended_at_unix_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasAnswer:
    """Replicas that have not ended, and what happened to all of them, newest first."""

    as_of_unix_ns: int
    replicas: list[ReplicaAnswer]
    history: list[TransitionAnswer]
    strays: list[StrayAnswer] = field(default_factory=list)
    strays_unseen: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedAnswer:
    """One document after it was applied."""

    kind: str
    revision: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemAnswer:
    """One problem or warning; its fields are those of specs.problem.Problem."""

    file: str
    line: int
    column: int
    key: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyAnswer:
    """What was applied."""

    applied: list[AppliedAnswer]
    warnings: list[ProblemAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalAnswer:
    """Why nothing was applied."""

    problems: list[ProblemAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsAnswer:
    """A gateway's requests by state."""

    arrived: int
    invalid: int
    undecided: int
    rejected: int
    admitted: int
    active: int
    finished: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReplicaAnswer:
    """One replica as a gateway sees it."""

    replica_id: str
    is_connected: bool
    num_outstanding: int
    error: str | None = None
    held_back: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAnswer:
    """The last report of one gateway, and its age."""

    gateway_id: str
    name: str
    address: str
    started_at_unix_ns: int
    reported_at_unix_ns: int
    snapshot_version: int
    snapshot_error: str | None
    counts: CountsAnswer
    num_queued: int
    oldest_queued_seconds: float | None
    num_records_spooled: int
    num_records_lost: int
    replicas: list[GatewayReplicaAnswer]
    age_seconds: float
    is_draining: bool = False
    refused_because: str | None = None
    """Why its calls are refused now; None: they are not, or it does not call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedGatewayAnswer:
    """A gateway that calls and is refused for its key."""

    name: str
    why: str
    age_seconds: float
    """Of its last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaysAnswer:
    """Every gateway that ever reported, and those that are refused."""

    gateways: list[GatewayAnswer]
    refused: list[RefusedGatewayAnswer] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEventAnswer:
    """What became of a gateway or a control plane."""

    at_unix_ns: int
    name: str
    role: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHistoryAnswer:
    """Newest first."""

    history: list[ProcessEventAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAnswer:
    """One key, without its secret."""

    key_id: str
    name: str
    role: str
    tenant: str | None
    created_by: str
    created_at_unix_ns: int
    expires_at_unix_ns: int | None
    revoked_at_unix_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysAnswer:
    """Every key that was ever made."""

    keys: list[KeyAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKeyAnswer:
    """A key that was made; it is told this once."""

    key_id: str
    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAnswer:
    """One person."""

    name: str
    role: str
    tenant: str | None
    is_disabled: bool
    created_by: str
    created_at_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersAnswer:
    """Everybody."""

    users: list[UserAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEventAnswer:
    """One change."""

    id: int
    at_unix_ns: int
    actor: str
    action: str
    subject: str
    reason: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAnswer:
    """Changes, the newest first."""

    events: list[AuditEventAnswer]
    next: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAnswer:
    """Whether a deployment gets no replicas now, and why."""

    name: str
    hold: str | None
    retry_at_unix_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldsAnswer:
    """Of every deployment."""

    deployments: list[HeldAnswer]
