"""What llama.cpp's metrics and slots say of its state. Pure."""

from collections.abc import Mapping

from dataplane.engine import EngineStats
from dataplane.engine_metrics import signals
from dataplane.engine_metrics.llamacpp import LLAMACPP
from dataplane.engine_metrics.scrape import Scrape, whole

_RUNNING, _WAITING, _STEPS = (
    LLAMACPP.of_signal(each)[0].exported
    for each in (signals.RUNNING, signals.WAITING, signals.STEPS)
)
NAMES = frozenset({_RUNNING, _WAITING, _STEPS})
"""Of the samples that are read."""


def read_stats(scrape: Scrape) -> EngineStats:
    """Its KV cache is not among what it tells."""
    return EngineStats(
        age_seconds=0.0,
        num_running=whole(scrape.total(_RUNNING)),
        num_waiting=whole(scrape.total(_WAITING)),
        num_steps=whole(scrape.total(_STEPS)),
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
