from dataclasses import replace
from typing import Any

import pytest

from dataplane.scheduling.scheduler import (
    Blocker,
    RefusalKind,
    Scheduler,
    SchedulerConfig,
    SchedulerError,
    StepPlan,
)
from dataplane.scheduling.sequence import Sequence, SequenceStatus


def a_scheduler(
    *,
    num_blocks: int = 64,
    block_size: int = 4,
    slots: int = 4,
    batch: int = 64,
    prompt_budget: int | None = None,
    max_model_len: int = 128,
    caching: bool = True,
) -> Scheduler:
    return Scheduler(
        SchedulerConfig(
            max_num_seqs=slots,
            max_num_batched_tokens=batch,
            max_prefill_tokens_per_step=prompt_budget,
            max_model_len=max_model_len,
            num_blocks=num_blocks,
            block_size=block_size,
            is_prefix_caching=caching,
        )
    )


def add(
    scheduler: Scheduler,
    sequence_id: int,
    prompt: tuple[int, ...],
    max_output: int = 16,
    isolation_key: str = "",
    request_id: str | None = None,
) -> Sequence:
    sequence = Sequence(
        request_id=request_id or f"r{sequence_id}",
        sequence_id=sequence_id,
        prompt_token_ids=prompt,
        max_output_tokens=max_output,
        isolation_key=isolation_key,
    )
    assert scheduler.add(sequence) is None
    return sequence


def commit(scheduler: Scheduler, plan: StepPlan) -> list[Sequence]:
    """Select 100 + the number of tokens so far, a token that no prompt here contains."""
    selected = {
        c.sequence.sequence_id: 100 + c.sequence.num_tokens for c in plan.chunks if c.selects_token
    }
    ended = scheduler.commit(plan, selected)
    scheduler.check_integrity()
    return ended


def step(scheduler: Scheduler) -> StepPlan:
    plan = scheduler.schedule()
    scheduler.check_integrity()
    if plan.chunks:
        commit(scheduler, plan)
    return plan


def drain(scheduler: Scheduler) -> list[StepPlan]:
    plans = []
    while scheduler.has_work:
        plans.append(step(scheduler))
        assert len(plans) < 500, "it does not end"
    return plans


def unique_prompt(tag: int, length: int) -> tuple[int, ...]:
    return tuple(range(1000 * tag, 1000 * tag + length))


# Bounds and refusals


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs is 0"),
        ({"num_blocks": 0}, "num_blocks is 0"),
        ({"max_num_batched_tokens": 3}, "decodes one token a step"),
        ({"max_prefill_tokens_per_step": 0}, "no prompt could ever be computed"),
    ],
)
def test_bounds_under_which_nothing_could_run_are_refused(
    changed: dict[str, Any], message: str
) -> None:
    valid = SchedulerConfig(
        max_num_seqs=4, max_num_batched_tokens=4, max_model_len=8, num_blocks=4, block_size=4
    )
    with pytest.raises(ValueError, match=message):
        replace(valid, **changed)


def test_a_request_beyond_the_models_length_is_refused_with_the_numbers() -> None:
    scheduler = a_scheduler(max_model_len=16)
    fits = Sequence(
        request_id="a", sequence_id=1, prompt_token_ids=unique_prompt(1, 10), max_output_tokens=6
    )
    too_long = Sequence(
        request_id="b", sequence_id=2, prompt_token_ids=unique_prompt(1, 10), max_output_tokens=7
    )
    assert scheduler.add(fits) is None
    refusal = scheduler.add(too_long)
    assert refusal is not None
    assert refusal.kind is RefusalKind.MAX_MODEL_LEN
    assert "10 prompt tokens and up to 7 output tokens exceed the model's 16" in refusal.reason
    assert too_long.status is SequenceStatus.FINISHED
    assert scheduler.stats.num_waiting == 1


