"""The intervals of a request, as every waterfall draws them."""

import dataclasses
from typing import Any

import msgspec
import pytest

from dataplane import names
from dataplane.latency import Boundary
from dataplane.lifecycle import Delivery, Disposition, Event, EventKind, Observability
from dataplane.spans import SpanInterval, intervals_of, span_intervals
from tests.dataplane.golden_request import CLIENT, golden_case, golden_events, golden_record


def _by_name(intervals: tuple[SpanInterval, ...]) -> dict[str, SpanInterval]:
    by_name = {interval.name: interval for interval in intervals}
    assert len(by_name) == len(intervals)
    return by_name


def _ms(interval: SpanInterval) -> list[int | None]:
    return [None if t is None else round(t * 1000) for t in (interval.start, interval.end)]


def test_the_golden_request_with_its_client_report_has_the_golden_timeline() -> None:
    timeline: dict[str, dict[str, Any]] = golden_case()["timeline_ms"]
    intervals = _by_name(span_intervals(golden_record(CLIENT)))
    assert {name: _ms(interval) for name, interval in intervals.items()} == {
        name: [said["start"], said["end"]] for name, said in timeline.items()
    }
    assert {name: interval.boundary.value for name, interval in intervals.items()} == {
        name: said["boundary"] for name, said in timeline.items()
    }
    within = {name: said["within"] for name, said in timeline.items() if said["within"]}
    for inner, outer in within.items():
        assert intervals[outer].start <= intervals[inner].start
        assert (intervals[inner].end or 0) <= (intervals[outer].end or 0)


def test_the_golden_request_without_a_client_report_has_the_golden_spans() -> None:
    golden = golden_case()["without_client_telemetry"]["spans_ms"]
    intervals = _by_name(span_intervals(golden_record()))
    assert {name: _ms(interval) for name, interval in intervals.items()} == golden
    assert Boundary.CLIENT not in {interval.boundary for interval in intervals.values()}


def test_a_client_whose_clock_error_nobody_knows_is_not_put_beside_the_server() -> None:
    silent_about_clocks = dataclasses.replace(CLIENT, clock_error=None)
    assert span_intervals(golden_record(silent_about_clocks)) == span_intervals(golden_record())


def test_a_client_clock_error_is_the_error_of_the_transit() -> None:
    uncertain = dataclasses.replace(CLIENT, clock_error=0.004)
    transit = _by_name(span_intervals(golden_record(uncertain)))[names.SPAN_FIRST_CONTENT_TRANSIT]
    assert transit.end_error == 0.004


def test_intervals_come_in_the_order_of_the_names() -> None:
    found = [interval.name for interval in span_intervals(golden_record(CLIENT))]
    assert found == [*names.SPAN_NAMES, names.SPAN_FIRST_CONTENT_TRANSIT]


def _upto(kind: EventKind) -> tuple[Event, ...]:
    events = golden_events()
    return events[: next(i for i, e in enumerate(events) if e.kind is kind) + 1]


def test_a_living_request_has_open_intervals_and_none_that_did_not_begin() -> None:
    intervals = _by_name(intervals_of(_upto(EventKind.FIRST_WRITE)))
    assert {name: _ms(interval) for name, interval in intervals.items()} == {
        "request": [0, None],
        "queue": [0, 18],
        "prefill": [18, 43],
        "decode": [43, None],
        "delivery": [44, None],
    }
    assert intervals["decode"].seconds is None
    assert intervals["prefill"].seconds == pytest.approx(0.025)


def test_a_request_that_is_not_released_shows_its_open_cleanup() -> None:
    cleanup = _by_name(intervals_of(_upto(EventKind.LAST_WRITE)))["cleanup"]
    assert _ms(cleanup) == [94, None]


def test_a_cleanup_that_nobody_can_observe_is_left_out() -> None:
    record = golden_record(
        events=_upto(EventKind.LAST_WRITE), cleanup_observability=Observability.UNOBSERVABLE
    )
    assert "cleanup" not in _by_name(span_intervals(record))


def test_nothing_is_cleaned_up_where_no_engine_work_began() -> None:
    shed = Event(kind=EventKind.FINISHED, at=0.5, disposition=Disposition.SHED)
    intervals = _by_name(intervals_of((*_upto(EventKind.ADMITTED), shed)))
    assert {name: _ms(interval) for name, interval in intervals.items()} == {
        "request": [0, None],
        "queue": [0, 500],
    }


@pytest.mark.parametrize("kind", [EventKind.INVALID, EventKind.REJECTED])
def test_a_refused_request_waited_until_it_was_refused(kind: EventKind) -> None:
    events = (
        *_upto(EventKind.RECEIVED),
        Event(kind=kind, at=0.003, reason="no"),
        Event(kind=EventKind.LAST_WRITE, at=0.004, delivery=Delivery.NONE),
    )
    intervals = _by_name(intervals_of(events))
    assert {name: _ms(interval) for name, interval in intervals.items()} == {
        "request": [0, 4],
        "queue": [0, 3],
    }


def test_a_prefill_that_ends_without_a_token_ends_with_the_request() -> None:
    failed = Event(kind=EventKind.FINISHED, at=0.03, disposition=Disposition.ERROR)
    intervals = _by_name(intervals_of((*_upto(EventKind.SCHEDULED), failed)))
    assert _ms(intervals["prefill"]) == [18, 30]
    assert "decode" not in intervals


def test_decode_ends_and_cleanup_begins_with_the_last_sequence() -> None:
    events = (
        *_upto(EventKind.FIRST_TOKEN),
        Event(kind=EventKind.FINISHED, at=0.06, sequence=0, disposition=Disposition.STOP),
        Event(kind=EventKind.FINISHED, at=0.09, sequence=1, disposition=Disposition.STOP),
    )
    intervals = _by_name(intervals_of(events))
    assert _ms(intervals["decode"]) == [43, 90]
    assert _ms(intervals["cleanup"]) == [90, None]


def test_a_retry_belongs_to_the_same_prefill() -> None:
    retry = Event(kind=EventKind.SCHEDULED, at=0.03, attempt=1)
    first_token = Event(kind=EventKind.FIRST_TOKEN, at=0.05, attempt=1)
    intervals = _by_name(intervals_of((*_upto(EventKind.SCHEDULED), retry, first_token)))
    assert _ms(intervals["queue"]) == [0, 18]
    assert _ms(intervals["prefill"]) == [18, 50]


def test_an_interval_is_known_as_well_as_the_weaker_of_its_ends() -> None:
    events = tuple(
        msgspec.structs.replace(event, observability=Observability.INFERRED, at_error=0.002)
        if event.kind is EventKind.FIRST_TOKEN
        else event
        for event in golden_events()
    )
    intervals = _by_name(intervals_of(events))
    assert {name: i.observability.value for name, i in intervals.items()} == {
        "request": "observed",
        "queue": "observed",
        "prefill": "inferred",
        "decode": "inferred",
        "delivery": "observed",
        "cleanup": "observed",
    }
    assert intervals["prefill"].end_error == intervals["decode"].start_error == 0.002
    assert intervals["prefill"].start_error == intervals["decode"].end_error == 0.0


def test_nothing_that_arrived_nothing_to_draw() -> None:
    assert intervals_of(()) == ()
