"""Times that can be counted by hand: a step takes one second, a gateway some tenths."""

import dataclasses
import math

import pytest

from dataplane.lifecycle import Delivery, Disposition, EventKind, Observability
from dataplane.record import RequestRecord
from dataplane.simulation.clients import ClientBehaviour, Reading
from dataplane.simulation.distributions import Constant, MedianAndTail
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import AllRecords
from dataplane.simulation.gateway_overheads import OverheadPlan
from tests.dataplane.simulation.small_fleet import call, in_order, small_fleet, steady

_TENTHS = OverheadPlan(
    before_admission=Constant(0.1),
    before_submission=Constant(0.2),
    before_first_write=Constant(0.3),
    before_last_write=Constant(0.4),
)
_VARIED = OverheadPlan(
    before_admission=MedianAndTail(median=0.1, p95=0.4),
    before_first_write=MedianAndTail(median=0.2, p95=0.3),
)


def fleet_with(plan: OverheadPlan | None, **fields: object) -> tuple[Fleet, AllRecords]:
    """As a small fleet, but its gateways take time."""
    bare, _ = small_fleet(**fields)  # type: ignore[arg-type]
    records = AllRecords()
    fleet = Fleet(dataclasses.replace(bare.scenario, overheads=plan), records)
    fleet.begin()
    return fleet, records


def at(record: RequestRecord) -> dict[EventKind, float]:
    """When each kind of event happened first."""
    found: dict[EventKind, float] = {}
    for event in record.events:
        found.setdefault(event.kind, event.at)
    return found


def only(fleet: Fleet, records: AllRecords) -> RequestRecord:
    fleet.run()
    fleet.check_integrity()
    [record] = records.taken
    return record


def test_what_a_gateway_takes_stands_between_the_events_of_a_request() -> None:
    fleet, records = fleet_with(_TENTHS)
    fleet.put_call(call(num_output_tokens=3))
    record = only(fleet, records)
    assert at(record) == pytest.approx(
        {
            EventKind.ARRIVED: 0.0,
            EventKind.RECEIVED: 0.1,
            EventKind.ADMITTED: 0.1,
            EventKind.SCHEDULED: 0.3,
            EventKind.PREFILL_CHUNK: 1.3,
            EventKind.FIRST_TOKEN: 1.3,
            EventKind.FIRST_WRITE: 1.6,
            EventKind.TOKENS: 2.3,
            EventKind.WRITE: 2.3,
            EventKind.FINISHED: 3.3,
            EventKind.RELEASED: 3.3,
            EventKind.LAST_WRITE: 3.7,
        }
    )
    assert record.latencies.server.ttft == pytest.approx(1.6)
    assert record.latencies.engine.ttft == pytest.approx(1.3)
    assert (record.delivery, record.disposition) == (Delivery.COMPLETE, Disposition.STOP)


def test_requests_that_nobody_traces_take_as_long() -> None:
    plan = dataclasses.replace(_TENTHS, before_last_write=Constant(0.0))
    bare, _ = small_fleet()
    fleet = Fleet(dataclasses.replace(bare.scenario, overheads=plan))
    fleet.put_call(call(num_output_tokens=3))
    fleet.run()
    assert fleet.results.columns is not None
    assert list(fleet.results.columns.ttft) == pytest.approx([1.6])


def test_an_answer_shorter_than_its_first_write_leaves_with_it() -> None:
    plan = OverheadPlan(before_first_write=Constant(2.5))
    fleet, records = fleet_with(plan)
    fleet.put_call(call(num_output_tokens=2))
    record = only(fleet, records)
    writes = [e for e in record.events if e.kind in (EventKind.FIRST_WRITE, EventKind.WRITE)]
    assert [(write.at, write.num_tokens) for write in writes] == [(3.5, 2)]
    assert at(record)[EventKind.LAST_WRITE] == 3.5


@pytest.mark.parametrize("before_last_write", [0.0, 4.0])
@pytest.mark.parametrize("is_traced", [True, False])
def test_an_answer_that_the_first_write_holds_whole_has_no_pace(
    is_traced: bool, before_last_write: float
) -> None:
    plan = OverheadPlan(
        before_first_write=Constant(2.5), before_last_write=Constant(before_last_write)
    )
    bare, _ = small_fleet()
    records = AllRecords() if is_traced else None
    fleet = Fleet(dataclasses.replace(bare.scenario, overheads=plan), records)
    fleet.begin()
    fleet.put_call(call(num_output_tokens=2))
    fleet.put_call(call(num_output_tokens=9))
    fleet.run()
    columns = fleet.results.columns
    assert columns is not None
    pace_of = dict(zip(columns.number, columns.tpot, strict=True))
    assert math.isnan(pace_of[0])
    assert pace_of[1] > 0
    if records is not None:
        assert [record.latencies.server.tpot for record in in_order(records)] == [
            None,
            pytest.approx(pace_of[1]),
        ]


def test_an_answer_in_one_piece_is_written_once_and_late() -> None:
    fleet, records = fleet_with(_TENTHS)
    fleet.put_call(call(num_output_tokens=2, is_stream=False))
    record = only(fleet, records)
    assert at(record)[EventKind.FINISHED] == pytest.approx(2.3)
    assert at(record)[EventKind.FIRST_WRITE] == pytest.approx(2.7)
    assert record.delivery is Delivery.COMPLETE


