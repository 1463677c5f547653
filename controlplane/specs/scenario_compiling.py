"""From a Scenario to what the simulation runs: the one place where that translation is made."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from controlplane.specs.enforced import admission_terms, contract_policy, tenant_policy
from controlplane.specs.problem import Path as KeyPath
from controlplane.specs.problem import Problem
from controlplane.specs.scenario import (
    ColdStartSpec,
    CostSpec,
    Noise,
    ReplicasSpec,
    ScenarioSpec,
    parse_instant,
)
from controlplane.specs.scenario_faults import compile_faults
from controlplane.specs.scenario_overheads import OverheadsSpec
from controlplane.specs.scenario_senseless import find_senseless
from controlplane.specs.scenario_traffic import (
    ArrivalsSpec,
    ClientSpec,
    LengthSpec,
    WaitSpec,
)
from controlplane.specs.source import Source
from controlplane.specs.validation import read_unstored
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.arrivals import ArrivalProcess, Bursts, Poisson, Regular
from dataplane.simulation.call import Caller
from dataplane.simulation.clients import PATIENT, ClientBehaviour, Reading, Retries
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.cost import CostModel, LinearCost
from dataplane.simulation.distributions import (
    Constant,
    Distribution,
    Empirical,
    Exponential,
    LogNormal,
    Uniform,
)
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Fit, FitFileError, load_fit
from dataplane.simulation.fitting.surroundings import cold_start_of, overheads_of
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import FleetScenario, name_replicas
from dataplane.simulation.gateway_bounds import GatewayBounds
from dataplane.simulation.gateway_overheads import NO_TIME, OverheadPlan
from dataplane.simulation.link import GIGA
from dataplane.simulation.replay import ReplaySpec as ReplayedTraffic
from dataplane.simulation.replay import TraceError, read_trace
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound
from dataplane.simulation.traffic import SharedPrefixes, TrafficSpec, Turns
from dataplane.simulation.weights import SharedLink, WeightsOverLink

NO_CLIENT: dict[str, float] = {"": 1.0}


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
    files = _Files(source, folder)
    fleet = _compile(name, spec, files)
    if fleet is None or files.problems:
        return None, files.problems
    faults = compile_faults(spec.faults, spec.seed)
    return ScenarioDocument(name=name, spec=spec, fleet=fleet, faults=faults), []


class _Files:
    """Reads what a scenario names; what cannot be read is a problem at its place."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._fits: dict[str, Fit | None] = {}
        self._digests: dict[str, str] = {}
        self.problems: list[Problem] = []

    def cost(self, spec: CostSpec, seed: int) -> CostModel:
        plain = self._plain_cost(spec, seed)
        drafts = spec.speculation
        if drafts is None:
            return plain
        of_round = SpeculativeRound(
            draft_steps=drafts.draft_steps,
            draft_cost=drafts.draft_cost,
            verify_cost=drafts.verify_cost,
        )
        return SpeculativeCost(plain, of_round, drafts.acceptance)

    def _plain_cost(self, spec: CostSpec, seed: int) -> CostModel:
        fit = self.fit(spec)
        if fit is None:
            return LinearCost(
                iteration=spec.iteration or 0,
                per_prompt_token=spec.per_prompt_token or 0,
                per_decode_step=spec.per_decode_step or 0,
                per_reread_token=spec.per_reread_token or 0,
                per_context_token=spec.per_context_token or 0,
            )
        return FittedCost.of(fit, seed if spec.noise is Noise.ON else None)

    def fit(self, spec: CostSpec) -> Fit | None:
        """None: it names none, or one that cannot be read, which is told once."""
        if spec.fit is None:
            return None
        if spec.fit not in self._fits:
            try:
                self._fits[spec.fit] = load_fit(self._folder / spec.fit)
                self._digest(spec.fit)
            except (OSError, FitFileError) as error:
                self._fits[spec.fit] = None
                self._note(("spec", "replicas", "cost", "fit"), error)
        return self._fits[spec.fit]

    def fitted_cold_start(self, spec: CostSpec) -> ColdStart:
        fit = self.fit(spec)
        try:
            return ColdStart() if fit is None else cold_start_of(fit)
        except FitFileError as error:
            self._note(("spec", "replicas", "cost", "fit"), error)
            return ColdStart()

    def replay(
        self, position: int, spec: ArrivalsSpec, client: ClientBehaviour
    ) -> ReplayedTraffic | None:
        assert spec.replay is not None
        try:
            entries = read_trace(self._folder / spec.replay.file)
            self._digest(spec.replay.file)
        except (OSError, TraceError) as error:
            self._note(("spec", "arrivals", position, "replay", "file"), error)
            return None
        return ReplayedTraffic(
            entries=tuple(entries),
            starts_at=spec.start or 0.0,
            speed=spec.replay.speed,
            client=client,
            class_header=spec.replay.class_header,
            prefix_block=spec.replay.prefix_block,
        )

    def content(self, spec: ScenarioSpec) -> str:
        """A digest of the scenario and of the files that were read for it; its start apart."""
        written = spec.model_dump_json(by_alias=True, exclude={"starts_at"})
        lines = [written, *(f"{name} {digest}" for name, digest in sorted(self._digests.items()))]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _digest(self, name: str) -> None:
        with (self._folder / name).open("rb") as file:
            self._digests[name] = hashlib.file_digest(file, "sha256").hexdigest()

    def _note(self, path: KeyPath, error: Exception) -> None:
        said = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        self.problems.append(self._source.problem(path, said))


