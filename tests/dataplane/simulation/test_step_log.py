from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.step_log import StepLog
from dataplane.simulation.timeline import Timeline
from tests.dataplane.simulation.scripted_sequence import submit_all


def run(*lengths: tuple[int, int]) -> StepLog:
    """Sequences of (prompt, output) tokens at once; a step takes 1 and 1 for each prompt token."""
    timeline = Timeline()
    log = StepLog(timeline)
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=2,
            max_num_batched_tokens=8,
            max_prefill_tokens_per_step=3,
            max_model_len=64,
            num_blocks=32,
            block_size=4,
            is_prefix_caching=False,
        )
    )
    cost = LinearCost(iteration=1, per_prompt_token=1, per_decode_step=0)
    replica = SimulatedReplica(timeline, scheduler, cost, log)
    submit_all(replica, lengths)
    timeline.run()
    return log


def test_every_step_is_a_line_in_order_of_arrival() -> None:
    log = run((2, 2), (2, 1))

    lines = [f"{step.start}-{step.end} {' '.join(map(str, step.chunks))}" for step in log.steps]
    assert lines == ["0-4 r0:P2 r1:P1", "4-6 r0:D1 r1:P1"]
    assert [(s.num_prompt_tokens, s.num_decode_steps) for s in log.steps] == [(3, 0), (1, 1)]
    assert [step.num_reread_tokens for step in log.steps] == [0, 1]


def test_admission_every_token_and_the_end_have_their_instants() -> None:
    log = run((2, 2), (2, 1), (1, 1))

    assert log.admitted_at == {"r0": 0, "r1": 0, "r2": 6}
    assert log.selected_at == {"r0": [4, 6], "r1": [6], "r2": [8]}
    assert log.finished_at == {"r0": 6, "r1": 6, "r2": 8}
    assert log.num_selected == 4


def test_a_gap_needs_two_instants() -> None:
    log = run((2, 2), (2, 1))

    assert log.largest_gap("r0") == 2
    assert log.largest_gap("r0", since=0) == 4
    assert log.largest_gap("r1") is None
    assert log.largest_gap("nobody", since=0) is None


def test_without_a_step_no_slot_is_used() -> None:
    assert run().slot_utilization(2) == 0
    assert run((1, 4)).slot_utilization(2) == 0.5
