import math
import random

import numpy as np
import pytest

from dataplane.policy import ClassPolicy
from dataplane.simulation.fleet import Fleet, FleetError
from dataplane.simulation.fleet_records import NoRecords, SampledRecords, StreamedRecords
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.fleet_summary import FleetSummary, summarize
from dataplane.simulation.spread import Spread, exact_quantiles
from ops.endurance.random_scenario import random_scenario
from tests.dataplane.simulation.small_fleet import call, small_fleet, steady


def summary_of(scenario: FleetScenario, keeps_rows: bool) -> FleetSummary:
    fleet = Fleet(scenario, keeps_rows=keeps_rows)
    fleet.run()
    return summarize(fleet)


@pytest.mark.parametrize("number", [4, 5, 6])
def test_the_summary_adds_up(number: int) -> None:
    summary = summary_of(random_scenario(number), keeps_rows=True)
    for each in summary.classes:
        assert each.offered == each.invalid + each.rejected + each.admitted
        assert each.admitted == each.answered + each.cut_off + each.left + each.failed
        assert each.in_flight == 0
        assert each.offered == sum(each.by_disposition.values())
    arrived = sum(gateway.arrived for gateway in summary.gateways)
    assert arrived == sum(each.offered for each in summary.classes) > 0


@pytest.mark.parametrize("keeps_rows", [True, False])
def test_what_nothing_ends_is_counted_as_in_flight_and_named_with_what_it_waits_for(
    keeps_rows: bool,
) -> None:
    model, _ = small_fleet(num_replicas=2, classes=[ClassPolicy(name="all")])
    fleet = Fleet(model.scenario, keeps_rows=keeps_rows)
    fleet.begin()
    fleet.put_call(call(num_output_tokens=9))
    fleet.put_call(call(num_output_tokens=9))
    fleet.timeline.at(1.5, fleet.replicas["replica-1"].stall)
    fleet.run_out()
    summary = summarize(fleet)
    [of_class] = summary.classes
    assert (of_class.offered, of_class.admitted, of_class.answered) == (2, 2, 1)
    assert (of_class.in_flight, of_class.failed) == (1, 0)
    assert of_class.by_disposition == {"stop": 1}
    assert summary.waits == ("replica-1 is stalled",)
    assert summary.gateways[0].arrived == 2
    with pytest.raises(FleetError, match="1 requests are in flight"):
        fleet.run()


@pytest.mark.parametrize("keeps_rows", [True, False])
def test_a_run_of_which_nothing_ends_has_no_latencies(keeps_rows: bool) -> None:
    model, _ = small_fleet()
    fleet = Fleet(model.scenario, keeps_rows=keeps_rows)
    fleet.begin()
    fleet.put_call(call())
    fleet.replicas["replica-0"].stall()
    fleet.run_out()
    [of_class] = summarize(fleet).classes
    assert (of_class.offered, of_class.in_flight, of_class.ttft.p50) == (1, 1, None)


def test_a_run_is_as_long_as_what_ended_took_however_long_the_rest_is_waited_for() -> None:
    fleet, _ = small_fleet(num_replicas=2, duration=10)
    fleet.put_call(call(num_output_tokens=30))
    fleet.put_call(call(num_output_tokens=30))
    fleet.timeline.at(1.5, fleet.replicas["replica-1"].stall)
    fleet.every(1.0, lambda: None)
    fleet.run_out()
    assert fleet.timeline.now > 1000
    assert summarize(fleet).seconds == 30


def test_histograms_count_exactly_and_come_close_to_percentiles() -> None:
    model, _ = small_fleet(traffic=[steady(0.7)], max_num_seqs=5)
    exact = summary_of(model.scenario, keeps_rows=True)
    coarse = summary_of(model.scenario, keeps_rows=False)
    assert coarse.checksum is None
    for one, other in zip(exact.classes, coarse.classes, strict=True):
        assert one.by_disposition == other.by_disposition
        assert one.goodput_per_s == other.goodput_per_s
        for name in ("ttft", "e2e"):
            assert getattr(other, name).p95 == pytest.approx(getattr(one, name).p95, rel=0.011)


def test_where_no_time_passed_there_is_no_rate() -> None:
    fleet, _ = small_fleet()
    fleet.put_call(call(num_prompt_tokens=200))  # longer than the model takes
    [of_class] = summarize(fleet).classes
    assert (of_class.invalid, of_class.completed_per_s) == (1, None)
    fleet.run()
    assert summarize(fleet).classes[0].completed_per_s == 0


def test_a_quantile_is_the_smallest_value_that_a_share_is_at_most() -> None:
    assert exact_quantiles(np.array([]), [0.5]) == [None]
    values = [*map(float, range(1, 101)), math.nan]
    random.Random(1).shuffle(values)
    found = exact_quantiles(np.array(values), [0.0, 0.5, 0.95, 0.99, 1.0])
    assert found == [1, 50, 95, 99, 100]


def test_a_histogram_comes_within_one_per_cent() -> None:
    spread = Spread()
    assert spread.quantiles([0.5]) == [None]
    for value in range(1, 101):
        spread.add(float(value))
    assert spread.quantiles([0.5, 0.95]) == pytest.approx([50, 95], rel=0.01)


def test_utilisation_is_the_share_of_time_in_steps() -> None:
    fleet, _ = small_fleet()
    fleet.put_call(call(num_output_tokens=5))
    fleet.run_until(20)
    fleet.run()
    [replica] = summarize(fleet).replicas
    assert fleet.timeline.now == 100
    assert replica.utilisation == 5 / 100
    assert replica.tokens_per_step == (5 + 5) / 5


def test_a_sample_is_drawn_evenly_and_does_not_change_what_happens() -> None:
    model, _ = small_fleet(traffic=[steady(0.5)], duration=400)
    everything: list[int] = []
    whole = Fleet(model.scenario, StreamedRecords(lambda r: everything.append(r.gateway_sequence)))
    plain = Fleet(model.scenario, NoRecords())
    sampled = SampledRecords(80, seed=5)
    fleet = Fleet(model.scenario, sampled)
    checksums = set()
    for each in (whole, plain, fleet):
        columns = each.run().columns
        assert columns is not None
        checksums.add(columns.checksum())
    assert len(checksums) == 1
    assert len(everything) == 800
    found = [record.gateway_sequence for record in sampled.records()]
    assert len(found) == len(set(found)) == 80
    # As many of the late as of the early, within what chance allows.
    assert sum(number < 400 for number in found) == pytest.approx(40, abs=4 * math.sqrt(20))


def test_streams_of_calls_do_not_change_each_other() -> None:
    alone, _ = small_fleet(traffic=[steady(3.0, "a")], num_replicas=2, max_num_seqs=50)
    both, _ = small_fleet(
        traffic=[steady(3.0, "a"), steady(7.0, "b")], num_replicas=2, max_num_seqs=50
    )
    arrivals = []
    for fleet in (alone, both):
        columns = fleet.run().columns
        assert columns is not None
        arrivals.append(set(columns.arrived_at))
    assert arrivals[0] < arrivals[1]


def test_columns_number_more_tenants_than_two_bytes_do() -> None:
    fleet, _ = small_fleet()
    columns = fleet.results.columns
    assert columns is not None
    columns.tenant_names.update({f"tenant-{number}": number for number in range(2**16)})
    fleet.put_call(call())
    assert fleet.run().columns is columns
    assert list(columns.tenant) == [2**16]
