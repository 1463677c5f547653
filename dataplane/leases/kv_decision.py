"""What a routing decision says of the KV blocks that were reserved with it."""

from msgspec.structs import replace

from dataplane.decision import (
    MAX_CANDIDATE_SIGNALS,
    RoutingCandidate,
    RoutingDecision,
    Signal,
    clip,
    keep_signals,
)
from dataplane.leases.kv_reservation import KVDemand, KVRoom, KVSignal

_NAME = "kv_blocks_taken"


def with_blocks(decision: RoutingDecision, wanted: KVDemand, room: KVRoom) -> RoutingDecision:
    """The same, with what was taken of the chosen replica's blocks before it, and what could not
    be told."""
    candidates = tuple(
        _with_signal(each, room) if each.replica_id == decision.chosen else each
        for each in decision.candidates
    )
    missing = [room.reason] if room.signal is not KVSignal.ENGINE else []
    missing += [] if wanted.doubt is None else [f"KV reserved at most: {wanted.doubt}"]
    degraded = (*decision.degraded, *map(clip, missing))
    return replace(decision, candidates=candidates, degraded=degraded)


def _with_signal(candidate: RoutingCandidate, room: KVRoom) -> RoutingCandidate:
    signal = Signal(
        name=_NAME,
        value=room.num_committed,
        unit="blocks",
        source=room.replica_id if room.signal is KVSignal.ENGINE else "gateway",
        age_seconds=room.age_seconds,
        limit=room.num_usable,
        is_used=room.signal is not KVSignal.CANNOT_TELL,
    )
    signals = keep_signals((signal, *candidate.signals), MAX_CANDIDATE_SIGNALS)
    return replace(candidate, signals=signals)
