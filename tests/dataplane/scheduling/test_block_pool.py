import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.scheduling.block_pool import BlockPool, BlockReferenceError, WritableBlock


def allocate(pool: BlockPool, num_blocks: int) -> list[int]:
    block_ids = pool.allocate(num_blocks)
    assert block_ids is not None
    return block_ids


def test_a_pool_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="0 blocks of 16"):
        BlockPool(0, 16)
    with pytest.raises(ValueError, match="4 blocks of 0"):
        BlockPool(4, 0)


def test_allocation_takes_all_or_nothing() -> None:
    pool = BlockPool(4, 16)
    allocate(pool, 3)
    assert pool.allocate(2) is None
    assert (pool.num_free, pool.num_referenced) == (1, 3)
    assert pool.allocate(0) == []


def test_freed_blocks_are_reused_tail_first() -> None:
    pool = BlockPool(4, 16)
    table = allocate(pool, 4)
    pool.mark_cached(table)
    pool.release(table)
    assert allocate(pool, 4) == list(reversed(table))


def test_blank_blocks_are_handed_out_before_cached_ones() -> None:
    pool = BlockPool(3, 16)
    table = allocate(pool, 3)
    pool.mark_cached([table[1]])
    pool.release(table)
    assert set(allocate(pool, 2)) == {table[0], table[2]}
    assert pool.num_cached == 1
    assert allocate(pool, 1) == [table[1]]
    assert pool.num_cached == 0


def test_cached_blocks_are_evicted_least_recently_used_first() -> None:
    pool = BlockPool(3, 16)
    evicted: list[int] = []
    pool.set_eviction_listener(evicted.extend)
    first, second, third = tables = [allocate(pool, 1) for _ in range(3)]
    for table in tables:
        pool.mark_cached(table[:1])
        pool.release(table)
    pool.reference(first)  # used again, so it is now the most recent
    pool.release(first)
    assert allocate(pool, 2) == [*second, *third]
    assert evicted == [*second, *third]


def test_a_referenced_cached_block_is_never_evicted() -> None:
    pool = BlockPool(2, 16)
    held, other = allocate(pool, 2)
    pool.mark_cached([held, other])
    pool.release([other])
    assert allocate(pool, 1) == [other]
    assert pool.allocate(1) is None


def test_a_shared_block_is_free_only_after_its_last_release() -> None:
    pool = BlockPool(2, 16)
    table = allocate(pool, 2)
    fork = pool.fork(table)
    pool.release(table)
    assert pool.num_referenced == 2
    pool.check_integrity([fork])
    pool.release(fork)
    assert pool.num_referenced == 0


def test_releasing_too_often_is_a_broken_contract() -> None:
    pool = BlockPool(2, 16)
    table = allocate(pool, 1)
    pool.release(table)
    with pytest.raises(BlockReferenceError, match="more often") as caught:
        pool.release(table)
    assert caught.value.block_id == table[0]
    assert pool.num_free == 2


def test_a_blank_block_can_be_neither_shared_nor_cached_nor_written() -> None:
    pool = BlockPool(2, 16)
    with pytest.raises(BlockReferenceError, match="blank"):
        pool.reference([0])
    with pytest.raises(BlockReferenceError, match="only a referenced block"):
        pool.mark_cached([0])
    with pytest.raises(BlockReferenceError, match="cannot be written"):
        pool.make_writable([0], 0)


def test_a_block_of_ones_own_is_written_in_place() -> None:
    pool = BlockPool(2, 16)
    table = allocate(pool, 1)
    assert pool.make_writable(table, 0) == WritableBlock(block_id=table[0])


def test_a_shared_block_is_copied_before_the_write_and_the_other_table_keeps_it() -> None:
    pool = BlockPool(3, 16)
    table = allocate(pool, 2)
    fork = pool.fork(table)
    writable = pool.make_writable(fork, 1)
    assert writable == WritableBlock(block_id=fork[1], copy_from=table[1])
    assert fork[0] == table[0]
    assert fork[1] != table[1]
    assert pool.make_writable(table, 1) == WritableBlock(block_id=table[1])  # no longer shared
    pool.check_integrity([table, fork])


