"""Memory that does not come back: what is left after a sleep, a drain or an idle hour grows."""

import re
from collections.abc import Iterable

from controlplane.diagnosis.citing import course
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import says_no, texts_of, told, told_all
from controlplane.diagnosis.views.trend import rises
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_GROWTH = 1.5
"""From the first to the last reading: allocators that warm up stay below it."""
_STILL_GROWS = 1.0 / 6.0
"""Of all growth, in the last third: half of an even pace. What was filled once stands then."""
_CACHE_LIMIT = (
    r"cache ram|lmcache|offload|swap space|(cache|pool)( \w+)*"
    r" (limit|max|size|budget|gib|gb|mib)"
)
"""Memory that an engine fills on purpose."""
_LEAST_READINGS = 3
_MEMORY = r"\b(mem(ory)?|vram|rss|ram|host memory|gpu memory|gib|mib|gb)\b"
_PROCESS = r"rss|process|engine|worker|server|resident"
_NOT_HELD = r"limit|total|capacity|free|avail|cache ram|wanted|weights|kv|max"


def grown_memory(now: Activity) -> Verdict | None:
    """POSSIBLE, since growth alone does not say who holds it; LIKELY where requests were counted
    through an idle end and the engine's own process is what grew."""
    series = _grown_series(now) or _grown_facts(now.window)
    if series is None or _is_run_out(now.window):
        return None
    argument = Argument(now.window)
    argument.says(f"{course(series)}: it does not come back")
    for change in now.window.changes:
        before = series.first.at - change.at
        if before >= 0:
            argument.says(f"{before:g} s before the first reading was changed: {change.what}")
    is_idle = _is_idle_throughout(argument, now)
    nobody_else = _nobody_else(argument, now.window)
    is_own = series.signal is Signal.HOST_MEMORY_USED and (
        bool(now.window.series) or bool(re.search(_PROCESS, series.origin.name, re.IGNORECASE))
    )
    if not nobody_else:
        argument.against("oom.foreign_memory: nobody says that another process is there")
    limit = _told_limit(now.window, series)
    if limit is not None:
        argument.fact(limit)
        argument.against("a cache of such a size fills up to its limit by design")
        argument.need("what its caches hold of it")
    elif is_idle and (is_own or nobody_else):
        argument.need("which objects or cache hold the memory")
        where = "host memory" if is_own else "device memory"
        return argument.verdict(Confidence.LIKELY, detail=where)
    return _of_unknown_holder(argument, now.window)


def _of_unknown_holder(argument: Argument, window: Window) -> Verdict:
    argument.need("which process and allocator pool holds the memory")
    argument.need("reserved against allocated bytes")
    if _mentions(window, r"sleep|wake"):
        argument.need("sleep level and engine_sleep_state")
    else:
        argument.need("requests in flight at each reading")
    return argument.verdict(Confidence.POSSIBLE, detail="memory")


def _told_limit(window: Window, grown: Series) -> Fact | None:
    """Of a cache with room for all that has grown."""
    return next(
        (
            fact
            for fact in told_all(window, _CACHE_LIMIT, without=r"kv|used|usage|hit")
            if fact.unit is Unit.BYTES and fact.value and fact.value >= grown.change
        ),
        None,
    )


def _is_idle_throughout(argument: Argument, now: Activity) -> bool:
    """Nothing was under way whenever memory was read, or at its end and its start."""
    found = False
    for series in (now.in_flight, now.running):
        argument.series(series)
        if series is None or series.last.value != 0:
            continue
        found = found or len(series.readings) > 1
    asleep = [fact for fact in now.window.facts if re.search(_ASLEEP, fact.raw, re.IGNORECASE)]
    is_over = now.in_flight is not None and now.in_flight.last.value == 0
    if len(asleep) > 1 and is_over:
        argument.fact(asleep[-1])
        return True
    return found


def _nobody_else(argument: Argument, window: Window) -> bool:
    """Somebody looked, and no other process is on the device."""
    fact = told(window, r"\b(other|foreign|another)\b.*\b(process\w*|tenants?|pids?|apps?)\b")
    whole = told(window, r"^process(es)? (on|of|with)( the)? (gpu|device|card)$")
    if fact is None or not says_no(fact):
        is_alone = whole is not None and re.search(r"\b(alone|only|just)\b", whole.raw) is not None
        fact = whole if is_alone else None
    if fact is None:
        return False
    argument.fact(fact, "it is the engine's own")
    return True


_ASLEEP = r"\b(asleep|sleeping|slept|idle|drained)\b"


def _grown_series(now: Activity) -> Series | None:
    for signal in (Signal.HOST_MEMORY_USED, Signal.DEVICE_MEMORY_USED):
        series = now.window.find(signal)
        if series is not None and _grows(series.values):
            return series
    return None


def _grown_facts(window: Window) -> Series | None:
    """One key, told at several times."""
    by_key: dict[str, list[Fact]] = {}
    for fact in told_all(window, _MEMORY, without=_NOT_HELD):
        if fact.value is not None and fact.unit in (Unit.BYTES, None):
            by_key.setdefault(fact.key, []).append(fact)
    for facts in by_key.values():
        values = [fact.value or 0.0 for fact in facts]
        if _grows(values):
            return _as_series(facts)
    return None


def _as_series(facts: list[Fact]) -> Series:
    signal = (
        Signal.DEVICE_MEMORY_USED
        if re.search(r"gpu|vram|device|cuda", facts[0].key, re.IGNORECASE)
        else Signal.HOST_MEMORY_USED
    )
    return Series(
        signal=signal,
        origin=Origin(kind=SourceKind.GATEWAY, name=facts[0].key),
        readings=tuple(Reading(fact.at, fact.value or 0.0, fact.raw) for fact in facts),
    )


def _grows(values: Iterable[float]) -> bool:
    """Hardly ever back, and by much: what is used by turns falls between."""
    found = list(values)
    if len(found) < _LEAST_READINGS or found[0] <= 0:
        return False
    grown = found[-1] - found[0]
    lately = found[-1] - found[(len(found) - 1) * 2 // 3]
    return rises(found) and found[-1] >= _GROWTH * found[0] and lately >= _STILL_GROWS * grown


def _is_run_out(window: Window) -> bool:
    return bool(window.events_of(LogKind.HOST_OUT_OF_MEMORY, LogKind.OUT_OF_MEMORY))


def _mentions(window: Window, pattern: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for text in texts_of(window))
