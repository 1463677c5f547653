"""What llama.cpp's server counts, and when."""

from itertools import pairwise

import pytest

from dataplane.simulation.cost import LinearCost
from dataplane.simulation.observer.llamacpp import LLAMACPP
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound
from tests.dataplane.simulation.observed_run import COST, ObservedRun, small_config

NUM_PROMPT, NUM_OUTPUT = 300, 100
PROMPT, OUTPUT = "prompt_tokens_total", "tokens_predicted_total"


def _course(run: ObservedRun, name: str) -> list[float]:
    lines = [line for each in run.scraped for line in each.text.splitlines()]
    return [float(line.split()[1]) for line in lines if line.startswith(f"llamacpp:{name} ")]


def _one_request(*, cancel_at: float | None = None) -> ObservedRun:
    """Its prompt is read in five steps."""
    config = small_config(max_num_batched_tokens=64)
    run = ObservedRun(LLAMACPP, config, cost=_SLOW, every=0.1, until=20.0)
    sequence = run.submit_at(0.15, NUM_PROMPT, NUM_OUTPUT)
    if cancel_at is not None:
        run.cancel_at(cancel_at, sequence)
    return run.run()


_SLOW = LinearCost(iteration=0.05, per_prompt_token=0.002, per_decode_step=0.001)


def test_a_prompt_is_counted_when_it_was_read_and_an_answer_when_it_ended() -> None:
    run = _one_request()
    assert set(_course(run, PROMPT)) == {0, NUM_PROMPT}
    assert set(_course(run, OUTPUT)) == {0, NUM_OUTPUT}
    assert _course(run, PROMPT).index(NUM_PROMPT) < _course(run, OUTPUT).index(NUM_OUTPUT)


def test_steps_and_the_longest_context_go_on_meanwhile() -> None:
    run = _one_request()
    is_written = [
        prompt > 0 and output == 0
        for prompt, output in zip(_course(run, PROMPT), _course(run, OUTPUT), strict=True)
    ]
    for name in ("n_decode_total", "n_tokens_max"):
        known = [value for value, on in zip(_course(run, name), is_written, strict=True) if on]
        assert len(known) > 10
        assert all(before < after for before, after in pairwise(known))
    assert _course(run, "n_tokens_max")[-1] == NUM_PROMPT + NUM_OUTPUT - 1


def test_seconds_are_those_of_the_request() -> None:
    run = _one_request()
    [times] = run.log.selected_at.values()
    assert _course(run, "prompt_seconds_total")[-1] == pytest.approx(times[0] - 0.15)
    assert _course(run, "tokens_predicted_seconds_total")[-1] == pytest.approx(times[-1] - times[0])


def test_a_cancelled_answer_is_counted_as_far_as_it_came_and_an_unread_prompt_never() -> None:
    written, unread = _one_request(cancel_at=5.0), _one_request(cancel_at=0.5)
    assert _course(written, OUTPUT)[-1] == written.sequences[0].num_output_tokens > 0
    assert _course(unread, PROMPT)[-1] == _course(unread, OUTPUT)[-1] == 0


@pytest.mark.parametrize("speed", ["prompt_tokens_seconds", "predicted_tokens_seconds"])
def test_a_speed_is_of_what_ended_since_the_scrape_before(speed: str) -> None:
    told = _course(_one_request(), speed)
    assert sum(value > 0 for value in told) == 1


def _drafting() -> ObservedRun:
    cost = SpeculativeCost(COST, SpeculativeRound(draft_steps=4, draft_cost=0.1), 1.0)

    def reject_all() -> None:
        cost.acceptance = 0.0

    run = ObservedRun(LLAMACPP, cost=cost, every=0.1, until=10.0)
    run.exporter.started(run.scheduler, cost)
    run.submit_at(0.0, 50, 101)
    run.timeline.at(5.0, reject_all)
    run.submit_at(5.0, 50, 101)
    return run.run()


def test_drafts_are_counted_with_the_answer_that_they_were_for() -> None:
    run = _drafting()
    assert set(_course(run, "spec_decode_num_drafts_total")) == {0, 20, 120}
    assert set(_course(run, "spec_decode_num_accepted_tokens_total")) == {0, 80}


def test_what_the_cache_spared_is_apart_from_what_was_read() -> None:
    run = ObservedRun(LLAMACPP, every=0.1, until=10.0)
    first = run.submit_at(0.0, 96, 10)
    again = run.submit_at(5.0, 96, 10)
    again.prompt_token_ids = first.prompt_token_ids
    run.run()
    assert again.num_cached_tokens > 0
    assert _course(run, "prompt_tokens_cached_total")[-1] == again.num_cached_tokens
    assert _course(run, PROMPT)[-1] == 2 * 96 - again.num_cached_tokens
