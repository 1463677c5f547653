from functools import partial

import pytest

from dataplane.scheduling.bounds import RefusalKind
from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.batching import Batching, BatchingReplica, Regime
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.step_log import StepLog
from dataplane.simulation.timeline import Timeline
from tests.dataplane.simulation.scripted_sequence import scripted


class Bench:
    """A replica behind a gate; each of its steps takes 1."""

    def __init__(self, batching: Batching, slots: int = 8) -> None:
        self.timeline = Timeline()
        self.log = StepLog(self.timeline)
        self.scheduler = Scheduler(
            SchedulerConfig(
                max_num_seqs=slots,
                max_num_batched_tokens=64,
                max_model_len=32,
                num_blocks=64,
                block_size=16,
                is_prefix_caching=False,
            )
        )
        cost = LinearCost(iteration=1, per_prompt_token=0, per_decode_step=0)
        self.replica = BatchingReplica(self.timeline, self.scheduler, cost, batching, self.log)

    def submit_at(self, at: float, number: int, num_outputs: int = 1) -> Sequence:
        sequence = scripted(number, (number,), num_outputs)
        self.timeline.at(at, partial(self.replica.submit, sequence))
        return sequence

    def admitted_at(self) -> list[float]:
        self.timeline.run()
        assert not self.scheduler.has_work
        return list(self.log.admitted_at.values())


def fixed(size: int) -> Batching:
    return Batching(regime=Regime.FIXED, max_sequences=size)


def dynamic(size: int, window: float) -> Batching:
    return Batching(regime=Regime.DYNAMIC, max_sequences=size, window=window)


def test_a_fixed_batch_begins_with_whoever_waits_and_lets_nobody_join() -> None:
    bench = Bench(fixed(4))
    bench.submit_at(0, 1, num_outputs=5)
    bench.submit_at(0, 2)
    bench.submit_at(1, 3)

    assert bench.admitted_at() == [0, 0, 5]


def test_a_fixed_batch_is_no_larger_than_its_bound() -> None:
    bench = Bench(fixed(2))
    for number in range(5):
        bench.submit_at(0, number, num_outputs=2)

    assert bench.admitted_at() == [0, 0, 2, 2, 4]


def test_a_dynamic_batch_waits_until_its_window_is_over() -> None:
    bench = Bench(dynamic(4, window=5))
    bench.submit_at(1, 1)
    bench.submit_at(4, 2)
    bench.submit_at(6.5, 3)

    assert bench.admitted_at() == [6, 6, 11.5]


def test_a_full_dynamic_batch_waits_no_longer() -> None:
    bench = Bench(dynamic(2, window=5))
    bench.submit_at(1, 1, num_outputs=9)
    bench.submit_at(2, 2)
    bench.submit_at(3, 3)

    # The window of the third passes while the batch runs.
    assert bench.admitted_at() == [2, 2, 11]


def test_a_continuous_gate_stands_open() -> None:
    bench = Bench(Batching(regime=Regime.CONTINUOUS, max_sequences=1))
    bench.submit_at(0, 1, num_outputs=5)
    bench.submit_at(1, 2)

    assert bench.admitted_at() == [0, 1]


def test_the_slots_of_the_scheduler_hold_behind_a_larger_batch() -> None:
    bench = Bench(fixed(4), slots=2)
    for number in range(4):
        bench.submit_at(0, number, num_outputs=2)

    assert bench.admitted_at() == [0, 0, 2, 2]


def test_what_is_cancelled_at_the_gate_never_runs_and_what_runs_makes_room() -> None:
    bench = Bench(fixed(1))
    bench.submit_at(0, 1, num_outputs=9)
    waiting = bench.submit_at(0, 2)
    bench.submit_at(0, 3)
    bench.timeline.run(until=1.5)
    assert bench.replica.num_waiting == 2

    bench.replica.cancel(2)
    assert waiting.is_finished
    bench.replica.cancel(1)
    bench.replica.cancel(2)

    assert bench.admitted_at() == [0, 2]  # cancelled at 1.5, and the step ends at 2


def test_what_can_never_run_is_refused_at_the_gate() -> None:
    bench = Bench(fixed(1))
    sequence = Sequence(
        request_id="long", sequence_id=1, prompt_token_ids=range(40), max_output_tokens=1
    )

    refusal = bench.replica.submit(sequence)

    assert refusal is not None
    assert refusal.kind is RefusalKind.MAX_MODEL_LEN
    assert sequence.is_finished
    assert bench.replica.num_waiting == 0


@pytest.mark.parametrize(
    ("regime", "size", "window", "said"),
    [
        (Regime.FIXED, 0, 0, "does nothing"),
        (Regime.DYNAMIC, 1, -1, "over before it begins"),
        (Regime.FIXED, 1, 2, "is of the regime dynamic, not fixed"),
    ],
)
def test_bounds_that_cannot_be_are_refused(
    regime: Regime, size: int, window: float, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Batching(regime=regime, max_sequences=size, window=window)
