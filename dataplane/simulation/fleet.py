"""A fleet in virtual time: calls arrive, gateways decide, replicas work, clients react.

    fleet = Fleet(scenario)
    fleet.run()
    fleet.results

Everything that serves is real (admission, queue, routing, scheduler, blocks, lifecycle); what is
made up is who calls, and what a step takes. A fault or an observer is put on from outside, before
`run` or by an action on `fleet.timeline`:

    fleet.replicas[id]      set_cost, stall, resume, kill, start, drain; scheduler_config and
                            cold_start of its next start; observers; withholds
    fleet.change_call       each call, before it arrives
    fleet.sources           where calls come from; each may be replaced by one around it
    fleet.put_call          one more call
    fleet.every             something at regular times
    fleet.on_replica        told of each change of a replica, before gateways are
    fleet.phases            the link between prefill and decode replicas; None: there are none
    fleet.set_split         how many replicas do which phase
    fleet.believed_held     what gateways wrongly take for held; tell_replicas when it changes
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dataplane.enforced_snapshot import compile_snapshot
from dataplane.routing import limit_slots
from dataplane.routing.router import Router
from dataplane.routing.terms import CreatePolicy, create_builtin, create_routing
from dataplane.simulation.call import Call, CallSource
from dataplane.simulation.fleet_callers import FleetCallers, open_sources
from dataplane.simulation.fleet_gateway import SimulatedGateway
from dataplane.simulation.fleet_records import NoRecords, RecordKeeper, RecordWriter
from dataplane.simulation.fleet_replica import FleetReplica, ReplicaState
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.fleet_results import PACE_SIGNALS, FleetResults
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.gateway_overheads import GatewayOverheads
from dataplane.simulation.phase_split import Phase, PhaseSplit
from dataplane.simulation.phased_replicas import PhasedReplicas
from dataplane.simulation.random_streams import random_stream
from dataplane.simulation.rare_collections import rare_collections
from dataplane.simulation.request_trace import RequestTrace
from dataplane.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChange:
    """Something that happened to a replica."""

    at: float
    replica_id: str
    what: str


class FleetError(Exception):
    """A simulation that does not come to its end: says what is still in flight."""


class Fleet:
    """One run of a scenario. `records` says which requests are recorded."""

    def __init__(
        self,
        scenario: FleetScenario,
        records: RecordKeeper | None = None,
        keeps_rows: bool = True,
        create_policy: CreatePolicy = create_builtin,
    ) -> None:
        """`create_policy` makes routing policies. Raises ValueError where it cannot make the one
        that the scenario names."""
        self.scenario = scenario
        self.timeline = Timeline()
        self.results = FleetResults(scenario.contract, keeps_rows)
        self.changes: list[ReplicaChange] = []
        """Of replicas, in order."""
        self.change_call: list[Callable[[float, Call], Call | None]] = []
        """Each is given a time and a call that is about to arrive, and says which one does."""
        self.on_replica: list[Callable[[FleetReplica, str], None]] = []
        self.believed_held: Callable[[Mapping[str, int | None]], Mapping[str, int]] | None = None
        """Given the slots of each replica: how many of them gateways take for held by others."""
        self._records: RecordKeeper = NoRecords() if records is None else records
        self._writer = RecordWriter(scenario)
        self._traces_all = _needs_pace(scenario)
        self._may_trace = self._traces_all or records is not None
        self._num_requests = 0
        self._callers = FleetCallers(scenario, self.timeline, self.put_call)
        self.sources: list[CallSource] = open_sources(scenario)
        self.replicas = {
            spec.replica_id: FleetReplica(spec, self.timeline, self) for spec in scenario.replicas
        }
        self.phases = (
            None
            if scenario.phases is None
            else PhasedReplicas(scenario.phases, self.timeline, self.replicas)
        )
        enforced = compile_snapshot(scenario.snapshot())
        [deployment] = enforced.snapshot.deployments
        self.gateways = [
            SimulatedGateway(
                self._writer.gateway_id(number),
                enforced,
                deployment,
                self.timeline,
                self,
                scenario.bounds,
                self._open_router(number, create_policy),
                _open_overheads(scenario, number),
            )
            for number in range(scenario.num_gateways)
        ]
        if self.phases is not None:
            for gateway in self.gateways:
                self.phases.add_gateway(
                    gateway.gateway_id,
                    scenario.bounds.unserved_seconds,
                    scenario.bounds.expire_seconds,
                )
        self.ended_at: float | None = None
        """When the last request ended that did, not before calls end; None: it was not run."""
        self._next_gateway = 0
        self._is_begun = False

    def _open_router(self, gateway: int, create: CreatePolicy) -> Router:
        """With chance of its own: who draws, and how often, changes nothing else."""
        random = random_stream(self.scenario.seed, "routing", gateway)
        routing = create_routing(self.scenario.policy.routing, random, create)
        return Router(
            self.timeline,
            routing,
            random,
            explains=self._may_trace,
            finds_prefixes=self.scenario.is_prefix_caching,
        )

    # Running.

    def run(self) -> FleetResults:
        """As `run_out`. Raises FleetError where something is in flight still."""
        self.run_out()
        if self.num_in_flight:
            waits = "".join(f"; {wait}" for wait in self.explain_waits())
            raise FleetError(
                f"{self.num_in_flight} requests are in flight {self.timeline.now:.0f} s after the "
                f"beginning, and nothing ends them; what hangs must be resumed, killed, or have "
                f"clients that leave{waits}"
            )
        return self.results

    def run_out(self) -> FleetResults:
        """Let all calls arrive, and wait for what is in flight, up to the scenario's bound.

        What nothing ends is in flight then, as it would be in a gateway: see `live`.
        """
        self.run_until(self.scenario.duration)
        ends_at = self.scenario.duration + self.scenario.max_drain_seconds
        timeline, num_before = self.timeline, self.num_in_flight
        self.ended_at = timeline.now
        while num_before and (due := timeline.next_at) is not None and due <= ends_at:
            timeline.run(until=due)
            if (num_left := self.num_in_flight) != num_before:
                num_before, self.ended_at = num_left, timeline.now
        return self.results

    def live(self) -> list[FleetRequest]:
        """Requests that are not gone, of all gateways."""
        return [request for gateway in self.gateways for request in gateway.live()]

    def explain_waits(self) -> list[str]:
        """Which replicas are stalled, or lack something, and what."""
        waits = []
        for replica in self.replicas.values():
            if replica.engine is None:
                continue
            if replica.engine.is_stalled:
                waits.append(f"{replica.replica_id} is stalled")
            elif replica.engine.blocked_on is not None:
                waits.append(f"{replica.replica_id} is blocked on {replica.engine.blocked_on}")
        return waits

    def run_until(self, until: float) -> None:
        """Let time pass until then."""
        self.begin()
        with rare_collections():
            self.timeline.run(until=until)

    def begin(self) -> None:
        """Start the replicas and expect the first calls. Twice is no error."""
        if self._is_begun:
            return
        self._is_begun = True
        for spec in self.scenario.replicas:
            replica = self.replicas[spec.replica_id]
            if spec.starts_at is None:
                replica.serve()
            else:
                self.timeline.at(spec.starts_at, replica.start)
        for source in self.sources:
            self._callers.expect(source)

    @property
    def num_in_flight(self) -> int:
        """Requests of all gateways that have not left."""
        return sum(gateway.num_live for gateway in self.gateways)

    def every(self, seconds: float, action: Callable[[], object]) -> None:
        """Do `action` at every multiple of `seconds`, as long as the simulation runs."""
        number = 0

        def act() -> None:
            nonlocal number
            action()
            number += 1
            self.timeline.at(number * seconds, act)

        self.timeline.at(0, act)

    def put_call(self, call: Call, num_tries: int = 0) -> None:
        """A call arrives now, at the next gateway."""
        for change in self.change_call:
            changed = change(self.timeline.now, call)
            if changed is None:
                return
            call = changed
        gateway = self.gateways[self._next_gateway]
        self._next_gateway = (self._next_gateway + 1) % len(self.gateways)
        gateway.arrive(call, num_tries)

    def check_integrity(self) -> None:
        """Raises AssertionError when counts, slots or blocks do not add up."""
        for gateway in self.gateways:
            gateway.check_integrity()
        for queue in () if self.phases is None else self.phases.queues:
            queue.check_integrity()
        for replica in self.replicas.values():
            if replica.engine is not None:
                replica.engine.scheduler.check_integrity()

    # ReplicaKeeper

    def replica_changed(self, replica: FleetReplica, what: str) -> None:
        """Gateways learn of it at once."""
        self.changes.append(
            ReplicaChange(at=self.timeline.now, replica_id=replica.replica_id, what=what)
        )
        # First who looks on: a gateway may send it requests at once.
        for told in self.on_replica:
            told(replica, what)
        self.tell_replicas()
        if self.phases is not None and replica.state is ReplicaState.STOPPED:
            self.phases.replica_stopped(replica)

    def tell_replicas(self) -> None:
        """Tell gateways again which replicas they may use, and what of them seems to be held."""
        slots = self.slots()
        phases = self.phases
        if phases is not None:
            of_decode = phases.of_phase(Phase.DECODE, slots)
            phases.set_replicas(of_decode, self._held(of_decode))
            slots = phases.of_phase(Phase.PREFILL, slots)
        held = self._held(slots)
        for gateway in self.gateways:
            gateway.set_replicas(slots, held)
            for replica_id in slots:
                config = self.replicas[replica_id].scheduler_config
                gateway.set_cache_capacity(replica_id, config.num_blocks * config.block_size)

    def set_split(self, split: PhaseSplit) -> None:
        """Give replicas other phases. Raises ValueError where it is of another number of them."""
        assert self.phases is not None, "no replica of this fleet does one phase alone"
        self.phases.set_split(split)
        self.tell_replicas()

    def _held(self, slots: Mapping[str, int | None]) -> Mapping[str, int]:
        return {} if self.believed_held is None else self.believed_held(slots)

    def slots(self) -> dict[str, int | None]:
        """What a gateway gives of each replica that serves; None: no limit."""
        return {
            each.replica_id: limit_slots(
                self.scenario.policy.max_active_per_replica,
                each.scheduler_config.max_num_seqs,
                self.scenario.bounds.surplus_slots,
            )
            for each in self.replicas.values()
            if each.is_serving
        }

    # GatewayHost

    def find_replica(self, replica_id: str) -> FleetReplica | None:
        """While it can be reached."""
        replica = self.replicas.get(replica_id)
        return replica if replica is not None and replica.is_serving else None

    def num_slots(self, request: FleetRequest) -> int:
        """Of the replica that a request of several answers is sent to first."""
        phases = self.phases
        only_prompt = phases is not None and phases.hands_over(request)
        return 1 if only_prompt else request.call.num_sequences

    def number_request(self) -> int:
        """Of all gateways."""
        number = self._num_requests
        self._num_requests += 1
        return number

    def trace(self, request: FleetRequest) -> RequestTrace | None:
        """Of those that are recorded, and of all where the contract is about the pace."""
        if not self._may_trace:
            return None
        if self._records.wants(request.number) or self._traces_all:
            return self._writer.begin(request)
        return None

    def answered(self, request: FleetRequest) -> None:
        """Its client goes on."""
        if request.status == 200 and request.call.conversation is None and not request.has_left:
            return  # it has what it wanted
        self._callers.go_on(request)

    def ended(self, request: FleetRequest) -> None:
        """Into the results, and into a record where it was traced."""
        if request.trace is None:
            self.results.take(request)
            return
        record = self._writer.end(request, request.trace, self.results.terms_of(request))
        self.results.take(request, record.judgement)
        self._records.keep(request.number, record)


def _open_overheads(scenario: FleetScenario, gateway: int) -> GatewayOverheads | None:
    plan = scenario.overheads
    return None if plan is None else GatewayOverheads(plan, scenario.seed, gateway)


def _needs_pace(scenario: FleetScenario) -> bool:
    terms = () if scenario.contract is None else scenario.contract.terms_by_class.values()
    return any(o.signal in PACE_SIGNALS for each in terms for o in each.objectives)
