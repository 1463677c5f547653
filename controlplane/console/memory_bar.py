"""The geometry of a replica's memory as one stacked bar. Pure; templates only draw.

The KV line is divided by what its blocks are used for, as far as the engine says that.
"""

from dataclasses import dataclass

from controlplane.api.replica_memory import KV, Blocks, MemoryLine, ReplicaMemory
from controlplane.console.formatting import count, size

WIDTH = 1000.0
_MIN_WIDTH = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One part of the bar."""

    name: str
    """Of its style."""
    label: str
    text: str
    """Bytes, and blocks where there are any."""
    x: float
    width: float


def draw_memory(memory: ReplicaMemory) -> list[MemoryPart] | None:
    """From left to right; the parts fill WIDTH. None: the engine tells no ledger."""
    if not memory.lines or not memory.total_bytes:
        return None
    pieces = [piece for line in memory.lines for piece in _pieces(line, memory.blocks)]
    parts, passed = [], 0
    for name, label, num_bytes, note in pieces:
        x = WIDTH * passed / memory.total_bytes
        passed += num_bytes
        right = WIDTH * passed / memory.total_bytes
        parts.append(
            MemoryPart(
                name=name,
                label=label,
                text=f"{size(num_bytes)}{note}",
                x=round(x, 2),
                width=round(max(right - x, _MIN_WIDTH), 2),
            )
        )
    return parts


def _pieces(line: MemoryLine, blocks: Blocks) -> list[tuple[str, str, int, str]]:
    if line.name != KV or not blocks.total or blocks.used is None:
        note = f", {count(blocks.total)} blocks" if line.name == KV and blocks.total else ""
        return [(line.name, line.label, line.num_bytes, note)]
    idle = blocks.total - blocks.used
    split = [("kv-used", "KV used", blocks.used)]
    if blocks.cached is None:
        split.append(("kv-idle", "KV free or cached", idle))
    else:
        split += [
            ("kv-cached", "KV cached for reuse", blocks.cached),
            ("kv-free", "KV free", idle - blocks.cached),
        ]
    per_block = line.num_bytes / blocks.total
    return [
        (name, label, round(number * per_block), f", {count(number)} blocks")
        for name, label, number in split
    ]
