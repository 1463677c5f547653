"""One waiting request, and the two ways in which it leaves its queue."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from dataplane.lifecycle import Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Why a ticket left without a slot."""

    disposition: Disposition
    reason: str


class SlotOwner(Protocol):
    """Who granted a lease."""

    def give_back(self, replica_id: str, num_slots: int) -> None:
        """Slots are free again. For leases alone, which call it once."""
        ...


class Lease:
    """The slots of one request on one replica, held until the `with` block ends."""

    __slots__ = ("_is_held", "_num_slots", "_owner", "replica_id")

    def __init__(self, owner: SlotOwner, replica_id: str, num_slots: int) -> None:
        self.replica_id = replica_id
        self._num_slots = num_slots
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

    def release(self) -> None:
        """Give the slots back. Twice is no error."""
        if self._is_held:
            self._is_held = False
            self._owner.give_back(self.replica_id, self._num_slots)


LeavingListener = Callable[[Lease | Departure], None]
"""Is told once, at once. It must not raise; it may call the queue."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One waiting request."""

    class_name: str
    priority: int
    number: int
    """In order of arrival."""
    entered_at: float
    deadline_at: float | None
    excluded: Set[str]
    num_slots: int = 1
    """One for each sequence. They are granted together, once so many are free on one replica, or
    all of them where it has fewer."""
    unserved_since: float | None = None
    """Since when no connected replica could ever take it."""
    outcome: Lease | Departure | None = None
    """How it left the queue; None while it waits."""
    _listener: LeavingListener | None = None

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
        slots = "a slot" if self.num_slots == 1 else f"{self.num_slots} slots at once"
        return f"{slots} on a replica{other}" if other else slots

    def settle(self, outcome: Lease | Departure) -> None:
        """For the queue alone."""
        self.outcome = outcome
        listener, self._listener = self._listener, None
        if listener is not None:
            listener(outcome)
