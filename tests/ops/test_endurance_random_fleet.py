"""Random fleets for endurance: what is in them, and whether those who look would see a defect."""

from dataclasses import replace
from typing import get_args

import pytest

from controlplane.specs.scenario_faults import FaultSpec
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.placement import DraftDisagreement, WrongPhaseSplit
from dataplane.simulation.observer.exposition import Family, plain_family, render
from dataplane.simulation.speculation import SpeculativeCost
from ops.endurance.cache_watch import CacheWatch
from ops.endurance.case_shrinking import shrink
from ops.endurance.exporter_watch import check_text
from ops.endurance.random_case import RandomCase
from ops.endurance.random_faults import KINDS, kinds_of
from ops.endurance.random_fleet import command_for


def a_sequence(number: int = 0) -> Sequence:
    return Sequence(
        request_id=str(number),
        sequence_id=number,
        prompt_token_ids=range(4),
        max_output_tokens=8,
        script=range(8),
    )


def decoding() -> tuple[Scheduler, Sequence]:
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=2,
            max_num_batched_tokens=16,
            max_model_len=16,
            num_blocks=8,
            block_size=4,
        )
    )
    sequence = a_sequence()
    scheduler.add(sequence)
    for _ in range(2):
        scheduler.commit(scheduler.schedule())
    assert sequence.status is SequenceStatus.RUNNING
    return scheduler, sequence


def test_every_fault_that_a_scenario_may_name_is_met() -> None:
    union, _ = get_args(FaultSpec)
    assert {spec.makes for spec in get_args(union)} == set(KINDS)
    met = {kind for number in range(len(KINDS)) for kind in kinds_of(number)}
    assert met == set(KINDS)


@pytest.mark.parametrize("number", [KINDS.index(WrongPhaseSplit), KINDS.index(DraftDisagreement)])
def test_a_fault_has_in_its_scenario_what_it_is_about(number: int) -> None:
    for further in range(5):
        case = RandomCase(number=number + further * (len(KINDS) + 1))
        scenario = case.scenario()
        if isinstance(case.faults()[0], WrongPhaseSplit):
            assert scenario.phases is not None
        else:
            assert all(isinstance(spec.cost, SpeculativeCost) for spec in scenario.replicas)


def test_a_case_is_the_same_each_time_it_is_made() -> None:
    for number in range(6):
        one, other = RandomCase(number=number), RandomCase(number=number)
        assert one.faults() == other.faults()
        assert one.scenario().policy == other.scenario().policy
        assert one.moments() == other.moments()


def test_what_is_left_out_of_a_case_is_not_in_it_and_all_else_stays() -> None:
    case = RandomCase(number=4)
    [kept] = replace(case, without=frozenset({"fault-1"})).faults()
    assert case.faults()[1] == kept
    assert "fault-1" in case.parts()
    assert "fault-1" not in replace(case, without=frozenset({"fault-1"})).parts()


def test_a_failing_case_is_shrunk_to_the_parts_that_its_failure_needs() -> None:
    case = RandomCase(number=4)
    assert len(case.faults()) == 2

    def failure_of(tried: RandomCase) -> Exception | None:
        """It needs the second fault, and phases; without strikes it fails otherwise."""
        kept: set[Fault] = set(tried.faults())
        try:
            if "strikes" in tried.without:
                raise KeyError("another failure")
            assert case.faults()[1] not in kept or "phases" in tried.without
        except (AssertionError, KeyError) as error:
            return error
        return None

    error = failure_of(case)
    assert error is not None
    smallest = shrink(case, error, failure_of)
    assert set(smallest.parts()) == {"fault-2", "phases", "strikes"}
    assert command_for(smallest).startswith(
        "python -m ops.endurance.random_fleet --first 4 --scenarios 1 --without bounds "
    )


def test_a_sequence_that_falls_behind_without_a_preemption_is_seen() -> None:
    _, sequence = decoding()
    watch = CacheWatch()
    watch.look([sequence])
    sequence.num_computed_tokens -= 1
    with pytest.raises(AssertionError, match="fell behind"):
        watch.look([sequence])


def test_a_preempted_sequence_may_be_behind_until_it_has_caught_up() -> None:
    _, sequence = decoding()
    watch = CacheWatch()
    watch.look([sequence])
    sequence.num_preemptions += 1
    has = sequence.num_computed_tokens
    for num_computed in (1, 2, has):
        sequence.num_computed_tokens = num_computed
        watch.look([sequence])
    sequence.num_computed_tokens -= 2
    with pytest.raises(AssertionError, match="fell behind"):
        watch.look([sequence])


def test_kv_that_a_sequence_loses_while_it_catches_up_is_seen() -> None:
    _, sequence = decoding()
    watch = CacheWatch()
    sequence.num_preemptions += 1
    sequence.num_computed_tokens = 2
    watch.look([sequence])
    sequence.num_computed_tokens = 1
    with pytest.raises(AssertionError, match="lost KV"):
        watch.look([sequence])


def test_a_text_that_does_not_say_what_was_exported_is_seen() -> None:
    def family(value: float) -> Family:
        return plain_family("chat:tokens", "counter", "Tokens.", (("a", 'b"c\\d'),), {(): value})

    check_text(render([family(0.1)]), [family(0.1)])
    with pytest.raises(AssertionError, match="chat:tokens"):
        check_text(render([family(0.1)]), [family(0.2)])
