"""What requests took of engines, as the exact counts keep it: whole numbers, which add up."""

from dataplane.lifecycle import EventKind, Observability, find_event
from dataplane.record import RequestRecord

METERED = "metered.requests"
"""Requests of which the engine's time is known."""
UNMETERED = "unmetered.requests"
"""Requests whose engine work began and of which it is not: their gateway died."""
OBSERVED_US = "engine.observed_us"
"""Microseconds of replicas' time, as engines measured them."""
INFERRED_US = "engine.inferred_us"
"""The same, as if replicas had shared their time evenly."""
KV_METERED = "kv.requests"
"""Requests of which the blocks are known."""
KV_BLOCK_MS = "kv.block_ms"
"""Blocks of KV cache times milliseconds."""

MEASURES = (METERED, UNMETERED, OBSERVED_US, INFERRED_US, KV_METERED, KV_BLOCK_MS)


def metered_amounts(record: RequestRecord) -> dict[str, int]:
    """What one request adds to each measure."""
    metered = record.metered
    if metered is None:
        return {UNMETERED: int(find_event(record.events, EventKind.SCHEDULED) is not None)}
    is_told = metered.engine_observability is Observability.OBSERVED
    amounts = {
        METERED: 1,
        OBSERVED_US if is_told else INFERRED_US: round(metered.engine_seconds * 1e6),
    }
    if metered.kv_block_seconds is not None:
        amounts |= {KV_METERED: 1, KV_BLOCK_MS: round(metered.kv_block_seconds * 1e3)}
    return amounts
