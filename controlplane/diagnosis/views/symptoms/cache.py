"""A KV cache that is full, held, or of less use than it was, and who is thrown out of it."""

from collections.abc import Iterator

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import early, late
from controlplane.diagnosis.views.preempting import preempting
from dataplane.engine_metrics.signal import Signal

_AFTER_ONE = 0.75
"""Of the speed before: after a request was thrown out, nothing gets slower by itself."""
_SEVERAL = 3
_WORTH = 0.3
"""A hit rate that somebody would miss."""
_LOST_HITS = 0.4
_HELD_BY_NOBODY = 0.05


def thrown_out(now: Activity) -> Iterator[str]:
    """Requests lose their blocks to others, and it costs something."""
    thrown = preempting(now)
    decode = now.decode
    some = thrown is not None and thrown.count > 0
    if some and decode is not None and decode.last.value < _AFTER_ONE * decode.first.value:
        says_so = "" if thrown is None else thrown.says
        yield f"{says_so}; {decode.origin.name} {decode.first.raw} -> {decode.last.raw}"
        return
    if thrown is not None and (
        thrown.is_costly or (thrown.count >= _SEVERAL and not thrown.is_measured)
    ):
        yield f"requests are thrown out: {thrown.says}"


def hit_rate(now: Activity) -> Iterator[str]:
    """Prefixes were found, and are no longer."""
    rate: Series | None = now.window.find(Signal.HIT_RATE)
    if rate is None or len(rate.readings) < 3 or early(rate) < _WORTH:
        return
    if late(rate) < _LOST_HITS * early(rate):
        yield f"{rate.origin.name} {rate.first.raw} -> {rate.last.raw}"


def filling(now: Activity) -> Iterator[str]:
    """The cache is as good as full, and was not."""
    kv = now.kv
    if kv is None or len(kv.readings) < 2 or kv.span_seconds < 60:
        return
    if kv.last.value >= 0.95 and kv.first.value <= 0.85 * kv.last.value:
        yield f"{kv.origin.name} {kv.first.raw} -> {kv.last.raw}"


def held(now: Activity) -> Iterator[str]:
    """Blocks are held while nothing runs or waits."""
    kv, running = now.kv, now.running
    if kv is None or running is None or running.last.value > 0:
        return
    if kv.last.value > _HELD_BY_NOBODY and (now.waiting is None or now.waiting.last.value == 0):
        yield f"{kv.origin.name} {kv.last.raw} with nothing running"
