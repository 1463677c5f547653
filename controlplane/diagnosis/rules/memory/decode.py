"""oom.decode_growth: each step of a full batch wants a little more, until there is none."""

import re

from controlplane.diagnosis.citing import cited_series, course
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure
from controlplane.diagnosis.rules.memory.ledger import (
    asked_for,
    facts_named,
    grown_with_contexts,
    known,
    shortened,
)
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.slot_pool import held_by_released, outgrown_pool, slot_pool_size
from controlplane.diagnosis.views.told import numbers_in
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.lines import NO_ROOM_IN_SLOTS
from dataplane.engine_metrics.signal import Signal

_FULL = 0.9
"""Of the KV cache: what is left is smaller than what a full batch takes in a second or two."""
_TOPICS = (
    r"page|block|token|clients|seq|seat|slots|context|ctx|max|headroom|util|fraction|vram|gpu|sample|"
    r"ram|swap|mem|kv|usage|running"
)
_COURSES = (
    Signal.RUNNING,
    Signal.CONTEXT_TOKENS,
    Signal.KV_USAGE,
    Signal.HOST_KV_USAGE,
    Signal.SWAPPED,
    Signal.PROMPT_RATE,
    Signal.WAITING,
)
_POOL_FIGURES = re.compile(
    r"(tr(y|ied) to allocate|ava?i?l\w*(_size)?(\(\))? ?tokens?|(evictable|available)_size(\(\))?)"
    r".*?(\d[\d,]*)",
    re.IGNORECASE,
)


def _judge(window: Window) -> Verdict | None:
    failure = find_failure(window)
    if failure is None or not failure.stage.is_serving or outgrown_pool(window) is not None:
        return None
    grown = grown_with_contexts(window)
    if grown:
        return _grown(window, failure, grown)
    if failure.stage is Stage.PREFILL:
        return None
    usage, rate = window.find(Signal.KV_USAGE), window.find(Signal.PROMPT_RATE)
    is_full = usage is not None and usage.last.value >= _FULL
    is_decoding = rate is not None and rate.last.value == 0
    if failure.stage is Stage.SERVING and not is_full and not is_decoding:
        return None
    decoded = (
        ("not oom.prefill_transient: the step that failed decoded",)
        if failure.stage is Stage.DECODE
        else ()
    )
    return Verdict(
        confidence=_confidence(window, failure, is_full=is_full, is_decoding=is_decoding),
        evidence=_evidence(window, failure),
        against=(*decoded, *_not_in_gaps(failure)),
        needs=() if failure.is_named else ("the traceback of the failure",),
        cited=() if usage is None else (cited_series(window, usage),),
        detail="decode growth",
    )


def _evidence(window: Window, failure: Failure) -> tuple[str, ...]:
    """What was asked for and in which step, and how full it was until then."""
    step = failure.stage_line if failure.stage is Stage.DECODE else None
    courses = [window.find(signal) for signal in _COURSES]
    return (
        *asked_for(failure),
        *_pool(failure),
        *_released(window),
        *((f"in a decode step: {shortened(step)}",) if step else ()),
        *(course(series) for series in courses if series is not None),
        *_pages(window),
        *known(window, _TOPICS),
    )


def _grown(window: Window, failure: Failure, grown: tuple[str, ...]) -> Verdict:
    """Readings from before it show how it came."""
    reused = window.last_event(LogKind.CACHE_CUT)
    return Verdict(
        confidence=Confidence.POSSIBLE if failure.fits_in_gaps else Confidence.CERTAIN,
        evidence=(
            *grown,
            *asked_for(failure),
            *((shortened(reused.line),) if reused is not None else ()),
            *known(window, _TOPICS),
        ),
        against=(
            "not oom.prefill_transient: memory rose from one context to the next, and stayed",
            "not oom.load: the engine was serving",
        ),
        detail="decode growth",
    )


def _confidence(
    window: Window, failure: Failure, *, is_full: bool, is_decoding: bool
) -> Confidence:
    if failure.fits_in_gaps:
        return Confidence.POSSIBLE
    if _OF_SLOTS.search(failure.line) and not (is_full or _are_slots_full(window)):
        return Confidence.POSSIBLE
    if failure.stage is Stage.DECODE and failure.is_named:
        return Confidence.CERTAIN
    return Confidence.LIKELY if is_full and is_decoding else Confidence.POSSIBLE


_OF_SLOTS = re.compile(NO_ROOM_IN_SLOTS, re.IGNORECASE)
"""Of llama.cpp, whose server goes on: whether one prompt was too long or all grew, these do not
say."""


def _are_slots_full(window: Window) -> bool:
    """What the slots hold, as somebody told or as each says when it is released, is all of the
    context that they share."""
    size = slot_pool_size(window)
    if size is not None and sum(held_by_released(window)) >= _FULL * size:
        return True
    return size is not None and any(
        sum(numbers_in(fact.raw)) >= _FULL * size
        for fact in facts_named(window, r"held|slots|in_use|used")
        if fact.value is None
    )


def _pool(failure: Failure) -> tuple[str, ...]:
    """The pool's own figures, in tokens."""
    lines = [shortened(line) for line in failure.lines if _POOL_FIGURES.search(line)]
    return tuple(dict.fromkeys(line for line in lines if line != shortened(failure.line)))


def _released(window: Window) -> tuple[str, ...]:
    """What slots held when all of them were given up, against what they share."""
    held, size = held_by_released(window), slot_pool_size(window)
    if size is None or sum(held) < _FULL * size:
        return ()
    whole = f"{' + '.join(f'{each:.0f}' for each in held)} = {sum(held):.0f}"
    return (f"the slots held {whole} of {size:.0f} tokens that they share, and wanted more",)


def _pages(window: Window) -> tuple[str, ...]:
    """Each sequence may open a block in the same step."""
    running = window.find(Signal.RUNNING)
    page = next(
        (
            fact.value
            for fact in facts_named(window, r"(page|block)_?size")
            if fact.value is not None
        ),
        None,
    )
    if running is None or page is None or page <= 1:
        return ()
    most = running.last.value * page
    return (
        f"{running.last.raw} running x {page:g} tokens a block = {most:.0f} tokens of new blocks "
        "in one step at worst",
    )


def _not_in_gaps(failure: Failure) -> tuple[str, ...]:
    if failure.reserved is None:
        return ()
    if failure.fits_in_gaps:
        return (f"{failure.reserved.raw} reserved and unallocated would have been enough",)
    return (f"not oom.fragmentation: only {failure.reserved.raw} are reserved and unallocated",)


DECODE_GROWTH = Rule(
    id="oom-decode-growth",
    mechanism=Mechanism.OOM_DECODE_GROWTH,
    judge=_judge,
    needs=("the engine's log around the failure", "KV cache usage"),
    told_apart=(
        "From oom.prefill_transient by a full cache and a step that decoded; from cache.thrash by "
        "a death where an engine with headroom preempts."
    ),
    remedy=(
        "Headroom for growth: admit fewer sequences at once, keep a block free for each of them, "
        "or bound the length of outputs."
    ),
    hides=(
        "Fewer seats leave the device idle while outputs are short; the same load then waits in "
        "the queue."
    ),
    explains=frozenset(
        {Mechanism.CACHE_THRASH, Mechanism.CACHE_GROWN_CONTEXTS, Mechanism.QUEUE_OVERLOAD}
    ),
)
