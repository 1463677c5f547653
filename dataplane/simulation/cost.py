"""What a step takes: a function of the work in it, known beforehand or fitted."""

from dataclasses import dataclass
from typing import Protocol

from dataplane.scheduling.step import StepPlan


class CostModel(Protocol):
    """How long a step takes."""

    def step_time(self, plan: StepPlan) -> float:
        """In the unit of the timeline; at least 0."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCost:
    """Each part of the work costs the same, however much of it there is."""

    iteration: float
    """Of every step."""
    per_prompt_token: float
    per_decode_step: float
    per_reread_token: float = 0
    """Of each token before the start of a continued prefill: its KV is read again."""
    per_context_token: float = 0
    """Of each token that a decode step attends to."""

    def step_time(self, plan: StepPlan) -> float:
        """The sum over the parts."""
        return (
            self.iteration
            + self.per_prompt_token * plan.num_prompt_tokens
            + self.per_decode_step * plan.num_decode_steps
            + self.per_reread_token * plan.num_reread_tokens
            + self.per_context_token * plan.num_context_tokens
        )
