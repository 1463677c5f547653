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

A step costs what changes in it. Sequences that decode are a cohort that advances as one (see
`cohort`): only those of them are looked at that need a block, or that end.

The scheduler has no clock: what a step costs is the business of who runs it.
"""

from collections.abc import Mapping

from dataplane.scheduling.admission import Admission
from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.block_tables import BlockTables
from dataplane.scheduling.bounds import (
    Refusal,
    RefusalKind,
    SchedulerConfig,
    find_refusal,
)
from dataplane.scheduling.continuation import Continuation
from dataplane.scheduling.errors import SchedulerError
from dataplane.scheduling.finished import Finished
from dataplane.scheduling.integrity import check_sequences
from dataplane.scheduling.landing import Landing
from dataplane.scheduling.prefix_cache import CacheWatcher
from dataplane.scheduling.running import Running
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from dataplane.scheduling.stats import SchedulerStats
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

# Read with every sequence, and a name costs a fraction of what a member of an enum does.
_WAITING = SequenceStatus.WAITING
_RUNNING = SequenceStatus.RUNNING
_FINISHED = SequenceStatus.FINISHED


class Scheduler:
    """Continuous batching over one block pool. Single-threaded; `schedule` and `commit` alternate.

    `add`, `finish` and `finish_sequence` may be called at any time, also while a step runs.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks, config.block_size)
        self._tables = BlockTables(self.pool, config.is_prefix_caching)
        self._sequences: dict[int, Sequence] = {}  # everything that is not released
        self._running = Running(config.block_size)
        self._admission = Admission(config, self.pool, self._tables, self._running)
        self._continuation = Continuation(config, self._tables, self._running, self._admission)
        self._landing = Landing(self._tables, self._running)
        self._finished = Finished(self._tables)
        self._step_in_flight: StepPlan | None = None
        self._num_added = 0
        self._num_added_before_step = 0
        self._num_steps = 0

    @property
    def has_work(self) -> bool:
        """Something runs, waits, or is to be released; what is held waits for somebody else."""
        return len(self._sequences) > self._finished.num_held

    @property
    def num_running(self) -> int:
        """As in `stats`, without the rest of it."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """As in `stats`, without the rest of it."""
        return len(self._admission.waiting)

    @property
    def stats(self) -> SchedulerStats:
        """A snapshot; cheap."""
        return SchedulerStats(
            num_running=len(self._running),
            num_waiting=len(self._admission.waiting),
            num_unreleased=len(self._finished),
            num_free_blocks=self.pool.num_free,
            num_referenced_blocks=self.pool.num_referenced,
            num_cached_blocks=self.pool.num_cached,
            num_evictable_blocks=self.pool.num_evictable,
            num_steps=self._num_steps,
            num_preemptions=self._continuation.num_preemptions,
            num_prefix_query_tokens=self._admission.num_prefix_query_tokens,
            num_prefix_hit_tokens=self._admission.num_prefix_hit_tokens,
        )

    def add(self, sequence: Sequence) -> Refusal | None:
        """Queue a sequence behind all others, or say why it can never run.

        Raises SchedulerError for an id that is still in use or a sequence that was used before.
        """
        if sequence.sequence_id in self._sequences:
            raise SchedulerError(f"sequence {sequence.sequence_id} was added before; use a new id")
        is_begun = sequence.num_output_tokens != sequence.num_handed_over_tokens
        if sequence.status is not _WAITING or is_begun:
            raise SchedulerError(f"sequence {sequence.sequence_id} is not new; make a fresh one")
        refusal = find_refusal(self.config, sequence)
        if refusal is not None:
            sequence.move_to(_FINISHED)
            return refusal
        sequence.rank = self._num_added
        self._num_added += 1
        self._sequences[sequence.sequence_id] = sequence
        self._admission.waiting.append(sequence)
        return None

    def add_follower(self, sequence: Sequence) -> Refusal | None:
        """As `add`, for what follows from the step that was committed just now: ahead of those
        that were added while it ran. Who adds nothing under way needs `add` alone."""
        waiting, newcomers = self._admission.waiting, list[Sequence]()
        while waiting and waiting[-1].rank >= self._num_added_before_step:
            newcomers.append(waiting.pop())
        refusal = self.add(sequence)
        self._num_added_before_step = self._num_added
        for newcomer in reversed(newcomers):
            newcomer.rank = self._num_added
            self._num_added += 1
            waiting.append(newcomer)
        return refusal

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

    def pause(self, sequence_id: int, is_paused: bool) -> None:
        """A paused sequence is in no step until it goes on (False). It keeps its slot and its
        blocks, unless older ones need these; one that has none may be admitted, and then waits.

        What is unknown or finished stays so. Raises SchedulerError while a step is in flight.
        """
        if self._step_in_flight is not None:
            raise SchedulerError("a step is in flight: pause sequences between two steps")
        sequence = self._sequences.get(sequence_id)
        if sequence is None or sequence.is_finished:
            return
        sequence.is_paused = is_paused
        if is_paused and sequence.status is _RUNNING:
            self._running.set_apart(sequence)

    def retire(self) -> list[Sequence]:
        """Give back the blocks of finished sequences, except of those the running step reads.

        `schedule` begins with it; call it apart to release while nothing is to be scheduled.
        """
        retired = self._finished.retire()
        for sequence in retired:
            del self._sequences[sequence.sequence_id]
        return retired

    def hold(self, sequence_id: int) -> None:
        """Keep the blocks of a sequence that has just finished until `let_go`: somebody else
        reads them. Raises SchedulerError for one that runs, or was released."""
        sequence = self._sequences.get(sequence_id)
        if sequence is None:
            raise SchedulerError(f"sequence {sequence_id} is unknown; hold what has just ended")
        self._finished.hold(sequence)

    def let_go(self, sequence_id: int) -> None:
        """Release, now, a sequence that was held; one that the running step reads goes with the
        next `retire` after it. Raises SchedulerError for any other."""
        if self._finished.let_go(sequence_id):
            del self._sequences[sequence_id]

    def schedule(self) -> StepPlan:
        """Choose the next step and reserve every block it writes.

        A plan with chunks must be committed or abandoned before the next call: else
        SchedulerError.
        """
        if self._step_in_flight is not None:
            raise SchedulerError("the last plan was not committed; commit it before scheduling")
        self._num_added_before_step = self._num_added
        released = self.retire() if self._finished.to_retire else []
        step = Step(self.config, self._running.num_decoding)
        if released:
            step.released = tuple(released)
        self._continuation.continue_running(step)
        if step.refused:
            for refusal in step.refused:
                self._finished.add(refusal.sequence)
            step.released = (*released, *self.retire())
        step.deferred_on = self._admission.admit_waiting(step)
        step.add_cohort(self._running.cohort)
        if step.is_empty:
            step.blocked_on = self._explain_block(step.deferred_on)
        else:
            self._step_in_flight = step
            self._num_steps += 1
        return step

    def commit(self, plan: StepPlan, selected: Mapping[int, int] | None = None) -> list[Sequence]:
        """Record that `plan` ran. `selected` maps sequence ids to the token each one selected.

        Every chunk with `selects_token` needs an entry, which must be what the script says where
        there is one; those of sequences that were finished meanwhile are ignored. None: each
        selects what its script says, at the cost of what changes alone. Returns the sequences
        that reached their output limit, or the end of their script, with this step; they are
        finished. Raises SchedulerError, and changes nothing, for another plan than the one in
        flight or a wrong set of tokens.
        """
        self._check_in_flight(plan)
        complete = self._landing.land(plan, selected)
        self._set_landed()
        for sequence in complete:
            self._end(sequence)
        return complete

    def abandon(self, plan: StepPlan) -> None:
        """Record that `plan` failed: nothing counts as computed, and it may be tried again.

        Raises SchedulerError for another plan than the one in flight.
        """
        self._check_in_flight(plan)
        self._set_landed()

    def watch_cache(self, watcher: CacheWatcher) -> None:
        """Tell `watcher` what can be found again, where anything can: before the first step."""
        if self._tables.prefix_cache is not None:
            self._tables.prefix_cache.set_watcher(watcher)

    def check_integrity(self) -> None:
        """Raises AssertionError when sequences, block tables, pool and trie disagree."""
        known = self._sequences.values()
        self.pool.check_integrity(s.block_table for s in known)
        if self._tables.prefix_cache is not None:
            self._tables.prefix_cache.check_integrity()
        self._running.check_integrity()
        waiting, finished = list(self._admission.waiting), self._finished.all()
        check_sequences(self.config, known, self._running.all(), waiting, finished)

    def _explain_block(self, deferred_on: Blocker | None) -> str | None:
        if deferred_on is None and not self._running:
            return None
        num_paused = sum(sequence.is_paused for sequence in self._running.apart)
        if deferred_on is None and num_paused == len(self._running):
            return f"clients: {num_paused} sequences wait until somebody reads what they selected"
        return (
            f"{deferred_on or Blocker.BLOCKS}: {self.pool.num_free} of {self.pool.num_blocks} "
            f"blocks free, {len(self._running)} of {self.config.max_num_seqs} slots used, "
            f"{len(self._admission.waiting)} waiting"
        )

    def _end(self, sequence: Sequence) -> None:
        is_running = sequence.status is _RUNNING
        self._finished.add(sequence, is_running and self._is_in_flight(sequence))
        if is_running:
            self._running.remove(sequence)
        else:
            self._admission.waiting.remove(sequence)
        sequence.move_to(_FINISHED)

    def _is_in_flight(self, sequence: Sequence) -> bool:
        """The running step reads it: who is in the cohort joined before it was scheduled."""
        plan = self._step_in_flight
        if plan is None:
            return False
        return sequence.tick is not None or any(c.sequence is sequence for c in plan.chunks_apart)

    def _set_landed(self) -> None:
        self._step_in_flight = None
        self._finished.land()

    def _check_in_flight(self, plan: StepPlan) -> None:
        if plan is not self._step_in_flight:
            raise SchedulerError("this plan is not in flight: commit each plan once, in order")
