"""What vLLM's metrics say of its state. Pure."""

from dataplane.engine import EngineStats
from dataplane.engine_metrics.scrape import Scrape
from dataplane.engine_metrics.signal import Signal

SIGNALS = frozenset(
    {
        Signal.RUNNING,
        Signal.WAITING,
        Signal.KV_USAGE,
        Signal.KV_BLOCKS,
        Signal.KV_BLOCK_SIZE,
        Signal.PREEMPTIONS,
        Signal.STEP_TOKENS,
    }
)
"""That are read."""


def read_stats(scrape: Scrape) -> EngineStats:
    """Engines behind one server (data parallel) are added up; a number that one of them does not
    tell is told by none."""
    num_blocks = _sum(scrape, [scrape.count(Signal.KV_BLOCKS, part) for part in scrape.parts])
    used = _sum(scrape, [_used_blocks(scrape, part) for part in scrape.parts])
    free = None if num_blocks is None or used is None else max(0, num_blocks - used)
    return EngineStats(
        age_seconds=0.0,
        num_running=scrape.count(Signal.RUNNING),
        num_waiting=scrape.count(Signal.WAITING),
        num_blocks=num_blocks,
        block_size=scrape.count(Signal.KV_BLOCK_SIZE),
        num_free_blocks=free,
        num_referenced_blocks=used,
        num_steps=scrape.count(Signal.STEP_TOKENS),  # one observation a step
        num_preemptions=scrape.count(Signal.PREEMPTIONS),
    )


def _used_blocks(scrape: Scrape, part: str) -> int | None:
    """The ratio is of all blocks but the one that stands for none."""
    num_blocks = scrape.count(Signal.KV_BLOCKS, part)
    ratio = scrape.total(Signal.KV_USAGE, part)
    if num_blocks is None or ratio is None or not 0 <= ratio <= 1:
        return None
    return round(ratio * (num_blocks - 1))


def _sum(scrape: Scrape, numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(scrape.parts) else None
