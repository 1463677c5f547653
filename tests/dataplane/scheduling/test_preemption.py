"""Who gives way when blocks run out, and how it goes on."""

from dataplane.scheduling.scheduler import (
    Blocker,
    Scheduler,
)
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from tests.dataplane.scheduling.stepping import a_scheduler, add, drain, step, unique_prompt


def two_that_collide() -> tuple[Scheduler, Sequence, Sequence]:
    """Both prompts fit with a block each to grow into; their outputs do not."""
    scheduler = a_scheduler(num_blocks=6, block_size=4, caching=False)
    old = add(scheduler, 1, unique_prompt(1, 8), max_output=12)
    new = add(scheduler, 2, unique_prompt(2, 8), max_output=12)
    return scheduler, old, new


def test_the_newest_is_preempted_and_keeps_its_output() -> None:
    scheduler, old, new = two_that_collide()
    plan = step(scheduler)
    while not plan.preempted:
        output_before = list(new.output_token_ids)
        plan = step(scheduler)
    assert plan.preempted == (new,)
    assert new.status is SequenceStatus.PREEMPTED
    assert (new.block_table, new.num_computed_tokens) == ([], 0)
    assert new.output_token_ids == output_before != []
    assert plan.deferred_on is Blocker.BLOCKS
    assert [c.sequence for c in plan.chunks] == [old]


def test_a_preempted_sequence_recomputes_its_output_as_prompt_and_ends_complete() -> None:
    scheduler, old, new = two_that_collide()
    plans = drain(scheduler)
    (resume,) = [plan for plan in plans if plan.resumed]
    (chunk,) = [c for c in resume.chunks if c.sequence is new]
    assert chunk.is_prefill
    assert chunk.start == 0
    assert chunk.num_tokens > new.num_prompt_tokens
    assert resume.admitted == ()
    assert old.output_token_ids == [100 + 8 + n for n in range(12)]
    assert new.output_token_ids == [100 + 8 + n for n in range(12)]
    assert scheduler.stats.num_preemptions == new.num_preemptions == 1


def test_a_preempted_sequence_goes_before_those_that_never_ran() -> None:
    scheduler, _, new = two_that_collide()
    later = add(scheduler, 3, unique_prompt(3, 4), max_output=1)
    order = [s for plan in drain(scheduler) for s in (*plan.resumed, *plan.admitted)]
    assert order[2:] == [new, later]


def test_a_resumed_sequence_finds_its_own_blocks_again() -> None:
    scheduler = a_scheduler(num_blocks=6, block_size=4)
    add(scheduler, 1, unique_prompt(1, 8), max_output=12)
    new = add(scheduler, 2, unique_prompt(2, 8), max_output=12)
    plans = drain(scheduler)
    (resume,) = [plan for plan in plans if plan.resumed]
    (chunk,) = [c for c in resume.chunks if c.sequence is new]
    assert chunk.num_cached_tokens > 0
    assert new.num_cached_tokens == 0  # what the client is told counts the first admission
    assert scheduler.stats.num_prefix_hit_tokens == 0


def test_the_newest_stalls_when_older_ones_hold_everything_and_then_goes_on() -> None:
    scheduler = a_scheduler(num_blocks=5, block_size=4, caching=False)
    old = add(scheduler, 1, unique_prompt(1, 5), max_output=7)  # fills three blocks at last
    new = add(scheduler, 2, unique_prompt(2, 4), max_output=9)  # wants a third one then
    plans = drain(scheduler)
    stalled = [s for plan in plans for s in plan.stalled]
    assert stalled
    assert set(stalled) == {new}
    assert not any(plan.preempted for plan in plans)
    assert (old.num_output_tokens, new.num_output_tokens) == (7, 9)
