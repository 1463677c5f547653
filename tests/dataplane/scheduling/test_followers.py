from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence


def make(number: int) -> Sequence:
    return Sequence(
        request_id=str(number),
        sequence_id=number,
        prompt_token_ids=range(3),
        max_output_tokens=4,
        script=range(4),
    )


def test_followers_go_before_what_was_added_while_their_step_ran_and_behind_the_rest() -> None:
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=2, max_num_batched_tokens=20, max_model_len=9, num_blocks=20, block_size=4
        )
    )
    for number in (0, 1, 2):
        scheduler.add(make(number))
    plan = scheduler.schedule()
    scheduler.add(make(3))
    scheduler.add(make(4))
    scheduler.commit(plan)
    assert scheduler.add_follower(make(10)) is None
    assert scheduler.add_follower(make(11)) is None
    scheduler.add(make(5))
    admitted = [sequence.sequence_id for sequence in plan.admitted]
    while scheduler.has_work:
        plan = scheduler.schedule()
        scheduler.check_integrity()
        admitted += [sequence.sequence_id for sequence in plan.admitted]
        if not plan.is_empty:
            scheduler.commit(plan)
    assert admitted == [0, 1, 2, 10, 11, 3, 4, 5]
