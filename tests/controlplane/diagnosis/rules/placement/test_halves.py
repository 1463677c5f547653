"""Fleets of two halves: a link that is short, decoders that are too few, and neither."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    END,
    Course,
    counter,
    fleet,
    found,
    gauge,
    same,
    switched,
    wobble,
)


def _halves(decoding: Course, between: Course) -> list[Series]:
    return [
        gauge(Signal.RUNNING, wobble(1), "prefill"),
        counter(Signal.COMPUTED_PROMPT_TOKENS, same(500), "prefill"),
        counter(Signal.GENERATION_TOKENS, same(4), "prefill"),
        gauge(Signal.RUNNING, decoding, "decode"),
        gauge(Signal.WAITING, lambda at: 2.0 if decoding(END) >= 8 else 0.0, "decode"),
        counter(Signal.COMPUTED_PROMPT_TOKENS, same(0), "decode"),
        counter(Signal.GENERATION_TOKENS, same(150), "decode"),
        gauge(Signal.DECODE_QUEUE, between),
    ]


def test_decoders_that_idle_while_prompts_are_between_wait_for_the_link() -> None:
    window = fleet(*_halves(switched(8, 1), switched(0, 40)))
    assert found(window) == {Mechanism.TRANSFER_BOUND: Confidence.LIKELY}


def test_decoders_that_are_full_while_prompts_are_between_are_too_few() -> None:
    window = fleet(*_halves(switched(4, 8), switched(0, 40)))
    assert found(window) == {Mechanism.PHASE_MISMATCH: Confidence.LIKELY}


def test_halves_with_nothing_between_them_are_well() -> None:
    assert found(fleet(*_halves(same(6), same(0)))) == {}
