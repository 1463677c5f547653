"""One request on its way from a prefill replica to a decode replica.

    PREFILL   the prefill replica computes the prompt and selects the first token
    WAITING   for a slot of a decode replica; the prefill replica holds the prompt's blocks
    SENDING   its KV is on the link, to the replica whose slot it has
    DECODE    it is there; the prefill replica has let go
    ENDED     cancelled, failed, or lost with the prefill replica's process

KV that is on the link is read where it lies: the prefill replica holds its blocks until the last
byte has left, also where the request was cancelled meanwhile. A transfer that waits behind others
is withdrawn instead. A decode replica that dies on the way costs nothing but time: the prompt's
KV is still where it was computed, and is sent to another. It lands beside the blocks of the
decode replica, and is in blocks when its scheduler has admitted it; what is preempted later is
recomputed there.

Of several answers (`n > 1`) the prefill replica computes the prompt, once, and selects the first
token of the first: one sequence, one slot, one transfer. The others follow on the decode replica,
where the request has a slot for each: they find the prompt's full blocks when the first has made
its step there, compute the tail of the last one for themselves, and select their first tokens, as
behind a first sequence that computed the prompt itself (see `sequence_group`).
"""

from enum import StrEnum
from typing import TYPE_CHECKING

from dataplane.lifecycle import EventKind
from dataplane.queueing.queue import Departure, Lease, Ticket
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.link import Transfer

if TYPE_CHECKING:
    from dataplane.simulation.fleet_replica import FleetReplica
    from dataplane.simulation.phased_replicas import PhasedReplicas


_PAUSED = "its KV goes to a decode replica"


class Stage(StrEnum):
    """Where a request stands between its phases."""

    PREFILL = "prefill"
    WAITING = "waiting"
    SENDING = "sending"
    DECODE = "decode"
    ENDED = "ended"


