"""Refusals before seats that are all taken are overload; beside room they are a limit's."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.callers.rejecting import REJECTING
from controlplane.diagnosis.rules.queue.overload import OVERLOAD
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window

EVERY = 10.0
BATCH = (
    series(Signal.SEATS, *[2] * 9, every=EVERY),
    series(Signal.RUNNING, *[2] * 9, every=EVERY),
)
IDLE_SEATS = (
    series(Signal.SEATS, *[32] * 9, every=EVERY),
    series(Signal.RUNNING, *[2] * 9, every=EVERY),
)
QUEUED = series(Signal.GATEWAY_QUEUED, *[4] * 9, every=EVERY)
ARRIVED = series(Signal.GATEWAY_ARRIVED, *range(0, 270, 30), every=EVERY)
ANSWERED = series(Signal.FINISHED, *range(0, 27, 3), every=EVERY)
SLOWER = series(Signal.FINISHED, 0, 6, 12, 18, 24, 24, 25, 25, 26, every=EVERY)
LATE = series(Signal.GATEWAY_ENDED, *range(9), every=EVERY, disposition="deadline")


def refused(reason: str = "queue_full") -> Series:
    return series(Signal.GATEWAY_REJECTED, *range(0, 225, 25), every=EVERY, reason=reason)


def sure_of_overload(found: Window) -> bool:
    verdict = OVERLOAD.judge(found)
    return verdict is not None and verdict.confidence >= Confidence.LIKELY


@pytest.mark.parametrize("reason", ["queue_full", "queue_age", "deadline_unreachable"])
def test_what_a_full_queue_refuses_before_taken_seats_is_overload_alone(reason: str) -> None:
    found = window(*BATCH, QUEUED, ARRIVED, ANSWERED, refused(reason), LATE)
    assert REJECTING.judge(found) is None
    assert sure_of_overload(found)


def test_beside_free_seats_it_is_a_limit() -> None:
    found = window(*IDLE_SEATS, ARRIVED, ANSWERED, refused())
    verdict = REJECTING.judge(found)
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY
    assert not sure_of_overload(found)


@pytest.mark.parametrize("reason", ["tenant_tokens", "tenant_concurrency", "no_class"])
def test_a_limit_that_is_no_queues_refuses_by_itself_though_seats_are_taken(reason: str) -> None:
    assert REJECTING.judge(window(*BATCH, QUEUED, ARRIVED, ANSWERED, refused(reason))) is not None


def test_requests_that_wait_past_their_deadlines_tell_that_seats_are_taken() -> None:
    found = window(QUEUED, ARRIVED, ANSWERED, refused(), LATE)
    assert REJECTING.judge(found) is None
    assert sure_of_overload(found)


def test_nobody_who_waits_in_vain_tells_nothing_of_seats() -> None:
    found = window(QUEUED, ARRIVED, ANSWERED, refused())
    assert REJECTING.judge(found) is not None
    assert not sure_of_overload(found)


def test_where_fewer_are_answered_than_before_the_queue_alone_settles_nothing() -> None:
    assert not sure_of_overload(window(QUEUED, ARRIVED, SLOWER, refused(), LATE))


def test_that_they_do_not_wait_is_not_said_where_some_do() -> None:
    found = window(*IDLE_SEATS, ARRIVED, ANSWERED, refused(), LATE)
    verdict = REJECTING.judge(found)
    assert verdict is not None
    assert not any(each.startswith("queue.overload") for each in verdict.against)
