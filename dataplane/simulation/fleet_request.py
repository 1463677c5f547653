"""One request in a simulated fleet: where it stands, and when what happened to it."""

from typing import TYPE_CHECKING

from dataplane.lifecycle import Delivery, Disposition, State
from dataplane.policy import ClassPolicy
from dataplane.queueing import Departure, Lease, Ticket
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.call import Call

if TYPE_CHECKING:
    from dataplane.simulation.fleet_gateway import SimulatedGateway
    from dataplane.simulation.fleet_replica import FleetReplica
    from dataplane.simulation.request_trace import RequestTrace
    from dataplane.simulation.slow_delivery import SlowDelivery


class FleetRequest:
    """Changed by its gateway alone. All times are the timeline's; None: it has not happened."""

    __slots__ = (
        "arrived_at",
        "call",
        "delivery",
        "disposition",
        "finished_at",
        "first_token_at",
        "first_write_at",
        "gateway",
        "gateway_sequence",
        "has_left",
        "is_released",
        "last_token_at",
        "last_write_at",
        "lease",
        "lost_replica_ids",
        "max_output_tokens",
        "num_attempts",
        "num_cached_tokens",
        "num_output_tokens",
        "num_preemptions",
        "num_tries",
        "number",
        "reason",
        "replica",
        "request_class",
        "retry_after",
        "scheduled_at",
        "sequence",
        "slow_delivery",
        "state",
        "status",
        "ticket",
        "trace",
    )

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
        self.request_class: ClassPolicy | None = None
        self.max_output_tokens = 0
        self.ticket: Ticket | None = None
        self.lease: Lease | None = None
        self.replica: FleetReplica | None = None
        """Of the last attempt."""
        self.sequence: Sequence | None = None
        """Of the last attempt."""
        self.num_attempts = 0
        self.lost_replica_ids: tuple[str, ...] = ()
        self.scheduled_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at: float | None = None
        self.first_write_at: float | None = None
        self.last_write_at: float | None = None
        self.finished_at: float | None = None
        self.num_output_tokens = 0
        self.num_cached_tokens = 0
        self.num_preemptions = 0
        self.disposition: Disposition | None = None
        self.reason: str | None = None
        self.status: int | None = None
        self.retry_after: float | None = None
        self.delivery: Delivery | None = None
        self.has_left = False
        """Its client is gone, or counts as gone."""
        self.is_released = False
        self.trace: RequestTrace | None = None
        self.slow_delivery: SlowDelivery | None = None

    @property
    def replica_ids(self) -> tuple[str, ...]:
        """The replica of each attempt, in order."""
        if self.replica is None or self.replica.replica_id in self.lost_replica_ids:
            return self.lost_replica_ids
        return (*self.lost_replica_ids, self.replica.replica_id)

    def leave_queue(self, outcome: Lease | Departure) -> None:
        """The queue's: how its ticket left."""
        self.gateway.take_outcome(self, outcome)

    def lose_patience_for_first_token(self) -> None:
        """A timer of its client's."""
        if self.first_write_at is None:
            self.gateway.lose_client(self, "the client left")

    def lose_patience(self) -> None:
        """A timer of its client's."""
        self.gateway.lose_client(self, "the client left")

    def stop_waiting_for_release(self) -> None:
        """A timer of its gateway's."""
        self.gateway.give_up_release(self)
