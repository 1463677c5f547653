"""Finished is not released: when blocks come back."""

from tests.dataplane.scheduling.stepping import a_scheduler, add, commit, step, unique_prompt


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
