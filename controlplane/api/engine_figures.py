"""What engines told of themselves: to the gateways before them, or on the metrics page of one that
is only observed."""

from collections.abc import Iterable

from controlplane.api.changes import STALE_SECONDS
from controlplane.operator.observed import ObservedReplica
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


_OLDEST_PAGE_SECONDS = 30.0
"""A page is read every five seconds, and later where its server is slow."""


def with_pages(
    stats: dict[str, tuple[EngineStats, float]],
    replicas: Iterable[ObservedReplica],
    now_unix_ns: int,
) -> dict[str, tuple[EngineStats, float]]:
    """`stats`, and what the pages of those said that are only observed."""
    found = dict(stats)
    for replica in replicas:
        look = replica.look
        if look is None or look.page_at_unix_ns is None:
            continue
        age = max(0.0, (now_unix_ns - look.page_at_unix_ns) / 1e9)
        if age < _OLDEST_PAGE_SECONDS:
            told = EngineStats(
                age_seconds=age,
                num_running=look.num_running,
                num_waiting=look.num_waiting,
                max_num_seqs=look.max_num_seqs,
            )
            found[replica.replica_id] = (told, age)
    return found


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
