import pytest

from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.block_tables import BlockTables
from dataplane.scheduling.errors import SchedulerError
from dataplane.scheduling.finished import Finished
from dataplane.scheduling.sequence import Sequence

NUM_BLOCKS = 8


@pytest.fixture
def pool() -> BlockPool:
    return BlockPool(NUM_BLOCKS, 4)


@pytest.fixture
def finished(pool: BlockPool) -> Finished:
    return Finished(BlockTables(pool, is_prefix_caching=False))


def a_sequence(pool: BlockPool, sequence_id: int) -> Sequence:
    """It holds two blocks."""
    sequence = Sequence(
        request_id="r", sequence_id=sequence_id, prompt_token_ids=range(5), max_output_tokens=1
    )
    sequence.block_table = pool.allocate(2) or []
    return sequence


def test_who_has_ended_gives_its_blocks_back_when_it_is_retired(
    pool: BlockPool, finished: Finished
) -> None:
    first, second = a_sequence(pool, 1), a_sequence(pool, 2)
    finished.add(first)
    finished.add(second)
    assert (len(finished), pool.num_free) == (2, NUM_BLOCKS - 4)
    assert finished.retire() == [first, second]
    assert (finished.all(), pool.num_free) == ([], NUM_BLOCKS)


def test_whom_the_running_step_reads_is_retired_once_that_has_landed(
    pool: BlockPool, finished: Finished
) -> None:
    read, other = a_sequence(pool, 1), a_sequence(pool, 2)
    finished.add(read, is_in_flight=True)
    finished.add(other)
    assert finished.retire() == [other]
    finished.land()
    assert finished.retire() == [read]


def test_who_is_held_stays_until_it_is_let_go(pool: BlockPool, finished: Finished) -> None:
    sequence = a_sequence(pool, 1)
    finished.add(sequence)
    finished.hold(sequence)
    assert (finished.retire(), finished.num_held, finished.all()) == ([], 1, [sequence])
    assert finished.let_go(1)
    assert (len(finished), pool.num_free) == (0, NUM_BLOCKS)


def test_who_is_let_go_while_a_step_reads_it_goes_with_the_next_retirement(
    pool: BlockPool, finished: Finished
) -> None:
    sequence = a_sequence(pool, 1)
    finished.add(sequence, is_in_flight=True)
    finished.hold(sequence)
    assert not finished.let_go(1)
    assert finished.retire() == []
    finished.land()
    assert finished.retire() == [sequence]


def test_only_what_has_ended_can_be_held_and_only_what_is_held_let_go(
    pool: BlockPool, finished: Finished
) -> None:
    with pytest.raises(SchedulerError, match="sequence 3 is not finished"):
        finished.hold(a_sequence(pool, 3))
    with pytest.raises(SchedulerError, match="sequence 3 is not held"):
        finished.let_go(3)
