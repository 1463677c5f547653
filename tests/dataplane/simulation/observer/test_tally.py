"""What is counted of a sequence whose first tokens were selected on another replica."""

from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.observer.ended_work import EndedWork
from dataplane.simulation.observer.tally import EngineTally
from dataplane.simulation.timeline import Timeline


def test_of_one_that_is_cancelled_before_it_is_scheduled_nothing_took_time_here() -> None:
    timeline = Timeline()
    timeline.now = 3000.0
    tally = EngineTally(timeline, {})
    sequence = Sequence(
        request_id="r",
        sequence_id=1,
        prompt_token_ids=(1, 2, 3),
        max_output_tokens=5,
        output_token_ids=[7],
        num_handed_over_tokens=1,
    )
    tally.submitted(sequence)
    timeline.now = 3001.0
    tally.cancelled(sequence, asked_at=3001.0)
    assert tally.ended == EndedWork()
    assert tally.num_cancelled == 1
