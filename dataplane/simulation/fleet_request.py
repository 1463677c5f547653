"""One request in a simulated fleet: where it stands, and when what happened to it."""

from typing import TYPE_CHECKING

from dataplane.admission.admit import RejectionKind
from dataplane.admission.deployment_admission import AdmissionHold
from dataplane.lifecycle import CLIENT_LEFT, Delivery, Disposition, State
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, Lease, Ticket
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.call import Call

if TYPE_CHECKING:
    from dataplane.simulation.fleet_gateway import SimulatedGateway
    from dataplane.simulation.fleet_replica import FleetReplica
    from dataplane.simulation.handover import Handover
    from dataplane.simulation.late_delivery import LateDelivery
    from dataplane.simulation.request_trace import RequestTrace
    from dataplane.simulation.sequence_group import SequenceGroup
    from dataplane.simulation.slow_delivery import SlowDelivery


class FleetRequest:
    """Changed by its gateway alone. All times are the timeline's; None: it has not happened."""

    # What most requests never change is told once, and costs a request nothing.
    max_output_tokens = 0
    request_class: ClassPolicy | None = None
    ticket: Ticket | None = None
    lease: Lease | None = None
    hold: AdmissionHold | None = None
    """What its admission gave it, until it is released."""
    replica: "FleetReplica | None" = None
    """Of the last attempt."""
    sequence: Sequence | None = None
    """Of the last attempt; of several, the first."""
    group: "SequenceGroup | None" = None
    """Of the last attempt; None: it has one sequence."""
    num_attempts = 0
    lost_replica_ids: tuple[str, ...] = ()
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    first_write_at: float | None = None
    num_first_written_tokens = 1
    """Of the first write: an answer that it holds whole has no pace."""
    last_write_at: float | None = None
    finished_at: float | None = None
    num_output_tokens = 0
    num_cached_tokens = 0
    num_preemptions = 0
    disposition: Disposition | None = None
    reason: str | None = None
    rejection: RejectionKind | None = None
    """None: it was not rejected."""
    status: int | None = None
    retry_after: float | None = None
    delivery: Delivery | None = None
    has_left = False
    """Its client is gone, or counts as gone."""
    is_released = False
    trace: "RequestTrace | None" = None
    slow_delivery: "SlowDelivery | None" = None
    late_delivery: "LateDelivery | None" = None
    """Where writing takes its gateway time; then nothing else is asked."""
    handover: "Handover | None" = None
    """Between two phases on replicas of their own; None: one replica does both."""

    def __init__(
        self,
        number: int,
        gateway: "SimulatedGateway",
        gateway_sequence: int,
        call: Call,
        arrived_at: float,
        num_tries: int,
    ) -> None:
        self.number = number
        """Of all of a fleet, in order of arrival."""
        self.gateway = gateway
        self.gateway_sequence = gateway_sequence
        self.call = call
        self.arrived_at = arrived_at
        self.num_tries = num_tries
        """How often this very call was sent before."""
        self.state = State.ARRIVED

    @property
    def replica_ids(self) -> tuple[str, ...]:
        """The replica of each attempt, in order; of one in two phases, that of each."""
        tried = [] if self.handover is None else [self.handover.source]
        tried += [] if self.replica is None or self.replica in tried else [self.replica]
        lost = self.lost_replica_ids
        return (*lost, *[each.replica_id for each in tried if each.replica_id not in lost])

    @property
    def num_taken_tokens(self) -> int:
        """What it took of engines, prompt and output: of one that never came to work, nothing."""
        return 0 if self.scheduled_at is None else len(self.call.prompt) + self.num_output_tokens

    def count_tokens(self) -> None:
        """Take over what its sequences hold, with its end."""
        sequence, handover = self.sequence, self.handover
        if sequence is None:
            return
        group = self.group
        self.num_output_tokens = (
            sequence.num_output_tokens if group is None else group.num_output_tokens
        )
        if handover is None or sequence.num_handed_over_tokens == 0:
            self.num_cached_tokens = sequence.num_cached_tokens
        else:  # its prompt was computed on another replica
            self.num_cached_tokens = handover.num_cached_tokens

    def leave_queue(self, outcome: Lease | Departure) -> None:
        """The queue's: how its ticket left."""
        self.gateway.take_outcome(self, outcome)

    def lose_patience_for_first_token(self) -> None:
        """A timer of its client's."""
        if self.first_write_at is None:
            self.gateway.client_side.lose(self, CLIENT_LEFT)

    def lose_patience(self) -> None:
        """A timer of its client's."""
        self.gateway.client_side.lose(self, CLIENT_LEFT)

    def stop_waiting_for_release(self) -> None:
        """A timer of its gateway's."""
        self.gateway.engine_side.give_up(self)
