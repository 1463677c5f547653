"""The work in a step: what its time depends on."""

from typing import NamedTuple

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.fitting.steps import ObservedStep


class Work(NamedTuple):
    """Of one step, in tokens; or of the mean step of several, where they need not be whole."""

    num_prompt_tokens: float
    num_decode_steps: float
    num_context_tokens: float
    """Attended to by decode steps, their own included."""
    num_reread_tokens: float
    """Before the starts of the prefill chunks."""
    num_attended_tokens: float
    """Pairs of a prompt token and one at or before it, over the prefill chunks."""

    @property
    def num_tokens(self) -> float:
        """Prompt and decode together."""
        return self.num_prompt_tokens + self.num_decode_steps


def attended_tokens(start: int, num_tokens: int) -> float:
    """Pairs in one chunk: each token attends to all before it and to itself."""
    return num_tokens * (start + (num_tokens + 1) / 2)


def work_of_plan(plan: StepPlan) -> Work:
    """Of a step that is to come."""
    return Work(
        plan.num_prompt_tokens,
        plan.num_decode_steps,
        plan.num_context_tokens,
        plan.num_reread_tokens,
        sum(attended_tokens(chunk.start, chunk.num_tokens) for chunk in plan.prefill_chunks),
    )


def work_of_step(step: ObservedStep) -> Work:
    """Of a step that was."""
    prefills = [row for row in step.rows if row.is_prefill]
    decodes = [row for row in step.rows if not row.is_prefill]
    return Work(
        sum(row.num_tokens for row in prefills),
        len(decodes),
        sum(row.start + 1 for row in decodes),
        sum(row.start for row in prefills),
        sum(attended_tokens(row.start, row.num_tokens) for row in prefills),
    )
