"""Three replicas under steady traffic of two tenants, what goes wrong, and what is seen of it."""

from collections.abc import Sequence

from dataplane.policy import AdmissionPolicyTerms, ClassPolicy
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.arrivals import Poisson
from dataplane.simulation.call import Caller
from dataplane.simulation.clients import ClientBehaviour
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.cost import CostModel, LinearCost
from dataplane.simulation.distributions import Constant, Uniform
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.fleet_faults import FleetFaults
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.gateway_bounds import GatewayBounds
from dataplane.simulation.observer.dialect import Dialect
from dataplane.simulation.observer.fleet_exporters import FleetExporters
from dataplane.simulation.observer.lines import Logged, Scraped, Seen
from dataplane.simulation.observer.vllm import VLLM
from dataplane.simulation.phased_replicas import PhasePlan
from dataplane.simulation.traffic import SharedPrefixes, TrafficSpec

IDS = ("a", "b", "c")
COST = LinearCost(iteration=0.02, per_prompt_token=0.0004, per_decode_step=0.001)
BEHAVIOUR = ClientBehaviour(first_token_within=30.0)


class FaultyFleet:
    """Run it with `run`; everything that an observer saw is in `seen`."""

    def __init__(
        self,
        *faults: Fault,
        dialect: Dialect = VLLM,
        rate: float = 6.0,
        duration: float = 60.0,
        cost: CostModel = COST,
        cold_start: ColdStart | None = None,
        client: ClientBehaviour = BEHAVIOUR,
        phases: PhasePlan | None = None,
    ) -> None:
        self.duration = duration
        self.seen: list[Seen] = []
        self._texts: dict[tuple[str, float], str] = {}
        self.fleet = Fleet(
            FleetScenario(
                name="chat",
                seed=11,
                duration=duration,
                replicas=tuple(
                    ReplicaSpec(
                        replica_id=replica_id,
                        scheduler=_BOUNDS,
                        cost=cost,
                        cold_start=cold_start or ColdStart(acquire=1, load=4, warm_up=2),
                        starts_at=None if cold_start is None else 0.0,
                    )
                    for replica_id in IDS
                ),
                phases=phases,
                policy=AdmissionPolicyTerms(
                    revision="chat@1",
                    classes=(
                        ClassPolicy(name="short", match="request.num_prompt_tokens < 100"),
                        ClassPolicy(name="long"),
                    ),
                ),
                traffic=(
                    TrafficSpec(
                        name="chat",
                        process=Poisson(rate),
                        callers=[
                            (Caller(tenant="acme", client=client, headers={}), 1.0),
                            (Caller(tenant="blot", client=client, headers={}), 2.0),
                        ],
                        prompt=Uniform(40, 160),
                        output=Uniform(10, 60),
                        prefixes=SharedPrefixes(num_prefixes=2, length=Constant(32)),
                    ),
                ),
                bounds=GatewayBounds(surplus_slots=0, release_seconds=10.0),
            )
        )
        plan = FaultPlan(faults)
        self.exporters = FleetExporters(
            self.fleet, lambda replica_id: dialect, self._see, plan.metrics
        )
        self.faults = FleetFaults(plan, self.fleet)
        self.faults.on_out_of_memory.append(self.exporters.ran_out_of_memory)
        self.faults.on_leak.append(self.exporters.leaked)

    def run(self, drain: float = 0.0) -> "FaultyFleet":
        self.exporters.observe(1.0, self.duration + drain)
        self.fleet.run_until(self.duration + drain)
        self.fleet.check_integrity()
        return self

    def text(self, replica_id: str, at: float) -> str:
        return self._texts[replica_id, at]

    def _see(self, seen: Seen) -> None:
        self.seen.append(seen)
        if isinstance(seen, Scraped):
            self._texts[seen.target, seen.at] = seen.text

    def value(self, replica_id: str, at: float, name: str) -> float:
        # Parsing whole texts takes longer than the simulation; other tests do it.
        lines = self.text(replica_id, at).split("\n")
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith((f"{name}{{", f"{name} "))
        )

    def growth(self, replica_id: str, start: float, end: float, name: str) -> float:
        return self.value(replica_id, end, name) - self.value(replica_id, start, name)

    def total(self, name: str, at: float, ids: Sequence[str] = IDS) -> float:
        return sum(self.value(replica_id, at, name) for replica_id in ids)

    def log_of(self, replica_id: str) -> str:
        return "\n".join(
            s.text for s in self.seen if isinstance(s, Logged) and s.target == replica_id
        )


_BOUNDS = SchedulerConfig(
    max_num_seqs=12,
    max_num_batched_tokens=512,
    max_model_len=2048,
    num_blocks=160,
    block_size=16,
)
