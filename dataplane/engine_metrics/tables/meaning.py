"""From the vocabulary that adapters and the diagnosis share to the signals of the diagnosis.

The names on the wire, their units and their versions stand in `dataplane.engine_metrics` alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.alias import Alias, Values
from dataplane.engine_metrics.series import EngineSeries, EngineVocabulary, SeriesKind
from dataplane.engine_metrics.signal import Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a series of the vocabulary tells here."""

    told_by: str
    """Of `dataplane.engine_metrics.signals`."""
    signal: Signal
    kind: SeriesKind | None = None
    """Only series of this kind; None: whatever it is."""
    only: Values = field(default_factory=dict)
    without: Values = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)


def aliases_of(vocabulary: EngineVocabulary, meanings: Sequence[Meaning]) -> tuple[Alias, ...]:
    """In the order of `meanings`, and of one meaning the newest name first."""
    return tuple(
        _alias(series, meaning)
        for meaning in meanings
        for series in vocabulary.of_signal(meaning.told_by)
        if meaning.kind in (None, series.kind)
    )


def _alias(series: EngineSeries, meaning: Meaning) -> Alias:
    return Alias(
        exported=series.exported,
        signal=meaning.signal,
        factor=series.factor,
        only={**{key: frozenset({value}) for key, value in series.where.items()}, **meaning.only},
        without=meaning.without,
        keep=meaning.keep,
        fixed=meaning.fixed,
        until=series.until,
    )


def plain(told_by: str, signal: Signal, kind: SeriesKind | None = None) -> Meaning:
    """The same thing under the names of both."""
    return Meaning(told_by=told_by, signal=signal, kind=kind)


SHARED = (
    plain(signals.RUNNING, Signal.RUNNING),
    plain(signals.WAITING, Signal.WAITING),
    plain(signals.SWAPPED, Signal.SWAPPED),
    plain(signals.PAUSED, Signal.PAUSED),
    plain(signals.KV_USED_RATIO, Signal.KV_USAGE),
    plain(signals.KV_HOST_USED_RATIO, Signal.HOST_KV_USAGE),
    plain(signals.KV_CAPACITY_TOKENS, Signal.KV_CAPACITY),
    plain(signals.KV_USED_TOKENS, Signal.CONTEXT_TOKENS),
    plain(signals.KV_AVAILABLE_TOKENS, Signal.KV_AVAILABLE),
    plain(signals.KV_EVICTABLE_TOKENS, Signal.KV_EVICTABLE),
    plain(signals.BLOCK_SIZE, Signal.KV_BLOCK_SIZE),
    plain(signals.NUM_BLOCKS, Signal.KV_BLOCKS),
    plain(signals.PREEMPTIONS, Signal.PREEMPTIONS, SeriesKind.COUNTER),
    plain(signals.PREEMPTIONS, Signal.LAST_RETRACTED, SeriesKind.GAUGE),
    plain(signals.REQUEST_PREEMPTIONS, Signal.REQUEST_PREEMPTIONS),
    plain(signals.NEW_TOKEN_RATIO, Signal.NEW_TOKEN_RATIO),
    plain(signals.STEPS, Signal.STEPS),
    plain(signals.STEP_TOKENS, Signal.STEP_TOKENS),
    plain(signals.BUSY_SLOTS, Signal.BUSY_SLOTS),
    plain(signals.CONTEXT_HIGH_WATER, Signal.CONTEXT_HIGH_WATER),
    plain(signals.PROMPT_TOKENS, Signal.PROMPT_TOKENS),
    plain(signals.PROMPT_SECONDS, Signal.PROMPT_SECONDS),
    plain(signals.GENERATION_SECONDS, Signal.GENERATION_SECONDS),
    plain(signals.PROMPT_RATE, Signal.PROMPT_RATE),
    plain(signals.GENERATION_RATE, Signal.GENERATION_RATE),
    plain(signals.PREFIX_QUERIES, Signal.PREFIX_QUERIES),
    plain(signals.PREFIX_HITS, Signal.PREFIX_HITS),
    plain(signals.PREFIX_HIT_RATIO, Signal.HIT_RATE),
    plain(signals.EXTERNAL_PREFIX_QUERIES, Signal.EXTERNAL_PREFIX_QUERIES),
    plain(signals.EXTERNAL_PREFIX_HITS, Signal.EXTERNAL_PREFIX_HITS),
    plain(signals.KV_BLOCK_LIFETIME, Signal.KV_BLOCK_LIFETIME),
    plain(signals.KV_BLOCK_IDLE, Signal.KV_BLOCK_IDLE),
    plain(signals.KV_BLOCK_REUSE_GAP, Signal.KV_BLOCK_REUSE_GAP),
    plain(signals.ABORTED, Signal.ABORTED),
    plain(signals.TTFT, Signal.TTFT),
    plain(signals.ITL, Signal.ITL),
    plain(signals.TPOT, Signal.TPOT),
    plain(signals.E2E, Signal.E2E),
    plain(signals.QUEUE_TIME, Signal.QUEUE_TIME),
    plain(signals.PREFILL_TIME, Signal.PREFILL_TIME),
    plain(signals.DECODE_TIME, Signal.DECODE_TIME),
    plain(signals.REQUEST_PROMPT_TOKENS, Signal.PROMPT_LENGTH),
    plain(signals.REQUEST_UNCACHED_PROMPT_TOKENS, Signal.COMPUTED_LENGTH),
    plain(signals.REQUEST_GENERATION_TOKENS, Signal.OUTPUT_LENGTH),
    plain(signals.SPEC_DRAFTS, Signal.DRAFTS),
    plain(signals.SPEC_DRAFTED_TOKENS, Signal.DRAFT_TOKENS),
    plain(signals.SPEC_ACCEPTED_TOKENS, Signal.ACCEPTED_TOKENS),
    Meaning(
        told_by=signals.SPEC_ACCEPTED_BY_POSITION,
        signal=Signal.ACCEPTED_BY_POSITION,
        keep={"position": "position"},
    ),
    plain(signals.SPEC_ACCEPT_RATIO, Signal.ACCEPTANCE_RATE),
    plain(signals.SPEC_ACCEPT_LENGTH, Signal.ACCEPTANCE_LENGTH),
    plain(signals.ENGINE_HEALTHY, Signal.ENGINE_HEALTHY),
    plain(signals.CORRUPTED, Signal.CORRUPTED),
    plain(signals.IS_GRAPH, Signal.CUDA_GRAPH),
    Meaning(told_by=signals.GRAPH_PASSES, signal=Signal.GRAPH_PASSES, keep={"mode": "mode"}),
    plain(signals.TRANSFER_SECONDS, Signal.TRANSFER_TIME),
    plain(signals.TRANSFER_BYTES, Signal.TRANSFER_SIZE),
    plain(signals.TRANSFERS_FAILED, Signal.TRANSFER_FAILURES),
)
"""What means the same whatever engine tells it."""
