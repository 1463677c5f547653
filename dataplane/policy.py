"""The snapshot: everything a gateway enforces, as one versioned document.

The control plane builds it, the gateway checks it whole before it replaces the last
one and keeps it on disk, so that a gateway serves on with the control plane away.
Every admission decision cites `Snapshot.version` and the revisions in it.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from dataplane.access import AccessKey
from dataplane.arm import Arm
from dataplane.contract_terms import ContractTerms
from dataplane.slow_client_terms import SlowClientTerms

DEFAULT_LIMITS = "default"
"""In `AdmissionPolicyTerms.tenants`: the limits of each tenant that is not named there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPolicy:
    """One tenant as the gateway knows it."""

    name: str
    tier: str = "standard"
    records_content: bool = False
    """The tenant opted in to prompts and outputs being stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPolicy:
    """One request class: who belongs to it and how long it may wait."""

    name: str
    match: str | None = None
    """CEL over `tenant` and `request`; None matches everything."""
    priority: int = 0
    """Higher goes first."""
    max_queue: int = 512
    """Requests of this class that may wait."""
    deadline_seconds: float | None = None
    """Longest wait for engine work; None: no limit."""
    first_token_seconds: float | None = None
    """Longest wait for the first token: for engine work, what is left of it when the prompt's
    computing is taken off, as it was measured; None: no limit."""
    aging_per_second: float = 0.0
    """Priority gained by each second of waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Bounds of everybody who waits for one deployment; None: no bound."""

    max_requests: int | None = None
    max_tokens: int | None = None
    """Prompt tokens and those that may be generated, together."""
    max_bytes: int | None = None
    """Of the bodies of requests."""
    max_age_seconds: float | None = None
    """While somebody has waited for longer, nobody else may wait."""


class KVReserve(StrEnum):
    """What is set aside when a request starts."""

    NONE = "none"
    EXPECTED = "expected"
    """A quantile of what such requests generated."""
    FULL = "full"
    """All it may generate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KVLimits:
    """How much KV cache is set aside for what a request may still generate."""

    reserve: KVReserve = KVReserve.EXPECTED
    quantile: float = 0.9
    """Of the lengths that requests of its class generated."""
    watermark: float = 0.05
    """Share of a replica's blocks that is given to nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """One tenant's share and bounds; None: no bound."""

    weight: float = 1.0
    """Its share of tokens where several tenants wait."""
    tokens_per_minute: int | None = None
    """Prompt and output tokens together."""
    max_concurrent: int | None = None
    """Its requests that wait or run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradeTerms:
    """What an answer is made of while others wait for too long."""

    queue_age_seconds: float
    """Degraded while the oldest that waits has waited for longer."""
    includes_bound: bool = False
    """For as long already is enough."""
    max_tokens: int | None = None
    """How long answers may then be; None: as long as ever."""
    fallback: str | None = None
    """The deployment that then answers, where it has room; None: no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadTerms:
    """What gives way first when there is too much."""

    shed: tuple[str, ...] = ()
    """Classes, first to go first."""
    degrade: DegradeTerms | None = None
    retry_budget: float | None = None
    """Tries of what was tried before, for each that comes for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingTerms:
    """Which replica takes a request."""

    policy: str = "two_choices"
    """Of the routing policies that the gateway has installed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """That policy's own."""
    affinity_header: str | None = None
    """Requests with the same value of this header go to the same replica; in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicyTerms:
    """One revision of an admission policy, as far as the gateway enforces it."""

    revision: str
    classes: tuple[ClassPolicy, ...]
    """In matching order: the first whose `match` holds takes the request."""
    max_active_per_replica: int | None = None
    tpot_seconds: float | None = None
    """Replicas are given no more at once than nearly all answers come at this pace, in seconds for
    a token, as it was measured; None: whatever the pace."""
    max_prompt_tokens_in_flight: int | None = None
    """Of all requests that are admitted and not released; None: no bound."""
    queue: QueueLimits = QueueLimits()
    kv: KVLimits | None = None
    """None: nothing is set aside, engines bound their own KV cache."""
    tenants: dict[str, TenantLimits] = field(default_factory=dict)
    """By name; `DEFAULT_LIMITS` is of each that is not named."""
    overload: OverloadTerms | None = None
    routing: RoutingTerms = field(default_factory=RoutingTerms)
    slow_clients: SlowClientTerms = field(default_factory=SlowClientTerms)

    def limits_of(self, tenant: str) -> TenantLimits:
        """The limits of one tenant, by its name."""
        found = self.tenants.get(tenant) or self.tenants.get(DEFAULT_LIMITS)
        return _NO_LIMITS if found is None else found


_NO_LIMITS = TenantLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractPolicy:
    """One revision of an SLO contract."""

    revision: str
    terms_by_class: dict[str, ContractTerms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEndpoint:
    """One replica that may be sent traffic."""

    replica_id: str
    engine: str
    address: str
    """host:port for engines of ours, the base URL for an attached endpoint."""
    settings: dict[str, str | int | float | bool | list[str] | None] = field(default_factory=dict)
    """The engine config's settings that its client needs."""
    fencing_token: int = 0
    """What the replica itself must show, where its engine is ours; 0: it was started before there
    were tokens."""
    model_revision: str = ""
    """What it runs, as `name@number`, as the next one. While replicas are replaced, those of one
    deployment differ. "": it is not told, and its deployment's is what it runs."""
    engine_config_revision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPolicy:
    """One deployment as the gateway serves it."""

    name: str
    model_name: str
    """What clients put into `model`."""
    model_revision: str
    engine_config_revision: str
    tokenizer_artifact: str | None
    """Path of the file that holds tokenizer and chat template; None: counts are inferred."""
    max_model_len: int | None
    policy: AdmissionPolicyTerms
    contract: ContractPolicy | None
    replicas: tuple[ReplicaEndpoint, ...]
    created_at_unix: int = 0
    """For /v1/models: when the model revision was made."""
    pinned_replicas: tuple[str, ...] | None = None
    """New requests go to these alone; None: to all. A gateway sets it while an override says so."""
    is_observed_only: bool = False
    """It is served elsewhere: gateways are given none of its replicas, and refuse requests."""
    arm: Arm = Arm.STABLE
    """Of its rollout, where one is under way."""
    has_own_lane: bool = False
    """Of a candidate: its requests have a queue of their own, before replicas of their own."""

    @property
    def lane(self) -> str:
        """Which queue its requests wait in: its deployment's, or the candidate's beside it."""
        return f"{self.name} ({self.arm})" if self.has_own_lane else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutTerms:
    """A share of one deployment's requests is served in another way, to see how it goes."""

    number: int
    """Of the rollout."""
    share: float
    """Of the deployment's requests, 0 to 1: those of the candidate arm."""
    candidate: DeploymentPolicy
    """The deployment, under its name, as that arm has it. Without replicas of its own it is served
    by those of the stable arm."""
    sticky_header: str | None = None
    """Requests of a tenant with the same value of it stay in one arm; in lower case."""
    is_shadow: bool = False
    """The candidate's policy decides beside the one that is enforced, and enforces nothing."""

    @property
    def deployment(self) -> str:
        """Whose rollout it is."""
        return self.candidate.name


