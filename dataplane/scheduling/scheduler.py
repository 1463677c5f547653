"""Chooses what one engine step computes, and commits what it selected.

One rule serves prefill, continued prefill, prefix hits, recomputation and decode: every
step lets each sequence *catch up* as far as the budgets allow (see `sequence`). An
iteration is::

    schedule()   retire and release what finished
                 running sequences, oldest first: refuse what has outgrown the pool,
                     grant tokens, reserve every block they need
                 then admit from the front of the queue while slots, budgets and blocks last
    (run)        the engine computes the plan's chunks
    commit()     KV is there: register full blocks, append selected tokens

Order is arrival order and nothing overtakes: every running sequence is older than every
waiting one. When blocks run out, the newest running sequence is preempted: it loses its
blocks, keeps its output and returns to the front of the queue. The oldest can thus always
take what it needs, so something always progresses.

The scheduler has no clock: what a step costs is the business of who runs it.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.bounds import (
    Refusal,
    RefusalKind,
    SchedulerConfig,
    find_pool_refusal,
    find_refusal,
)
from dataplane.scheduling.prefix_cache import NO_MATCH, PrefixCache, PrefixMatch
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from dataplane.scheduling.step import Blocker, ScheduledChunk, Step, StepPlan

__all__ = [
    "Blocker",
    "Refusal",
    "RefusalKind",
    "ScheduledChunk",
    "Scheduler",
    "SchedulerConfig",
    "SchedulerError",
    "SchedulerStats",
    "StepPlan",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStats:
    """A snapshot between two steps."""

    num_running: int
    num_waiting: int
    """Preempted ones included."""
    num_unreleased: int
    """Finished sequences that still hold blocks or a place."""
    num_free_blocks: int
    num_referenced_blocks: int
    num_cached_blocks: int
    num_evictable_blocks: int
    num_steps: int
    num_preemptions: int
    num_prefix_query_tokens: int
    """Prompt tokens looked up in the prefix cache, at first admissions."""
    num_prefix_hit_tokens: int


class SchedulerError(Exception):
    """Calls in an order or with arguments that cannot be right: a bug in the caller."""


class Scheduler:
    """Continuous batching over one block pool. Single-threaded; `schedule` and `commit` alternate.

    `add`, `finish` and `finish_sequence` may be called at any time, also while a step runs.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks, config.block_size)
        self._prefix_cache = PrefixCache(self.pool) if config.is_prefix_caching else None
        self._sequences: dict[int, Sequence] = {}  # everything that is not released
        self._running: list[Sequence] = []  # oldest first
        self._waiting: deque[Sequence] = deque()  # oldest first
        self._finished: list[Sequence] = []  # not released
        self._step_in_flight: StepPlan | None = None
        self._num_steps = 0
        self._num_preemptions = 0
        self._num_prefix_query_tokens = 0
        self._num_prefix_hit_tokens = 0

    @property
    def has_work(self) -> bool:
        """Something runs, waits, or is to be released."""
        return bool(self._sequences)

    @property
    def stats(self) -> SchedulerStats:
        """A snapshot; cheap."""
        return SchedulerStats(
            num_running=len(self._running),
            num_waiting=len(self._waiting),
            num_unreleased=len(self._finished),
            num_free_blocks=self.pool.num_free,
            num_referenced_blocks=self.pool.num_referenced,
            num_cached_blocks=self.pool.num_cached,
            num_evictable_blocks=self.pool.num_evictable,
            num_steps=self._num_steps,
            num_preemptions=self._num_preemptions,
            num_prefix_query_tokens=self._num_prefix_query_tokens,
            num_prefix_hit_tokens=self._num_prefix_hit_tokens,
        )

    def add(self, sequence: Sequence) -> Refusal | None:
        """Queue a sequence behind all others, or say why it can never run.

        Raises SchedulerError for an id that is still in use or a sequence that was used before.
        """
        if sequence.sequence_id in self._sequences:
            raise SchedulerError(f"sequence {sequence.sequence_id} was added before; use a new id")
        if sequence.status is not SequenceStatus.WAITING or sequence.output_token_ids:
            raise SchedulerError(f"sequence {sequence.sequence_id} is not new; make a fresh one")
        refusal = find_refusal(self.config, sequence)
        if refusal is not None:
            sequence.move_to(SequenceStatus.FINISHED)
            return refusal
        self._sequences[sequence.sequence_id] = sequence
        self._waiting.append(sequence)
        return None

    def finish(self, request_id: str) -> list[Sequence]:
        """End every sequence of a request; [] when unknown or finished. Blocks go at `retire`."""
        ended = [
            s for s in self._sequences.values() if s.request_id == request_id and not s.is_finished
        ]
        for sequence in ended:
            self._end(sequence)
        return ended

    def finish_sequence(self, sequence_id: int) -> Sequence | None:
        """End one sequence (a stop token, a stop string); None when unknown or finished."""
        sequence = self._sequences.get(sequence_id)
        if sequence is None or sequence.is_finished:
            return None
        self._end(sequence)
        return sequence

    def retire(self) -> list[Sequence]:
        """Give back the blocks of finished sequences, except of those the running step reads.

        `schedule` begins with it; call it apart to release while nothing is to be scheduled.
        """
        in_flight = self._ids_in_flight()
        retired = [s for s in self._finished if s.sequence_id not in in_flight]
        self._finished = [s for s in self._finished if s.sequence_id in in_flight]
        for sequence in retired:
            self._release_blocks(sequence)
            del self._sequences[sequence.sequence_id]
        return retired

    def schedule(self) -> StepPlan:
        """Choose the next step and reserve every block it writes.

        A plan with chunks must be committed or abandoned before the next call: else
        SchedulerError.
        """
        if self._step_in_flight is not None:
            raise SchedulerError("the last plan was not committed; commit it before scheduling")
        released = self.retire()
        step = Step(
            tokens_left=self.config.max_num_batched_tokens,
            prompt_tokens_left=self.config.max_prompt_tokens,
            num_decodes_to_come=sum(s.is_decoding for s in self._running),
        )
        self._continue_running(step)
        if step.refused:
            released += self.retire()
        deferred_on = self._admit_waiting(step)
        blocked_on = None if step.chunks else self._explain_block(deferred_on)
        plan = step.to_plan(released, deferred_on, blocked_on)
        if plan.chunks:
            self._step_in_flight = plan
            self._num_steps += 1
        return plan

    def commit(
        self, plan: StepPlan, selected: Mapping[int, int] | None = None
    ) -> list[Sequence]:
        """Record that `plan` ran. `selected` maps sequence ids to the token each one selected.

        Every chunk with `selects_token` needs an entry; those of sequences that were
        finished meanwhile are ignored. None: each selects what its script says. Returns the
        sequences that reached their output limit, or the end of their script, with this step;
        they are finished. Raises SchedulerError, and changes nothing, for another plan than
        the one in flight or a wrong set of tokens.
        """
        self._check_in_flight(plan)
        if selected is None:
            selected = _scripted(plan)
        self._check_selected(plan, selected)
        self._step_in_flight = None
        complete = []
        for chunk in plan.chunks:
            sequence = chunk.sequence
            if sequence.is_finished:
                continue
            sequence.num_computed_tokens += chunk.num_tokens
            if self._prefix_cache is not None:
                self._prefix_cache.register(sequence)
            if chunk.selects_token:
                sequence.output_token_ids.append(selected[sequence.sequence_id])
                if sequence.is_complete:
                    self._end(sequence)
                    complete.append(sequence)
        return complete

    def abandon(self, plan: StepPlan) -> None:
        """Record that `plan` failed: nothing counts as computed, and it may be tried again.

        Raises SchedulerError for another plan than the one in flight.
        """
        self._check_in_flight(plan)
        self._step_in_flight = None

    def check_integrity(self) -> None:
        """Raises AssertionError when sequences, block tables, pool and trie disagree."""
        self.pool.check_integrity(s.block_table for s in self._sequences.values())
        if self._prefix_cache is not None:
            self._prefix_cache.check_integrity()
        places = [*self._running, *self._waiting, *self._finished]
        if Counter(map(id, places)) != Counter(map(id, self._sequences.values())):
            raise AssertionError(
                f"{len(self._running)} running + {len(self._waiting)} waiting + "
                f"{len(self._finished)} finished, but {len(self._sequences)} are known"
            )
        if len(self._running) > self.config.max_num_seqs:
            raise AssertionError(f"{len(self._running)} run in {self.config.max_num_seqs} slots")
        for sequence in self._sequences.values():
            self._check_sequence(sequence)

    # What follows decides; it is called by the methods above in their order.

    def _continue_running(self, step: Step) -> None:
        position = 0
        while position < len(self._running):
            sequence = self._running[position]
            is_decoding = sequence.is_decoding
            step.num_decodes_to_come -= is_decoding
            refusal = find_pool_refusal(self.config, sequence)
            if refusal is not None:
                self._end(sequence)  # the next one takes its position
                step.refused.append(refusal)
                continue
            num_tokens = step.grant(sequence.num_tokens_behind, is_decoding)
            if num_tokens > 0:
                if self._reserve(sequence, num_tokens, step):
                    step.add(sequence, num_tokens)
                else:
                    step.stalled.append(sequence)
            position += 1

    def _reserve(self, sequence: Sequence, num_tokens: int, step: Step) -> bool:
        """Extend the block table, at the cost of newer sequences; False when it is the newest."""
        needed = self.pool.num_blocks_for(sequence.num_computed_tokens + num_tokens)
        needed -= len(sequence.block_table)
        if needed <= 0:
            return True
        while (block_ids := self.pool.allocate(needed)) is None:
            if self._running[-1] is sequence:
                return False
            self._preempt_newest(step)
        sequence.block_table.extend(block_ids)
        return True

    def _preempt_newest(self, step: Step) -> None:
        sequence = self._running.pop()
        step.num_decodes_to_come -= sequence.is_decoding
        sequence.move_to(SequenceStatus.PREEMPTED)
        self._release_blocks(sequence)
        sequence.num_preemptions += 1
        self._num_preemptions += 1
        self._waiting.appendleft(sequence)
        step.preempted.append(sequence)

    def _admit_waiting(self, step: Step) -> Blocker | None:
        """Admit from the front of the queue; what keeps the next one out, if one is left."""
        num_owed = sum(map(self._num_blocks_owed, self._running)) if self._waiting else 0
        while self._waiting:
            if step.preempted or step.stalled:
                return Blocker.BLOCKS
            if len(self._running) >= self.config.max_num_seqs:
                return Blocker.SLOTS
            if step.tokens_left < 1:
                return Blocker.TOKEN_BUDGET
            sequence = self._waiting[0]
            match = self._find_match(sequence, self.pool.num_free - num_owed)
            if match is None:
                return Blocker.BLOCKS
            if not self._admit(sequence, match, step):
                return Blocker.PROMPT_BUDGET
            num_owed += self._num_blocks_owed(sequence)
        return None

    def _num_blocks_owed(self, sequence: Sequence) -> int:
        """Blocks that an admitted sequence still needs for its tokens, and one to grow into.

        New ones are admitted behind these: an admission that the next steps would have to
        undo is worth nothing.
        """
        return 1 + self.pool.num_blocks_for(sequence.num_tokens) - len(sequence.block_table)

    def _find_match(self, sequence: Sequence, num_spare: int) -> PrefixMatch | None:
        """The reusable prefix of `sequence`; None when all its tokens need more than `num_spare`.

        Reused blocks that nobody references cost a free block too.
        """
        if num_spare < 1:
            return None
        match = NO_MATCH if self._prefix_cache is None else self._prefix_cache.match(sequence)
        num_revived = sum(self.pool.ref_count(block_id) == 0 for block_id in match.block_ids)
        num_new = self.pool.num_blocks_for(sequence.num_tokens) - len(match.block_ids)
        return match if num_new + num_revived <= num_spare else None

    def _admit(self, sequence: Sequence, match: PrefixMatch, step: Step) -> bool:
        """Start `sequence` behind its reused prefix; False when no prompt budget is left."""
        num_behind = sequence.num_tokens - match.num_tokens
        num_tokens = step.grant(num_behind, bool(sequence.output_token_ids) and num_behind == 1)
        if num_tokens < 1:
            return False
        self._waiting.popleft()
        self._running.append(sequence)
        self._take_over(sequence, match)
        is_first = sequence.status is SequenceStatus.WAITING
        if is_first:
            sequence.num_cached_tokens = match.num_tokens
            self._num_prefix_query_tokens += sequence.num_prompt_tokens
            self._num_prefix_hit_tokens += match.num_tokens
        (step.admitted if is_first else step.resumed).append(sequence)
        sequence.move_to(SequenceStatus.RUNNING)
        if not self._reserve(sequence, num_tokens, step):
            raise SchedulerError(f"sequence {sequence.sequence_id} was admitted without its blocks")
        step.add(sequence, num_tokens, num_cached_tokens=match.num_tokens)
        return True

    def _take_over(self, sequence: Sequence, match: PrefixMatch) -> None:
        self.pool.reference(match.block_ids)
        sequence.block_table = list(match.block_ids)
        sequence.num_computed_tokens = match.num_tokens
        sequence.cache_node = match.node
        sequence.num_registered_blocks = len(match.block_ids)

    def _release_blocks(self, sequence: Sequence) -> None:
        self.pool.release(sequence.block_table)
        self._take_over(sequence, NO_MATCH)

    def _explain_block(self, deferred_on: Blocker | None) -> str | None:
        if deferred_on is None and not self._running:
            return None
        return (
            f"{deferred_on or Blocker.BLOCKS}: {self.pool.num_free} of {self.pool.num_blocks} "
            f"blocks free, {len(self._running)} of {self.config.max_num_seqs} slots used, "
            f"{len(self._waiting)} waiting"
        )

    def _end(self, sequence: Sequence) -> None:
        if sequence.status is SequenceStatus.RUNNING:
            self._running.remove(sequence)
        else:
            self._waiting.remove(sequence)
        sequence.move_to(SequenceStatus.FINISHED)
        self._finished.append(sequence)

    def _ids_in_flight(self) -> set[int]:
        plan = self._step_in_flight
        return set() if plan is None else {c.sequence.sequence_id for c in plan.chunks}

    def _check_in_flight(self, plan: StepPlan) -> None:
        if plan is not self._step_in_flight:
            raise SchedulerError("this plan is not in flight: commit each plan once, in order")

    def _check_selected(self, plan: StepPlan, selected: Mapping[int, int]) -> None:
        expected = {c.sequence.sequence_id for c in plan.chunks if c.selects_token}
        live = {
            c.sequence.sequence_id
            for c in plan.chunks
            if c.selects_token and not c.sequence.is_finished
        }
        if not live <= selected.keys() <= expected:
            raise SchedulerError(
                f"tokens were selected for sequences {sorted(selected)}, "
                f"expected for {sorted(expected)}"
            )

    def _check_sequence(self, sequence: Sequence) -> None:
        slots = len(sequence.block_table) * self.pool.block_size
        if not sequence.num_computed_tokens <= min(slots, sequence.num_tokens):
            raise AssertionError(
                f"sequence {sequence.sequence_id} has KV of {sequence.num_computed_tokens} of "
                f"{sequence.num_tokens} tokens in {slots} slots"
            )
        is_idle = sequence.status in (SequenceStatus.WAITING, SequenceStatus.PREEMPTED)
        if is_idle and sequence.block_table:
            raise AssertionError(
                f"sequence {sequence.sequence_id} is {sequence.status} and holds "
                f"{len(sequence.block_table)} blocks; it must hold 0"
            )


def _scripted(plan: StepPlan) -> dict[int, int]:
    """What the live sequences of `plan` select by their scripts."""
    selected = {}
    for chunk in plan.chunks:
        sequence = chunk.sequence
        if not chunk.selects_token or sequence.is_finished:
            continue
        if sequence.script is None:
            raise SchedulerError(
                f"sequence {sequence.sequence_id} has no script; say which token it selected"
            )
        selected[sequence.sequence_id] = sequence.script[sequence.num_output_tokens]
    return selected