def test_a_client_that_reads_slowly_begins_with_the_first_write() -> None:
    reading = Reading(tokens_per_second=0.5, buffered_tokens=1)
    fleet, records = fleet_with(_TENTHS)
    fleet.put_call(call(num_output_tokens=3, client=ClientBehaviour(name="slow", reading=reading)))
    record = only(fleet, records)
    assert at(record)[EventKind.FIRST_WRITE] == pytest.approx(1.6)
    assert at(record)[EventKind.LAST_WRITE] > 3.7
    assert sum(e.num_tokens or 0 for e in record.events if e.kind is EventKind.WRITE) == 2


def test_a_client_that_leaves_before_the_submission_is_sent_to_no_engine() -> None:
    plan = OverheadPlan(before_submission=Constant(2.0))
    fleet, records = fleet_with(plan)
    fleet.put_call(call(client=ClientBehaviour(name="hasty", first_token_within=1.0)))
    record = only(fleet, records)
    assert (record.disposition, record.delivery) == (Disposition.CANCELLED, Delivery.NONE)
    assert EventKind.SCHEDULED not in at(record)
    assert fleet.replicas["replica-0"].counts().num_requests == 0


def test_a_client_that_leaves_before_the_first_write_was_handed_nothing() -> None:
    plan = OverheadPlan(before_first_write=Constant(2.0))
    fleet, records = fleet_with(plan)
    fleet.put_call(
        call(num_output_tokens=9, client=ClientBehaviour(name="hasty", first_token_within=1.5))
    )
    record = only(fleet, records)
    assert (record.disposition, record.delivery) == (Disposition.CANCELLED, Delivery.NONE)


def test_patience_counts_from_the_arrival_and_not_from_the_admission() -> None:
    plan = OverheadPlan(before_admission=Constant(0.5))
    fleet, records = fleet_with(plan)
    fleet.put_call(
        call(num_output_tokens=9, client=ClientBehaviour(name="hasty", answer_within=3.0))
    )
    record = only(fleet, records)
    assert at(record)[EventKind.LAST_WRITE] == pytest.approx(3.0)


def test_a_replica_that_is_lost_before_the_submission_is_tried_no_more() -> None:
    plan = OverheadPlan(before_submission=Constant(1.0))
    fleet, records = fleet_with(plan, num_replicas=2)
    fleet.put_call(call(num_output_tokens=2))
    fleet.run_until(0.5)
    [request] = fleet.gateways[0].live()
    assert request.lease is not None
    chosen = request.lease.replica_id
    fleet.replicas[chosen].kill("power")
    record = only(fleet, records)
    assert record.delivery is Delivery.COMPLETE
    assert record.replica_ids[-1] != chosen
    assert at(record)[EventKind.SCHEDULED] == pytest.approx(2.0)


def test_a_client_that_leaves_before_the_second_submission_leaves_nothing_unreleased() -> None:
    plan = OverheadPlan(before_submission=Constant(1.0))
    fleet, records = fleet_with(plan, num_replicas=2)
    hasty = ClientBehaviour(name="hasty", first_token_within=2.0)
    fleet.put_call(call(num_prompt_tokens=90, num_output_tokens=2, client=hasty))
    fleet.run_until(1.5)
    [request] = fleet.gateways[0].live()
    assert request.replica is not None
    request.replica.kill("power")
    record = only(fleet, records)
    assert (record.disposition, len(record.replica_ids)) == (Disposition.CANCELLED, 1)
    [released] = [event for event in record.events if event.kind is EventKind.RELEASED]
    assert released.observability is Observability.INFERRED
    assert fleet.gateways[0].num_leaked == 0


def test_the_same_seed_draws_the_same_overheads_and_each_gateway_its_own() -> None:
    runs = []
    for _ in range(2):
        fleet, records = fleet_with(_VARIED, num_gateways=2, traffic=[steady(2.0)], duration=40.0)
        fleet.run()
        runs.append(in_order(records))
    assert runs[0] == runs[1]
    admitted = [at(record)[EventKind.ADMITTED] for record in runs[0]]
    assert min(admitted) == pytest.approx(0.1)
    assert max(admitted) > 0.11
    by_gateway = {record.gateway_id: [] for record in runs[0]}  # type: dict[str, list[float]]
    for record in runs[0]:
        by_gateway[record.gateway_id].append(at(record)[EventKind.ADMITTED])
    first, second = by_gateway.values()
    assert first != second


def test_drawing_one_overhead_changes_no_other() -> None:
    without = dataclasses.replace(_VARIED, before_admission=Constant(0.0))
    waits = []
    for plan in (_VARIED, without):
        fleet, records = fleet_with(plan, traffic=[steady(4.0)], duration=40.0)
        fleet.run()
        times = [at(record) for record in in_order(records)]
        waits.append([each[EventKind.FIRST_WRITE] - each[EventKind.FIRST_TOKEN] for each in times])
    assert waits[0] == pytest.approx(waits[1])
    assert len(set(waits[0])) > 3
