"""One step: what it computes, and the budgets that it is chosen within."""

from dataclasses import dataclass, field
from enum import StrEnum

from dataplane.scheduling.bounds import Refusal
from dataplane.scheduling.sequence import Sequence


class Blocker(StrEnum):
    """What keeps the front of the queue from being admitted."""

    SLOTS = "slots"
    TOKEN_BUDGET = "token_budget"
    PROMPT_BUDGET = "prompt_budget"
    BLOCKS = "blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledChunk:
    """Tokens [start, start + num_tokens) of one sequence, computed in this step."""

    sequence: Sequence
    start: int
    num_tokens: int
    is_prefill: bool
    """False for a decode step: the one token that was selected last."""
    selects_token: bool
    """The sequence has caught up after this chunk, so a token is selected."""
    num_cached_tokens: int = 0
    """Tokens before `start` that this admission found in the prefix cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What one step does. All blocks it writes are reserved in the sequences' block tables."""

    chunks: tuple[ScheduledChunk, ...] = ()
    released: tuple[Sequence, ...] = ()
    """Finished sequences whose blocks were given back when this step was scheduled."""
    admitted: tuple[Sequence, ...] = ()
    """In their first step. `resumed` ones were admitted before, and preempted."""
    resumed: tuple[Sequence, ...] = ()
    preempted: tuple[Sequence, ...] = ()
    refused: tuple[Refusal, ...] = ()
    """Running sequences that outgrew the whole pool; they are finished."""
    stalled: tuple[Sequence, ...] = ()
    """Running, but without a free block for their next token; older ones took them."""
    num_prompt_tokens: int = 0
    """Includes what is recomputed after a preemption."""
    num_decode_steps: int = 0
    num_reread_tokens: int = 0
    """Tokens whose KV a prefill reads again because it starts behind them, added over prefills."""
    num_context_tokens: int = 0
    """Tokens that the decode steps attend to, their own included, added over the steps."""
    deferred_on: Blocker | None = None
    """What keeps the front of the queue out of this step; None when nothing waits."""
    blocked_on: str | None = None
    """Only without chunks: what keeps anything from running. None then: nothing to do."""


@dataclass(slots=True)
class Step:
    """A plan while it is being made: what is chosen, and what is left of the budgets."""

    tokens_left: int
    prompt_tokens_left: int
    num_decodes_to_come: int
    """Running sequences that decode and were not visited yet: one token is kept for each."""
    chunks: list[ScheduledChunk] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    resumed: list[Sequence] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    stalled: list[Sequence] = field(default_factory=list)

    def grant(self, num_behind: int, is_decoding: bool) -> int:
        """Tokens that a sequence may compute in this step.

        Every decoding one gets its token: the configuration has room for a full house.
        """
        if is_decoding:
            return 1
        return min(num_behind, self.prompt_tokens_left, self.tokens_left - self.num_decodes_to_come)

    def add(self, sequence: Sequence, num_tokens: int, num_cached_tokens: int = 0) -> None:
        """Put the next `num_tokens` tokens of `sequence` into the step and charge the budgets."""
        is_decoding = sequence.is_decoding
        self.tokens_left -= num_tokens
        if not is_decoding:
            self.prompt_tokens_left -= num_tokens
        self.chunks.append(
            ScheduledChunk(
                sequence=sequence,
                start=sequence.num_computed_tokens,
                num_tokens=num_tokens,
                is_prefill=not is_decoding,
                selects_token=num_tokens == sequence.num_tokens_behind,
                num_cached_tokens=num_cached_tokens,
            )
        )

    def to_plan(
        self, released: list[Sequence], deferred_on: Blocker | None, blocked_on: str | None
    ) -> StepPlan:
        """The finished plan."""
        return StepPlan(
            chunks=tuple(self.chunks),
            released=tuple(released),
            admitted=tuple(self.admitted),
            resumed=tuple(self.resumed),
            preempted=tuple(self.preempted),
            refused=tuple(self.refused),
            stalled=tuple(self.stalled),
            num_prompt_tokens=sum(c.num_tokens for c in self.chunks if c.is_prefill),
            num_decode_steps=sum(not c.is_prefill for c in self.chunks),
            num_reread_tokens=sum(c.start for c in self.chunks if c.is_prefill),
            num_context_tokens=sum(c.start + 1 for c in self.chunks if not c.is_prefill),
            deferred_on=deferred_on,
            blocked_on=blocked_on,
        )