def test_a_block_that_the_cache_may_hand_out_is_copied_before_the_write() -> None:
    pool = BlockPool(2, 16)
    table = allocate(pool, 1)
    cached = table[0]
    pool.mark_cached([cached])
    writable = pool.make_writable(table, 0)
    assert writable is not None
    assert writable.copy_from == cached
    assert pool.num_cached == 1
    pool.check_integrity([table])


def test_a_write_that_needs_a_copy_waits_when_no_block_is_free() -> None:
    pool = BlockPool(1, 16)
    table = allocate(pool, 1)
    fork = pool.fork(table)
    assert pool.make_writable(fork, 0) is None
    assert fork == table
    pool.check_integrity([table, fork])


def test_a_lost_block_is_reported_with_both_numbers() -> None:
    pool = BlockPool(4, 16)
    pool._blank.pop()
    with pytest.raises(AssertionError, match="3, expected 4"):
        pool.check_integrity()


def test_a_reference_that_no_table_holds_is_reported_with_both_numbers() -> None:
    pool = BlockPool(4, 16)
    block_id = allocate(pool, 1)[0]
    with pytest.raises(AssertionError, match=f"references to block {block_id}: 1, expected 0"):
        pool.check_integrity([])


@settings(max_examples=60, deadline=None)
@given(data=st.data(), num_blocks=st.integers(1, 8))
def test_whatever_tables_do_no_block_is_lost_or_handed_out_twice(
    data: st.DataObject, num_blocks: int
) -> None:
    pool = BlockPool(num_blocks, 4)
    evicted: list[int] = []
    pool.set_eviction_listener(evicted.extend)
    tables: list[list[int]] = []
    for _ in range(data.draw(st.integers(0, 25))):
        action = data.draw(st.sampled_from(["allocate", "fork", "release", "cache", "write"]))
        if action == "allocate":
            held = {block_id for table in tables for block_id in table}
            wanted, free = data.draw(st.integers(1, 4)), pool.num_free
            fresh = pool.allocate(wanted)
            assert (fresh is None) == (wanted > free)
            if fresh is not None:
                assert held.isdisjoint(fresh)
                tables.append(fresh)
        elif tables:
            table = data.draw(st.sampled_from(tables))
            position = data.draw(st.integers(0, len(table) - 1))
            if action == "fork":
                tables.append(pool.fork(table))
            elif action == "cache":
                pool.mark_cached([table[position]])
            elif action == "write":
                writable = pool.make_writable(table, position)
                if writable is not None:
                    assert sum(table[position] in other for other in tables) == 1
            else:
                pool.release(table)
                tables = [other for other in tables if other is not table]
        pool.check_integrity(tables)
    for table in tables:
        pool.release(table)
    assert (pool.num_free, pool.num_referenced) == (num_blocks, 0)
    pool.check_integrity([])


def test_blocks_that_are_lent_are_in_no_table_and_stay_until_taken_back() -> None:
    pool = BlockPool(4, 16)
    table = allocate(pool, 2)
    lent = pool.lend(1)
    assert lent is not None
    pool.hold(table)
    pool.release(table)
    assert (pool.num_free, pool.num_referenced) == (1, 3)
    pool.check_integrity([])
    assert pool.lend(2) is None
    pool.take_back([*table, *lent])
    assert pool.num_free == 4
    pool.check_integrity([])


def test_what_was_not_lent_cannot_be_taken_back() -> None:
    pool = BlockPool(4, 16)
    table = allocate(pool, 1)
    with pytest.raises(BlockReferenceError, match="was not lent"):
        pool.take_back(table)
    pool.check_integrity([table])
