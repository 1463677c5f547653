"""Who waits, and who of them enters a step: from the front of the queue, and nobody overtakes."""

from collections import deque

from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.block_tables import BlockTables
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.errors import SchedulerError
from dataplane.scheduling.prefix_cache import PrefixMatch
from dataplane.scheduling.running import Running
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from dataplane.scheduling.step import Blocker, Step

# Read with every sequence, and a name costs a fraction of what a member of an enum does.
_WAITING = SequenceStatus.WAITING
_RUNNING = SequenceStatus.RUNNING


class Admission:
    """The queue, oldest first, and its way into the running sequences."""

    def __init__(
        self, config: SchedulerConfig, pool: BlockPool, tables: BlockTables, running: Running
    ) -> None:
        self.waiting: deque[Sequence] = deque()
        self.num_prefix_query_tokens = 0
        self.num_prefix_hit_tokens = 0
        self._config = config
        self._pool = pool
        self._tables = tables
        self._running = running

    def put_back(self, sequence: Sequence) -> None:
        """A preempted sequence, older than all that wait, goes to the front."""
        self.waiting.appendleft(sequence)

    def admit_waiting(self, step: Step) -> Blocker | None:
        """Admit from the front of the queue; what keeps the next one out, if one is left."""
        if not self.waiting:
            return None
        if step.preempted or step.stalled:
            return Blocker.BLOCKS
        num_owed: int | None = None
        while self.waiting:
            if len(self._running) >= self._config.max_num_seqs:
                return Blocker.SLOTS
            if step.tokens_left < 1:
                return Blocker.TOKEN_BUDGET
            if num_owed is None:
                num_owed = self._num_owed()
            sequence = self.waiting[0]
            match = self._tables.find_match(sequence, self._pool.num_free - num_owed)
            if match is None:
                return Blocker.BLOCKS
            if not self._admit(sequence, match, step):
                return Blocker.PROMPT_BUDGET
            num_owed += self._tables.num_owed(sequence)
        return None

    def _num_owed(self) -> int:
        """Blocks owed to all that run, with everything for this step reserved."""
        apart = self._running.apart
        return len(self._running.cohort) + sum([self._tables.num_owed(s) for s in apart])

    def _admit(self, sequence: Sequence, match: PrefixMatch, step: Step) -> bool:
        """Start `sequence` behind its reused prefix, or behind all KV that came with it; False
        when no prompt budget is left."""
        is_first = sequence.status is _WAITING
        is_handed_over = is_first and sequence.num_handed_over_tokens > 0
        num_output = sequence.num_output_tokens
        num_in_all = sequence.num_prompt_tokens + num_output
        num_there = num_in_all - 1 if is_handed_over else match.num_tokens
        num_behind = num_in_all - num_there
        is_decoding = num_behind == 1 and num_output > 0
        num_tokens = step.grant(num_behind, is_decoding)
        if num_tokens < 1:
            return False
        self.waiting.popleft()
        self._running.admit(sequence)
        self._tables.take_over(sequence, match)
        if is_handed_over:
            sequence.num_computed_tokens = num_there
            sequence.num_cached_tokens = sequence.num_prompt_tokens
        elif is_first:
            sequence.num_cached_tokens = match.num_tokens
            self.num_prefix_query_tokens += sequence.num_prompt_tokens
            self.num_prefix_hit_tokens += match.num_tokens
        if is_first:
            step.admitted += (sequence,)
        else:
            step.resumed += (sequence,)
        sequence.move_to(_RUNNING)
        if not self._tables.extend(sequence, num_tokens):
            raise SchedulerError(f"sequence {sequence.sequence_id} was admitted without its blocks")
        if is_decoding:
            step.add_decode()
        step.add(sequence, num_tokens, is_decoding, num_cached_tokens=match.num_tokens)
        return True
