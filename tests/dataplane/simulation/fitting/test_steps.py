import dataclasses
import random

import msgspec
import pytest

from dataplane.lifecycle import EventKind
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.replay import ReplicaBounds
from dataplane.simulation.fitting.steps import observe_steps
from dataplane.simulation.fitting.work import Work, work_of_plan, work_of_step
from tests.dataplane.simulation.fitting.simulated_records import (
    BOUNDS,
    simulated_records,
    varied_requests,
)

_COST = LinearCost(
    iteration=0.02, per_prompt_token=0.001, per_decode_step=0.002, per_reread_token=0.00001
)


class _Watched:
    """A cost model that remembers what it was asked."""

    def __init__(self) -> None:
        self.steps: list[tuple[Work, float]] = []

    def step_time(self, plan: StepPlan) -> float:
        seconds = _COST.step_time(plan)
        self.steps.append((work_of_plan(plan), seconds))
        return seconds


def _assert_same(seen: list[tuple[Work, float]], real: list[tuple[Work, float]]) -> None:
    assert [work for work, _ in seen] == [work for work, _ in real]
    assert [seconds for _, seconds in seen] == pytest.approx([seconds for _, seconds in real])


@pytest.mark.parametrize("rate", [2.0, 6.0, 1000.0])
def test_every_step_is_found_with_all_of_its_work_and_its_time(rate: float) -> None:
    watched = _Watched()
    observed = observe_steps(simulated_records(watched, varied_requests(80, rate, seed=3)))
    seen = [(work_of_step(step), step.seconds or 0.0) for step in observed.usable]
    _assert_same(seen, watched.steps)


def test_every_step_is_found_when_sequences_are_preempted_and_computed_again() -> None:
    watched = _Watched()
    tight = SchedulerConfig(
        max_num_seqs=16,
        max_num_batched_tokens=80,
        max_model_len=1024,
        num_blocks=40,
        block_size=16,
        max_prefill_tokens_per_step=64,
    )
    records = simulated_records(
        watched,
        varied_requests(60, 1000.0, seed=4),
        bounds=ReplicaBounds(scheduler=tight, num_slots=18),
    )
    assert any(e.kind is EventKind.PREEMPTED for record in records for e in record.events)
    seen = [(work_of_step(step), step.seconds or 0.0) for step in observe_steps(records).usable]
    _assert_same(seen, watched.steps)


def test_rows_find_their_step_although_each_request_is_anchored_by_itself() -> None:
    watched = _Watched()
    records = simulated_records(watched, varied_requests(80, 6.0, seed=5), transit=0.004)
    observed = observe_steps(records)
    seen = [work_of_step(step) for step in observed.steps]
    assert seen == [work for work, _ in watched.steps]
    offs = [
        abs((step.seconds or 0.0) - seconds)
        for step, (_, seconds) in zip(observed.steps, watched.steps, strict=True)
        if step.is_back_to_back
    ]
    assert sorted(offs)[len(offs) // 2] < 0.0003
    assert max(offs) < 0.0041


def test_steps_in_which_a_missing_request_may_have_taken_part_are_not_used() -> None:
    records = simulated_records(_COST, varied_requests(80, 3.0, seed=6))
    whole = observe_steps(records)
    missing = records[40]
    observed = observe_steps([r for r in records if r is not missing])
    assert whole.num_missing_requests == 0
    assert observed.num_missing_requests == 1
    first = (missing.arrived_at_unix_ns - records[0].arrived_at_unix_ns) / 1e9
    last = first + missing.events[-1].at
    assert 0 < len(observed.usable) < len(whole.usable)
    assert all(step.ended_at <= first or (step.began_at or 0.0) >= last for step in observed.usable)


def test_requests_before_the_first_that_is_known_count_as_missing() -> None:
    records = simulated_records(_COST, varied_requests(40, 3.0, seed=6))
    observed = observe_steps(records[10:])
    assert observed.num_missing_requests == 10
    assert len(observed.usable) < len(observed.steps)


def test_steps_behind_joined_events_are_not_used() -> None:
    records = simulated_records(_COST, varied_requests(30, 2.0, seed=7))
    longest = max(records, key=lambda record: len(record.events))
    tokens = [event for event in longest.events if event.kind is EventKind.TOKENS]
    joined = msgspec.structs.replace(tokens[3], num_tokens=4)
    events = tuple(
        joined if event is tokens[3] else event
        for event in longest.events
        if event not in tokens[:3]
    )
    changed = dataclasses.replace(longest, events=events, num_joined_events=3)
    observed = observe_steps([changed if r is longest else r for r in records])
    assert observed.blind == {"several tokens in one event": 1}
    offset = (longest.arrived_at_unix_ns - records[0].arrived_at_unix_ns) / 1e9
    assert not any(
        offset + tokens[0].at <= step.ended_at <= offset + tokens[3].at for step in observed.usable
    )


def test_a_step_that_nobody_saw_begin_has_no_time() -> None:
    records = simulated_records(_COST, varied_requests(1, 2.0, seed=8))
    events = tuple(e for e in records[0].events if e.kind is not EventKind.SCHEDULED)
    observed = observe_steps([dataclasses.replace(records[0], events=events)])
    assert observed.blind["an event without its beginning"] == 1
    assert all(step.is_back_to_back for step in observed.usable)


def test_the_order_of_records_does_not_matter() -> None:
    records = simulated_records(_COST, varied_requests(40, 5.0, seed=9), transit=0.002)
    shuffled = list(records)
    random.Random(1).shuffle(shuffled)
    one, other = observe_steps(records), observe_steps(shuffled)
    assert [work_of_step(s) for s in one.steps] == [work_of_step(s) for s in other.steps]


def test_requests_that_came_to_an_idle_engine_are_told() -> None:
    records = simulated_records(_COST, varied_requests(40, 1.0, seed=10))
    observed = observe_steps(records)
    assert "request-0" in observed.idle_starts
    assert 1 < len(observed.idle_starts) < 40
    assert BOUNDS.num_slots == 18
