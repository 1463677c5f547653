"""From a Scenario to what the simulation runs."""

from dataclasses import dataclass
from pathlib import Path

from controlplane.specs.enforced import admission_terms, contract_policy, tenant_policy
from controlplane.specs.problem import Problem
from controlplane.specs.replica_compiling import compile_overheads, compile_replicas
from controlplane.specs.scenario import ScenarioSpec, parse_instant
from controlplane.specs.scenario_faults import compile_faults
from controlplane.specs.scenario_files import ScenarioFiles
from controlplane.specs.scenario_senseless import find_senseless
from controlplane.specs.source import Source
from controlplane.specs.traffic_compiling import compile_client, compile_traffic, only_client
from controlplane.specs.validation import read_unstored
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.gateway_bounds import GatewayBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioDocument:
    """A scenario that was read, and what it asks to be simulated."""

    name: str
    spec: ScenarioSpec
    fleet: FleetScenario
    faults: tuple[Fault, ...] = ()


def read_scenario(source: Source, folder: Path) -> tuple[ScenarioDocument | None, list[Problem]]:
    """The scenario of a document, or everything that is wrong with it. Files that it names are
    found from `folder`."""
    name, spec, problems = read_unstored(source, ScenarioSpec)
    if name is None or spec is None or problems:
        return None, problems
    senseless = [source.problem(path, what) for path, what in find_senseless(spec)]
    if senseless:
        return None, senseless
    files = ScenarioFiles(source, folder)
    fleet = _compile(name, spec, files)
    if files.problems:
        return None, files.problems
    faults = compile_faults(spec.faults, spec.seed)
    return ScenarioDocument(name=name, spec=spec, fleet=fleet, faults=faults), []


def _compile(name: str, spec: ScenarioSpec, files: ScenarioFiles) -> FleetScenario:
    clients = {key: compile_client(key, client) for key, client in spec.clients.items()}
    gateways = spec.gateways
    traffic = [compile_traffic(each, clients) for each in spec.arrivals if each.replay is None]
    replays = [
        files.replay(position, each, only_client(each, clients))
        for position, each in enumerate(spec.arrivals)
        if each.replay is not None
    ]
    replicas = compile_replicas(spec, spec.replicas, files)
    overheads = compile_overheads(gateways.overheads, spec.replicas.cost, files)
    return FleetScenario(
        name=name,
        seed=spec.seed,
        duration=spec.duration,
        replicas=replicas,
        phases=None if spec.replicas.phases is None else spec.replicas.phases.compile(),
        policy=admission_terms(f"{name}@1", spec.policy),
        contract=None if spec.contract is None else contract_policy(f"{name}@1", spec.contract),
        tenants=tuple(tenant_policy(key, tenant) for key, tenant in spec.tenants.items()),
        traffic=tuple(traffic),
        replays=tuple(replay for replay in replays if replay is not None),
        num_gateways=gateways.count,
        bounds=GatewayBounds(
            unserved_seconds=gateways.unserved,
            release_seconds=gateways.release,
            write_seconds=gateways.write,
            surplus_slots=gateways.surplus_slots,
        ),
        overheads=overheads,
        starts_at_unix_ns=parse_instant(spec.starts_at),
        content=files.content(spec),
    )
