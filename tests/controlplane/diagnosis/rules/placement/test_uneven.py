"""One replica that has the most, beside one that is only slow."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.placement.skew import SKEW
from controlplane.diagnosis.rules.placement.uneven import UNEVEN
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    END,
    Course,
    counted_at_end,
    counter,
    fleet,
    found,
    gauge,
    same,
    wobble,
)


def test_a_replica_that_has_and_does_most_is_skewed_and_one_that_is_slow_is_not() -> None:
    def load(running: float, tokens: float, replica: str) -> list[Series]:
        return [
            gauge(Signal.RUNNING, wobble(running), replica),
            counter(Signal.GENERATION_TOKENS, same(tokens), replica),
        ]

    skewed = fleet(*load(9, 300, "a"), *load(2, 60, "b"), *load(1, 40, "c"))
    assert found(skewed) == {Mechanism.ROUTING_SKEW: Confidence.LIKELY}
    slow = fleet(*load(9, 60, "a"), *load(2, 80, "b"), *load(1, 60, "c"))
    assert found(slow) == {}


def _counted_at_end(
    running: float, steps: float | None, every: float, replica: str
) -> list[Series]:
    """A step gives a token to each that runs."""
    rate = running * (20 if steps is None else steps)
    found = [
        gauge(Signal.RUNNING, wobble(running), replica),
        counted_at_end(same(rate), every, replica),
    ]
    return found if steps is None else [*found, counter(Signal.STEPS, same(steps), replica)]


LONG, SHORT = 200.0, 4.0
"""Seconds from one end to the next: longer than all that was seen, and several in half a minute."""


def test_who_does_most_is_seen_by_ends_where_answers_are_short() -> None:
    others = [*_counted_at_end(2, 20, SHORT, "b"), *_counted_at_end(2, 20, SHORT, "c")]
    skewed = fleet(*_counted_at_end(9, 20, SHORT, "a"), *others)
    assert found(skewed) == {Mechanism.ROUTING_SKEW: Confidence.LIKELY}


def test_who_does_most_is_seen_by_steps_while_no_answer_ends() -> None:
    others = [*_counted_at_end(2, 20, SHORT, "b"), *_counted_at_end(2, 20, SHORT, "c")]
    skewed = fleet(*_counted_at_end(9, 20, LONG, "a"), *others)
    assert found(skewed) == {Mechanism.ROUTING_SKEW: Confidence.LIKELY}
    slow = fleet(*_counted_at_end(9, 2, LONG, "a"), *others)
    assert found(slow) == {}


def test_who_does_most_is_asked_for_where_neither_shows_it() -> None:
    others = [*_counted_at_end(2, None, SHORT, "b"), *_counted_at_end(2, None, SHORT, "c")]
    unseen = fleet(*_counted_at_end(9, None, LONG, "a"), *others)
    verdict = UNEVEN.judge(unseen)
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert len(verdict.needs) == 1


def test_a_replica_that_may_hang_makes_its_neighbour_no_favourite_yet() -> None:
    def until_late(rate: float) -> Course:
        return lambda at: rate * (at < END - 20)

    stuck = [
        gauge(Signal.RUNNING, same(2), "b"),
        counted_at_end(until_late(40), SHORT, "b"),
        counter(Signal.STEPS, until_late(20), "b"),
    ]
    others = [*stuck, *_counted_at_end(2, 20, SHORT, "c")]
    window = fleet(*_counted_at_end(9, 20, SHORT, "a"), *others)
    for rule in (UNEVEN, SKEW):
        verdict = rule.judge(window)
        assert verdict is not None
        assert verdict.confidence is Confidence.POSSIBLE
        assert len(verdict.needs) == 1