class OverrideKind(StrEnum):
    """What an operator may decide over a policy's head."""

    PIN_POLICY = "pin_policy"
    """This revision is enforced, whatever is desired."""
    PIN_REPLICAS = "pin_replicas"
    """New requests go to these replicas alone."""
    BYPASS = "bypass"
    """Nothing is refused, shed, degraded or given up for a limit's sake."""
    FORCE_ARM = "force_arm"
    """All requests are those of one arm of the rollout that is under way."""
    FREEZE = "freeze"
    """No rollout goes forward; gateways have nothing to do for it, and are not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Break-glass: one thing that is enforced in another way for a time, and why."""

    override_id: str
    kind: OverrideKind
    deployment: str
    reason: str
    created_by: str
    created_at_unix_ns: int
    until_unix_ns: int
    """It ends then by itself, on the clock of the gateway that enforces it."""
    policy: AdmissionPolicyTerms | None = None
    """Of a pinned policy."""
    replica_ids: tuple[str, ...] = ()
    """Of pinned replicas."""
    request_class: str | None = None
    """Of a bypass: only this class; None: every class."""
    tenant: str | None = None
    """Of a bypass: only this tenant; None: every tenant."""
    arm: Arm | None = None
    """Of a forced arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a gateway enforces."""

    version: int
    """Grows with every change; 0 is the empty snapshot of a gateway that has seen none."""
    deployments: tuple[DeploymentPolicy, ...] = ()
    tenants: tuple[TenantPolicy, ...] = ()
    keys: tuple[AccessKey, ...] = ()
    """Of clients, and of who may read a gateway's own state."""
    overrides: tuple[Override, ...] = ()
    """Break-glass, of any deployment; see dataplane.admission.overrides for what they do."""
    rollouts: tuple[RolloutTerms, ...] = ()
    """Under way, at most one of each deployment."""

    def find_deployment(self, model: str) -> DeploymentPolicy | None:
        """The deployment that serves `model`: by deployment name, then by model name, and one that
        is only observed where no other is called so."""
        by_name = {deployment.name: deployment for deployment in self.deployments}
        if model in by_name:
            return by_name[model]
        named = [each for each in self.deployments if each.model_name == model]
        return min(named, key=lambda each: each.is_observed_only, default=None)

    def find_named(self, name: str) -> DeploymentPolicy | None:
        """The deployment called `name`, or None."""
        return next((each for each in self.deployments if each.name == name), None)

    def find_rollout(self, deployment: str) -> RolloutTerms | None:
        """That of the deployment called so, or None."""
        return next((each for each in self.rollouts if each.deployment == deployment), None)

    @property
    def lanes(self) -> tuple[DeploymentPolicy, ...]:
        """Whatever has replicas and a queue of its own: deployments, and candidates beside them."""
        candidates = (each.candidate for each in self.rollouts)
        return (*self.deployments, *(each for each in candidates if each.has_own_lane))

    @property
    def arms(self) -> tuple[DeploymentPolicy, ...]:
        """Whatever decides about requests: deployments, and candidates beside them."""
        return (*self.deployments, *(each.candidate for each in self.rollouts))

    def find_tenant(self, name: str) -> TenantPolicy | None:
        """The tenant called `name`, or None."""
        return next((tenant for tenant in self.tenants if tenant.name == name), None)


