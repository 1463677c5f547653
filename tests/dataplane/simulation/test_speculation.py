from typing import Any

import pytest

from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound
from dataplane.simulation.step_log import StepLog
from dataplane.simulation.timeline import Timeline

ROUND = SpeculativeRound(draft_steps=4, draft_cost=0.1)
PLAIN = LinearCost(iteration=10, per_prompt_token=2, per_decode_step=1, per_reread_token=0.5)


def test_the_share_that_is_accepted_says_how_much_a_round_commits() -> None:
    assert ROUND.expected_committed(0) == 1
    assert ROUND.expected_committed(1) == 5
    assert ROUND.expected_committed(0.5) == 1 + 0.5 + 0.25 + 0.125 + 0.0625


def test_a_draft_that_never_agrees_makes_every_token_cost_a_round() -> None:
    plan = StepPlan(num_decode_steps=3)
    cost = SpeculativeCost(PLAIN, ROUND, acceptance=0)

    assert cost.step_time(plan) == pytest.approx(13 * 1.4)
    cost.acceptance = 1
    assert cost.step_time(plan) == pytest.approx(13 * 1.4 / 5)
    assert cost.acceptance == 1


def test_prompt_tokens_cost_what_they_always_did() -> None:
    cost = SpeculativeCost(PLAIN, ROUND, acceptance=0)

    alone = StepPlan(num_prompt_tokens=5, num_reread_tokens=4)
    mixed = StepPlan(num_prompt_tokens=5, num_reread_tokens=4, num_decode_steps=3)
    assert cost.step_time(alone) == PLAIN.step_time(alone)
    assert cost.step_time(mixed) == pytest.approx(12 + 13 * 1.4)


def test_a_draft_that_stops_agreeing_is_felt_from_then_on() -> None:
    timeline = Timeline()
    log = StepLog(timeline)
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=1,
            max_num_batched_tokens=8,
            max_model_len=64,
            num_blocks=8,
            block_size=16,
        )
    )
    one = LinearCost(iteration=1, per_prompt_token=0, per_decode_step=0)
    cost = SpeculativeCost(one, ROUND, acceptance=1)
    replica = SimulatedReplica(timeline, scheduler, cost, log)
    sequence = Sequence(
        request_id="r",
        sequence_id=1,
        prompt_token_ids=(1,),
        max_output_tokens=21,
        script=range(21),
    )
    replica.submit(sequence)
    timeline.run(until=3)
    num_before = len(log.selected_at["r"])

    cost.acceptance = 0
    timeline.run()

    instants = log.selected_at["r"]
    assert instants[1] - instants[0] == pytest.approx(0.28)
    assert instants[num_before + 1] - instants[num_before] == pytest.approx(1.4)


def test_more_drafts_than_a_round_has_commit_nothing_more() -> None:
    committed = ROUND.commit([True] * 9)

    assert (committed.num_accepted, committed.num_committed, committed.num_kv_kept) == (4, 5, 4)


@pytest.mark.parametrize(
    "given",
    [
        {"draft_steps": 0, "draft_cost": 0.1},
        {"draft_steps": 1, "draft_cost": -0.1},
        {"draft_steps": 1, "draft_cost": 0.1, "verify_cost": 0},
    ],
)
def test_a_round_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least one draft"):
        SpeculativeRound(**given)


def test_what_no_round_commits_is_refused() -> None:
    for committed in (0.9, 5.1):
        with pytest.raises(ValueError, match="a round commits 1 to 5 tokens"):
            ROUND.cost_per_token(committed)
    with pytest.raises(ValueError, match="between 0 and 1"):
        SpeculativeCost(PLAIN, ROUND, acceptance=1.1)
