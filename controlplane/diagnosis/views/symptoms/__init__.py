"""What speaks against health, each in a sentence, so that no symptom stays unnamed."""

from collections.abc import Callable, Iterator

from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.felt import felt
from controlplane.diagnosis.views.symptoms import cache, disagreement, endings, pace, told, waiting


def symptoms(now: Activity) -> tuple[str, ...]:
    """All that can be seen; empty where nothing is."""
    return tuple(sentence for look in _LOOKS for sentence in look(now))


def _felt(now: Activity) -> Iterator[str]:
    """Latencies that the engine or a gateway measures itself."""
    return felt(now.window)


_LOOKS: tuple[Callable[[Activity], Iterator[str]], ...] = (
    waiting.waiting,
    waiting.standstill,
    waiting.stood,
    pace.slower,
    cache.thrown_out,
    endings.events,
    endings.counters,
    told.facts,
    disagreement.truth,
    disagreement.uneven,
    told.comparisons,
    disagreement.doubts,
    told.objectives,
    cache.hit_rate,
    pace.drafts,
    _felt,
    cache.filling,
    pace.crawl,
    cache.held,
)
