"""Whoever looks at random fleets would see a defect: each is planted, and seen."""

import dataclasses
from collections.abc import Callable

import msgspec
import pytest

from dataplane.lifecycle import Disposition, EventKind
from dataplane.policy import ClassPolicy, TenantLimits
from dataplane.queueing.demand import ONE_SLOT
from dataplane.record import RequestRecord
from dataplane.simulation.fleet import Fleet
from ops.endurance.fleet_watch import FleetWatch
from ops.endurance.random_scenario import random_scenario
from ops.endurance.record_watch import RecordWatch
from tests.dataplane.simulation.small_fleet import call, small_fleet

LIMITED = {
    "tenants": {"default": TenantLimits(max_concurrent=4)},
    "max_prompt_tokens_in_flight": 40,
}


def watched() -> tuple[Fleet, FleetWatch]:
    """With four calls under way, of which one waits."""
    fleet, _ = small_fleet(max_num_seqs=3, terms=LIMITED)
    watch = FleetWatch(fleet)
    for _ in range(4):
        fleet.put_call(call(num_output_tokens=6))
    fleet.run_until(2.5)
    watch.check()
    return fleet, watch


def test_a_fleet_in_which_nothing_is_wrong_passes_every_look() -> None:
    fleet, watch = watched()
    fleet.run_out()
    watch.check_end()


def _take_a_slot(fleet: Fleet) -> None:
    [gateway] = fleet.gateways
    assert gateway.queue.start_at_once(ClassPolicy(name="all"), ONE_SLOT) is not None


def _forget_what_it_holds(fleet: Fleet) -> None:
    request = fleet.live()[0]
    assert request.hold is not None
    request.hold = None


def _take_a_block(fleet: Fleet) -> None:
    [replica] = fleet.replicas.values()
    assert replica.engine is not None
    assert replica.engine.scheduler.pool.allocate(1)


def _end_it_otherwise(fleet: Fleet) -> None:
    fleet.live()[0].disposition = Disposition.ERROR


def _lose_a_count(fleet: Fleet) -> None:
    fleet.results.by_class["all"].num_offered += 1


def _put_it_away_unseen(fleet: Fleet) -> None:
    fleet.number_request()
    fleet.gateways[0].arrive(call())


def _look_to_the_end(fleet: Fleet, watch: FleetWatch) -> None:
    watch.check()
    fleet.run_out()
    watch.check_end()


@pytest.mark.parametrize(
    ("plant", "seen"),
    [
        (_take_a_slot, "replica-0"),
        (_forget_what_it_holds, "still holds"),
        (_take_a_block, "block"),
        (_end_it_otherwise, "decode"),
        (_lose_a_count, "4, 5, 0"),
        (_put_it_away_unseen, "calls were put"),
    ],
)
def test_what_is_lost_in_a_fleet_is_seen(plant: Callable[[Fleet], None], seen: str) -> None:
    fleet, watch = watched()
    if plant in (_take_a_slot, _lose_a_count):
        fleet.run_out()
    plant(fleet)
    with pytest.raises(AssertionError, match=seen):
        _look_to_the_end(fleet, watch)


def recorded() -> tuple[Fleet, RequestRecord]:
    fleet, records = small_fleet()
    fleet.put_call(call())
    fleet.run()
    [record] = records.taken
    return fleet, record


def test_a_record_that_fits_passes() -> None:
    fleet, record = recorded()
    watch = RecordWatch()
    watch.keep(0, record)
    columns = fleet.results.columns
    assert columns is not None
    watch.check_rows(columns)
    with pytest.raises(AssertionError, match="ended twice"):
        watch.keep(0, record)


def _without(record: RequestRecord, kind: EventKind) -> RequestRecord:
    kept = tuple(event for event in record.events if event.kind is not kind)
    return dataclasses.replace(record, events=kept)


def _one_token_more(record: RequestRecord) -> RequestRecord:
    return dataclasses.replace(record, num_output_tokens=(record.num_output_tokens or 0) + 1)


def _written_late(record: RequestRecord) -> RequestRecord:
    events = [
        msgspec.structs.replace(event, at=event.at + 1000)
        if event.kind is EventKind.FIRST_WRITE
        else event
        for event in record.events
    ]
    return dataclasses.replace(record, events=tuple(events))


@pytest.mark.parametrize(
    "spoil",
    [
        _one_token_more,
        _written_late,
        lambda record: _without(record, EventKind.FIRST_TOKEN),
        lambda record: _without(record, EventKind.FIRST_WRITE),
    ],
)
def test_a_record_that_contradicts_itself_is_seen(
    spoil: Callable[[RequestRecord], RequestRecord],
) -> None:
    _, record = recorded()
    with pytest.raises(AssertionError):
        RecordWatch().keep(0, spoil(record))


def test_a_row_that_says_something_else_than_its_record_is_seen() -> None:
    fleet, record = recorded()
    watch = RecordWatch()
    watch.keep(0, dataclasses.replace(record, num_prompt_tokens=99))
    columns = fleet.results.columns
    assert columns is not None
    with pytest.raises(AssertionError, match="num_prompt_tokens is 99, and 5 in its row"):
        watch.check_rows(columns)


def test_an_end_without_a_release_is_counted() -> None:
    _, record = recorded()
    watch = RecordWatch()
    watch.keep(0, _without(record, EventKind.RELEASED))
    assert watch.num_unreleased == 1


def test_random_policies_ask_for_everything_that_one_may_ask_for() -> None:
    asked: set[str] = set()
    for number in range(60):
        plain = random_scenario(number).policy
        assert plain == random_scenario(number).policy
        for name in ("tpot_seconds", "max_prompt_tokens_in_flight", "kv", "tenants", "overload"):
            if getattr(plain, name):
                asked.add(name)
        asked.add(plain.routing.policy)
        if plain.overload is not None:
            asked |= {name for name in ("shed", "degrade") if getattr(plain.overload, name)}
        if any(each.first_token_seconds for each in plain.classes):
            asked.add("first_token")
    assert asked == {
        "tpot_seconds", "max_prompt_tokens_in_flight", "kv", "tenants", "overload", "shed",
        "degrade", "first_token", "two_choices", "least_outstanding", "prefix",
    }  # fmt: skip