class Handover:
    """Made when a request is submitted to a prefill replica; changed on the timeline alone."""

    __slots__ = (
        "_engine",
        "_is_cancelled",
        "_lease",
        "_phases",
        "_request",
        "_ticket",
        "_transfer",
        "num_cached_tokens",
        "num_selected_tokens",
        "prefilled_at",
        "sent_at",
        "source",
        "stage",
        "target",
    )

    def __init__(
        self, phases: "PhasedReplicas", request: FleetRequest, source: "FleetReplica"
    ) -> None:
        self.source = source
        """The prefill replica."""
        self.target: FleetReplica | None = None
        """The decode replica, while and after KV is sent to it."""
        self.stage = Stage.PREFILL
        self.num_selected_tokens = 0
        """By the prefill replica."""
        self.num_cached_tokens = 0
        """Of its prompt, which the prefill replica found in its prefix cache."""
        self.prefilled_at = 0.0
        self.sent_at = 0.0
        """When its KV was put on the link, the last time."""
        self._phases = phases
        self._request = request
        self._engine = source.engine
        self._ticket: Ticket | None = None
        self._lease: Lease | None = None
        self._transfer: Transfer | None = None
        self._is_cancelled = False

    @property
    def is_passing(self) -> bool:
        """It is in neither phase."""
        return self.stage in (Stage.WAITING, Stage.SENDING)

    @property
    def max_output_tokens(self) -> int:
        """What the replica that it is submitted to may select, all in all."""
        return 1 if self.stage is Stage.PREFILL else self._request.max_output_tokens

    def begin(self, now: float) -> bool:
        """The prefill replica selected the first token; False when there is nothing to hand over:
        it was decoded, or is to be ended."""
        if self.stage is not Stage.PREFILL:
            return False
        request, engine = self._request, self._engine
        assert request.sequence is not None
        assert engine is not None
        self.num_cached_tokens = request.sequence.num_cached_tokens
        self.num_selected_tokens = request.sequence.num_output_tokens
        self.prefilled_at = now
        lease, request.lease = request.lease, None
        if request.has_left:  # as was said while the step ran
            self.stage = Stage.ENDED
            request.gateway.engine_side.note_cancelled(request)
        else:
            engine.scheduler.hold(request.number)
            if request.trace is not None:
                source = self.source.replica_id
                request.trace.note(EventKind.PAUSED, now, reason=_PAUSED, replica_id=source)
            self._wait()
        if lease is not None:
            num_selected = self.num_selected_tokens
            lease.settle(len(request.call.prompt) + num_selected, num_output_tokens=num_selected)
            lease.release()
        return True

    def cancel(self) -> bool:
        """End it early, where it is in neither phase; False otherwise."""
        if not self.is_passing or self._is_cancelled:
            return False
        request = self._request
        self._is_cancelled = True
        if self._ticket is not None:
            self._leave_queue("it was cancelled")
        elif self._transfer is not None and not self._withdraw():
            request.gateway.engine_side.note_cancelled(request)
            return True  # its blocks are read still
        request.gateway.engine_side.note_cancelled(request)
        self._end()
        return True

    def lose_source(self, replica: "FleetReplica") -> None:
        """A process of the prefill replica is gone, and the KV with it."""
        if replica is not self.source or not self.is_passing:
            return
        self.stage = Stage.ENDED
        if self._ticket is not None:
            self._leave_queue("the prefill replica is gone")
        self._withdraw()
        self._give_back_lease()

    def lose_target(self, replica: "FleetReplica") -> None:
        """The decode replica is gone before all was there: another one takes it."""
        if replica is not self.target or self.stage is not Stage.SENDING or self._is_cancelled:
            return
        self._withdraw()
        self._transfer = self.target = None
        self._give_back_lease()
        self._wait()

    def _wait(self) -> None:
        self.stage = Stage.WAITING
        ticket = self._phases.queue_of(self._request).enter(self._request)
        if ticket.outcome is None:
            self._ticket = ticket
            self._phases.note_waiting()
        ticket.on_leaving(self._take_outcome)

    def _leave_queue(self, why: str) -> None:
        ticket, self._ticket = self._ticket, None
        assert ticket is not None
        self._phases.queue_of(self._request).leave(ticket, why)

    def _take_outcome(self, outcome: Lease | Departure) -> None:
        """How it left the queue of decode replicas."""
        if isinstance(outcome, Departure):
            if self._ticket is not None:
                self._ticket = None
                self._request.gateway.engine_side.note_failed(
                    self._request, f"to decode: {outcome.reason}"
                )
                self._end()
            return
        self._ticket = None
        self.stage = Stage.SENDING
        self._lease = outcome
        self.target = self._phases.replica(outcome.replica_id)
        self._transfer = self._phases.send(self._request, self)

    def arrive(self, transfer: Transfer) -> bool:
        """The last byte of a transfer is there; whether it is of use to anybody."""
        if transfer is not self._transfer or self.stage is not Stage.SENDING:
            return False  # to a replica that was lost meanwhile, or from one
        if self._is_cancelled:
            self._end()
            return False
        self._go_on()
        return True

    def _go_on(self) -> None:
        """On the decode replica."""
        request, target = self._request, self.target
        assert target is not None
        self.stage = Stage.DECODE
        self._transfer = None
        self._let_go()
        request.replica = target
        request.lease, self._lease = self._lease, None
        refusal = target.submit(request)
        if refusal is not None:
            request.gateway.engine_side.note_failed(request, refusal.reason)
            request.gateway.engine_side.note_released(request)

    def _end(self) -> None:
        """Nothing of it is anywhere any more."""
        self.stage = Stage.ENDED
        self._give_back_lease()
        self._let_go()
        self._request.gateway.engine_side.note_released(self._request)

    def _let_go(self) -> None:
        if self.source.engine is self._engine:
            self.source.let_go(self._request)

    def _withdraw(self) -> bool:
        return self._transfer is not None and self._phases.withdraw(self._transfer)

    def _give_back_lease(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()