def test_a_prompt_beyond_the_whole_pool_is_refused_at_once() -> None:
    scheduler = a_scheduler(num_blocks=2, block_size=4)
    add(scheduler, 1, unique_prompt(1, 8), max_output=1)
    too_long = Sequence(
        request_id="b", sequence_id=2, prompt_token_ids=unique_prompt(2, 9), max_output_tokens=1
    )
    refusal = scheduler.add(too_long)
    assert refusal is not None
    assert refusal.kind is RefusalKind.POOL
    assert "9 tokens exceed the KV pool's 8 (2 blocks of 4)" in refusal.reason


def test_a_prompt_that_fills_the_pool_still_gets_its_token() -> None:
    scheduler = a_scheduler(num_blocks=2, block_size=4)
    sequence = add(scheduler, 1, unique_prompt(1, 8), max_output=1)
    drain(scheduler)
    assert sequence.num_output_tokens == 1


def test_a_sequence_alone_that_outgrows_the_pool_ends_with_a_refusal() -> None:
    scheduler = a_scheduler(num_blocks=2, block_size=4)
    sequence = add(scheduler, 1, unique_prompt(1, 6), max_output=16)
    plans = drain(scheduler)
    (refusal,) = [refusal for plan in plans for refusal in plan.refused]
    assert (refusal.sequence, refusal.kind) == (sequence, RefusalKind.POOL)
    assert sequence.num_tokens == 9  # eight have KV, the ninth was selected
    assert scheduler.stats.num_free_blocks == 2


def test_what_a_refused_sequence_held_serves_the_next_in_the_same_step() -> None:
    scheduler = a_scheduler(num_blocks=2, block_size=4)
    first = add(scheduler, 1, unique_prompt(1, 8), max_output=16)
    second = add(scheduler, 2, unique_prompt(2, 8), max_output=1)
    step(scheduler)
    plan = step(scheduler)
    assert [r.sequence for r in plan.refused] == [first]
    assert plan.released == (first,)
    assert plan.admitted == (second,)


def test_an_id_that_is_in_use_and_a_used_sequence_are_broken_contracts() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, (1, 2))
    with pytest.raises(SchedulerError, match="added before"):
        scheduler.add(sequence)
    drain(scheduler)
    with pytest.raises(SchedulerError, match="not new"):
        scheduler.add(sequence)


# Budgets and order


def test_decodes_keep_their_place_when_an_older_prompt_wants_the_whole_step() -> None:
    scheduler = a_scheduler(slots=3, batch=10, prompt_budget=6)
    add(scheduler, 1, unique_prompt(1, 30))
    add(scheduler, 2, unique_prompt(2, 1))
    step(scheduler)  # six tokens of the first
    scheduler.finish("r1")
    long = add(scheduler, 3, unique_prompt(3, 30))
    short = add(scheduler, 4, unique_prompt(4, 1))
    plan = step(scheduler)
    assert [(c.sequence.sequence_id, c.num_tokens) for c in plan.chunks] == [(2, 1), (3, 5)]
    assert plan.deferred_on is Blocker.PROMPT_BUDGET
    plan = step(scheduler)
    assert [(c.is_prefill, c.num_tokens) for c in plan.chunks] == [(False, 1), (True, 6)]
    assert (long.num_computed_tokens, short.status) == (11, SequenceStatus.WAITING)


def test_a_long_prompt_leaves_a_token_for_every_newer_decode() -> None:
    scheduler = a_scheduler(slots=3, batch=8)
    add(scheduler, 1, unique_prompt(1, 4))
    add(scheduler, 2, unique_prompt(2, 4))
    step(scheduler)
    scheduler.finish("r1")
    add(scheduler, 3, unique_prompt(3, 20))
    newest = add(scheduler, 4, (1,))
    assert [c.num_tokens for c in step(scheduler).chunks] == [1, 7]
    newest_waits = newest.status
    plan = step(scheduler)
    assert newest_waits is SequenceStatus.WAITING
    assert plan.deferred_on is Blocker.TOKEN_BUDGET
    assert sum(c.num_tokens for c in plan.chunks) == 8


