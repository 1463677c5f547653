import dataclasses

import pytest

from dataplane.latency import derive_latencies
from dataplane.lifecycle import Event, EventKind, Lifecycle, find_event
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.document import Overheads, Spread
from dataplane.simulation.fitting.replay import (
    ReplayedRequest,
    ReplicaBounds,
    replay,
    requests_of,
)
from tests.dataplane.simulation.fitting.simulated_records import (
    BOUNDS,
    NO_OVERHEADS,
    OVERHEADS,
    simulated_records,
    varied_requests,
)

_COST = LinearCost(iteration=1.0, per_prompt_token=0.5, per_decode_step=1.0)


def _at(events: tuple[Event, ...], kind: EventKind) -> float:
    event = find_event(events, kind)
    assert event is not None
    return event.at


def test_one_request_takes_what_its_steps_take() -> None:
    [events] = replay([ReplayedRequest(7.0, 10, 3)], BOUNDS, _COST, NO_OVERHEADS, seed=1)
    assert _at(events, EventKind.FIRST_TOKEN) == pytest.approx(1 + 10 * 0.5)
    assert _at(events, EventKind.FINISHED) == pytest.approx(6 + 2 * 2)
    assert derive_latencies(events, 3).server.tpot == pytest.approx(2.0)


def test_what_surrounds_the_steps_is_added_to_them() -> None:
    around = Overheads(
        arrival_to_admission=Spread(median=0.2, p95=0.2, num_samples=1),
        admission_to_idle_engine=Spread(median=0.5, p95=0.5, num_samples=1),
        between_steps=Spread(median=0.1, p95=0.1, num_samples=1),
        selection_to_first_write=Spread(median=0.3, p95=0.3, num_samples=1),
    )
    [events] = replay([ReplayedRequest(0.0, 10, 3)], BOUNDS, _COST, around, seed=1)
    # A step holds what lies between two; before the first of an idle engine that is no wait.
    assert _at(events, EventKind.SCHEDULED) == pytest.approx(0.2 + 0.5 - 0.1)
    assert _at(events, EventKind.FIRST_WRITE) == pytest.approx(0.6 + 6 + 0.3)


def test_who_finds_no_slot_waits_at_the_gateway_until_one_is_released() -> None:
    one_slot = ReplicaBounds(scheduler=BOUNDS.scheduler, num_slots=1)
    crowd = [ReplayedRequest(0.0, 10, 3), ReplayedRequest(0.0, 10, 3)]
    first, second = replay(crowd, one_slot, _COST, NO_OVERHEADS, seed=1)
    assert _at(second, EventKind.SCHEDULED) >= _at(first, EventKind.RELEASED)


def test_what_happens_to_each_request_is_a_life_that_a_gateway_would_record() -> None:
    requests = varied_requests(60, 1.0, seed=2)
    for number, events in enumerate(replay(requests, BOUNDS, _COST, OVERHEADS, seed=3)):
        lifecycle = Lifecycle(request_id=str(number), arrived_at_unix_ns=0)
        for event in events:
            lifecycle.apply(event)
        assert lifecycle.is_terminal
        assert lifecycle.is_delivered


def test_the_same_seed_is_the_same_replay() -> None:
    requests = varied_requests(30, 1.0, seed=2)
    one, same, other = (replay(requests, BOUNDS, _COST, OVERHEADS, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_request_that_can_never_run_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"request 0 can never run: .*exceed the model's 1024"):
        replay([ReplayedRequest(0.0, 2000, 3)], BOUNDS, _COST, NO_OVERHEADS, seed=1)


def test_requests_are_taken_from_the_records_of_those_who_were_answered() -> None:
    requests = varied_requests(20, 1.0, seed=4)
    records = simulated_records(_COST, requests)
    unanswered = dataclasses.replace(records[5], num_prompt_tokens=None)
    found = requests_of([*reversed(records[:5]), unanswered, *records[6:]])
    expected = [request for number, request in enumerate(requests) if number != 5]
    assert [r.num_output_tokens for r in found] == [r.num_output_tokens for r in expected]
    assert [r.at for r in found] == pytest.approx([r.at - requests[0].at for r in expected])
