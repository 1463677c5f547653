"""What a prompt finds computed already, and what it computes all the same."""

from dataplane.scheduling.scheduler import (
    Blocker,
)
from dataplane.scheduling.sequence import SequenceStatus
from tests.dataplane.scheduling.stepping import a_scheduler, add, drain, step, unique_prompt


def test_a_prefix_hit_starts_behind_the_reused_tokens() -> None:
    scheduler = a_scheduler()
    first = add(scheduler, 1, unique_prompt(1, 10))
    step(scheduler)
    second = add(scheduler, 2, (*unique_prompt(1, 9), 7, 8))
    (chunk,) = [c for c in step(scheduler).chunks if c.sequence is second]
    assert (chunk.start, chunk.num_tokens, chunk.num_cached_tokens) == (8, 3, 8)
    assert second.num_cached_tokens == 8
    assert second.block_table[:2] == first.block_table[:2]
    assert scheduler.stats.num_prefix_hit_tokens == 8
    assert scheduler.stats.num_prefix_query_tokens == 21


def test_of_two_that_fill_the_same_block_in_one_step_the_older_ones_is_found() -> None:
    scheduler = a_scheduler()
    old = add(scheduler, 1, (1, 2, 3))
    scheduler.commit(scheduler.schedule(), {1: 4})
    new = add(scheduler, 2, (1, 2, 3, 4, 5))
    scheduler.commit(scheduler.schedule(), {1: 6, 2: 7})
    third = add(scheduler, 3, (1, 2, 3, 4, 8))
    step(scheduler)
    assert third.block_table[0] == old.block_table[0] != new.block_table[0]


def test_a_prompt_that_is_cached_whole_still_computes_its_last_block() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, unique_prompt(1, 8), max_output=1)
    drain(scheduler)
    add(scheduler, 2, unique_prompt(1, 8), max_output=1)
    (chunk,) = step(scheduler).chunks
    assert (chunk.start, chunk.num_tokens, chunk.selects_token) == (4, 4, True)


def test_the_last_token_alone_is_computed_when_everything_before_is_cached() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, unique_prompt(1, 8), max_output=1)
    drain(scheduler)
    add(scheduler, 2, (*unique_prompt(1, 8), 5), max_output=1)
    (chunk,) = step(scheduler).chunks
    assert (chunk.start, chunk.num_tokens, chunk.is_prefill) == (8, 1, True)


def test_tenants_do_not_see_each_others_prefixes() -> None:
    scheduler = a_scheduler()
    first = add(scheduler, 1, unique_prompt(1, 9), isolation_key="a")
    step(scheduler)
    second = add(scheduler, 2, unique_prompt(1, 9), isolation_key="b")
    step(scheduler)
    assert second.num_cached_tokens == 0
    assert not set(first.block_table) & set(second.block_table)


def test_without_prefix_caching_nothing_is_reused() -> None:
    scheduler = a_scheduler(caching=False)
    add(scheduler, 1, unique_prompt(1, 9), max_output=1)
    drain(scheduler)
    second = add(scheduler, 2, unique_prompt(1, 9))
    step(scheduler)
    assert second.num_cached_tokens == 0
    assert scheduler.stats.num_cached_blocks == 0


def test_reusing_idle_cached_blocks_counts_against_what_is_free() -> None:
    """Six blocks, two of them cached and idle: a hit on both leaves only four others."""
    scheduler = a_scheduler(num_blocks=6, block_size=4)
    add(scheduler, 1, unique_prompt(1, 8), max_output=1)
    drain(scheduler)
    add(scheduler, 2, unique_prompt(2, 4))  # one block, and one to grow into
    step(scheduler)
    hit = add(scheduler, 3, (*unique_prompt(1, 8), *unique_prompt(3, 12)))  # two and three more
    plan = step(scheduler)
    assert plan.deferred_on is Blocker.BLOCKS
    assert hit.status is SequenceStatus.WAITING
