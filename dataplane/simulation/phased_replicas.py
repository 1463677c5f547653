"""Replicas that do one phase each: some compute prompts, some decode, and KV goes between them.

A gateway sends a request to a prefill replica, by its queue as ever. Behind it stands a second
queue of the same kind, of the decode replicas: what waits in it has its first token, so no
deadline of its class applies. All transfers share one link, first come, first served.

The first replicas are those of the prefill phase. How many may change while the fleet runs; what
a replica has begun it brings to its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, QueueDemand, Ticket
from dataplane.simulation.fleet_replica import FleetReplica
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.handover import Handover, Stage
from dataplane.simulation.link import Link, Transfer
from dataplane.simulation.phase_split import Phase, PhaseSplit
from dataplane.simulation.queue_expiry import QueueExpiry
from dataplane.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlan:
    """How many replicas do what, and what is between them."""

    split: PhaseSplit
    bits_per_second: float
    bytes_per_token: float
    """Of KV, of each prompt token."""


@dataclass(slots=True)
class TransferCounts:
    """What went from phase to phase."""

    num_transfers: int = 0
    """That arrived, and that somebody still waited for."""
    num_bits: float = 0.0
    """Of those."""
    max_backlog_bits: float = 0.0
    slot_wait_seconds: float = 0.0
    """From the first token until a slot of a decode replica was free, of all of them."""
    link_wait_seconds: float = 0.0
    """From then until KV was there."""
    max_num_waiting: int = 0
    """For a slot of a decode replica."""


class DecodeQueue:
    """Of one gateway: who waits for a decode replica."""

    def __init__(self, timeline: Timeline, unserved_seconds: float, expire_seconds: float) -> None:
        self.queue = DeploymentQueue(clock=timeline, unserved_seconds=unserved_seconds)
        self._expiry = QueueExpiry(self.queue, timeline, expire_seconds)
        self._classes: dict[str, ClassPolicy] = {}

    def set_replicas(
        self, slots: Mapping[str, int | None], held_elsewhere: Mapping[str, int]
    ) -> None:
        """The decode replicas that can be reached."""
        self.queue.set_replicas(slots, held_elsewhere)
        self._expiry.watch()

    def enter(self, request: FleetRequest) -> Ticket:
        """Wait behind those of its priority, for as long as it takes."""
        of_class = request.request_class
        assert of_class is not None
        endless = self._classes.get(of_class.name)
        if endless is None:
            endless = self._classes[of_class.name] = replace(of_class, deadline_seconds=None)
        ticket = self.queue.enter(endless, QueueDemand(request.call.num_sequences))
        self._expiry.watch()
        return ticket

    def leave(self, ticket: Ticket, why: str) -> None:
        """Wait no more."""
        self.queue.leave(ticket, Departure(disposition=Disposition.CANCELLED, reason=why))


class PhasedReplicas:
    """The phases of one fleet."""

    def __init__(
        self, plan: PhasePlan, timeline: Timeline, replicas: Mapping[str, FleetReplica]
    ) -> None:
        """Raises ValueError where the split is of another number of replicas."""
        self.plan = plan
        self.link = Link(timeline, plan.bits_per_second)
        self.counts = TransferCounts()
        self._timeline = timeline
        self._replicas = replicas
        self._queues: dict[str, DecodeQueue] = {}
        self._sending: dict[Transfer, Handover] = {}
        self._phase_by_replica: dict[str, Phase] = {}
        self.set_split(plan.split)
        for each in replicas.values():
            each.phases = self

    @property
    def num_waiting(self) -> int:
        """Requests whose prompt is computed, and that wait for a slot of a decode replica."""
        return sum(each.queue.num_waiting for each in self._queues.values())

    def num_waiting_of(self, gateway_id: str) -> int:
        """Those of one gateway."""
        return self._queues[gateway_id].queue.num_waiting

    @property
    def queues(self) -> list[DeploymentQueue]:
        """Of each gateway, those who wait to be decoded."""
        return [each.queue for each in self._queues.values()]

    def set_split(self, split: PhaseSplit) -> None:
        """Give replicas their phases. Whoever sends to them must be told."""
        if split.num_units != len(self._replicas):
            raise ValueError(
                f"{split.prefill} prefill and {split.decode} decode replicas, of "
                f"{len(self._replicas)}; every replica does one phase"
            )
        self._phase_by_replica = {
            replica_id: Phase.PREFILL if position < split.prefill else Phase.DECODE
            for position, replica_id in enumerate(self._replicas)
        }

    def phase_of(self, replica_id: str) -> Phase:
        """What it does now."""
        return self._phase_by_replica[replica_id]

    def of_phase(self, phase: Phase, slots: Mapping[str, int | None]) -> dict[str, int | None]:
        """Of those slots, those of the replicas of one phase."""
        phases = self._phase_by_replica
        return {each: number for each, number in slots.items() if phases[each] is phase}

    def add_gateway(self, gateway_id: str, unserved_seconds: float, expire_seconds: float) -> None:
        """A gateway that hands requests over."""
        self._queues[gateway_id] = DecodeQueue(self._timeline, unserved_seconds, expire_seconds)

    def set_replicas(
        self, slots: Mapping[str, int | None], held_elsewhere: Mapping[str, int]
    ) -> None:
        """Tell all gateways' queues which decode replicas there are."""
        for queue in self._queues.values():
            queue.set_replicas(slots, held_elsewhere)

    def replica_stopped(self, replica: FleetReplica) -> None:
        """What is on its way there goes elsewhere."""
        for handover in list(self._sending.values()):
            handover.lose_target(replica)

    def prepare(self, request: FleetRequest, replica: FleetReplica) -> Handover | None:
        """Of a request that is submitted to a replica; None: nothing of it is for another."""
        handover = request.handover
        if handover is not None and handover.stage is Stage.DECODE:
            return handover
        if self.hands_over(request):
            request.call.put_longer_first()  # only what goes on is handed over
            request.handover = Handover(self, request, replica)
        else:
            request.handover = None
        return request.handover

    def hands_over(self, request: FleetRequest) -> bool:
        """Whether it needs a decode replica: some answer has more than its first token."""
        return min(request.max_output_tokens, request.call.num_tokens_of_longest) > 1

    # What a handover asks for.

    def queue_of(self, request: FleetRequest) -> DecodeQueue:
        """That of its gateway."""
        return self._queues[request.gateway.gateway_id]

    def replica(self, replica_id: str) -> FleetReplica:
        """By its id."""
        return self._replicas[replica_id]

    def note_waiting(self) -> None:
        """Somebody waits for a slot."""
        self.counts.max_num_waiting = max(self.counts.max_num_waiting, self.num_waiting)

    def send(self, request: FleetRequest, handover: Handover) -> Transfer:
        """Put the KV of its prompt on the link."""
        num_bytes = len(request.call.prompt) * self.plan.bytes_per_token
        transfer = self.link.send(num_bytes, lambda: self._arrive(transfer))
        self._sending[transfer] = handover
        handover.sent_at = self._timeline.now
        counts = self.counts
        counts.max_backlog_bits = max(counts.max_backlog_bits, self.link.backlog_bits)
        return transfer

    def withdraw(self, transfer: Transfer) -> bool:
        """Take back what has not begun; False when it has."""
        if not self.link.withdraw(transfer):
            return False
        del self._sending[transfer]
        return True

    def _arrive(self, transfer: Transfer) -> None:
        handover = self._sending.pop(transfer)
        if handover.arrive(transfer):
            self.counts.num_transfers += 1
            self.counts.num_bits += transfer.num_bits
            self.counts.slot_wait_seconds += handover.sent_at - handover.prefilled_at
            self.counts.link_wait_seconds += self._timeline.now - handover.sent_at
