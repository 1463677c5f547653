"""A change plan, whole: what the API answers and a plan file keeps."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.rollouts.change_plan.contract_replay import ContractImpact
from controlplane.rollouts.change_plan.documents import DocumentAction, PlannedDocument
from controlplane.rollouts.change_plan.drift import Drift
from controlplane.rollouts.change_plan.memory_fit import MemoryFit
from controlplane.rollouts.change_plan.moves import EndedRollout, PlannedStep, RevisionMove
from controlplane.rollouts.change_plan.start_times import StartTimes
from controlplane.rollouts.change_plan.traffic import TrafficImpact
from controlplane.rollouts.change_plan.turnover import Turnover
from controlplane.rollouts.change_plan.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaImpact:
    """What becomes of a deployment's replicas."""

    digest_before: str | None
    """Of the spec that they run from; None: it is a new deployment."""
    digest_after: str
    digest_candidate: str | None
    """Of replicas that a rollout would start beside; None: it needs none of its own."""
    max_surge: int
    max_unavailable: int
    turnover: Turnover
    start_times: StartTimes | None
    """None: no replica alike ever started that tells, and how long it takes is not known."""
    seconds_until_settled: float | None
    seconds_short: float | None
    """How long fewer replicas serve than before; what drains comes on top. None: not known."""
    fits: tuple[MemoryFit, ...]
    """For each replica that runs now and would be another; empty where none would."""
    problem: str | None
    """Why no replica of it could be started here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """What becomes of one deployment."""

    deployment: str
    is_new: bool
    moves: tuple[RevisionMove, ...]
    steps: tuple[PlannedStep, ...]
    """Of a rollout that would begin; empty: none would."""
    ends_rollout: EndedRollout | None
    replicas: ReplicaImpact
    traffic: TrafficImpact | None
    """None: the policy stays as it is, or there was none."""
    contract: ContractImpact | None
    """None: the contract stays as it is, or it is a new deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """What applying the files would do now."""

    created_at_unix_ns: int
    world: World
    """What it rests on."""
    documents: tuple[PlannedDocument, ...]
    deployments: tuple[DeploymentPlan, ...]
    """Those of which anything would change."""
    drift: tuple[Drift, ...]

    @property
    def has_changes(self) -> bool:
        """Applying would store or move something."""
        stores = any(each.action is not DocumentAction.NOTHING for each in self.documents)
        return stores or bool(self.deployments)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedApply:
    """What a plan that is applied exactly has to find, and to result in."""

    world: World
    results: Mapping[str, str]
    """Of each document of the files, as `Kind/name`: number and digest."""
