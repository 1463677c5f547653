"""A replica's memory: the ledger's lines and the blocks of its KV part. Pure.

Nothing is invented: an engine that tells no ledger has none here, and one that tells its
blocks but not what is in them has only their number.
"""

from dataclasses import dataclass

from dataplane.engine import EngineStats

_LABELS = {
    "weights": "weights",
    "weight_metadata": "weight metadata",
    "workspace": "workspace",
    "graph": "graphs",
    "communication": "communication",
    "fragmentation": "fragmentation",
    "reserve": "reserve",
    "kv": "KV blocks",
    "unassigned": "unassigned",
}
"""In the order in which the ledger is read."""
KV = "kv"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
    """One line of the ledger."""

    name: str
    label: str
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The KV blocks of one replica. None: the engine does not say."""

    total: int | None
    used: int | None
    """Referenced by a request."""
    cached: int | None
    """Nobody's now, but reusable as a prefix; they can be handed out."""
    free: int | None
    """Hold nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMemory:
    """What one replica's memory is for."""

    lines: list[MemoryLine] | None
    """Lines that are 0 are left out. None: this engine tells no ledger."""
    total_bytes: int | None
    blocks: Blocks
    age_seconds: float


def memory_of(stats: EngineStats, age_seconds: float) -> ReplicaMemory:
    """From one dated snapshot of the engine."""
    lines = None if stats.ledger is None else _lines(stats)
    return ReplicaMemory(
        lines=lines,
        total_bytes=None if stats.ledger is None else sum(stats.ledger.values()),
        blocks=_blocks(stats),
        age_seconds=age_seconds,
    )


def _lines(stats: EngineStats) -> list[MemoryLine]:
    ledger = stats.ledger or {}
    known = [name for name in _LABELS if name in ledger]
    others = sorted(set(ledger) - set(_LABELS))
    return [
        MemoryLine(name=name, label=_LABELS.get(name, name), num_bytes=ledger[name])
        for name in (*known, *others)
        if ledger[name]
    ]


def _blocks(stats: EngineStats) -> Blocks:
    used, total, available = stats.num_referenced_blocks, stats.num_blocks, stats.num_free_blocks
    if used is None and total is not None and available is not None:
        used = total - available
    cached = stats.num_evictable_blocks
    free = None if available is None or cached is None else available - cached
    return Blocks(total=total, used=used, cached=cached, free=free)
