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


@dataclass(frozen=True, slots=True)
class DraftCount:
    """The counts of one process: those of its costs, from its start on."""

    cost: SpeculativeCost
    num_rounds_before: float
    num_accepted_before: float

    @classmethod
    def begin(cls, cost: CostModel | None) -> "DraftCount | None":
        """Of a process that starts now; None where nothing speculates."""
        found = find_speculation(cost)
        return None if found is None else cls(found, found.num_rounds, found.num_accepted)

    def read(self) -> Drafting:
        """Up to now."""
        num_rounds = self.cost.num_rounds - self.num_rounds_before
        return Drafting(
            num_drafts=int(num_rounds),
            num_draft_tokens=int(num_rounds) * self.cost.draft_steps,
            num_accepted_tokens=int(self.cost.num_accepted - self.num_accepted_before),
        )
