"""One waiting request, and the two ways in which it leaves its queue."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from dataplane.leases.lease import Lease as Reservation
from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.demand import QueueDemand
from dataplane.routing.placement import Placement

if TYPE_CHECKING:
    from dataplane.queueing.class_lane import Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Why a ticket left without a slot."""

    disposition: Disposition
    reason: str
    is_unserved: bool = False
    """No replica could take it at all, however long it waited."""


class SlotOwner(Protocol):
    """Who granted a lease."""

    def give_back(self, lease: "Lease") -> None:
        """What it held is free again. For leases alone, which call it once."""
        ...


class Lease:
    """The slots of one request on one replica, held until the `with` block ends."""

    __slots__ = (
        "_is_held",
        "_owner",
        "charge",
        "num_output_tokens",
        "num_slots",
        "num_tokens",
        "placement",
        "replica_id",
        "reservation",
    )

    def __init__(
        self,
        owner: SlotOwner,
        placement: Placement,
        num_slots: int,
        charge: "Charge | None" = None,
        reservation: Reservation | None = None,
    ) -> None:
        """`placement` is its work on the replica, which ends with the lease; `charge` is what its
        tenant was charged, where it had to wait; `reservation` are its blocks of KV cache."""
        self.placement = placement
        self.replica_id = placement.replica_id
        self.num_slots = num_slots
        self.charge = charge
        self.reservation = reservation
        self.num_tokens: int | None = None
        self.num_output_tokens: int | None = None
        self._owner = owner
        self._is_held = True

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def settle(self, num_tokens: int, *, num_output_tokens: int | None = None) -> None:
        """With its end its tenant is charged what it really took, prompt and output. Without it
        what was expected stays charged. Of the output alone it is learned how fast it came."""
        self.num_tokens = num_tokens
        self.num_output_tokens = num_output_tokens

    def release(self) -> None:
        """Give back what is held. Twice is no error."""
        if self._is_held:
            self._is_held = False
            self._owner.give_back(self)
            self.charge = None  # it is settled; its lane may know this lease's ticket for a while


LeavingListener = Callable[[Lease | Departure], None]
"""Is told once, at once. It must not raise; it may call the queue."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One waiting request."""

    request_class: ClassPolicy
    demand: QueueDemand
    number: int
    """In order of arrival."""
    entered_at: float
    deadline_at: float | None
    excluded: Set[str]
    """Replicas that failed it: it is a retry where there are any."""
    unserved_since: float | None = None
    """Since when no connected replica could ever take it."""
    lacks_blocks: bool = False
    """When it was its turn, a replica had its slots free, and not its KV blocks."""
    outcome: Lease | Departure | None = None
    """How it left the queue; None while it waits."""
    _listener: LeavingListener | None = None

    @property
    def class_name(self) -> str:
        """Of its request class."""
        return self.request_class.name

    def on_leaving(self, listener: LeavingListener) -> None:
        """Have `listener` told how the ticket leaves, at once where it has left. Only one can."""
        if self.outcome is None:
            self._listener = listener
        else:
            listener(self.outcome)

    @property
    def waits_for(self) -> str:
        """What has to come before it can start, in words; who goes before it is the queue's."""
        other = " that has not failed it" if self.excluded else ""
        if self.unserved_since is not None:
            return f"a replica{other} to be reached"
        num_slots = self.demand.num_slots
        slots = "a slot" if num_slots == 1 else f"{num_slots} slots at once"
        if self.lacks_blocks and (kv := self.demand.kv) is not None:
            num_tokens = kv.num_prompt_tokens + kv.num_sequences * kv.num_output_tokens
            slots = f"KV blocks for {num_tokens} tokens"
        return f"{slots} on a replica{other}" if other else slots

    def settle(self, outcome: Lease | Departure) -> None:
        """For the queue alone."""
        self.outcome = outcome
        listener, self._listener = self._listener, None
        if listener is not None:
            listener(outcome)