def _compile(name: str, spec: ScenarioSpec, files: _Files) -> FleetScenario | None:
    clients = {key: _client(key, client) for key, client in spec.clients.items()}
    gateways = spec.gateways
    traffic = [_traffic(each, clients) for each in spec.arrivals if each.replay is None]
    replays = [
        files.replay(position, each, _only_client(each, clients))
        for position, each in enumerate(spec.arrivals)
        if each.replay is not None
    ]
    replicas = _replicas(spec, spec.replicas, files)
    overheads = _overheads(gateways.overheads, spec.replicas.cost, files)
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


def _replicas(scenario: ScenarioSpec, spec: ReplicasSpec, files: _Files) -> tuple[ReplicaSpec, ...]:
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
            # A cost may draw: each replica draws by itself.
            cost=files.cost(spec.cost, scenario.seed + number),
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


def _overheads(spec: OverheadsSpec | None, cost: CostSpec, files: _Files) -> OverheadPlan | None:
    """Those that are written down, else those of a fit."""
    if spec is None:
        fit = files.fit(cost)
        return None if fit is None else overheads_of(fit, is_noisy=cost.noise is Noise.ON)
    waits = {name: getattr(spec, name) for name in OverheadsSpec.model_fields}
    plan = OverheadPlan(
        **{name: NO_TIME if wait is None else _wait(wait) for name, wait in waits.items()}
    )
    return None if plan == OverheadPlan() else plan


def _traffic(spec: ArrivalsSpec, clients: dict[str, ClientBehaviour]) -> TrafficSpec:
    assert spec.prompt is not None
    assert spec.output is not None
    return TrafficSpec(
        name=spec.name,
        process=_process(spec),
        callers=[
            (
                Caller(
                    tenant=tenant,
                    client=clients.get(client, PATIENT),
                    headers=spec.headers,
                    is_stream=spec.stream,
                ),
                of_tenant * of_client,
            )
            for tenant, of_tenant in spec.tenants.items()
            for client, of_client in (spec.clients or NO_CLIENT).items()
        ],
        prompt=_length(spec.prompt),
        output=_length(spec.output),
        max_tokens=None if spec.max_tokens is None else _length(spec.max_tokens),
        num_sequences=None if spec.num_sequences is None else _length(spec.num_sequences),
        prefixes=None
        if spec.prefixes is None
        else SharedPrefixes(
            num_prefixes=spec.prefixes.count,
            length=_length(spec.prefixes.length),
            share=spec.prefixes.share,
            skew=spec.prefixes.skew,
        ),
        turns=None
        if spec.turns is None
        else Turns(
            num_turns=_length(spec.turns.count),
            wait=_wait(spec.turns.wait),
            added=_length(spec.turns.added),
        ),
        starts_at=spec.start or 0.0,
        ends_at=spec.stop,
    )


def _process(spec: ArrivalsSpec) -> ArrivalProcess:
    if spec.poisson is not None:
        return Poisson(spec.poisson)
    if spec.every is not None:
        return Regular(spec.every)
    assert spec.bursts is not None
    bursts = spec.bursts
    return Bursts(rate=bursts.rate, mean_size=bursts.mean_size, within=bursts.within)


def _only_client(spec: ArrivalsSpec, clients: dict[str, ClientBehaviour]) -> ClientBehaviour:
    return next((clients[name] for name in spec.clients), PATIENT)


def _length(spec: LengthSpec) -> Distribution:
    if spec.constant is not None:
        return Constant(spec.constant)
    if spec.seen is not None:
        return Empirical(spec.seen)
    if spec.median is not None and spec.sigma is not None:
        most = float("inf") if spec.at_most is None else spec.at_most
        return LogNormal(median=spec.median, sigma=spec.sigma, most=most)
    assert spec.at_least is not None
    assert spec.at_most is not None
    return Uniform(spec.at_least, spec.at_most)


def _wait(spec: WaitSpec) -> Distribution:
    if spec.constant is not None:
        return Constant(spec.constant)
    if spec.mean is not None:
        return Exponential(spec.mean)
    assert spec.median is not None
    assert spec.sigma is not None
    return LogNormal(median=spec.median, sigma=spec.sigma)


def _client(name: str, spec: ClientSpec) -> ClientBehaviour:
    reading, retries = spec.reading, spec.retries
    return ClientBehaviour(
        name=name,
        first_token_within=spec.first_token_within,
        answer_within=spec.answer_within,
        reading=None
        if reading is None
        else Reading(
            tokens_per_second=reading.tokens_per_second,
            stops_after=reading.stops_after,
            buffered_tokens=reading.buffered_tokens,
        ),
        retries=None
        if retries is None
        else Retries(
            max_retries=retries.most,
            backoff=retries.backoff or 0,
            factor=retries.factor,
            jitter=retries.jitter,
            longest=retries.longest,
            heeds_retry_after=retries.heeds_retry_after,
            when_impatient=retries.when_impatient,
        ),
    )
