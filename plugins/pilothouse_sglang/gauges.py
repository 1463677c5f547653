"""What SGLang's metrics say of its state. Pure."""

from dataplane.engine import EngineStats
from dataplane.engine_metrics import signals
from dataplane.engine_metrics.scrape import Scrape, whole
from dataplane.engine_metrics.series import SeriesKind
from dataplane.engine_metrics.sglang import SGLANG

_READ = (
    *(signals.RUNNING, signals.WAITING, signals.PREEMPTIONS, signals.BLOCK_SIZE),
    *(signals.KV_CAPACITY_TOKENS, signals.KV_USED_TOKENS, signals.KV_EVICTABLE_TOKENS),
    signals.GRAPH_PASSES,
)
NAMES = frozenset(series.exported for each in _READ for series in SGLANG.of_signal(each))
"""Of the samples that are read."""


def read_stats(scrape: Scrape, page_size: int | None) -> EngineStats:
    """It counts KV cache in tokens, and what could be evicted apart; `page_size` is what its
    server says, where its metrics do not. The gauge of its last retraction is no count."""
    block_size = whole(scrape.newest(signals.BLOCK_SIZE)) or page_size
    capacity = _blocks(scrape.newest(signals.KV_CAPACITY_TOKENS), block_size)
    used = _blocks(scrape.newest(signals.KV_USED_TOKENS), block_size)
    is_known = capacity is not None and used is not None and used <= capacity
    return EngineStats(
        age_seconds=0.0,
        num_running=whole(scrape.newest(signals.RUNNING)),
        num_waiting=whole(scrape.newest(signals.WAITING)),
        num_blocks=capacity if is_known else None,
        block_size=block_size if is_known else None,
        num_free_blocks=capacity - used if is_known and capacity and used is not None else None,
        num_referenced_blocks=used if is_known else None,
        num_evictable_blocks=_blocks(scrape.newest(signals.KV_EVICTABLE_TOKENS), block_size),
        num_steps=whole(scrape.newest(signals.GRAPH_PASSES)),  # its modes are all there are
        num_preemptions=whole(_counted(scrape, signals.PREEMPTIONS)),
    )


def _counted(scrape: Scrape, signal: str) -> float | None:
    counters = [s for s in SGLANG.of_signal(signal) if s.kind is SeriesKind.COUNTER]
    return next((scrape.total(series.exported) for series in counters), None)


def _blocks(num_tokens: float | None, block_size: int | None) -> int | None:
    if num_tokens is None or num_tokens < 0 or not block_size:
        return None
    return round(num_tokens) // block_size
