"""telemetry.misread: the figures are right, and mean something else."""

import itertools

from controlplane.diagnosis.looks import Look, first_of
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.telemetry.traps.at_the_end import speed_of_ended_ones
from controlplane.diagnosis.rules.telemetry.traps.buckets import (
    above_last_bucket,
    below_first_bucket,
)
from controlplane.diagnosis.rules.telemetry.traps.counts import (
    both_kinds_of_tokens,
    counters_added_up,
    observed_more_than_there_were,
    share_since_start,
)
from controlplane.diagnosis.rules.telemetry.traps.gauges import (
    aborts_that_are_not_counted,
    busy_is_not_full,
    never_caught_running,
    one_transfer_is_not_the_wire,
    read_by_two,
    reserved_at_start,
)
from controlplane.diagnosis.rules.telemetry.traps.host import files_are_cached
from controlplane.diagnosis.rules.telemetry.traps.means import mean_since_start
from controlplane.diagnosis.rules.telemetry.traps.multiples import by_a_unit, counted_by_a_factor
from controlplane.diagnosis.rules.telemetry.traps.processes import mean_over_processes
from controlplane.diagnosis.rules.telemetry.traps.query import (
    cached_is_not_computed,
    counted_twice,
    mean_of_percentiles,
    never_reached,
    of_one_batch,
    restarted,
    sum_of_shares,
    total_since_start,
)
from controlplane.diagnosis.rules.telemetry.traps.reach import above_all_seats
from controlplane.diagnosis.rules.telemetry.traps.running_alone import only_what_runs
from controlplane.diagnosis.rules.telemetry.traps.speeds import (
    part_above_the_whole,
    reused_over_whole_time,
    several_tokens_an_output,
    without_the_queue,
)
from controlplane.diagnosis.rules.telemetry.traps.trap import Trap
from controlplane.diagnosis.rules.telemetry.traps.usage import (
    cached_is_not_held,
    fell_with_its_requests,
    greatest_of_pools,
    hits_of_the_preempted,
    prefills_and_decodes_nothing,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window

_TRAPS: tuple[tuple[Trap, str], ...] = (
    (
        sum_of_shares,
        "Take the greatest or the mean over replicas, never the sum of ratios.",
    ),
    (
        mean_over_processes,
        "Take the greatest over the processes of one engine, or a build that exports one series; "
        "do not scale by the mean.",
    ),
    (counted_twice, "Read the total or its parts, never both."),
    (never_reached, "Write the threshold in the unit of the series: 0.8 and not 80."),
    (
        above_all_seats,
        "Scale by what waits, or by busy seats over seats; what runs never exceeds the seats.",
    ),
    (total_since_start, "Alert on the increase over some minutes, not on a count since the start."),
    (counters_added_up, "Take rates of counters; what is held is usage times the cache's size."),
    (
        observed_more_than_there_were,
        "Count requests by those that finished; a histogram counts its own observations.",
    ),
    (restarted, "Take rates that know of restarts, never the difference of two counts."),
    (
        speed_of_ended_ones,
        "Take the rate of steps while requests run; tokens are counted when their request ends.",
    ),
    (cached_is_not_computed, "Judge prefill by computed tokens, without those that were cached."),
    (of_one_batch, "Take hits over queries from the counters; the gauge is of one batch."),
    (
        hits_of_the_preempted,
        "Leave requests that come back after a preemption out of the hit rate.",
    ),
    (below_first_bucket, "Use the mean, finer buckets, or times measured at the gateway."),
    (above_last_bucket, "Use larger bounds, or times measured at the gateway."),
    (greatest_of_pools, "Alert on the pool that is meant; other pools limit seats."),
    (both_kinds_of_tokens, "Tell prompt tokens and generated ones apart."),
    (share_since_start, "Divide the rate of hits by the rate of queries."),
    (mean_since_start, "Divide the rate of the sum by the rate of the count."),
    (mean_of_percentiles, "Add the buckets of all replicas first, then take the percentile."),
    (read_by_two, "Use the rate of the counters, which no scrape resets."),
    (prefills_and_decodes_nothing, "Judge prefill servers by computed prompt tokens."),
    (
        reserved_at_start,
        "Judge load by KV cache usage and the queue; memory is taken at the start.",
    ),
    (busy_is_not_full, "Judge a device by its work (SM activity, tokens), not by being busy."),
    (
        part_above_the_whole,
        "Leave the impossible observation out (a milestone that is missing counts from zero); use "
        "end-to-end times.",
    ),
    (without_the_queue, "Measure at the client, or add the engine's queue time to its TTFT."),
    (reused_over_whole_time, "Divide computed tokens by the time of computing them alone."),
    (several_tokens_an_output, "Divide by tokens and not by outputs (time per output token)."),
    (
        counted_by_a_factor,
        "Divide or multiply by that factor, or count at the gateway.",
    ),
    (by_a_unit, "Read the series in its own unit."),
    (files_are_cached, "Alert on what is available, not on what is used."),
    (
        never_caught_running,
        "Multiply the rate of finished requests by their duration; a gauge is a snapshot.",
    ),
    (
        one_transfer_is_not_the_wire,
        "Divide bytes by wall time, or read the network card's own counter.",
    ),
    (aborts_that_are_not_counted, "Count aborts at the gateway."),
    (cached_is_not_held, "Count what requests hold; what is cached is free to go."),
    (
        fell_with_its_requests,
        "Usage counts blocks of active requests only: judge eviction by hits, queries and the life "
        "of blocks.",
    ),
    (
        only_what_runs,
        "Usage counts blocks of requests that run; what is kept of ended ones shows in hits.",
    ),
)
"""Those that somebody's own expression proves stand first."""


def _look(trap: Trap, remedy: str) -> Look:
    def look(window: Window) -> Verdict | None:
        argument = Argument(window)
        confidence = trap(argument, activity_of(window))
        if confidence is None:
            return None
        detail = trap.__name__.replace("_", " ")
        return argument.verdict(confidence, detail=detail, remedy=remedy)

    return look


MISREAD = Rule(
    id="telemetry-misread",
    mechanism=Mechanism.TELEMETRY_MISREAD,
    judge=first_of(*itertools.starmap(_look, _TRAPS)),
    needs=("the figures over time", "who reads them, and the expression"),
    told_apart=(
        "From the trouble that the figures seem to show by signals that would have to move with it "
        "and do not; from telemetry.stale by figures that move."
    ),
    remedy="Read the series for what it counts, and write the expression in its unit.",
    hides="An alert that is silenced because it was wrong once is missed when it is right.",
    explains=frozenset(
        {
            Mechanism.CACHE_PREFIX_LOSS,
            Mechanism.CACHE_NOTHING_SHARED,
            Mechanism.RELEASE_LEAK,
            Mechanism.BATCH_UNDERFILLED,
            Mechanism.PHASE_MISMATCH,
            Mechanism.TRANSFER_BOUND,
            Mechanism.CACHE_THRASH,
            Mechanism.INTERFERENCE_PREFILL,
        }
    ),
)
