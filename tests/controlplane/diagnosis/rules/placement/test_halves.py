"""Fleets of two halves: a link that is short, decoders that are too few, and neither."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
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


def _of_long_answers(prompts: float, every: float, replica: str) -> list[Series]:
    """Eight run for a minute or more each, and each step gives all of them a token."""
    return [
        gauge(Signal.RUNNING, same(8), replica),
        counter(Signal.COMPUTED_PROMPT_TOKENS, same(prompts), replica),
        counted_at_end(same(160), every, replica),
        counter(Signal.STEPS, same(20), replica),
    ]


def test_answers_that_are_still_written_make_no_half_that_only_reads_prompts() -> None:
    fleet_of_both = fleet(
        *_of_long_answers(100, 200.0, "a"),
        *_of_long_answers(0, 60.0, "b"),
        gauge(Signal.DECODE_QUEUE, same(40)),
    )
    assert found(fleet_of_both) == {}


def test_a_half_that_only_reads_prompts_is_one_where_tokens_are_counted_at_an_end_too() -> None:
    """It ends each with the first token, some seconds apart."""
    window = fleet(
        gauge(Signal.RUNNING, wobble(2), "prefill"),
        counter(Signal.COMPUTED_PROMPT_TOKENS, same(500), "prefill"),
        counted_at_end(same(0.5), 6.0, "prefill"),
        counter(Signal.STEPS, same(2), "prefill"),
        gauge(Signal.WAITING, same(2), "decode"),
        *_of_long_answers(0, 60.0, "decode"),
        gauge(Signal.DECODE_QUEUE, same(40)),
    )
    assert found(window) == {Mechanism.PHASE_MISMATCH: Confidence.LIKELY}
