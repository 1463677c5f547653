"""What engines told of themselves, by way of the gateways before them."""

from controlplane.api.changes import STALE_SECONDS
from dataplane.engine import EngineStats
from dataplane.report import GatewayReport


def newest_stats(
    gateways: list[tuple[GatewayReport, float]],
) -> dict[str, tuple[EngineStats, float]]:
    """The freshest current figures of every replica, with their age in seconds."""
    newest: dict[str, tuple[EngineStats, float]] = {}
    for report, age in gateways:
        for replica in report.replicas:
            if replica.stats is None:
                continue
            total_age = age + replica.stats.age_seconds
            known = newest.get(replica.replica_id)
            if total_age < STALE_SECONDS and (known is None or total_age < known[1]):
                newest[replica.replica_id] = (replica.stats, total_age)
    return newest


def kv_used_share(stats: list[EngineStats]) -> float | None:
    """Referenced blocks of all blocks, over those that say so; None: none does."""
    told = [
        (each.num_referenced_blocks, each.num_blocks)
        for each in stats
        if each.num_referenced_blocks is not None and each.num_blocks
    ]
    if not told:
        return None
    return sum(used for used, _ in told) / sum(blocks for _, blocks in told)
