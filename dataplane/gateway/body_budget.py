"""How many bytes of request bodies one gateway holds at once, all requests together.

A body stays in memory, as text or as what it was parsed to, until its request has ended; a
thousand clients that send the largest body allowed would otherwise take gigabytes. A lease is
taken around each request and grows with what is read and what that is parsed to; whoever finds
the budget spent is told to come back.
"""

from dataclasses import dataclass
from types import TracebackType


@dataclass(slots=True)
class BodyBudget:
    """Shared by all requests of a gateway; one event loop owns it."""

    max_bytes: int
    num_bytes: int = 0
    """Held now."""

    def lease(self) -> "BodyLease":
        """For one request; it holds nothing yet."""
        return BodyLease(self)


@dataclass(slots=True)
class BodyLease:
    """What one request holds, given back when the `with` block ends."""

    budget: BodyBudget
    num_bytes: int = 0

    def reach(self, num_bytes: int) -> bool:
        """Hold at least that many bytes; False, and nothing changed, when too few are left."""
        more = num_bytes - self.num_bytes
        if more <= 0:
            return True
        if self.budget.num_bytes + more > self.budget.max_bytes:
            return False
        self.budget.num_bytes += more
        self.num_bytes = num_bytes
        return True

    def __enter__(self) -> "BodyLease":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.budget.num_bytes -= self.num_bytes
        self.num_bytes = 0
