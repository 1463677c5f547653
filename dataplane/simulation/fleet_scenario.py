"""What a simulated fleet is made of: plain data, whoever wrote it down."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataplane.policy import (
    AdmissionPolicyTerms,
    ContractPolicy,
    DeploymentPolicy,
    ReplicaEndpoint,
    Snapshot,
    TenantPolicy,
)
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.gateway_bounds import GatewayBounds
from dataplane.simulation.gateway_overheads import OverheadPlan
from dataplane.simulation.phased_replicas import PhasePlan
from dataplane.simulation.replay import ReplaySpec
from dataplane.simulation.traffic import TrafficSpec

DEFAULT_STARTS_AT_UNIX_NS = 1_767_225_600 * 10**9
"""2026-01-01 00:00 UTC: a fixed date, so that the same scenario gives the same bytes."""
ENGINE = "simulator"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetScenario:
    """One deployment, its replicas, the gateways before it, and who calls."""

    name: str
    seed: int
    duration: float
    """Seconds in which calls arrive. What is in flight then is waited for."""
    replicas: tuple[ReplicaSpec, ...]
    phases: PhasePlan | None = None
    """None: each replica computes prompts and decodes."""
    policy: AdmissionPolicyTerms
    contract: ContractPolicy | None = None
    tenants: tuple[TenantPolicy, ...] = ()
    traffic: tuple[TrafficSpec, ...] = ()
    replays: tuple[ReplaySpec, ...] = ()
    num_gateways: int = 1
    bounds: GatewayBounds = field(default_factory=GatewayBounds)
    overheads: OverheadPlan | None = None
    """What gateways take for a request; None: no time."""
    starts_at_unix_ns: int = DEFAULT_STARTS_AT_UNIX_NS
    content: str = ""
    """A digest of what it was written as, files that it names included: ids of gateways and
    requests follow from it, so that an edited scenario makes new records. Empty: from the name,
    the seed and the start alone."""
    max_drain_seconds: float = 3600.0
    """How long what is in flight at the end is waited for."""

    @property
    def is_prefix_caching(self) -> bool:
        """Some replica finds prompts again, so that tokens must be told apart."""
        return any(replica.scheduler.is_prefix_caching for replica in self.replicas)

    def snapshot(self) -> Snapshot:
        """What its gateways enforce."""
        lengths = [replica.scheduler.max_model_len for replica in self.replicas]
        deployment = DeploymentPolicy(
            name=self.name,
            model_name=self.name,
            model_revision=f"{self.name}@1",
            engine_config_revision=f"{self.name}@1",
            tokenizer_artifact=None,
            max_model_len=min(lengths, default=None),
            policy=self.policy,
            contract=self.contract,
            replicas=tuple(
                ReplicaEndpoint(
                    replica_id=replica.replica_id, engine=ENGINE, address=replica.replica_id
                )
                for replica in self.replicas
            ),
        )
        return Snapshot(version=1, deployments=(deployment,), tenants=self.tenants)


def name_replicas(count: int) -> Sequence[str]:
    """Ids that sort as they count."""
    width = len(str(max(0, count - 1)))
    return [f"replica-{number:0{width}}" for number in range(count)]
