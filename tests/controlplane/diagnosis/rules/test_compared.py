"""Replicas side by side of which nothing is wrong: no rule that compares them speaks."""

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.window import Window
from tests.controlplane.diagnosis.rules.build_fleet import (
    fleet,
    found,
    gateway,
    same,
    wobble,
    working,
)


def test_a_moment_is_no_course() -> None:
    moment = [
        Series(
            signal=each.signal, origin=each.origin, readings=each.readings[:1], labels=each.labels
        )
        for each in (*working("a"), *working("b"), *gateway(same(6), same(6), wobble(10)))
    ]
    assert found(Window(start=0, end=0, series=tuple(moment))) == {}


def test_a_fleet_that_works_is_no_case() -> None:
    series = [*working("a"), *working("b"), *gateway(same(6), same(6), wobble(10))]
    assert found(fleet(*series)) == {}
