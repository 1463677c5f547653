"""One gateway of a simulated fleet: real admission, queue and routing, and the life behind them.

The path is that of `dataplane.gateway.flow`, without sockets, bodies and waiting::

    arrive -> (invalid | rejected | admitted) -> queue -> submitted -> first token ... finished
           -> delivered -> released -> gone

A request is delivered to its client and released by its engine independently, and leaves the
gateway when both have happened.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dataplane.admission import (
    EnforcedSnapshot,
    QueueLoad,
    Rejected,
    RejectionKind,
    RequestFacts,
    admit,
)
from dataplane.attempts import may_try_again
from dataplane.lifecycle import (
    Delivery,
    Disposition,
    EventKind,
    Observability,
    RequestCounts,
    State,
)
from dataplane.policy import DeploymentPolicy, TenantPolicy
from dataplane.queueing import Departure, DeploymentQueue, Lease
from dataplane.simulation.call import Call
from dataplane.simulation.fleet_replica import FleetReplica
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.request_trace import RequestTrace
from dataplane.simulation.slow_delivery import SlowDelivery
from dataplane.simulation.timeline import Timeline

_ANSWER_RETRY_AFTER = 1.0
_ACTIVE = frozenset({State.QUEUED, State.PREFILL, State.DECODE})


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBounds:
    """The bounds of a gateway that matter here, as `dataplane.gateway.settings` has them."""

    unserved_seconds: float = 5.0
    release_seconds: float = 30.0
    write_seconds: float = 60.0
    surplus_slots: int = 2
    expire_seconds: float = 0.05
    """How often deadlines are looked at."""


class GatewayHost(Protocol):
    """The fleet, as a gateway knows it."""

    def find_replica(self, replica_id: str) -> FleetReplica | None:
        """The replica, while it can be reached."""
        ...

    def number_request(self) -> int:
        """The next of all requests."""
        ...

    def trace(self, request: FleetRequest) -> RequestTrace | None:
        """Its lifecycle, begun, where somebody wants a record of it."""
        ...

    def answered(self, request: FleetRequest) -> None:
        """Its client has what it will get, or has left: once, whatever the engine still does."""
        ...

    def ended(self, request: FleetRequest) -> None:
        """Nothing more happens to it."""
        ...


class SimulatedGateway:
    """Serves one deployment of `enforced`. Knows its own requests alone, as a real one."""

    def __init__(
        self,
        gateway_id: str,
        enforced: EnforcedSnapshot,
        deployment: DeploymentPolicy,
        timeline: Timeline,
        host: GatewayHost,
        bounds: GatewayBounds,
    ) -> None:
        self.gateway_id = gateway_id
        self.deployment = deployment
        self.bounds = bounds
        self.queue = DeploymentQueue(clock=timeline, unserved_seconds=bounds.unserved_seconds)
        self.is_draining = False
        self.num_leaked = 0
        """Requests whose engine did not confirm an end, or a release, in time."""
        self._policy = enforced.policy_of(deployment)
        self._tenants = {tenant.name: tenant for tenant in enforced.snapshot.tenants}
        self._timeline = timeline
        self._host = host
        self._live: dict[int, FleetRequest] = {}
        self._num_arrived = 0
        self._num_invalid = 0
        self._num_rejected = 0
        self._num_finished = 0
        self._expires_at = math.inf

    @property
    def num_live(self) -> int:
        """What has not left."""
        return len(self._live)

    def live(self) -> list[FleetRequest]:
        """What has not left, oldest first."""
        return list(self._live.values())

    def counts(self) -> RequestCounts:
        """Where every request stands: one pass over the living, and totals of those that left."""
        states = [request.state for request in self._live.values()]
        active = sum(state in _ACTIVE for state in states)
        finished = self._num_finished + states.count(State.FINISHED)
        return RequestCounts(
            arrived=self._num_arrived,
            invalid=self._num_invalid + states.count(State.INVALID),
            undecided=states.count(State.ARRIVED),
            rejected=self._num_rejected + states.count(State.REJECTED),
            admitted=active + finished,
            active=active,
            finished=finished,
        )

    def set_replicas(
        self, slots: Mapping[str, int | None], held_elsewhere: Mapping[str, int]
    ) -> None:
        """The replicas that can be reached, their slots, and those that others seem to hold."""
        self.queue.set_replicas(slots, held_elsewhere)
        self._watch_expiry()

    # Arrival.

    def arrive(self, call: Call, num_tries: int = 0) -> None:
        """A request's first byte is here; reading and counting it takes no time."""
        request = FleetRequest(
            self._host.number_request(),
            self,
            self._num_arrived,
            call,
            self._timeline.now,
            num_tries,
        )
        self._num_arrived += 1
        self._live[request.number] = request
        trace = self._host.trace(request)
        if trace is not None:
            request.trace = trace
        if not self._limit_output(request):
            self._refuse_invalid(request)
            return
        if request.trace is not None:
            request.trace.note(EventKind.RECEIVED, request.arrived_at, num_tokens=len(call.prompt))
        self._decide(request)

    def class_of(self, call: Call) -> str | None:
        """The request class that takes such a call; None: no class does."""
        most = self.deployment.max_model_len
        wanted = call.max_tokens or (len(call.answer) if most is None else most - len(call.prompt))
        tenant = self._tenant(call.caller.tenant)
        found = self._policy.find_class(tenant, self._facts(call, wanted))
        return None if found is None else found.name

    def _facts(self, call: Call, max_output_tokens: int) -> RequestFacts:
        return RequestFacts(
            model=self.deployment.model_name,
            stream=call.caller.is_stream,
            num_prompt_tokens=len(call.prompt),
            max_output_tokens=max_output_tokens,
            headers=call.caller.headers,
        )

    def _limit_output(self, request: FleetRequest) -> bool:
        """Set how many tokens may be generated; False when they cannot fit."""
        call, wanted = request.call, request.call.max_tokens
        most = self.deployment.max_model_len
        if most is None:
            request.max_output_tokens = wanted or len(call.answer)
            return True
        room = most - len(call.prompt)
        request.max_output_tokens = wanted or room
        return room >= (wanted or 1)

    def _refuse_invalid(self, request: FleetRequest) -> None:
        request.state = State.INVALID
        request.disposition = Disposition.INVALID
        request.status = 400
        request.reason = (
            f"the model's maximum context length is {self.deployment.max_model_len} tokens; "
            f"the prompt has {len(request.call.prompt)}"
        )
        if request.trace is not None:
            request.trace.note(EventKind.INVALID, self._timeline.now, reason=request.reason)
        self._deliver(request, Delivery.NONE)

    def _decide(self, request: FleetRequest) -> None:
        call, queue = request.call, self.queue
        decision = admit(
            self._policy,
            self._tenant(call.caller.tenant),
            self._facts(call, request.max_output_tokens),
            QueueLoad(
                num_waiting_by_class=queue.num_waiting_by_class(),
                has_free_slot=queue.has_room_for(1),
                num_replicas=len(self.deployment.replicas),
                is_draining=self.is_draining,
            ),
        )
        request.request_class = decision.request_class
        if isinstance(decision, Rejected):
            self._reject(request, decision)
            return
        request.state = State.QUEUED
        if request.trace is not None:
            request.trace.note(EventKind.ADMITTED, self._timeline.now)
        self._set_timers(request)
        self._queue(request)

    def _tenant(self, name: str) -> TenantPolicy:
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = TenantPolicy(name=name)
        return tenant

    def _reject(self, request: FleetRequest, decision: Rejected) -> None:
        request.state = State.REJECTED
        request.disposition = Disposition.REJECTED
        request.status = 403 if decision.kind is RejectionKind.NO_CLASS else 503
        request.reason = decision.reason
        request.retry_after = decision.retry_after_seconds
        if request.trace is not None:
            request.trace.note(EventKind.REJECTED, self._timeline.now, reason=decision.reason)
        self._deliver(request, Delivery.NONE)

    def _set_timers(self, request: FleetRequest) -> None:
        client = request.call.caller.client
        if client.first_token_within is not None:
            self._timeline.after(client.first_token_within, request.lose_patience_for_first_token)
        if client.answer_within is not None:
            self._timeline.after(client.answer_within, request.lose_patience)

    # The queue.

    def _queue(self, request: FleetRequest) -> None:
        assert request.request_class is not None
        ticket = self.queue.enter(request.request_class, frozenset(request.lost_replica_ids))
        outcome = ticket.outcome
        if outcome is not None:
            self.take_outcome(request, outcome)
            return
        request.ticket = ticket
        ticket.on_leaving(request.leave_queue)
        self._watch_expiry()

    def _watch_expiry(self) -> None:
        """Look at deadlines when the next one may have passed, at the gateway's own pace."""
        due = self.queue.next_expiry_at
        if due is None:
            return
        every = self.bounds.expire_seconds
        at = max(self._timeline.now, math.ceil(due / every) * every, due)
        if at < self._expires_at:
            self._expires_at = at
            self._timeline.at(at, self._expire)

    def _expire(self) -> None:
        if self._timeline.now < self._expires_at:
            return  # one that was put earlier for later
        self._expires_at = math.inf
        self.queue.expire()
        self._watch_expiry()

    def take_outcome(self, request: FleetRequest, outcome: Lease | Departure) -> None:
        """How it left the queue."""
        request.ticket = None
        if isinstance(outcome, Departure):
            self._finish_unserved(request, outcome)
            return
        replica = self._host.find_replica(outcome.replica_id)
        request.lease = outcome
        request.num_attempts += 1
        if replica is None:
            self._lose_attempt(request, outcome.replica_id, "it was lost before the submission")
            return
        request.replica = replica
        if request.trace is not None:
            request.trace.attempt = request.num_attempts - 1
        refusal = replica.submit(request)
        if refusal is not None:
            self._finish(request, Disposition.ERROR, refusal.reason, 400)
            self._release(request)

    def _finish_unserved(self, request: FleetRequest, departure: Departure) -> None:
        lost, reason = request.lost_replica_ids, departure.reason
        if lost and departure.disposition is Disposition.ERROR:
            reason = f"replica {lost[-1]} is unavailable; {reason}"
        self._finish(request, departure.disposition, reason, 503)
        self._release_with_replica(request, "the replica is gone")

    # What an engine tells.

    def note_scheduled(self, request: FleetRequest, now: float) -> None:
        """Engine work began."""
        if request.state is State.QUEUED:
            request.state = State.PREFILL
            request.scheduled_at = now
        if request.trace is not None and request.state is not State.FINISHED:
            assert request.replica is not None
            request.trace.note(EventKind.SCHEDULED, now, replica_id=request.replica.replica_id)

    def note_first_token(self, request: FleetRequest, now: float) -> None:
        """It selected its first token."""
        request.state = State.DECODE
        request.first_token_at = now
        caller = request.call.caller
        if request.trace is not None:
            request.trace.note(EventKind.FIRST_TOKEN, now, num_tokens=1)
        request.num_output_tokens = 1
        if request.has_left or not caller.is_stream:
            return
        if caller.client.reading is not None:
            request.slow_delivery = SlowDelivery(
                self._timeline, request, caller.client.reading, self.bounds.write_seconds
            )
            request.slow_delivery.put(1)
        else:
            self.note_write(request, 1, 0.0)

    def note_tokens(self, request: FleetRequest, num_tokens: int) -> None:
        """So many were selected, all in all. Only of requests that are followed."""
        num_new = num_tokens - request.num_output_tokens
        request.num_output_tokens = num_tokens
        if request.trace is not None:
            request.trace.note(EventKind.TOKENS, self._timeline.now, num_tokens=num_new)
        if request.has_left or not request.call.caller.is_stream:
            return
        if request.slow_delivery is not None:
            request.slow_delivery.put(num_tokens)
        elif request.trace is not None:
            self.note_write(request, num_new, 0.0)

    def note_complete(self, request: FleetRequest, now: float) -> None:
        """It selected its last token."""
        if request.state is State.FINISHED:
            return
        sequence = request.sequence
        assert sequence is not None
        request.num_output_tokens = sequence.num_output_tokens
        request.last_token_at = now
        is_cut = len(request.call.answer) > request.max_output_tokens
        self._end(request, Disposition.LENGTH if is_cut else Disposition.STOP, None)
        if request.has_left:
            if request.delivery is None:
                self._deliver(request, Delivery.NONE)
            return
        request.status = 200
        if request.slow_delivery is not None:
            request.slow_delivery.end(request.num_output_tokens)
        else:
            if request.first_write_at is None:  # an answer in one piece
                self.note_write(request, request.num_output_tokens, 0.0)
            self.end_delivery(request)

    def note_failed(self, request: FleetRequest, reason: str) -> None:
        """Its engine cannot go on with it."""
        if request.state is not State.FINISHED:
            self._finish(request, Disposition.ERROR, reason, 500)

    def note_cancelled(self, request: FleetRequest) -> None:
        """Its engine confirms that it was ended early."""
        if request.state is not State.FINISHED:
            reason = request.reason or "cancelled"
            self._finish(request, Disposition.CANCELLED, reason, None)

    def note_released(self, request: FleetRequest) -> None:
        """Its engine holds nothing of it any more."""
        if request.trace is not None and not request.is_released:
            request.trace.note(EventKind.RELEASED, self._timeline.now)
        self._release(request)

    def lose_replica(self, request: FleetRequest, replica: FleetReplica, why: str) -> None:
        """Its replica vanished."""
        self._lose_attempt(request, replica.replica_id, why)

    def give_up_release(self, request: FleetRequest) -> None:
        """The engine did not confirm an end, or a release, within its bound: a leak."""
        if request.is_released or request.number not in self._live:
            return
        self.num_leaked += 1
        if request.state is not State.FINISHED:
            reason = f"{request.reason or 'it stalled'}; the engine did not confirm the end"
            self._finish(request, Disposition.CANCELLED, reason, 503)
        if request.replica is not None:
            request.replica.forget(request)
        self._release(request)

    def _lose_attempt(self, request: FleetRequest, replica_id: str, why: str) -> None:
        lease, request.lease = request.lease, None
        if replica_id not in request.lost_replica_ids:
            request.lost_replica_ids = (*request.lost_replica_ids, replica_id)
        error = f"replica {replica_id} is unavailable: {why}"
        if request.state is State.FINISHED:
            self._release_with_replica(request, error)
        elif request.has_left:
            self._finish(request, Disposition.CANCELLED, request.reason or why, None)
            self._release_with_replica(request, error)
        elif may_try_again(request.state, request.num_attempts):
            request.replica = request.sequence = None
            if lease is not None:
                lease.release()
            self._queue(request)
            return
        else:
            self._finish(request, Disposition.ERROR, error, 503)
            self._release_with_replica(request, error)
        if lease is not None:
            lease.release()

    def _release_with_replica(self, request: FleetRequest, error: str) -> None:
        """What a vanished replica held is gone with it, though nobody saw it happen."""
        if request.trace is not None and request.trace.lifecycle.was_scheduled:
            request.trace.note(
                EventKind.RELEASED,
                self._timeline.now,
                observability=Observability.INFERRED,
                reason=error,
            )
        self._release(request)

    # The client.

    def lose_client(self, request: FleetRequest, why: str) -> None:
        """The client left, or counts as gone; what it had not been handed is not delivered."""
        if request.delivery is not None or request.has_left:
            return
        request.has_left = True
        request.reason = why if request.reason is None else request.reason
        self._host.answered(request)
        if request.ticket is not None:
            departure = Departure(disposition=Disposition.CANCELLED, reason=why)
            self.queue.leave(request.ticket, departure)
            return
        if request.state is not State.QUEUED:  # else nothing can be written yet: with its end
            is_written = request.first_write_at is not None
            self._deliver(request, Delivery.PARTIAL if is_written else Delivery.NONE)
        if request.state is State.FINISHED or request.replica is None:
            return
        request.replica.cancel(request)
        if not request.is_released:
            self._timeline.after(self.bounds.release_seconds, request.stop_waiting_for_release)

    def note_write(self, request: FleetRequest, num_tokens: int, waited: float) -> None:
        """The kernel has a fragment."""
        now = self._timeline.now
        is_first = request.first_write_at is None
        if is_first:
            request.first_write_at = now
            request.status = 200
        if request.trace is not None:
            request.trace.note(
                EventKind.FIRST_WRITE if is_first else EventKind.WRITE,
                now,
                num_tokens=num_tokens,
                waited_seconds=waited,
            )

    def end_delivery(self, request: FleetRequest) -> None:
        """The kernel has the whole answer."""
        self._deliver(request, Delivery.COMPLETE)

    # Ends.

    def _end(self, request: FleetRequest, disposition: Disposition, reason: str | None) -> None:
        request.state = State.FINISHED
        request.finished_at = self._timeline.now
        request.disposition = disposition
        request.reason = reason
        sequence = request.sequence
        if sequence is not None:
            handover = request.handover
            request.num_cached_tokens = (
                sequence.num_cached_tokens
                if handover is None or sequence.num_handed_over_tokens == 0
                else handover.num_cached_tokens
            )
            request.num_output_tokens = sequence.num_output_tokens
        if request.trace is not None:
            request.trace.note(
                EventKind.FINISHED, self._timeline.now, disposition=disposition, reason=reason
            )

    def _finish(
        self, request: FleetRequest, disposition: Disposition, reason: str, status: int | None
    ) -> None:
        """An end that is no answer."""
        self._end(request, disposition, reason)
        if request.delivery is not None:
            return
        is_written = request.first_write_at is not None
        if not request.has_left and not is_written:
            request.status = status
            if status == 503:
                request.retry_after = _ANSWER_RETRY_AFTER
        self._deliver(request, Delivery.PARTIAL if is_written else Delivery.NONE)

    def _deliver(self, request: FleetRequest, delivery: Delivery) -> None:
        request.delivery = delivery
        request.last_write_at = self._timeline.now
        if request.trace is not None:
            request.trace.note(EventKind.LAST_WRITE, self._timeline.now, delivery=delivery)
        if not request.has_left:
            self._host.answered(request)
        if request.is_released or request.state in (State.INVALID, State.REJECTED):
            self._close(request)

    def _release(self, request: FleetRequest) -> None:
        if request.is_released:
            return
        request.is_released = True
        lease, request.lease = request.lease, None
        if request.delivery is not None:
            self._close(request)
        if lease is not None:
            lease.release()

    def _close(self, request: FleetRequest) -> None:
        del self._live[request.number]
        if request.state is State.INVALID:
            self._num_invalid += 1
        elif request.state is State.REJECTED:
            self._num_rejected += 1
        else:
            self._num_finished += 1
        self._host.ended(request)
