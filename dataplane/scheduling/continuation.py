"""How running sequences go on: oldest first, at the cost of newer ones where blocks run out."""

from dataplane.scheduling.admission import Admission
from dataplane.scheduling.block_tables import BlockTables
from dataplane.scheduling.bounds import SchedulerConfig, find_pool_refusal
from dataplane.scheduling.running import Running
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from dataplane.scheduling.step import Step


class Continuation:
    """Puts those that run into a step, with every block that they write reserved."""

    def __init__(
        self, config: SchedulerConfig, tables: BlockTables, running: Running, admission: Admission
    ) -> None:
        self.num_preemptions = 0
        self._config = config
        self._tables = tables
        self._running = running
        self._admission = admission

    def continue_running(self, step: Step) -> None:
        """Refuse what has outgrown the pool, grant tokens, reserve blocks.

        Refused ones do not run any more and are finished; their blocks are still theirs.
        """
        running = self._running
        cohort = running.cohort
        if not running.apart and self._tables.extend_full(cohort.crossing, cohort.tick.now):
            return
        for sequence in running.to_visit():
            if sequence.status is SequenceStatus.RUNNING:  # an older one may have preempted it
                self._continue(sequence, step)

    def _continue(self, sequence: Sequence, step: Step) -> None:
        is_decoding = sequence.is_decoding
        if sequence.is_paused:
            if is_decoding:
                step.drop_decode()
            return
        refusal = find_pool_refusal(self._config, sequence)
        if refusal is not None:
            if is_decoding:
                step.drop_decode()
            self._running.remove(sequence)
            sequence.move_to(SequenceStatus.FINISHED)
            step.refused += (refusal,)
            return
        num_tokens = step.grant(sequence.num_tokens_behind, is_decoding)
        if num_tokens < 1:
            return
        if not self._reserve(sequence, num_tokens, step):
            if is_decoding:
                step.drop_decode()
            self._running.stall(sequence)
            step.stalled += (sequence,)
        elif sequence.tick is None:
            step.add(sequence, num_tokens, is_decoding)

    def _reserve(self, sequence: Sequence, num_tokens: int, step: Step) -> bool:
        """Extend the block table, at the cost of newer sequences; False when it is the newest."""
        while not self._tables.extend(sequence, num_tokens):
            newest = self._running.newest
            if newest is sequence:
                return False
            self._preempt(newest, step)
        return True

    def _preempt(self, sequence: Sequence, step: Step) -> None:
        if sequence.is_decoding:
            step.drop_decode()
        self._running.remove(sequence)
        sequence.move_to(SequenceStatus.PREEMPTED)
        self._tables.release(sequence)
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        self._admission.put_back(sequence)
        step.preempted += (sequence,)
