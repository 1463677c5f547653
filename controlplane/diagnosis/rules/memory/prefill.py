"""oom.prefill_transient: one large prefill asked for a workspace that is gone after the step."""

from controlplane.diagnosis.citing import cited_series
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Reading
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.failure import Failure, find_failure
from controlplane.diagnosis.rules.memory.ledger import (
    asked_for,
    grown_with_contexts,
    known,
    shortened,
)
from controlplane.diagnosis.rules.memory.sizing import product_for
from controlplane.diagnosis.rules.memory.stage import Stage
from controlplane.diagnosis.verdict import Cited, Verdict
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_FULL = 0.9
"""Of the KV cache: above it a growing context is the nearer explanation."""
_TOPICS = (
    r"prompt|token|context|ctx|chunk|batch|vocab|image|crash|largest|longest|request|clients|kv|"
    r"usage"
)


def _judge(window: Window) -> Verdict | None:
    failure = find_failure(window)
    if failure is None or not failure.stage.is_serving or failure.stage is Stage.DECODE:
        return None
    if grown_with_contexts(window):
        return None
    product = None if failure.wanted is None else product_for(window, failure.wanted)
    seen = _seen(window, failure)
    if failure.stage is Stage.SERVING and product is None and not _is_prefilling(window, failure):
        return _undecided(window, failure, seen)
    evidence = [*asked_for(failure)]
    if failure.stage_line:
        where = "in a prefill step" if failure.stage is Stage.PREFILL else "it was serving"
        evidence.append(f"{where}: {shortened(failure.stage_line)}")
    evidence += seen
    if product is not None:
        evidence.append(product)
    if len(failure.ranks) > 1:
        evidence.append(f"{len(failure.ranks)} ranks failed together: {', '.join(_ranks(failure))}")
    return Verdict(
        confidence=_confidence(window, failure, product),
        evidence=(*evidence, *known(window, _TOPICS)),
        against=_against(window, failure),
        needs=()
        if failure.is_named or product is not None
        else ("the traceback of the failure", "prompt length of the last request"),
        cited=_cited(window),
        detail="prefill workspace",
    )


def _confidence(window: Window, failure: Failure, product: str | None) -> Confidence:
    if failure.fits_in_gaps:
        return Confidence.POSSIBLE
    if product is not None or (failure.stage is Stage.PREFILL and failure.is_named):
        return Confidence.CERTAIN
    usage = _at_failure(window, failure, Signal.KV_USAGE)
    return Confidence.LIKELY if usage is None or usage.value < _FULL else Confidence.POSSIBLE


def _is_prefilling(window: Window, failure: Failure) -> bool:
    rate = _at_failure(window, failure, Signal.PROMPT_RATE)
    usage = _at_failure(window, failure, Signal.KV_USAGE)
    return rate is not None and rate.value > 0 and (usage is None or usage.value < _FULL)


def _undecided(window: Window, failure: Failure, seen: tuple[str, ...]) -> Verdict:
    return Verdict(
        confidence=Confidence.POSSIBLE,
        evidence=(*asked_for(failure), *seen, *known(window, _TOPICS)),
        against=("nothing says whether the step that failed was prefill or decode",),
        needs=(
            "the traceback of the failure",
            "prompt length of the last request",
            "reserved against allocated bytes",
        ),
        cited=_cited(window),
        detail="prefill workspace",
    )


def _seen(window: Window, failure: Failure) -> tuple[str, ...]:
    """KV cache, batch and queue as they last stood."""
    parts = []
    for signal in (Signal.KV_USAGE, Signal.RUNNING, Signal.WAITING, Signal.PROMPT_RATE):
        reading = _at_failure(window, failure, signal)
        series = window.find(signal)
        if reading is not None and series is not None:
            parts.append(f"{series.origin.name} {reading.raw}")
    return (f"just before: {', '.join(parts)}",) if parts else ()


def _at_failure(window: Window, failure: Failure, signal: Signal) -> Reading | None:
    series = window.find(signal)
    if series is None:
        return None
    return series.last if failure.at is None else series.at(failure.at) or series.first


def _ranks(failure: Failure) -> list[str]:
    return sorted(failure.ranks)


def _against(window: Window, failure: Failure) -> tuple[str, ...]:
    against = []
    usage = _at_failure(window, failure, Signal.KV_USAGE)
    if usage is not None and usage.value < _FULL:
        against.append(f"not oom.decode_growth: the KV cache stood at {usage.raw}")
    if failure.reserved is not None and not failure.fits_in_gaps:
        against.append(
            f"not oom.fragmentation: only {failure.reserved.raw} are reserved and unallocated"
        )
    if failure.fits_in_gaps and failure.reserved is not None:
        against.append(
            f"{failure.reserved.raw} reserved and unallocated would have been enough in one piece"
        )
    against.append("not graphs or a profile: the engine was serving")
    return tuple(against)


def _cited(window: Window) -> tuple[Cited, ...]:
    usage = window.find(Signal.KV_USAGE)
    return () if usage is None else (cited_series(window, usage),)


PREFILL_TRANSIENT = Rule(
    id="oom-prefill-transient",
    mechanism=Mechanism.OOM_PREFILL_TRANSIENT,
    judge=_judge,
    needs=("the engine's log around the failure", "prompt length of the last request"),
    told_apart=(
        "From oom.decode_growth by room in the KV cache and a prefill in the step; from "
        "oom.fragmentation by fewer unallocated bytes than were wanted."
    ),
    remedy=(
        "A smaller prefill chunk or token budget, a cap on prompt length (and on prompt logprobs, "
        "images), or an engine that computes that workspace in pieces."
    ),
    hides=(
        "A lower memory fraction only moves the wall to a longer prompt, and takes the room from "
        "the KV cache."
    ),
)