EMPTY_SNAPSHOT = Snapshot(version=0)


class SnapshotError(ValueError):
    """A snapshot that must not be enforced; says where it is wrong."""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """JSON."""
    return msgspec.json.encode(snapshot)


def decode_snapshot(data: bytes) -> Snapshot:
    """Decode and check a snapshot whole.

    Raises SnapshotError for wrong types and for documents that contradict themselves.
    """
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise SnapshotError(f"snapshot refused: {error}") from error
    check_snapshot(snapshot)
    return snapshot


def check_snapshot(snapshot: Snapshot) -> None:
    """Raises SnapshotError where it contradicts itself."""
    _require_unique("deployment", [d.name for d in snapshot.deployments])
    _require_unique("tenant", [t.name for t in snapshot.tenants])
    _require_unique("key", [k.key_id for k in snapshot.keys])
    _require_unique("override", [o.override_id for o in snapshot.overrides])
    for deployment in snapshot.arms:
        where = f"in deployment {deployment.lane}"
        _require_unique(f"replica {where}", [r.replica_id for r in deployment.replicas])
        _require_unique(f"class {where}", [c.name for c in deployment.policy.classes])
        if not deployment.policy.classes:
            raise SnapshotError(f"snapshot refused: no request class {where}")
    _check_rollouts(snapshot)


def _check_rollouts(snapshot: Snapshot) -> None:
    _require_unique("rollout", [each.deployment for each in snapshot.rollouts])
    deployments = {each.name: each for each in snapshot.deployments}
    for rollout in snapshot.rollouts:
        where = f"rollout {rollout.number} of {rollout.deployment}"
        if rollout.deployment not in deployments:
            raise SnapshotError(f"snapshot refused: {where}, and there is no such deployment")
        if not 0 <= rollout.share <= 1 or rollout.candidate.arm is not Arm.CANDIDATE:
            raise SnapshotError(
                f"snapshot refused: {where} gives a share of {rollout.share:g} to the arm "
                f"{rollout.candidate.arm}"
            )
        if rollout.candidate.replicas and not rollout.candidate.has_own_lane:
            raise SnapshotError(f"snapshot refused: {where} has replicas, and no lane for them")
        both = (*deployments[rollout.deployment].replicas, *rollout.candidate.replicas)
        _require_unique(f"replica in {where}", [each.replica_id for each in both])


def _require_unique(what: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        duplicates = sorted(name for name, number in Counter(names).items() if number > 1)
        raise SnapshotError(f"snapshot refused: {what} named twice: {', '.join(duplicates)}")
