"""What llama.cpp's metrics and slots say of its state. Pure."""

from collections.abc import Mapping

from dataplane.engine import EngineStats
from dataplane.engine_metrics.scrape import Scrape
from dataplane.engine_metrics.signal import Signal

SIGNALS = frozenset({Signal.RUNNING, Signal.WAITING, Signal.STEPS})
"""That are read."""


def read_stats(scrape: Scrape) -> EngineStats:
    """Its KV cache is not among what it tells."""
    return EngineStats(
        age_seconds=0.0,
        num_running=scrape.count(Signal.RUNNING),
        num_waiting=scrape.count(Signal.WAITING),
        num_steps=scrape.count(Signal.STEPS),
    )


def read_slots(said: object) -> EngineStats | None:
    """From /slots, where the metrics are off: who waits for a slot is not told there."""
    if not isinstance(said, list) or not all(isinstance(slot, Mapping) for slot in said):
        return None
    return EngineStats(
        age_seconds=0.0,
        max_num_seqs=len(said),
        num_running=sum(slot.get("is_processing") is True for slot in said),
    )
