"""Speculative decoding: what a round costs, and how many tokens it commits.

A round drafts `draft_steps` tokens with a small model and lets the large one verify them in one
step. It commits the drafts before the first rejection, and one token of the large model:
between 1 and `draft_steps` + 1. Costs are in plain decode steps of the large model, so a round
pays as long as it commits more tokens than it costs steps.

The scheduler here commits one token a sequence and step. So a step is charged with the share of
a round that one token stands for, `cost / committed`: right on average over a batch, and for a
fault that changes how often a draft is accepted.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRound:
    """What one round left behind."""

    num_accepted: int
    """Drafts that were kept."""
    num_committed: int
    """They, and the token that the large model selected behind them."""
    num_kv_kept: int
    """Of this round's tokens: all but the last, which was selected and not computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeRound:
    """The sizes of a round. Raises ValueError for one that cannot be."""

    draft_steps: int
    draft_cost: float
    """Of one drafted token, in plain decode steps."""
    verify_cost: float = 1.0
    """Of the step that verifies all of them, likewise."""

    def __post_init__(self) -> None:
        if self.draft_steps < 1 or self.draft_cost < 0 or self.verify_cost <= 0:
            raise ValueError(
                f"a round of {self.draft_steps} drafts that cost {self.draft_cost} each and "
                f"{self.verify_cost} to verify; at least one draft, and costs that are not negative"
            )

    @property
    def cost(self) -> float:
        """Of one round, in plain decode steps."""
        return self.draft_steps * self.draft_cost + self.verify_cost

    @property
    def break_even_committed(self) -> float:
        """Tokens a round must commit to cost what plain decoding does, which is one step each."""
        return self.cost

    @property
    def committed_range(self) -> tuple[int, int]:
        """Tokens that a round commits: nothing accepted, and everything."""
        return 1, self.draft_steps + 1

    def cost_per_token(self, committed: float) -> float:
        """In plain decode steps, when rounds commit so many on average.

        Raises ValueError for what no round can commit.
        """
        least, most = self.committed_range
        if not least <= committed <= most:
            raise ValueError(f"a round commits {least} to {most} tokens, not {committed}")
        return self.cost / committed

    def expected_committed(self, acceptance: float) -> float:
        """Tokens a round commits on average when each draft is accepted with this probability.

        1 + a + a^2 + ... + a^draft_steps: draft i counts when all before it did (Leviathan et
        al., "Fast inference from transformers via speculative decoding", 2023, equation 1).
        Raises ValueError outside [0, 1].
        """
        if not 0 <= acceptance <= 1:
            raise ValueError(f"an acceptance of {acceptance} is no share; between 0 and 1")
        return sum(acceptance**position for position in range(self.draft_steps + 1))

    def commit(self, accepted: Iterable[bool]) -> CommittedRound:
        """What a round commits whose drafts were tested so, one after the other.

        What follows the first rejection was not tested, and does not count.
        """
        num_accepted = 0
        for was_accepted in accepted:
            if not was_accepted or num_accepted == self.draft_steps:
                break
            num_accepted += 1
        return CommittedRound(
            num_accepted=num_accepted, num_committed=num_accepted + 1, num_kv_kept=num_accepted
        )


class SpeculativeCost:
    """A `CostModel` around that of plain decoding. The acceptance may change at any time."""

    def __init__(self, plain: CostModel, of_round: SpeculativeRound, acceptance: float) -> None:
        self._plain = plain
        self._round = of_round
        self._acceptance = acceptance
        self._factor = 1.0
        self._committed = 1.0
        self.num_rounds = 0.0
        """As many as the decode steps so far stand for; not whole, since they are averages."""
        self.num_accepted = 0.0
        """Drafts that those rounds kept."""
        self.acceptance = acceptance

    @property
    def acceptance(self) -> float:
        """Probability that a draft is accepted. Setting it raises ValueError outside [0, 1]."""
        return self._acceptance

    @acceptance.setter
    def acceptance(self, acceptance: float) -> None:
        self._committed = self._round.expected_committed(acceptance)
        self._acceptance = acceptance
        self._factor = self._round.cost_per_token(self._committed)

    @property
    def committed(self) -> float:
        """Tokens that a round commits on average, as often as drafts are accepted now."""
        return self._committed

    @property
    def draft_steps(self) -> int:
        """Tokens that a round drafts."""
        return self._round.draft_steps

    def step_time(self, plan: StepPlan) -> float:
        """Prompt tokens cost what they always did; the rest of the step is decoding."""
        plain = self._plain.step_time(plan)
        if not plan.num_decode_steps:
            return plain
        num_rounds = plan.num_decode_steps / self._committed
        self.num_rounds += num_rounds
        self.num_accepted += num_rounds * (self._committed - 1)
        prefill = self._prefill_time(plan) if plan.num_prompt_tokens else 0
        return prefill + max(0, plain - prefill) * self._factor

    def _prefill_time(self, plan: StepPlan) -> float:
        """What a step costs with the prompt tokens of `plan` alone, over one with none."""
        prompts = StepPlan(
            num_prompt_tokens=plan.num_prompt_tokens, num_reread_tokens=plan.num_reread_tokens
        )
        return max(0, self._plain.step_time(prompts) - self._plain.step_time(StepPlan()))
