"""What an engine that speculates counts: rounds, drafted and accepted tokens, whole ones."""

from dataclasses import dataclass

from dataplane.simulation.cost import CostModel
from dataplane.simulation.observer.dialect import Drafting
from dataplane.simulation.speculation import SpeculativeCost


def find_speculation(cost: CostModel | None) -> SpeculativeCost | None:
    """The speculation among costs that stand around each other (`inner`); None without any."""
    while cost is not None and not isinstance(cost, SpeculativeCost):
        cost = getattr(cost, "inner", None)
    return cost


@dataclass(slots=True)
class DraftCount:
    """The counts of one process: those of its costs, from its start on, and those of the answers
    that ended."""

    cost: SpeculativeCost
    num_rounds_before: float
    num_accepted_before: float
    num_ended_steps: int = 0
    num_ended_rounds: float = 0.0
    num_ended_accepted: float = 0.0

    @classmethod
    def begin(cls, cost: CostModel | None) -> "DraftCount | None":
        """Of a process that starts now; None where nothing speculates."""
        found = find_speculation(cost)
        return None if found is None else cls(found, found.num_rounds, found.num_accepted)

    def read(self) -> Drafting:
        """Up to now."""
        return self._drafting(
            self.cost.num_rounds - self.num_rounds_before,
            self.cost.num_accepted - self.num_accepted_before,
        )

    def answers_ended(self, num_decode_steps: int) -> None:
        """All answers that ended so far had so many steps; those that are new had rounds as they
        are now."""
        num_rounds = (num_decode_steps - self.num_ended_steps) / self.cost.committed
        self.num_ended_steps = num_decode_steps
        self.num_ended_rounds += num_rounds
        self.num_ended_accepted += num_rounds * (self.cost.committed - 1)

    def read_ended(self) -> Drafting:
        """Of the answers that ended."""
        return self._drafting(self.num_ended_rounds, self.num_ended_accepted)

    def _drafting(self, num_rounds: float, num_accepted: float) -> Drafting:
        return Drafting(
            num_drafts=int(num_rounds),
            num_draft_tokens=int(num_rounds) * self.cost.draft_steps,
            num_accepted_tokens=int(num_accepted),
        )