def test_the_prompt_budget_is_shared_in_arrival_order() -> None:
    scheduler = a_scheduler(prompt_budget=5)
    for sequence_id in (1, 2, 3):
        add(scheduler, sequence_id, unique_prompt(sequence_id, 3))
    plan = step(scheduler)
    assert [(c.sequence.sequence_id, c.num_tokens) for c in plan.chunks] == [(1, 3), (2, 2)]
    plan = step(scheduler)
    assert [(c.sequence.sequence_id, c.num_tokens) for c in plan.chunks] == [
        (1, 1),
        (2, 1),
        (3, 3),
    ]


def test_the_front_of_the_queue_is_never_overtaken() -> None:
    scheduler = a_scheduler(num_blocks=8, block_size=4)
    add(scheduler, 1, unique_prompt(1, 20))
    add(scheduler, 2, unique_prompt(2, 16))  # does not fit beside the first
    small = add(scheduler, 3, (1,))  # would fit
    plan = step(scheduler)
    assert [s.sequence_id for s in plan.admitted] == [1]
    assert plan.deferred_on is Blocker.BLOCKS
    assert small.status is SequenceStatus.WAITING


def test_full_slots_defer_and_say_so() -> None:
    scheduler = a_scheduler(slots=1)
    add(scheduler, 1, (1, 2), max_output=1)
    add(scheduler, 2, (1, 2), max_output=1)
    assert step(scheduler).deferred_on is Blocker.SLOTS
    plan = step(scheduler)
    assert [s.sequence_id for s in plan.admitted] == [2]
    assert plan.deferred_on is None


def test_no_prompt_is_admitted_into_blocks_that_an_unfinished_prompt_still_needs() -> None:
    scheduler = a_scheduler(num_blocks=8, block_size=4, prompt_budget=4)
    add(scheduler, 1, unique_prompt(1, 24))  # six blocks, one a step
    second = add(scheduler, 2, unique_prompt(2, 8))
    for _ in range(5):
        assert step(scheduler).preempted == ()
    assert second.status is SequenceStatus.WAITING


def test_nothing_to_do_is_not_blocked() -> None:
    plan = a_scheduler().schedule()
    assert plan == StepPlan()


def test_blocked_by_blocks_that_no_sequence_holds_says_on_what() -> None:
    scheduler = a_scheduler(num_blocks=4, block_size=4)
    held = scheduler.pool.allocate(3)
    assert held is not None
    waiting = add(scheduler, 1, unique_prompt(1, 8))
    plan = scheduler.schedule()
    assert plan.chunks == ()
    assert plan.blocked_on == "blocks: 1 of 4 blocks free, 0 of 4 slots used, 1 waiting"
    scheduler.pool.release(held)
    assert step(scheduler).admitted == (waiting,)


# Prefix reuse


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


# Preemption


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


# Finishing and releasing


def test_finished_is_not_released_until_it_is_retired() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 8), max_output=1)
    plan = scheduler.schedule()
    assert commit(scheduler, plan) == [sequence]
    assert scheduler.stats.num_referenced_blocks == 2
    assert scheduler.stats.num_unreleased == 1
    assert scheduler.has_work
    assert scheduler.retire() == [sequence]
    assert scheduler.stats.num_referenced_blocks == 0
    assert not scheduler.has_work


def test_blocks_of_the_running_step_are_released_only_after_it() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 8))
    idle = add(scheduler, 2, unique_prompt(2, 8), request_id="r1")
    scheduler.finish_sequence(2)
    plan = scheduler.schedule()
    assert plan.released == (idle,)
    assert scheduler.finish("r1") == [sequence]
    assert scheduler.retire() == []
    assert scheduler.stats.num_referenced_blocks == 2
    assert scheduler.commit(plan, {}) == []  # its token is not wanted any more
    assert sequence.output_token_ids == []
    assert scheduler.retire() == [sequence]
    assert scheduler.stats.num_referenced_blocks == 0


