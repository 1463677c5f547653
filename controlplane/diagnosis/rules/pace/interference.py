"""Requests that decode wait between their tokens for the prefill of others."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.pace.beside_prefill import (
    above_pure_decode,
    slower_beside_prefill,
    starving,
)
from controlplane.diagnosis.rules.pace.collapse import COLLAPSED, collapse_of, of_collapse
from controlplane.diagnosis.rules.pace.longer_prompts import since_prompts_grew
from controlplane.diagnosis.rules.pace.prefill_chunk import cite_chunk, weigh
from controlplane.diagnosis.rules.pace.stalls import stalls_for_prefill, stalls_of_single_requests
from controlplane.diagnosis.rules.pace.token_tail import of_tail
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.places import each_by_its_series, with_places
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


def judge(window: Window) -> Verdict | None:
    """CERTAIN where decoding collapses in exactly the readings in which prefill goes on; of
    one replica or rank if there are several."""
    return with_places(_judge(window), each_by_its_series(window), _judge_place)


def _judge_place(part: Window) -> Verdict | None:
    """What is only a hint of one place is none. With a handful of requests its rate rises and falls
    as they come and end, each with its own prefill."""
    running = part.find(Signal.RUNNING)
    if running is None or min(running.values) < _LEAST_BATCH:
        return None
    verdict = _judge(part)
    return None if verdict is None or verdict.confidence < Confidence.LIKELY else verdict


_LEAST_BATCH = 8
"""Decoding all the time: one that comes or ends is then little of the rate."""


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    thrown = preempting(now)
    if thrown is not None and thrown.is_costly:
        return None
    stalled = stalls_for_prefill(now) or stalls_of_single_requests(now)
    if stalled is not None:
        return stalled
    argument = Argument(window)
    collapse = collapse_of(now)
    if collapse is not None and collapse.share <= COLLAPSED:
        return of_collapse(argument, now, collapse)
    if slower_beside_prefill(argument, window):
        argument.series(now.waiting)
        argument.series(now.kv)
        cite_chunk(argument, now)
        weigh(argument, now)
        return argument.verdict(Confidence.LIKELY)
    if above_pure_decode(argument, now):
        return argument.verdict(Confidence.LIKELY)
    return starving(argument, now) or since_prompts_grew(now) or of_tail(argument, now)


INTERFERENCE = Rule(
    id="interference-prefill",
    mechanism=Mechanism.INTERFERENCE_PREFILL,
    judge=judge,
    needs=(
        "decode rate or time between tokens over time",
        "prefill rate or prompt lengths over time",
        "KV cache usage or preemptions",
    ),
    told_apart="From thrash by a cache with room and no preemptions, from head of line by requests "
    "that already decode, from a hung engine by prefill that goes on.",
    remedy="Smaller prefill chunks (max-num-batched-tokens), or prefill on workers of its own.",
    hides="Smaller chunks make first tokens later: look at TTFT of long prompts after it.",
    explains=frozenset({Mechanism.QUEUE_BURST_DRAINING}),
)
