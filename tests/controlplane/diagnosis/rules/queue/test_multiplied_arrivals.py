"""Arrivals that multiply: the same callers again, or more of them."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.queue.multiplied_arrivals import MULTIPLIED_ARRIVALS
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    counted_at_end,
    counter,
    fleet,
    found,
    gateway,
    gauge,
    switched,
    wobble,
)


def test_arrivals_that_multiply_while_less_is_done_are_retries() -> None:
    tokens = counter(Signal.GENERATION_TOKENS, switched(300, 60), "a")
    storm = [tokens, *gateway(switched(6, 50), switched(6, 50), wobble(20))]
    assert found(fleet(*storm)) == {Mechanism.QUEUE_RETRY_STORM: Confidence.LIKELY}
    busy = counter(Signal.GENERATION_TOKENS, switched(300, 900), "a")
    more_callers = [busy, *gateway(switched(6, 50), switched(6, 50), wobble(20))]
    assert found(fleet(*more_callers)) == {}


_STORM = gateway(switched(6, 50), switched(6, 50), wobble(20))


def _counted_at_end(every: float, steps: float | None) -> list[Series]:
    """Eight run all the time; from the onset on an end comes every so many seconds, before every
    few, and the engine takes `steps` of its twenty a second."""
    made = counted_at_end(switched(160, 8.0 * (steps or 0)), every, "a")
    running = gauge(Signal.RUNNING, wobble(8), "a")
    found = [made, running]
    return found if steps is None else [*found, counter(Signal.STEPS, switched(20, steps), "a")]


def test_answers_that_take_longer_are_no_less_work_while_steps_go_on() -> None:
    goes_on = fleet(*_counted_at_end(30.0, 20.0), *_STORM)
    assert found(goes_on) == {}
    slower = fleet(*_counted_at_end(30.0, 2.0), *_STORM)
    assert found(slower) == {Mechanism.QUEUE_RETRY_STORM: Confidence.LIKELY}


def test_what_the_engines_do_is_asked_for_where_neither_ends_nor_steps_show_it() -> None:
    verdict = MULTIPLIED_ARRIVALS.judge(fleet(*_counted_at_end(30.0, None), *_STORM))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert len(verdict.needs) == 2
