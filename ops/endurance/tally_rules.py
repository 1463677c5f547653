"""What an engine counts must fit what its scheduler knows, and what its replica did."""

import math

from dataplane.scheduling.scheduler import SchedulerStats
from dataplane.simulation.observer.measure import Measure
from dataplane.simulation.observer.tally import EngineTally
from dataplane.simulation.replica_counts import ReplicaCounts


def check_tally(tally: EngineTally, stats: SchedulerStats) -> None:
    """Raises AssertionError unless every sequence is in one place, as the scheduler has it."""
    ended = tally.num_stopped + tally.num_at_limit + tally.num_cancelled + tally.num_refused
    known = ended + stats.num_running + stats.num_waiting
    assert tally.num_requests == known, f"{tally.num_requests} submitted, {known} known"
    assert tally.num_preemptions == stats.num_preemptions
    is_stepping = tally.step_began_at is not None
    assert tally.num_steps + is_stepping == stats.num_steps
    assert 0 <= tally.num_unseen <= stats.num_waiting
    check_histograms(tally)


def check_histograms(tally: EngineTally) -> None:
    """Raises AssertionError unless those that are kept hold each of what is counted once."""
    num = {measure: histogram.count for measure, histogram in tally.histograms.items()}
    if Measure.TTFT in num and Measure.ITL in num:  # a token is a first one, or has a gap
        assert tally.num_output_tokens == num[Measure.TTFT] + num[Measure.ITL]
    num_finished = tally.num_stopped + tally.num_at_limit
    for measure in (Measure.E2E, Measure.QUEUE, Measure.OUTPUT_TOKENS):
        assert num.get(measure, num_finished) == num_finished, measure
    assert num.get(Measure.STEP, tally.num_steps) == tally.num_steps
    if Measure.STEP_TOKENS in num:  # those selected, and what was computed of whole prompts
        assert num[Measure.STEP_TOKENS] <= tally.num_steps
        num_of_prompts = tally.histograms[Measure.STEP_TOKENS].total - tally.num_output_tokens
        assert 0 <= num_of_prompts <= tally.num_prefilled_tokens
    assert num.get(Measure.CANCEL_TO_RELEASE, 0) <= tally.num_cancelled
    assert tally.num_cached_tokens <= tally.num_input_tokens
    assert tally.num_finished_output_tokens <= tally.num_output_tokens


def check_counts(tally: EngineTally, counts: ReplicaCounts) -> None:
    """Of a replica that had one process, and is idle."""
    assert tally.num_steps == counts.num_steps
    assert tally.num_output_tokens == counts.num_output_tokens
    assert tally.num_scheduled_prompt_tokens == counts.num_prompt_tokens
    stepped = tally.prefill_seconds + tally.decode_seconds
    assert math.isclose(stepped, counts.busy_seconds, abs_tol=1e-6), (stepped, counts)
