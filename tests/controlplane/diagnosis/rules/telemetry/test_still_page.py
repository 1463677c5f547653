"""A page that stands still: whether answers come from behind it, or nothing does."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    RULES,
    Course,
    counter,
    fleet,
    found,
    frozen,
    gateway,
    gauge,
    same,
    switched,
    wobble,
    working,
)


def test_a_page_that_stands_still_while_its_answers_are_counted_is_stale() -> None:
    series = [*working("a"), *frozen("b"), *gateway(same(6), same(6), wobble(10))]
    assert found(fleet(*series)) == {Mechanism.TELEMETRY_STALE: Confidence.LIKELY}


def test_a_replica_that_has_nothing_to_do_stands_still_and_is_well() -> None:
    idle = [
        gauge(Signal.RUNNING, switched(2, 0), "b"),
        counter(Signal.GENERATION_TOKENS, switched(100, 0), "b"),
    ]
    series = [*working("a"), *idle]
    assert found(fleet(*series)) == {}
    unseen_third = [*series, *gateway(same(9), same(9), wobble(10))]
    assert found(fleet(*unseen_third)) == {}


def test_a_page_that_stands_still_where_nobody_counts_answers_needs_a_probe() -> None:
    series = [*working("a"), *frozen("b")]
    verdict = next(
        verdict
        for rule in RULES
        if rule.mechanism is Mechanism.TELEMETRY_STALE
        and (verdict := rule.judge(fleet(*series))) is not None
    )
    assert verdict.confidence is Confidence.POSSIBLE
    assert "a one-token probe of each replica" in verdict.needs


@pytest.mark.parametrize(
    ("in_flight", "mechanism"),
    [(wobble(10), Mechanism.TELEMETRY_STALE), (switched(10, 90), Mechanism.ENGINE_HUNG)],
)
def test_where_all_stand_still_it_counts_whether_requests_pile_up(
    in_flight: Course, mechanism: Mechanism
) -> None:
    series = [*frozen("a"), *frozen("b"), *gateway(same(6), same(6), in_flight)]
    assert found(fleet(*series)) == {mechanism: Confidence.LIKELY}
