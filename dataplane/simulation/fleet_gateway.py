"""One gateway of a simulated fleet: real admission, queue and routing, and the life behind them.

The path is that of `dataplane.gateway.flow`, without sockets, bodies and waiting::

    arrive -> (invalid | rejected | admitted) -> queue -> submitted -> first token ... finished
           -> delivered -> released -> gone

Up to the submission it is here; behind it are an engine side and a client side, as in a gateway.
"""

from collections.abc import Mapping
from typing import Protocol

from dataplane.admission.admit import Rejected
from dataplane.attempts import RETRY_BUDGET_SPENT, may_try_again
from dataplane.enforced_snapshot import EnforcedSnapshot
from dataplane.lifecycle import Disposition, EventKind, RequestCounts, State
from dataplane.policy import DeploymentPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease
from dataplane.routing.router import Router
from dataplane.simulation.block_watch import BlockWatch
from dataplane.simulation.call import Call
from dataplane.simulation.fleet_admission import FleetAdmission
from dataplane.simulation.fleet_client_side import FleetClientSide
from dataplane.simulation.fleet_engine_side import FleetEngineSide
from dataplane.simulation.fleet_registry import FleetRegistry, RequestFollower
from dataplane.simulation.fleet_replica import FleetReplica
from dataplane.simulation.fleet_replicas import FleetReplicas
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.gateway_bounds import GatewayBounds
from dataplane.simulation.gateway_overheads import GatewayOverheads
from dataplane.simulation.queue_expiry import QueueExpiry
from dataplane.simulation.request_trace import RequestTrace
from dataplane.simulation.timeline import Timeline


class GatewayHost(RequestFollower, Protocol):
    """The fleet, as a gateway knows it."""

    def find_replica(self, replica_id: str) -> FleetReplica | None:
        """The replica, while it can be reached."""
        ...

    def num_slots(self, request: FleetRequest) -> int:
        """Of the replica that a request of several answers is sent to first."""
        ...

    def number_request(self) -> int:
        """The next of all requests."""
        ...

    def trace(self, request: FleetRequest) -> RequestTrace | None:
        """Its lifecycle, begun, where somebody wants a record of it."""
        ...


