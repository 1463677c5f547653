"""The lines of the overview: one deployment, one gateway, one replica each.

What nobody reported is None, and what was reported too long ago is not taken for current.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.api.changes import STALE_SECONDS
from controlplane.api.deployment_state import DeploymentState
from controlplane.api.engine_figures import kv_used_share
from controlplane.api.rollout_asked import current_share
from controlplane.api.rollout_telling import view_line
from controlplane.api.rollout_views import RolloutLine
from controlplane.api.trouble import ENOUGH_JUDGED, Trouble
from controlplane.operator.observed import ObservedReplica
from controlplane.specs.contract import SLOContractSpec
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.revision import Revision
from dataplane.engine import EngineStats
from dataplane.report import GatewayReport


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOverview:
    """One line of the overview."""

    name: str
    model_revision: str
    engine: str
    policy_revision: str
    contract_revision: str | None
    generation: int
    observed_generation: int
    num_desired_replicas: int
    num_ready_replicas: int
    num_seen_replicas: int
    """Ready, unreachable, starting or draining."""
    is_observed_only: bool
    """No request passes through here, so nothing is known of any."""
    offered_per_s: float | None
    goodput_per_s: float | None
    attainment: float | None
    """In-contract share of what was offered, malformed requests aside; None: nothing judged."""
    num_offered: int
    num_asked: int
    """Offered, malformed requests aside."""
    num_judged: int
    num_good: int
    """In contract, of those that were judged."""
    kept_share: float | None
    """In-contract share of what was judged; None: fewer than 20 were."""
    promised_share: float | None
    """The lowest share that the contract promises to any class."""
    ttft_p95_seconds: float | None
    kv_used_share: float | None
    """Referenced blocks of all blocks, over the replicas that say so."""
    signal_age_seconds: float | None
    """Of the engine figures."""
    troubles: list[Trouble]
    rollout: RolloutLine | None
    """That is under way."""
    state: DeploymentState
    """In one word, with the figures that it rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOverview:
    """One gateway."""

    name: str
    address: str
    is_draining: bool
    """Another process has its place; it finishes what it has."""
    age_seconds: float
    is_current: bool
    snapshot_version: int
    snapshot_error: str | None
    num_active: int
    num_queued: int
    oldest_queued_seconds: float | None
    """Over all its deployments, 0 when nobody waits; None: its report is not current."""
    num_records_spooled: int
    num_records_lost: int
    refused_because: str | None
    """Why its calls are refused, of one whose report is not current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOverview:
    """One replica."""

    replica_id: str
    deployment: str
    engine: str
    state: str
    stage: str | None
    reason: str
    age_seconds: float
    probed_age_seconds: float | None
    num_running: int | None
    num_waiting: int | None
    max_num_seqs: int | None
    kv_used_share: float | None
    stats_age_seconds: float | None


def deployment_line(
    desired: DesiredDeployment,
    replicas: list[ObservedReplica],
    stats: dict[str, tuple[EngineStats, float]],
    counts: dict[str, int],
    ttft_p95: float | None,
    window_seconds: float,
) -> DeploymentOverview:
    """What should run of it, what does, and how `window_seconds` went. Without its troubles, and
    without a judgement of its state."""
    own = [stats[replica.replica_id] for replica in replicas if replica.replica_id in stats]
    offered = counts.get("offered", 0)
    asked = offered - counts.get("disposition.invalid", 0)
    judged = counts.get("in_contract.total", 0)
    is_judged = judged > 0
    good = counts.get("in_contract.good", 0)
    revisions = desired.revisions
    return DeploymentOverview(
        name=desired.name,
        model_revision=revisions.model.label,
        engine=replicas[0].engine if replicas else revisions.engine_config.label,
        policy_revision=revisions.policy.label,
        contract_revision=revisions.contract.label if revisions.contract else None,
        generation=desired.generation,
        observed_generation=desired.observed_generation,
        num_desired_replicas=desired.spec.replicas,
        num_ready_replicas=sum(replica.state == "ready" for replica in replicas),
        num_seen_replicas=sum(
            replica.state in ("ready", "unreachable", "starting", "draining")
            for replica in replicas
        ),
        is_observed_only=desired.spec.observe_only,
        offered_per_s=offered / window_seconds,
        goodput_per_s=good / window_seconds if is_judged else None,
        attainment=good / asked if is_judged and asked > 0 else None,
        num_offered=offered,
        num_asked=asked,
        num_judged=judged,
        num_good=good,
        kept_share=good / judged if judged >= ENOUGH_JUDGED else None,
        promised_share=_promised(revisions.contract),
        ttft_p95_seconds=ttft_p95,
        kv_used_share=kv_used_share([each for each, _ in own]),
        signal_age_seconds=max((age for _, age in own), default=None),
        troubles=[],
        rollout=_living(desired),
        state=DeploymentState(),
    )


def _living(desired: DesiredDeployment) -> RolloutLine | None:
    rollout = desired.rollout
    return None if rollout is None else view_line(rollout, current_share(rollout, desired))


def _promised(contract: Revision | None) -> float | None:
    """The loosest promise of any class: what falls below it is trouble whatever the mix was."""
    if contract is None:
        return None
    classes = contract.spec(SLOContractSpec).classes.values()
    targets = [
        each.together.target if each.together else min(o.target for o in each.objectives)
        for each in classes
    ]
    return min(targets, default=None)


def gateway_line(report: GatewayReport, age: float, refused: Mapping[str, str]) -> GatewayOverview:
    """What it reported `age` seconds ago. `refused`: why calls are, by gateway."""
    return GatewayOverview(
        name=report.name,
        address=report.address,
        is_draining=report.is_draining,
        age_seconds=age,
        is_current=age < STALE_SECONDS,
        snapshot_version=report.snapshot_version,
        snapshot_error=report.snapshot_error,
        num_active=report.counts.active,
        num_queued=report.num_queued,
        oldest_queued_seconds=(report.oldest_queued_seconds or 0.0)
        if age < STALE_SECONDS
        else None,
        num_records_spooled=report.num_records_spooled,
        num_records_lost=report.num_records_lost,
        refused_because=refused.get(report.name) if age >= STALE_SECONDS else None,
    )


def replica_line(
    replica: ObservedReplica, stats: dict[str, tuple[EngineStats, float]], now_unix_ns: int
) -> ReplicaOverview:
    """What was last observed of it."""
    told, age = stats.get(replica.replica_id, (None, None))
    probed = replica.probed_at_unix_ns
    return ReplicaOverview(
        replica_id=replica.replica_id,
        deployment=replica.deployment,
        engine=replica.engine,
        state=replica.state,
        stage=replica.stage,
        reason=replica.reason,
        age_seconds=max(0.0, (now_unix_ns - replica.observed_at_unix_ns) / 1e9),
        probed_age_seconds=None if probed is None else max(0.0, (now_unix_ns - probed) / 1e9),
        num_running=None if told is None else told.num_running,
        num_waiting=None if told is None else told.num_waiting,
        max_num_seqs=None if told is None else told.max_num_seqs,
        kv_used_share=None if told is None else kv_used_share([told]),
        stats_age_seconds=age,
    )
