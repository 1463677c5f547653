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
