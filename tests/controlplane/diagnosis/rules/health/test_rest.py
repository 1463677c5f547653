"""A look that ends some seconds after the load did: all was answered, and nobody asks any more."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.healthy import HEALTHY
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import fact, series, window

_BUSY = 12
_EMPTY = 8
_ENDED = tuple(range(0, 50 * _BUSY, 50))
_EVERY = 1.0


def _gauge(signal: Signal, busy: float, empty: float = 0.0) -> Series:
    return series(signal, *[busy] * _BUSY, *[empty] * _EMPTY, every=_EVERY)


def _tokens(*counted: float) -> Series:
    """Up to the moment at which it is empty, and not since."""
    return series(
        Signal.GENERATION_TOKENS,
        *counted,
        *[counted[-1] + 50] * (_BUSY + _EMPTY - len(counted)),
        every=_EVERY,
    )


def _judged(*more: Series | Fact, tokens: Series, running: Series | None = None) -> Verdict | None:
    parts = (running or _gauge(Signal.RUNNING, 2), _gauge(Signal.WAITING, 0), tokens, *more)
    return HEALTHY.judge(window(*parts, engine="llama.cpp"))


def test_what_ended_all_that_it_took_is_well_and_idle() -> None:
    verdict = _judged(tokens=_tokens(*_ENDED))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "idle"


def test_it_is_the_answer_of_all_rules_together() -> None:
    parts = (_gauge(Signal.RUNNING, 2), _gauge(Signal.WAITING, 0), _tokens(*_ENDED))
    answer = diagnose(window(*parts, engine="llama.cpp"), BUILT_IN_RULES)
    assert answer.mechanism is Mechanism.HEALTHY


def test_a_counter_that_is_read_a_scrape_after_its_gauge_is_well_too() -> None:
    late = series(
        Signal.GENERATION_TOKENS, *_ENDED, *[_ENDED[-1]], *[700.0] * (_EMPTY - 1), every=_EVERY
    )
    verdict = _judged(tokens=late)
    assert verdict is not None
    assert verdict.detail == "idle"


def test_whose_callers_gave_up_after_it_stood_is_not() -> None:
    stood = series(
        Signal.GENERATION_TOKENS, 0, 50, 100, *[150.0] * (_BUSY + _EMPTY - 3), every=_EVERY
    )
    assert _judged(tokens=stood) is None


def test_one_that_is_empty_since_its_requests_were_aborted_is_not() -> None:
    aborted = _gauge(Signal.ABORTED, 0, 2)  # a symptom
    assert _judged(aborted, tokens=_tokens(*_ENDED)) is None


@pytest.mark.parametrize(
    "left",
    [
        _gauge(Signal.WAITING, 0, 1),
        _gauge(Signal.GATEWAY_IN_FLIGHT, 2, 2),
        _gauge(Signal.KV_USAGE, 0.3, 0.04),
    ],
    ids=["waiting", "in flight", "held"],
)
def test_something_that_is_left_of_them_is_no_rest(left: Series) -> None:
    parts = [_gauge(Signal.RUNNING, 2), _tokens(*_ENDED), left]
    if left.signal is not Signal.WAITING:
        parts.append(_gauge(Signal.WAITING, 0))
    assert HEALTHY.judge(window(*parts, engine="llama.cpp")) is None


def test_what_waits_for_a_moment_while_nothing_runs_is_no_rest() -> None:
    waiting = series(Signal.WAITING, *[0.0] * 15, 1, *[0.0] * 4, every=_EVERY)
    parts = (_gauge(Signal.RUNNING, 2), waiting, _tokens(*_ENDED))
    assert HEALTHY.judge(window(*parts, engine="llama.cpp")) is None


def test_a_gauge_that_is_empty_while_tokens_come_is_no_rest() -> None:
    tokens = series(Signal.GENERATION_TOKENS, *range(0, 50 * 20, 50), every=_EVERY)
    assert _judged(tokens=tokens) is None


@pytest.mark.parametrize("empty", [1, 2, 3])
def test_a_moment_between_two_requests_is_no_rest(empty: int) -> None:
    running = series(Signal.RUNNING, *[0.0] * 10, 2, *[0.0] * empty, every=_EVERY)
    waiting = series(Signal.WAITING, *[0.0] * (11 + empty), every=_EVERY)
    tokens = series(Signal.GENERATION_TOKENS, *[0.0] * 11, *[40.0] * empty, every=_EVERY)
    verdict = HEALTHY.judge(window(running, waiting, tokens, engine="llama.cpp"))
    assert verdict is None or verdict.detail != "idle"


def test_figures_that_nobody_gathers_without_a_reason_leave_it_open() -> None:
    verdict = _judged(fact("client_threads", 6), tokens=_tokens(*_ENDED))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
