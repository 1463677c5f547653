"""What SGLang's metrics say of its state. Pure."""

from dataplane.engine import EngineStats
from dataplane.engine_metrics.scrape import Scrape
from dataplane.engine_metrics.signal import Signal

SIGNALS = frozenset(
    {
        Signal.RUNNING,
        Signal.WAITING,
        Signal.KV_CAPACITY,
        Signal.KV_EVICTABLE,
        Signal.KV_BLOCK_SIZE,
        Signal.CONTEXT_TOKENS,
        Signal.PREEMPTIONS,
        Signal.GRAPH_PASSES,
    }
)
"""That are read."""


def read_stats(scrape: Scrape, page_size: int | None) -> EngineStats:
    """It counts KV cache in tokens, and what could be evicted apart; `page_size` is what its
    server says, where its metrics do not."""
    block_size = scrape.count(Signal.KV_BLOCK_SIZE) or page_size
    capacity = _blocks(scrape, Signal.KV_CAPACITY, block_size)
    used = _blocks(scrape, Signal.CONTEXT_TOKENS, block_size)
    left = None if capacity is None or used is None or used > capacity else capacity - used
    is_known = left is not None
    return EngineStats(
        age_seconds=0.0,
        num_running=scrape.count(Signal.RUNNING),
        num_waiting=scrape.count(Signal.WAITING),
        num_blocks=capacity if is_known else None,
        block_size=block_size if is_known else None,
        num_free_blocks=left,
        num_referenced_blocks=used if is_known else None,
        num_evictable_blocks=_blocks(scrape, Signal.KV_EVICTABLE, block_size),
        num_steps=scrape.count(Signal.GRAPH_PASSES),  # its modes are all there are
        num_preemptions=scrape.count(Signal.PREEMPTIONS),
    )


def _blocks(scrape: Scrape, signal: Signal, block_size: int | None) -> int | None:
    num_tokens = scrape.count(signal)
    return None if num_tokens is None or not block_size else num_tokens // block_size
