"""From what a scenario says of its replicas, and of what is around their steps, to what runs."""

from controlplane.specs.scenario import ColdStartSpec, CostSpec, Noise, ReplicasSpec, ScenarioSpec
from controlplane.specs.scenario_files import ScenarioFiles
from controlplane.specs.scenario_overheads import OverheadsSpec
from controlplane.specs.traffic_compiling import compile_wait
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.fitting.noise import noise_seed
from dataplane.simulation.fitting.surroundings import overheads_of
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import name_replicas
from dataplane.simulation.gateway_overheads import NO_TIME, OverheadPlan
from dataplane.simulation.link import GIGA
from dataplane.simulation.weights import SharedLink, WeightsOverLink


def compile_replicas(
    scenario: ScenarioSpec, spec: ReplicasSpec, files: ScenarioFiles
) -> tuple[ReplicaSpec, ...]:
    """Every replica, each with a cost of its own."""
    scheduler = SchedulerConfig(
        max_num_seqs=spec.max_num_seqs,
        max_num_batched_tokens=spec.max_num_batched_tokens,
        max_model_len=spec.max_model_len,
        num_blocks=spec.num_blocks,
        block_size=spec.block_size,
        max_prefill_tokens_per_step=spec.max_prefill_tokens_per_step,
        is_prefix_caching=spec.prefix_caching,
    )
    cold_start = (
        _cold_start(spec.cold_start)
        if "cold_start" in spec.model_fields_set
        else files.fitted_cold_start(spec.cost)
    )
    return tuple(
        ReplicaSpec(
            replica_id=replica_id,
            scheduler=scheduler,
            cost=files.cost(spec.cost, noise_seed(scenario.seed, replica_id)),
            cold_start=cold_start,
            starts_at=0.0 if number >= spec.count - spec.start_cold else None,
        )
        for number, replica_id in enumerate(name_replicas(spec.count))
    )


def _cold_start(spec: ColdStartSpec) -> ColdStart:
    """One for all replicas: they share its link."""
    planned = ColdStart(
        acquire=spec.acquire or 0,
        load=spec.load or 0,
        compile=spec.compile or 0,
        warm_up=spec.warm_up or 0,
    )
    if spec.weights is None:
        return planned
    return WeightsOverLink(
        acquire=planned.acquire,
        load=planned.load,
        compile=planned.compile,
        warm_up=planned.warm_up,
        link=SharedLink(spec.weights.gigabits_per_second * GIGA),
        num_bytes=spec.weights.gigabytes * GIGA,
    )


def compile_overheads(
    spec: OverheadsSpec | None, cost: CostSpec, files: ScenarioFiles
) -> OverheadPlan | None:
    """Those that are written down, else those of a fit."""
    if spec is None:
        fit = files.fit(cost)
        return None if fit is None else overheads_of(fit, is_noisy=cost.noise is Noise.ON)
    waits = {name: getattr(spec, name) for name in OverheadsSpec.model_fields}
    plan = OverheadPlan(
        **{name: NO_TIME if wait is None else compile_wait(wait) for name, wait in waits.items()}
    )
    return None if plan == OverheadPlan() else plan
