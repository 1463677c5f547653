"""What a real vLLM 0.32 wrote of 67 requests: its spans, and scrapes every four seconds.

SmolLM2-135M on one thread of a busy processor, 16 sequences at most and 128 tokens a step, so
that prompts were cut. Captured by `ops/calibration/calibrate_vllm.py`; the scrapes hold the series
that are read and no others.
"""

import statistics
from pathlib import Path

import pytest

from controlplane.cli.span_sources import read_span_files
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Fit, decode_fit, encode_fit
from dataplane.simulation.fitting.vllm import fit_vllm
from dataplane.simulation.fitting.vllm_requests import ReadSpans, read_vllm_spans
from dataplane.simulation.fitting.vllm_scrapes import (
    BETWEEN_TOKENS,
    Change,
    change_of,
    interval_between,
    read_scrape,
)
from dataplane.simulation.fitting.vllm_spans import fit_vllm_spans
from tests.dataplane.simulation.fitting.simulated_records import MACHINE

_FOLDER = Path(__file__).parent / "captured_vllm"
_SCRAPES = sorted((_FOLDER / "metrics").glob("*.txt"))


@pytest.fixture(scope="module")
def read() -> ReadSpans:
    return read_vllm_spans(read_span_files([str(_FOLDER / "traces.json")]))


@pytest.fixture(scope="module")
def by_spans() -> Fit:
    return fit_vllm_spans(read_span_files([str(_FOLDER / "traces.json")]), MACHINE)


@pytest.fixture(scope="module")
def by_scrapes() -> Fit:
    return fit_vllm(_SCRAPES, MACHINE)


def test_every_span_of_a_request_is_read(read: ReadSpans) -> None:
    assert len(read.requests) == 67
    assert (read.lacking, read.num_others, read.models) == ({}, 0, frozenset())


def test_spans_and_scrapes_of_the_same_requests_count_the_same(read: ReadSpans) -> None:
    first, last = read_scrape(_SCRAPES[0]), read_scrape(_SCRAPES[-1])
    interval = interval_between(first, last)
    assert interval.num_prompt_tokens == sum(each.num_prompt_tokens for each in read.requests)
    assert interval.between_tokens.count == sum(
        each.num_output_tokens - 1 for each in read.requests
    )


def test_spans_and_scrapes_of_the_same_requests_took_as_long(read: ReadSpans) -> None:
    def taken_in(name: str) -> Change:
        return change_of((name,), read_scrape(_SCRAPES[0]), read_scrape(_SCRAPES[-1]))

    decodes = [each.last_token_at - each.first_token_at for each in read.requests]
    prefills = [each.first_token_at - each.scheduled_at for each in read.requests]
    assert taken_in(BETWEEN_TOKENS[0]).total == pytest.approx(sum(decodes))
    assert taken_in("vllm:request_prefill_time_seconds").total == pytest.approx(sum(prefills))


def test_time_outside_of_steps_is_of_requests_that_did_not_wait_for_a_step(
    read: ReadSpans,
) -> None:
    """Of all together it is mostly what was left of the step that ran when they came."""
    assert 5 <= len(read.waited_outside) < 30
    assert statistics.median(read.waited_outside) < 0.06


def test_a_step_of_the_spans_fit_has_a_base_and_dearer_prompts_than_rows_of_them(
    by_spans: Fit,
) -> None:
    form = by_spans.form
    assert 0.03 < form.knots[0].seconds < 0.1
    assert 0.002 < form.per_prompt_token < 0.006
    assert 0.003 < form.per_decode_step < 0.02
    assert by_spans.seen is not None
    assert by_spans.seen.num_decode_steps == pytest.approx(16, abs=2)


def test_both_fits_say_the_same_of_a_step_as_it_was_on_the_mean(
    by_spans: Fit, by_scrapes: Fit
) -> None:
    interval = interval_between(read_scrape(_SCRAPES[0]), read_scrape(_SCRAPES[-1]))
    plan = StepPlan(
        num_prompt_tokens=round(interval.prompt_tokens),
        num_decode_steps=round(interval.decode_rows),
    )
    spans, scrapes = (FittedCost.of(each, None).step_time(plan) for each in (by_spans, by_scrapes))
    assert scrapes == pytest.approx(spans, rel=0.3)


def test_the_start_is_told_by_stage(by_spans: Fit) -> None:
    """Twelve spans of three processes, in the order in which each was written."""
    assert by_spans.cold_start == {}
    files = [str(_FOLDER / name) for name in ("start.json", "traces.json")]
    fit = fit_vllm_spans(read_span_files(files), MACHINE)
    assert {stage: spread.median for stage, spread in fit.cold_start.items()} == pytest.approx(
        {"acquire": 41.61, "load": 2.27, "warm_up": 2.63}, abs=0.01
    )
    assert fit.form == by_spans.form
    assert decode_fit(encode_fit(fit), "fit.json") == fit
    assert any("the cold start is of the engine" in each for each in fit.cannot_tell)
