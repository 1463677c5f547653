"""What must hold of a scheduler's sequences at any time between two calls."""

from collections import Counter
from collections.abc import Collection

from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.sequence import Sequence, SequenceStatus


def check_sequences(
    config: SchedulerConfig,
    known: Collection[Sequence],
    running: list[Sequence],
    waiting: list[Sequence],
    finished: list[Sequence],
) -> None:
    """Raises AssertionError unless each known sequence has one place and blocks that fit it."""
    places = Counter(map(id, [*running, *waiting, *finished]))
    if places != Counter(map(id, known)):
        raise AssertionError(
            f"{len(running)} running + {len(waiting)} waiting + {len(finished)} finished, but "
            f"{len(known)} are known"
        )
    if len(running) > config.max_num_seqs:
        raise AssertionError(f"{len(running)} run in {config.max_num_seqs} slots")
    ranks = [sequence.rank for sequence in (*running, *waiting)]
    if ranks != sorted(ranks):
        raise AssertionError(f"running and waiting sequences are not in order of arrival: {ranks}")
    for sequence in known:
        _check_sequence(sequence, config.block_size)


def _check_sequence(sequence: Sequence, block_size: int) -> None:
    slots = len(sequence.block_table) * block_size
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
