"""Whether a replica of other settings fits into the memory that one of before measured.

The native engine's arithmetic (`dataplane.ledger`) on the lines that a running replica reports:
weights, workspace and reserve stay where nothing that decides them changes, and what is left of the
device is for KV. Where something else changes, or the engine tells no ledger, it is not known.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dataplane.byte_size import parse_size
from dataplane.engine import EngineStats, ReplicaSpec
from dataplane.ledger import MemoryLedger, num_blocks_for

_NATIVE = "paged"
_KEEPS_FIXED = frozenset(
    {"block_size", "kv_memory", "max_model_len", "prefix_caching", "num_threads"}
)
"""Settings of the native engine that change neither weights nor, as they were measured, the
reserve; but for a longer context, which takes more workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """For one device: that of one replica that runs now."""

    replica_id: str
    fits: bool | None
    """None: it is not known."""
    why: str
    kv_bytes_before: int | None = None
    kv_bytes_after: int | None = None
    num_blocks_after: int | None = None


def fit_memory(
    replica_id: str, running: ReplicaSpec, wanted: ReplicaSpec, stats: EngineStats | None
) -> MemoryFit:
    """`stats` is what the replica last told of itself."""
    unknown = _why_unknown(running, wanted, stats)
    if unknown is not None or stats is None:
        return MemoryFit(replica_id=replica_id, fits=None, why=unknown or "")
    ledger, bytes_per_token = _ledger(stats, wanted)
    kv_bytes, why_not = _kv_bytes(ledger, running.settings, wanted.settings)
    before = (stats.ledger or {})["kv"]
    if kv_bytes is None:
        return MemoryFit(replica_id=replica_id, fits=None, why=why_not, kv_bytes_before=before)
    num_blocks = kv_bytes // ledger.bytes_per_block
    return _judge(replica_id, wanted, before, num_blocks, ledger, bytes_per_token)


def _judge(
    replica_id: str,
    wanted: ReplicaSpec,
    before: int,
    num_blocks: int,
    ledger: MemoryLedger,
    bytes_per_token: int,
) -> MemoryFit:
    left = ledger.num_blocks_that_fit
    needed = _needed_blocks(wanted.settings, ledger.block_size)
    if num_blocks > left:
        fits, why = (
            False,
            (
                f"{num_blocks} KV blocks are asked for and {left} fit: "
                f"{ledger.kv_budget_bytes} bytes are left for KV"
            ),
        )
    elif num_blocks < needed:
        fits, why = (
            False,
            (f"a sequence of max_model_len takes {needed} KV blocks, and there are {num_blocks}"),
        )
    else:
        fits, why = (
            True,
            (
                f"{num_blocks} KV blocks of {ledger.block_size} tokens, "
                f"{bytes_per_token} bytes a token, fit beside what does not change"
            ),
        )
    return MemoryFit(
        replica_id=replica_id,
        fits=fits,
        why=why,
        kv_bytes_before=before,
        kv_bytes_after=num_blocks * ledger.bytes_per_block,
        num_blocks_after=num_blocks,
    )


def _why_unknown(
    running: ReplicaSpec, wanted: ReplicaSpec, stats: EngineStats | None
) -> str | None:
    if wanted.engine != _NATIVE:
        return f"the engine {wanted.engine} keeps its own ledger of memory, and tells none"
    if stats is None or stats.ledger is None or not stats.num_blocks or not stats.block_size:
        return "no gateway has told this replica's ledger yet"
    if running.engine != wanted.engine or running.artifact != wanted.artifact:
        return "other weights: what they take is measured when they are loaded"
    changed = _changed(running.settings, wanted.settings)
    moving = sorted(changed - _KEEPS_FIXED)
    if moving:
        return f"{', '.join(moving)} decides weights or workspace, measured at the start"
    if "block_size" in changed and "block_size" not in wanted.settings:
        return "settings.block_size is left to the engine: name it to have it reckoned"
    if _may_grow(running.settings.get("max_model_len"), wanted.settings.get("max_model_len")):
        return "a longer max_model_len takes more workspace, which is measured at the start"
    return None


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def _may_grow(before: object, after: object) -> bool:
    if before == after:
        return False
    return not (isinstance(before, int) and isinstance(after, int) and after < before)


def _ledger(stats: EngineStats, wanted: ReplicaSpec) -> tuple[MemoryLedger, int]:
    """The replica's, with the block size that is wanted; and bytes for a token."""
    lines = dict(stats.ledger or {})
    told_size = stats.block_size or 1
    bytes_per_token = lines["kv"] // ((stats.num_blocks or 1) * told_size)
    size = wanted.settings.get("block_size")
    ledger = MemoryLedger(
        device_bytes=sum(lines.values()),
        weights_bytes=lines.get("weights", 0),
        weight_metadata_bytes=lines.get("weight_metadata", 0),
        workspace_bytes=lines.get("workspace", 0),
        graph_bytes=lines.get("graph", 0),
        communication_bytes=lines.get("communication", 0),
        fragmentation_bytes=lines.get("fragmentation", 0),
        reserve_bytes=lines.get("reserve", 0),
        kv_bytes_per_token=bytes_per_token,
        # Where the documents name none, the engine's own, which is the one that it runs with.
        block_size=size if isinstance(size, int) else told_size,
    )
    return ledger, bytes_per_token


def _kv_bytes(
    ledger: MemoryLedger, before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[int | None, str]:
    """What the pool would be given, or why that is not known."""
    had, wants = before.get("kv_memory"), after.get("kv_memory")
    if wants is None:
        if had is None:
            return ledger.num_blocks_that_fit * ledger.bytes_per_block, ""
        return None, "how much the device has beyond the kv_memory of before was never measured"
    num_bytes = parse_size(str(wants))
    # With kv_memory the ledger is as large as that makes it, and not as the device is.
    if had is not None and num_bytes > parse_size(str(had)):
        return None, "how much the device has beyond the kv_memory of before was never measured"
    return num_bytes, ""


def _needed_blocks(settings: Mapping[str, object], block_size: int) -> int:
    longest = settings.get("max_model_len")
    return num_blocks_for(longest, block_size) if isinstance(longest, int) else 1
