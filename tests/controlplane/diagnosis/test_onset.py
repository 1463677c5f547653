"""Since when a signal is as it is, and what was changed before that."""

from random import Random

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Finding
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.onset import find_onset, find_shift
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Cited, Verdict
from controlplane.diagnosis.window import Change, Window
from dataplane.engine_metrics.signal import Signal


def series(signal: Signal, values: list[float], name: str = "vllm:it") -> Series:
    return Series(
        signal=signal,
        origin=Origin(kind=SourceKind.METRICS, name=name),
        readings=tuple(Reading(5.0 * i, value, f"{value:g}") for i, value in enumerate(values)),
    )


def noisy(seed: int, *levels: tuple[int, float, float]) -> list[float]:
    random = Random(seed)
    return [random.gauss(mean, sd) for count, mean, sd in levels for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_a_level_that_rises_is_found_within_two_readings(seed: int) -> None:
    shift = find_shift(series(Signal.WAITING, noisy(seed, (40, 3, 1), (20, 30, 3))))
    assert shift is not None
    assert shift.at == pytest.approx(200, abs=10)
    assert shift.before == pytest.approx(3, abs=1)
    assert shift.after == pytest.approx(30, abs=3)


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_change(seed: int) -> None:
    assert find_shift(series(Signal.WAITING, noisy(seed, (60, 10, 2)))) is None


def test_a_signal_that_stood_still_to_the_digit_may_shift_by_any_amount() -> None:
    shift = find_shift(series(Signal.RUNNING, [4.0] * 10 + [0.0] * 10))
    assert shift is not None
    assert (shift.at, shift.before, shift.after) == (50, 4, 0)


def test_a_counter_is_looked_at_as_a_rate_and_its_restart_is_no_change() -> None:
    values = [10.0 * i for i in range(12)] + [10.0 * i for i in range(12)]
    assert find_shift(series(Signal.PREEMPTIONS, values)) is None
    faster = [10.0 * i for i in range(12)] + [210 + 100.0 * i for i in range(12)]
    shift = find_shift(series(Signal.PREEMPTIONS, faster))
    assert shift is not None
    assert [shift.before, shift.after] == pytest.approx([2, 20])


@pytest.mark.parametrize("every", [4, 10])
def test_what_comes_in_bursts_or_came_and_went_began_at_no_one_moment(every: int) -> None:
    bursts = [100.0 if i % (2 * every) < every / 2 else 0.0 for i in range(60)]
    assert find_shift(series(Signal.WAITING, bursts)) is None
    assert find_shift(series(Signal.WAITING, [0.0] * 20 + [30.0] * 20 + [0.0] * 20)) is None


def test_few_readings_tell_no_onset() -> None:
    assert find_shift(series(Signal.RUNNING, [1.0, 1.0, 9.0, 9.0])) is None


def test_what_was_changed_before_is_told_with_its_lag_and_what_came_after_is_not() -> None:
    waiting = series(Signal.WAITING, [0.0] * 12 + [20.0] * 12, name="vllm:num_requests_waiting")
    other = series(Signal.RUNNING, [1.0] * 24, name="vllm:num_requests_running")
    window = Window(
        start=0,
        end=115,
        series=(waiting, other),
        changes=(
            Change(at=-9 * 3600, what="an old one"),
            Change(at=20, what="max_num_seqs 64 -> 8"),
            Change(at=50, what="a second replica"),
            Change(at=90, what="an answer to it"),
        ),
    )
    onset = find_onset(window, _finding("vllm:num_requests_waiting", "vllm:num_requests_running"))
    assert onset is not None
    assert onset.at == 60
    assert onset.sentence == "vllm:num_requests_waiting went from 0 to 20"
    assert [(lag.change.what, lag.seconds) for lag in onset.preceded_by] == [
        ("a second replica", 10),
        ("max_num_seqs 64 -> 8", 40),
    ]
    assert find_onset(window, _finding("vllm:num_requests_running")) is None
    assert find_onset(window, _finding("vllm:num_requests_waiting"), by=55) is None


def test_of_places_that_part_the_same_levels_it_is_where_the_readings_part() -> None:
    shift = find_shift(series(Signal.RUNNING, [5.0, 6.0] * 15 + [3.0] * 200))
    assert shift is not None
    assert shift.at == 150


def _finding(*names: str) -> Finding:
    cited = tuple(
        Cited(
            signal="waiting",
            value=1,
            unit="requests",
            source=SourceKind.METRICS,
            name=name,
            at=115,
            age_seconds=0,
        )
        for name in names
    )
    verdict = Verdict(confidence=Confidence.LIKELY, evidence=("it waits",), cited=cited)
    rule = Rule(
        id="it",
        mechanism=Mechanism.QUEUE_OVERLOAD,
        judge=lambda window: verdict,
        needs=(),
        told_apart="by hand",
        remedy="wait",
        hides="nothing",
    )
    return Finding(rule=rule, verdict=verdict)


def test_a_day_of_readings_is_searched_too_and_its_last_minutes_are_found() -> None:
    day = noisy(3, (8640, 400, 20), (19, 0, 0.1))
    shift = find_shift(series(Signal.GENERATION_RATE, day))
    assert shift is not None
    assert shift.at == pytest.approx(5 * 8640, abs=10)
    assert shift.after == pytest.approx(0, abs=1)
    assert find_shift(series(Signal.GENERATION_RATE, noisy(3, (8640, 400, 20)))) is None
