from collections.abc import Iterable
from dataclasses import dataclass, field

from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.timeline import Timeline


@dataclass
class Onlooker:
    """Notes when sequences ended, and submits what is left when one is released."""

    timeline: Timeline
    ended: list[tuple[float, int]] = field(default_factory=list)
    cancelled_at: dict[int, tuple[float, float, int]] = field(default_factory=dict)
    """By sequence: when, when it was asked for, and with how many tokens."""
    num_steps: int = 0
    left: list[Sequence] = field(default_factory=list)
    replica: SimulatedReplica | None = None

    def step_began(self, plan: StepPlan) -> None:
        self.num_steps += not plan.is_empty
        for _ in plan.released:
            if self.left and self.replica is not None:
                self.replica.submit(self.left.pop())

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        self.ended += [(self.timeline.now, sequence.sequence_id) for sequence in complete]

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        now = self.timeline.now
        self.cancelled_at[sequence.sequence_id] = now, asked_at, sequence.num_output_tokens


def sequence(number: int, num_output: int = 2) -> Sequence:
    return Sequence(
        request_id=str(number),
        sequence_id=number,
        prompt_token_ids=range(3),
        max_output_tokens=10,
        script=range(num_output),
    )


def start() -> tuple[Timeline, SimulatedReplica, Onlooker]:
    timeline = Timeline()
    onlooker = Onlooker(timeline)
    bounds = SchedulerConfig(
        max_num_seqs=4,
        max_num_batched_tokens=20,
        max_model_len=50,
        num_blocks=20,
        block_size=4,
        is_prefix_caching=False,
    )
    cost = LinearCost(iteration=1, per_prompt_token=0, per_decode_step=0)
    replica = SimulatedReplica(timeline, Scheduler(bounds), cost, onlooker)
    onlooker.replica = replica
    return timeline, replica, onlooker


def test_what_is_submitted_because_of_a_release_begins_at_once() -> None:
    timeline, replica, onlooker = start()
    onlooker.left = [sequence(2)]
    replica.submit(sequence(1))
    timeline.run()
    assert onlooker.ended == [(2, 1), (4, 2)]
    assert not replica.scheduler.has_work


def test_what_comes_at_the_end_of_a_step_is_in_the_next_one() -> None:
    timeline, replica, onlooker = start()
    replica.submit(sequence(1, num_output=3))
    timeline.at(1, lambda: replica.submit(sequence(2, num_output=1)))
    timeline.run()
    assert onlooker.ended == [(2, 2), (3, 1)]


def test_a_stalled_replica_takes_the_rest_of_its_step_when_it_goes_on() -> None:
    timeline, replica, onlooker = start()
    replica.submit(sequence(1))
    timeline.at(0.5, replica.stall)
    timeline.at(7, replica.resume)
    timeline.run()
    assert onlooker.ended == [(8, 1)]
    assert not replica.is_stalled


def test_of_a_halted_replica_nothing_is_heard() -> None:
    timeline, replica, onlooker = start()
    replica.submit(sequence(1))
    timeline.at(0.5, replica.halt)
    timeline.at(0.6, replica.wake)
    timeline.run()
    assert onlooker.ended == []
    assert onlooker.num_steps == 1


def test_what_is_cancelled_under_way_keeps_the_token_of_the_step_that_runs() -> None:
    timeline, replica, onlooker = start()
    replica.submit(sequence(1, num_output=9))
    timeline.at(2.5, lambda: replica.cancel(1))
    timeline.run()
    assert onlooker.cancelled_at == {1: (3, 2.5, 3)}
    assert onlooker.ended == []
    assert not replica.scheduler.has_work


def test_what_ends_with_the_step_under_way_cannot_be_cancelled_any_more() -> None:
    timeline, replica, onlooker = start()
    replica.submit(sequence(1, num_output=2))
    timeline.at(1.5, lambda: replica.cancel(1))
    timeline.at(9, lambda: replica.cancel(1))
    timeline.run()
    assert onlooker.ended == [(2, 1)]
    assert onlooker.cancelled_at == {}


def test_what_waits_is_cancelled_when_the_step_of_the_others_has_ended() -> None:
    timeline, replica, onlooker = start()
    for number in range(1, 6):  # one more than there are slots
        replica.submit(sequence(number))
    timeline.at(0.5, lambda: replica.cancel(5))
    timeline.run()
    assert onlooker.cancelled_at == {5: (1, 0.5, 0)}
    assert onlooker.ended == [(2, number) for number in range(1, 5)]


def test_an_idle_replica_takes_a_cancel_at_once() -> None:
    timeline, replica, onlooker = start()
    replica.submit(sequence(1))
    replica.cancel(1)
    timeline.run()
    assert onlooker.cancelled_at == {1: (0, 0, 0)}
    assert not replica.scheduler.has_work


def test_a_stalled_replica_takes_a_cancel_when_it_has_gone_on() -> None:
    timeline, replica, onlooker = start()
    replica.submit(sequence(1, num_output=9))
    timeline.at(1.5, replica.stall)
    timeline.at(1.7, lambda: replica.cancel(1))
    timeline.at(7, replica.resume)
    timeline.run()
    assert onlooker.cancelled_at == {1: (7, 1.7, 2)}


def test_a_replica_that_was_stalled_while_idle_takes_what_came_meanwhile() -> None:
    timeline, replica, onlooker = start()
    replica.stall()
    replica.submit(sequence(1))
    replica.submit(sequence(2))
    replica.cancel(1)
    timeline.at(4, replica.resume)
    timeline.run()
    assert onlooker.cancelled_at == {1: (4, 0, 0)}
    assert onlooker.ended == [(6, 2)]
    assert not replica.scheduler.has_work