def test_who_ends_while_it_decodes_keeps_its_blocks_until_the_step_has_run() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 8))
    other = add(scheduler, 2, unique_prompt(2, 8))
    for _ in range(2):
        step(scheduler)
    plan = scheduler.schedule()
    scheduler.finish_sequence(1)
    scheduler.check_integrity()
    assert scheduler.retire() == []
    assert [c.sequence for c in plan.chunks] == [sequence, other]
    scheduler.commit(plan, {2: 5})
    assert (sequence.num_computed_tokens, sequence.num_output_tokens) == (9, 2)
    assert (other.num_computed_tokens, other.num_output_tokens) == (10, 3)
    assert scheduler.retire() == [sequence]
    assert sequence.block_table == []


def test_a_request_ends_with_all_its_sequences_and_only_once() -> None:
    scheduler = a_scheduler()
    both = [add(scheduler, n, unique_prompt(n, 4), request_id="r") for n in (1, 2)]
    other = add(scheduler, 3, unique_prompt(3, 4))
    assert scheduler.finish("r") == both
    assert scheduler.finish("r") == []
    assert scheduler.finish("unknown") == []
    assert scheduler.finish_sequence(1) is None
    assert scheduler.schedule().admitted == (other,)


def test_a_waiting_sequence_that_is_cancelled_never_runs() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, (1, 2, 3))
    scheduler.finish("r1")
    plan = scheduler.schedule()
    assert (plan.chunks, plan.released) == ((), (sequence,))


# The order of calls


def test_a_plan_is_committed_once_and_before_the_next() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, (1, 2))
    plan = scheduler.schedule()
    with pytest.raises(SchedulerError, match="was not committed"):
        scheduler.schedule()
    scheduler.commit(plan, {1: 5})
    with pytest.raises(SchedulerError, match="not in flight"):
        scheduler.commit(plan, {1: 5})


def test_an_abandoned_step_advances_nothing_and_is_chosen_again() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 6))
    failed = scheduler.schedule()
    scheduler.abandon(failed)
    scheduler.check_integrity()
    assert sequence.num_computed_tokens == 0
    with pytest.raises(SchedulerError, match="not in flight"):
        scheduler.commit(failed, {1: 5})
    retried = step(scheduler)
    assert [(c.start, c.num_tokens) for c in retried.chunks] == [(0, 6)]
    assert sequence.num_output_tokens == 1


def test_a_block_that_an_abandoned_step_began_is_begun_by_the_next() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 8))
    step(scheduler)
    for _ in range(2):
        scheduler.abandon(scheduler.schedule())
        assert len(sequence.block_table) == 3
    step(scheduler)
    assert (len(sequence.block_table), sequence.num_computed_tokens) == (3, 9)


def test_blocks_of_an_abandoned_step_come_back() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, unique_prompt(1, 6))
    scheduler.abandon(scheduler.schedule())
    scheduler.finish("r1")
    scheduler.retire()
    assert scheduler.stats.num_referenced_blocks == 0


@pytest.mark.parametrize("selected", [{}, {1: 5, 2: 6}, {2: 6}])
def test_tokens_for_the_wrong_sequences_change_nothing(selected: dict[int, int]) -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, (1, 2))
    plan = scheduler.schedule()
    with pytest.raises(SchedulerError, match=r"expected for \[1\]"):
        scheduler.commit(plan, selected)
    assert sequence.num_computed_tokens == 0
    scheduler.commit(plan, {1: 5})
    assert sequence.output_token_ids == [5]


