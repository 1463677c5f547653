"""One replica is ill and the others are well: the sums over all of them must not hide it."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rules import BUILT_IN_RULES
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, window

_TIMES = range(8)


def _thrashing(replica: str) -> list[Series]:
    return [
        series(Signal.PREEMPTIONS, *(6 * i for i in _TIMES), replica=replica),
        series(Signal.RUNNING, *(12 + i % 2 for i in _TIMES), replica=replica),
        series(Signal.WAITING, *(5 + i % 2 for i in _TIMES), replica=replica),
        series(Signal.KV_USAGE, *(0.98 + 0.002 * (i % 3) for i in _TIMES), replica=replica),
        series(Signal.FINISHED, *(6 * i for i in _TIMES), replica=replica),
        series(Signal.GENERATION_TOKENS, *(300 * i for i in _TIMES), replica=replica),
    ]


def _blocked(replica: str) -> list[Series]:
    return [
        series(Signal.RUNNING, *(0 for _ in _TIMES), replica=replica),
        series(Signal.WAITING, *(2 + i for i in _TIMES), replica=replica),
        series(Signal.KV_USAGE, *(0.02 for _ in _TIMES), replica=replica),
        series(Signal.KV_CAPACITY, 40_000, replica=replica),
        series(Signal.FINISHED, *(10 for _ in _TIMES), replica=replica),
        series(Signal.GENERATION_TOKENS, *(1000 for _ in _TIMES), replica=replica),
    ]


def _well(replica: str) -> list[Series]:
    return [
        series(Signal.PREEMPTIONS, *(0 for _ in _TIMES), replica=replica),
        series(Signal.RUNNING, *(12 - i % 3 for i in _TIMES), replica=replica),
        series(Signal.WAITING, *(0 for _ in _TIMES), replica=replica),
        series(Signal.KV_USAGE, *(0.3 + 0.01 * (i % 3) for i in _TIMES), replica=replica),
        series(Signal.KV_CAPACITY, 40_000, replica=replica),
        series(Signal.FINISHED, *(20 * i for i in _TIMES), replica=replica),
        series(Signal.GENERATION_TOKENS, *(1500 * i for i in _TIMES), replica=replica),
    ]


@pytest.mark.parametrize("num_well", [1, 3, 7])
def test_one_that_thrashes_is_named_and_is_neither_skew_nor_overload(num_well: int) -> None:
    well = [each for index in range(num_well) for each in _well(f"r{index + 1}")]
    found = diagnose(window(*_thrashing("r0"), *well), BUILT_IN_RULES)
    assert found.mechanism is Mechanism.CACHE_THRASH
    assert found.findings[0].verdict.detail.startswith("at r0")
    assert {each.mechanism for each in found.findings} == {Mechanism.CACHE_THRASH}


def test_one_that_admits_nobody_is_named_and_not_called_overload() -> None:
    well = [each for index in range(3) for each in _well(f"r{index + 1}")]
    short = fact("longest_prompt_tokens", 900, unit=Unit.TOKENS, at=70)
    found = diagnose(window(*_blocked("r0"), *well, short), BUILT_IN_RULES)
    assert found.mechanism is Mechanism.QUEUE_BLOCKED
    assert found.findings[0].verdict.detail.startswith("at r0")
    assert Mechanism.QUEUE_OVERLOAD not in {each.mechanism for each in found.findings}


def test_where_its_head_may_not_fit_the_others_progress_makes_it_no_overload() -> None:
    well = [each for index in range(3) for each in _well(f"r{index + 1}")]
    found = diagnose(window(*_blocked("r0"), *well), BUILT_IN_RULES)
    assert found.mechanism is Mechanism.CANNOT_TELL
    assert Mechanism.QUEUE_BLOCKED in {each.mechanism for each in found.possible}


def test_gauges_of_one_that_stand_are_not_believed_for_the_sum_of_the_others() -> None:
    """The gateway has no more than the others say: nobody waits there."""
    frozen = [
        series(Signal.RUNNING, *(0 for _ in _TIMES), replica="r0"),
        series(Signal.WAITING, *(9 for _ in _TIMES), replica="r0"),
        *_blocked("r0")[2:],
    ]
    well = [each for index in range(3) for each in _well(f"r{index + 1}")]
    short = fact("longest_prompt_tokens", 900, unit=Unit.TOKENS, at=70)
    inside = series(Signal.GATEWAY_IN_FLIGHT, *(33 for _ in _TIMES), kind=SourceKind.GATEWAY)
    found = diagnose(window(*frozen, *well, short, inside), BUILT_IN_RULES)
    blocked = [each for each in found.findings if each.mechanism is Mechanism.QUEUE_BLOCKED]
    assert not any(each.confidence >= Confidence.LIKELY for each in blocked)
