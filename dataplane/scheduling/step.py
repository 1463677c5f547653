"""One step: what it computes, and the budgets that it is chosen within."""

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

    It is never changed, and describes the step as it was scheduled whenever it is read. Counts
    are kept; what names every decoding sequence (`chunks`) is made when it is first read.
    """

    __slots__ = (
        "_chunks",
        "_members",
        "_tick",
        "admitted",
        "blocked_on",
        "chunks_apart",
        "deferred_on",
        "num_context_tokens",
        "num_decode_steps",
        "num_prompt_tokens",
        "num_reread_tokens",
        "preempted",
        "refused",
        "released",
        "resumed",
        "stalled",
    )

    def __init__(
        self,
        chunks_apart: tuple[ScheduledChunk, ...] = (),
        members: tuple[Member, ...] = (),
        tick: int = 0,
        released: tuple[Sequence, ...] = (),
        admitted: tuple[Sequence, ...] = (),
        resumed: tuple[Sequence, ...] = (),
        preempted: tuple[Sequence, ...] = (),
        refused: tuple[Refusal, ...] = (),
        stalled: tuple[Sequence, ...] = (),
        num_prompt_tokens: int = 0,
        num_decode_steps: int = 0,
        num_reread_tokens: int = 0,
        num_context_tokens: int = 0,
        deferred_on: Blocker | None = None,
        blocked_on: str | None = None,
    ) -> None:
        """`members` decode one token each, those of the cohort as it was at `tick`."""
        self._members = members
        self._tick = tick
        self._chunks: tuple[ScheduledChunk, ...] | None = None
        self.chunks_apart = chunks_apart
        """Those of sequences that are visited one by one: all prefills, and few decodes."""
        self.released = released
        """Finished sequences whose blocks were given back when this step was scheduled."""
        self.admitted = admitted
        """In their first step. `resumed` ones were admitted before, and preempted."""
        self.resumed = resumed
        self.preempted = preempted
        self.refused = refused
        """Running sequences that outgrew the whole pool; they are finished."""
        self.stalled = stalled
        """Running, but without a free block for their next token; older ones took them."""
        self.num_prompt_tokens = num_prompt_tokens
        """Includes what is recomputed after a preemption."""
        self.num_decode_steps = num_decode_steps
        self.num_reread_tokens = num_reread_tokens
        """Tokens whose KV a prefill reads again because it starts behind them, over prefills."""
        self.num_context_tokens = num_context_tokens
        """Tokens that the decode steps attend to, their own included, added over the steps."""
        self.deferred_on = deferred_on
        """What keeps the front of the queue out of this step; None when nothing waits."""
        self.blocked_on = blocked_on
        """Only without chunks: what keeps anything from running. None then: nothing to do."""

    @property
    def is_empty(self) -> bool:
        """Nothing is computed: there are no chunks. Cheap."""
        return not (self._members or self.chunks_apart)

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


_FIELDS = ("chunks", *(n for n in StepPlan.__slots__ if n[0] != "_" and n != "chunks_apart"))
_rank_of_chunk = attrgetter("sequence.rank")


class Step:
    """A plan while it is being made: what is chosen, and what is left of the budgets."""

    __slots__ = (
        "admitted",
        "chunks_apart",
        "num_context_tokens",
        "num_decodes",
        "num_prompt_tokens",
        "num_reread_tokens",
        "preempted",
        "prompt_tokens_left",
        "refused",
        "resumed",
        "stalled",
        "tokens_left",
    )

    def __init__(self, config: SchedulerConfig, num_decodes: int) -> None:
        """`num_decodes` sequences decode; a token is set apart for each from the beginning."""
        self.num_decodes = num_decodes
        self.tokens_left = config.max_num_batched_tokens - num_decodes
        self.prompt_tokens_left = config.max_prompt_tokens
        self.num_prompt_tokens = 0
        self.num_reread_tokens = 0
        self.num_context_tokens = 0
        """Of the decodes among `chunks_apart`."""
        self.chunks_apart: list[ScheduledChunk] = []
        self.admitted: list[Sequence] = []
        self.resumed: list[Sequence] = []
        self.preempted: list[Sequence] = []
        self.refused: list[Refusal] = []
        self.stalled: list[Sequence] = []

    def grant(self, num_behind: int, is_decoding: bool) -> int:
        """Tokens that a sequence may compute in this step.

        Every decoding one gets its token: the configuration has room for a full house.
        """
        if is_decoding:
            return 1
        return min(num_behind, self.prompt_tokens_left, self.tokens_left)

    def add_decode(self) -> None:
        """One more sequence decodes: it was admitted."""
        self.num_decodes += 1
        self.tokens_left -= 1

    def drop_decode(self) -> None:
        """One of the decoding sequences will not run."""
        self.num_decodes -= 1
        self.tokens_left += 1

    def add(
        self, sequence: Sequence, num_tokens: int, is_decoding: bool, num_cached_tokens: int = 0
    ) -> None:
        """Put the next tokens of a sequence apart from the cohort into the step."""
        start = sequence.num_computed_tokens
        if is_decoding:
            self.num_context_tokens += start + 1
        else:
            self.tokens_left -= num_tokens
            self.prompt_tokens_left -= num_tokens
            self.num_prompt_tokens += num_tokens
            self.num_reread_tokens += start
        selects_token = start + num_tokens == sequence.num_tokens
        self.chunks_apart.append(
            ScheduledChunk(
                sequence, start, num_tokens, not is_decoding, selects_token, num_cached_tokens
            )
        )

    def to_plan(
        self,
        cohort: Cohort,
        released: list[Sequence],
        deferred_on: Blocker | None,
        blocked_on: str | None,
    ) -> StepPlan:
        """The finished plan: all of `cohort`, and those apart."""
        return StepPlan(
            tuple(self.chunks_apart),
            cohort.members,
            cohort.tick.now,
            tuple(released),
            tuple(self.admitted),
            tuple(self.resumed),
            tuple(self.preempted),
            tuple(self.refused),
            tuple(self.stalled),
            self.num_prompt_tokens,
            self.num_decodes,
            self.num_reread_tokens,
            self.num_context_tokens + cohort.num_context_tokens,
            deferred_on,
            blocked_on,
        )