def test_an_unfinished_prompt_selects_nothing() -> None:
    scheduler = a_scheduler(prompt_budget=4)
    sequence = add(scheduler, 1, unique_prompt(1, 6))
    plan = scheduler.schedule()
    assert [c.selects_token for c in plan.chunks] == [False]
    with pytest.raises(SchedulerError, match=r"expected for \[\]"):
        scheduler.commit(plan, {1: 5})
    scheduler.commit(plan, {})
    assert [c.selects_token for c in scheduler.schedule().chunks] == [True]
    assert sequence.num_computed_tokens == 4


def test_a_block_that_a_sequence_lost_is_reported() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 8))
    step(scheduler)
    sequence.block_table.pop()
    with pytest.raises(AssertionError, match="1, expected 0"):
        scheduler.check_integrity()


# Scripts


def add_scripted(scheduler: Scheduler, sequence_id: int, length: int, prompt: int = 4) -> Sequence:
    sequence = Sequence(
        request_id=f"r{sequence_id}",
        sequence_id=sequence_id,
        prompt_token_ids=unique_prompt(sequence_id, prompt),
        max_output_tokens=16,
        script=range(length),
    )
    assert scheduler.add(sequence) is None
    return sequence


def test_a_script_is_selected_without_being_told() -> None:
    scheduler = a_scheduler()
    sequence = add_scripted(scheduler, 1, 3)
    complete = [scheduler.commit(scheduler.schedule()) for _ in range(3)]
    assert complete == [[], [], [sequence]]
    assert sequence.output_token_ids == [0, 1, 2]


def test_those_that_end_together_are_told_oldest_first() -> None:
    scheduler = a_scheduler()
    first = add(scheduler, 1, unique_prompt(1, 4), max_output=2)
    second = add_scripted(scheduler, 2, 2)
    scheduler.commit(scheduler.schedule(), {1: 5, 2: 0})
    third = add_scripted(scheduler, 3, 1)
    assert scheduler.commit(scheduler.schedule(), {1: 5, 2: 1, 3: 0}) == [first, second, third]


def test_a_step_of_a_sequence_without_a_script_must_be_told() -> None:
    scheduler = a_scheduler()
    add_scripted(scheduler, 1, 3)
    sequence = add(scheduler, 2, unique_prompt(2, 4))
    for _ in range(2):  # while it is apart, and once it decodes with the others
        plan = scheduler.schedule()
        with pytest.raises(SchedulerError, match="sequence 2 has no script"):
            scheduler.commit(plan)
        scheduler.commit(plan, {1: sequence.num_output_tokens, 2: 9})
        scheduler.check_integrity()
    assert sequence.output_token_ids == [9, 9]


def test_another_token_than_the_script_says_changes_nothing() -> None:
    scheduler = a_scheduler()
    sequence = add_scripted(scheduler, 1, 3)
    plan = scheduler.schedule()
    with pytest.raises(SchedulerError, match=r"token 7 .* sequence 1, whose script says 0"):
        scheduler.commit(plan, {1: 7})
    assert (sequence.num_computed_tokens, sequence.output_token_ids) == (0, [])
    scheduler.commit(plan, {1: 0})
    assert sequence.output_token_ids == [0]


def test_a_plan_says_later_what_it_was_when_it_was_scheduled() -> None:
    scheduler = a_scheduler()
    first, second = add_scripted(scheduler, 1, 4), add_scripted(scheduler, 2, 9)
    scheduler.commit(scheduler.schedule())
    plan = scheduler.schedule()
    scheduler.commit(plan)
    third = add_scripted(scheduler, 3, 9)
    while not first.is_finished:
        scheduler.commit(scheduler.schedule())
    scheduler.finish_sequence(2)
    assert [(c.sequence, c.start, c.num_tokens) for c in plan.chunks] == [
        (first, 4, 1),
        (second, 4, 1),
    ]
    assert (plan.is_empty, plan.prefill_chunks, plan.num_context_tokens) == (False, (), 10)
    assert third.is_decoding