class SimulatedGateway:
    """Serves one deployment of `enforced`. Knows its own requests alone, as a real one.

    Without `overheads` nothing takes it any time.
    """

    def __init__(
        self,
        gateway_id: str,
        enforced: EnforcedSnapshot,
        deployment: DeploymentPolicy,
        timeline: Timeline,
        host: GatewayHost,
        bounds: GatewayBounds,
        router: Router,
        overheads: GatewayOverheads | None = None,
    ) -> None:
        self.gateway_id = gateway_id
        self.deployment = deployment
        self.queue = DeploymentQueue(timeline, bounds.unserved_seconds, router)
        self.queue.keep_promises(deployment.policy)
        self._replicas = FleetReplicas(self.queue, timeline, deployment)
        self.is_draining = False
        self._snapshot_version = enforced.snapshot.version
        self._admission = FleetAdmission(enforced, deployment, self.queue, bounds.max_choices)
        self._registry = FleetRegistry(timeline, host)
        self.client_side = FleetClientSide(
            self._registry,
            self.queue,
            timeline,
            bounds.write_seconds,
            bounds.release_seconds,
            overheads,
        )
        self.engine_side = FleetEngineSide(self._registry, self.client_side, timeline)
        self._expiry = QueueExpiry(self.queue, timeline, bounds.expire_seconds)
        self._blocks: BlockWatch | None = None
        if deployment.policy.kv is not None:
            self._blocks = BlockWatch(self.queue, timeline, host, lambda: self.num_live > 0)
        self._overheads = overheads
        self._timeline = timeline
        self._host = host

    @property
    def num_live(self) -> int:
        """Requests that are not gone."""
        return self._registry.num_live

    @property
    def num_leaked(self) -> int:
        """Requests whose engine did not confirm an end, or a release, in time."""
        return self.engine_side.num_leaked

    def live(self) -> list[FleetRequest]:
        """Requests that are not gone, oldest first."""
        return self._registry.live()

    def counts(self) -> RequestCounts:
        """Where every request stands."""
        return self._registry.counts()

    def check_integrity(self) -> None:
        """Raises AssertionError when requests, slots or what admission gives out do not add up."""
        self.counts().check_integrity()
        self.queue.check_integrity()
        self._admission.check_integrity()

    def held(self) -> dict[str, int]:
        """What requests hold of admission and of replicas' blocks, of which anything is held."""
        return self._admission.held()

    def class_of(self, call: Call) -> str | None:
        """The request class that takes such a call; None: no class does."""
        return self._admission.class_of(call)

    def retry_after_seconds(self) -> int:
        """Told to who waited and gets no answer."""
        return self._admission.retry_after_seconds()

    def set_replicas(
        self, slots: Mapping[str, int | None], held_elsewhere: Mapping[str, int]
    ) -> None:
        """The replicas that can be reached, their slots, and those that others seem to hold."""
        self._replicas.set(slots, held_elsewhere)
        if self._blocks is not None:
            self._blocks.set_replicas(slots.keys())
        self._expiry.watch()

    def set_cache_capacity(self, replica_id: str, num_tokens: int) -> None:
        """What a replica can find again at most, in tokens."""
        if self.queue.router.wants_prefixes:
            self.queue.router.index.set_capacity(replica_id, num_tokens)

    def arrive(self, call: Call, num_tries: int = 0) -> None:
        """A request's first byte is here; reading, counting and deciding are overhead."""
        request = self._open(call, num_tries)
        if self._overheads is None:
            self._receive(request)
        else:
            self._timeline.after(self._overheads.before_admission(), lambda: self._receive(request))

    def _receive(self, request: FleetRequest) -> None:
        call = request.call
        why_not = self._admission.why_invalid(call)
        if why_not is not None:
            self._registry.refuse(request, EventKind.INVALID, 400, why_not)
            return
        request.max_output_tokens = self._admission.max_output_tokens(call)
        if request.trace is not None:
            if call.further_answers:
                request.trace.lifecycle.expect_sequences(call.num_sequences)
            request.trace.note(EventKind.RECEIVED, self._timeline.now, num_tokens=len(call.prompt))
        if self._admit(request):
            self._enter_queue(request)

    def _open(self, call: Call, num_tries: int) -> FleetRequest:
        request = FleetRequest(
            self._host.number_request(),
            self,
            self._registry.num_arrived,
            call,
            self._timeline.now,
            num_tries,
        )
        self._registry.open(request)
        trace = self._host.trace(request)
        if trace is not None:
            request.trace = trace
        return request

    def _admit(self, request: FleetRequest) -> bool:
        if self._blocks is not None:
            self._blocks.begin()
        decision, request.hold = self._admission.decide(
            request.call,
            request.max_output_tokens,
            self.is_draining,
            self._num_slots(request),
            request.num_tries,
            request.trace,
        )
        request.request_class = decision.request_class
        if isinstance(decision, Rejected):
            request.rejection = decision.kind
            request.retry_after = decision.retry_after_seconds
            self._registry.refuse(request, EventKind.REJECTED, decision.status, decision.reason)
            return False
        request.max_output_tokens = decision.max_output_tokens
        request.state = State.QUEUED
        if request.trace is not None:
            request.trace.note(EventKind.ADMITTED, self._timeline.now)
        self.client_side.watch(request)
        return True

    def _enter_queue(self, request: FleetRequest) -> None:
        request_class = request.request_class
        assert request_class is not None
        demand = self._admission.demand(
            request.call, request.max_output_tokens, self._num_slots(request), request.hold
        )
        lost = request.lost_replica_ids
        if not lost and (lease := self.queue.start_at_once(request_class, demand)) is not None:
            self.take_outcome(request, lease)
            return
        ticket = self.queue.enter(request_class, demand, frozenset(lost))
        outcome = ticket.outcome
        if outcome is not None:
            self.take_outcome(request, outcome)
            return
        request.ticket = ticket
        ticket.on_leaving(request.leave_queue)
        self._expiry.watch()

    def _num_slots(self, request: FleetRequest) -> int:
        """One for each answer, unless only the prompt of them is computed where it is sent."""
        num_sequences = request.call.num_sequences
        return num_sequences if num_sequences == 1 else self._host.num_slots(request)

    def take_outcome(self, request: FleetRequest, outcome: Lease | Departure) -> None:
        """How it left the queue."""
        request.ticket = None
        if isinstance(outcome, Departure):
            self._end_unserved(request, outcome)
            return
        request.lease = outcome
        if request.trace is not None and outcome.placement.decision is not None:
            request.trace.note_routing(
                outcome.placement.decision, request.num_attempts, self._snapshot_version
            )
        if self._overheads is None:
            self._submit(request, outcome)
        else:
            self._timeline.after(
                self._overheads.before_submission(), lambda: self._submit_late(request, outcome)
            )

    def _submit_late(self, request: FleetRequest, lease: Lease) -> None:
        if request.has_left:  # meanwhile, and no engine was there to tell
            self.engine_side.note_cancelled(request)
            self.engine_side.release_with_replica(request, "the replica is gone")
        else:
            self._submit(request, lease)

    def _submit(self, request: FleetRequest, lease: Lease) -> None:
        replica = self._host.find_replica(lease.replica_id)
        request.num_attempts += 1
        if replica is None:
            self._lose_attempt(request, lease.replica_id, "it was lost before the submission")
            return
        request.replica = replica
        if request.trace is not None:
            request.trace.attempt = request.num_attempts - 1
        refusal = replica.submit(request)
        if refusal is not None:
            self._registry.fail(request, Disposition.ERROR, refusal.reason, 400)
            self.engine_side.release_with_replica(request, "the replica is gone")

    def _end_unserved(self, request: FleetRequest, departure: Departure) -> None:
        lost, reason = request.lost_replica_ids, departure.reason
        if lost and departure.disposition is Disposition.ERROR:
            reason = f"replica {lost[-1]} is unavailable; {reason}"
        self._registry.fail(request, departure.disposition, reason, 503)
        self.engine_side.release_with_replica(request, "the replica is gone")

    def lose_replica(self, request: FleetRequest, replica: FleetReplica, why: str) -> None:
        """Its replica vanished."""
        self._lose_attempt(request, replica.replica_id, why)

    def _lose_attempt(self, request: FleetRequest, replica_id: str, why: str) -> None:
        lease, request.lease = request.lease, None
        if replica_id not in request.lost_replica_ids:
            request.lost_replica_ids = (*request.lost_replica_ids, replica_id)
        may_go_on = not request.has_left and may_try_again(request.state, request.num_attempts)
        if may_go_on and not self._admission.may_retry():
            may_go_on, why = False, f"{why}; {RETRY_BUDGET_SPENT}"
        if not may_go_on:
            self._end_lost(request, replica_id, why)
        if lease is not None:
            lease.placement.fail()
            lease.settle(0)  # its tenant had nothing of it
            lease.release()
        if may_go_on:
            request.replica = request.sequence = request.group = None
            self._enter_queue(request)

    def _end_lost(self, request: FleetRequest, replica_id: str, why: str) -> None:
        error = f"replica {replica_id} is unavailable: {why}"
        if request.has_left:
            self.engine_side.note_cancelled(request)
        else:
            self.engine_side.note_failed(request, error, 503)
        self.engine_side.release_with_replica(request, error)
