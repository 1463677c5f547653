"""Counters that move when a request is done, by all its tokens at once."""

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.counted_at_end import between_ends, is_told_by_ends
from controlplane.diagnosis.views.course import rate_of
from controlplane.diagnosis.views.course_parts import rates, recent_rate
from controlplane.diagnosis.views.prefix import hit_rates
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window

TOKENS = "llamacpp:tokens_predicted_total"


def _jumps(count: int, *, still: int = 2, tokens: float = 64.0) -> list[float]:
    """Each request is counted after so many scrapes without an end."""
    return [tokens * ((index + 1) // (still + 1)) for index in range(count * (still + 1) + 1)]


def _made(
    values: list[float], name: str = TOKENS, signal: Signal = Signal.GENERATION_TOKENS
) -> Series:
    return series(signal, *values, every=1.0, name=name)


def _running(values: list[float], count: float = 2.0) -> Series:
    return series(Signal.RUNNING, *[count] * len(values), every=1.0, name="r")


def test_its_speed_is_the_same_in_each_span_whatever_the_scrapes_show() -> None:
    values = _jumps(20)
    counter, running = _made(values), _running(values)
    rate = rate_of(counter, Signal.GENERATION_RATE, window(counter, running))
    assert rate is not None
    assert len(rate.readings) == 3
    assert set(rate.values) == {64 / 3}


def test_an_unknown_name_is_told_by_its_looks() -> None:
    values = _jumps(10)
    counter = _made(values, name="other:tokens")
    assert is_told_by_ends(counter, window(counter, _running(values)))


def test_a_counter_of_an_engine_that_counts_each_step_is_read_as_it_stands() -> None:
    values = _jumps(10)
    counter = _made(values, name="vllm:generation_tokens_total")
    assert not is_told_by_ends(counter, window(counter, _running(values)))


def test_while_nothing_runs_zero_is_zero() -> None:
    values = [0.0] * 12
    counter = _made(values)
    assert not is_told_by_ends(counter, window(counter, _running(values, 0.0)))


def test_without_an_end_there_is_no_speed_while_steps_go_on_and_zero_where_none_ends() -> None:
    values = [640.0] * 30
    counter, running = _made(values), _running(values)
    goes_on = series(Signal.STEPS, *range(30), every=1.0, name="s")
    stands = series(Signal.STEPS, *[7.0] * 30, every=1.0, name="s")
    assert between_ends(counter, window(counter, running, goes_on)) is None
    still = rate_of(counter, Signal.GENERATION_RATE, window(counter, running, stands))
    assert still is not None
    assert still.max == 0


def test_steps_that_stop_after_the_last_end_are_a_speed_of_zero() -> None:
    values = [*_jumps(8), *[_jumps(8)[-1]] * 30]
    counter, running = _made(values), _running(values)
    steps = series(
        Signal.STEPS,
        *[min(float(index), 25.0) for index in range(len(values))],
        every=1.0,
        name="s",
    )
    rate = rate_of(counter, Signal.GENERATION_RATE, window(counter, running, steps))
    assert rate is not None
    assert rate.first.value == 64 / 3
    assert rate.last.value == 0


def test_thirds_with_too_few_ends_are_not_compared() -> None:
    values = _jumps(5)
    counter = _made(values)
    seen = window(counter, _running(values))
    assert rates(counter, seen) is None
    assert recent_rate(counter, seen) is None


def test_a_few_requests_make_no_course_of_hits() -> None:
    asked, found = _jumps(6, tokens=100.0), [0.0] * 3 + [80.0] * 16
    seen = window(
        _made(asked, "llamacpp:prompt_tokens_total", Signal.PROMPT_TOKENS),
        _made(found, "llamacpp:prompt_tokens_cached_total", Signal.CACHED_PROMPT_TOKENS),
        _running(asked),
    )
    shares = hit_rates(seen)
    assert shares is not None
    assert len(shares.readings) == 1


def test_many_requests_do_of_tokens_that_were_read_and_those_that_were_found() -> None:
    computed = _jumps(40, tokens=100.0)
    found = [value / 3 for value in computed]
    seen = window(
        _made(computed, "llamacpp:prompt_tokens_total", Signal.PROMPT_TOKENS),
        _made(found, "llamacpp:prompt_tokens_cached_total", Signal.CACHED_PROMPT_TOKENS),
        _running(computed),
    )
    shares = hit_rates(seen)
    assert shares is not None
    assert all(abs(share - 0.25) < 1e-9 for share in shares.values)
    assert len(shares.readings) == 4
