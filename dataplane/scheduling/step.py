"""One step: what it computes, and the budgets that it is chosen within."""

from collections.abc import Sequence as ReadableSequence
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from dataplane.scheduling.bounds import Refusal, SchedulerConfig
from dataplane.scheduling.cohort import Cohort, Member
from dataplane.scheduling.sequence import Sequence


class Blocker(StrEnum):
    """What keeps the front of the queue from being admitted."""

    SLOTS = "slots"
    TOKEN_BUDGET = "token_budget"
    PROMPT_BUDGET = "prompt_budget"
    BLOCKS = "blocks"


class ScheduledChunk(NamedTuple):
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


class StepPlan:
    """What one step does. All blocks it writes are reserved in the sequences' block tables.

    It is not changed once it is scheduled, and describes the step as it was then whenever it is
    read. Counts are kept; what names every decoding sequence (`chunks`) is made when it is first
    read.
    """

    # What most steps have none of is told once, and costs a step nothing.
    chunks_apart: tuple[ScheduledChunk, ...] = ()
    """Those of sequences that are visited one by one: all prefills, and few decodes."""
    released: ReadableSequence[Sequence] = ()
    """Finished sequences whose blocks were given back when this step was scheduled."""
    admitted: tuple[Sequence, ...] = ()
    """In their first step. `resumed` ones were admitted before, and preempted."""
    resumed: tuple[Sequence, ...] = ()
    preempted: tuple[Sequence, ...] = ()
    refused: tuple[Refusal, ...] = ()
    """Running sequences that outgrew the whole pool; they are finished."""
    stalled: tuple[Sequence, ...] = ()
    """Running, but without a free block for their next token; older ones took them."""
    deferred_on: Blocker | None = None
    """What keeps the front of the queue out of this step; None when nothing waits."""
    blocked_on: str | None = None
    """Only without chunks: what keeps anything from running. None then: nothing to do."""
    is_empty = True
    """Nothing is computed: there are no chunks."""
    num_prompt_tokens = 0
    """Includes what is recomputed after a preemption."""
    num_decode_steps = 0
    num_reread_tokens = 0
    """Tokens whose KV a prefill reads again because it starts behind them, over prefills."""
    num_context_tokens = 0
    """Tokens that the decode steps attend to, their own included, added over the steps."""
    _members: tuple[Member, ...] = ()
    """They decode one token each, those of the cohort as it was at `_tick`."""
    _tick = 0
    _chunks: tuple[ScheduledChunk, ...] | None = None

    def __init__(
        self,
        num_prompt_tokens: int = 0,
        num_decode_steps: int = 0,
        num_reread_tokens: int = 0,
        num_context_tokens: int = 0,
    ) -> None:
        self.num_prompt_tokens = num_prompt_tokens
        self.num_decode_steps = num_decode_steps
        self.num_reread_tokens = num_reread_tokens
        self.num_context_tokens = num_context_tokens

    @property
    def prefill_chunks(self) -> tuple[ScheduledChunk, ...]:
        """The chunks that are no decode steps, oldest sequence first. Cheap."""
        return tuple([chunk for chunk in self.chunks_apart if chunk.is_prefill])

    @property
    def chunks(self) -> tuple[ScheduledChunk, ...]:
        """All of them, oldest sequence first. The first read costs as many as there are."""
        if self._chunks is None:
            tick = self._tick
            decodes = [
                ScheduledChunk(m.sequence, m.offset + tick, 1, False, True) for m in self._members
            ]
            self._chunks = tuple(sorted([*decodes, *self.chunks_apart], key=_rank_of_chunk))
        return self._chunks

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StepPlan):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    def __repr__(self) -> str:
        told = [f"{name}={getattr(self, name)!r}" for name in _FIELDS if getattr(self, name)]
        return f"StepPlan({', '.join(told)})"


_FIELDS = (
    "chunks",
    "released",
    "admitted",
    "resumed",
    "preempted",
    "refused",
    "stalled",
    "num_prompt_tokens",
    "num_decode_steps",
    "num_reread_tokens",
    "num_context_tokens",
    "deferred_on",
    "blocked_on",
)
_rank_of_chunk = attrgetter("sequence.rank")


class Step(StepPlan):
    """A plan while it is being made: what is chosen, within what is left of the budgets."""

    def __init__(self, config: SchedulerConfig, num_decode_steps: int) -> None:
        """So many sequences decode; a token is set apart for each from the beginning."""
        self._config = config
        self.num_decode_steps = num_decode_steps

    @property
    def tokens_left(self) -> int:
        """Of the budget for all tokens."""
        return self._config.max_num_batched_tokens - self.num_decode_steps - self.num_prompt_tokens

    def grant(self, num_behind: int, is_decoding: bool) -> int:
        """Tokens that a sequence may compute in this step.

        Every decoding one gets its token: the configuration has room for a full house.
        """
        if is_decoding:
            return 1
        prompt_tokens_left = self._config.max_prompt_tokens - self.num_prompt_tokens
        tokens_left = self.tokens_left
        if num_behind <= prompt_tokens_left and num_behind <= tokens_left:
            return num_behind  # as nearly always
        return min(prompt_tokens_left, tokens_left)

    def add_decode(self) -> None:
        """One more sequence decodes: it was admitted."""
        self.num_decode_steps += 1

    def drop_decode(self) -> None:
        """One of the decoding sequences will not run."""
        self.num_decode_steps -= 1

    def add(
        self, sequence: Sequence, num_tokens: int, is_decoding: bool, num_cached_tokens: int = 0
    ) -> None:
        """Put the next tokens of a sequence apart from the cohort into the step."""
        start = sequence.num_computed_tokens
        if is_decoding:
            self.num_context_tokens += start + 1
        else:
            self.num_prompt_tokens += num_tokens
            self.num_reread_tokens += start
        selects_token = start + num_tokens == sequence.num_tokens
        chunk = ScheduledChunk(
            sequence, start, num_tokens, not is_decoding, selects_token, num_cached_tokens
        )
        self.chunks_apart += (chunk,)

    def add_cohort(self, cohort: Cohort) -> None:
        """All that decode together, as they are now; once, when nothing else will change."""
        self._members = cohort.members
        if self._members:
            self._tick = cohort.tick.now
            self.num_context_tokens += cohort.num_context_tokens
            self.is_empty = False
        else:
            self.is_empty = not self.chunks_apart
