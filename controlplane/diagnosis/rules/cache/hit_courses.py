"""Hits that were there and are not any more: within a window, against before, beside others."""

import re

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.course_parts import rates
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.told import (
    number_of,
    share_of,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import FIRST_TOKEN
from dataplane.engine_metrics.signal import Signal

WAS = 0.2
"""A hit rate that somebody would miss."""
LOST = 0.6
"""Of the rate before; what chats and batches vary by chance is less."""
GONE = 0.25
"""Of the rate before: hardly anything is left, which traffic alone does not do within a window."""
_AS_MUCH = 0.7
_MANY_TOKENS = 10_000
_FEWEST_TOKENS = 64
_FLUSHED = r"cache (was )?(flushed|cleared|reset)|flush(ed|ing) (the )?(radix |prefix |kv )?cache"


def was_flushed(argument: Argument, window: Window) -> bool:
    """The log says that the cache was emptied, and hits that were there before are not after."""
    flushed = window.lines_with(_FLUSHED)
    rates_seen = hit_rates(window)
    if not flushed or rates_seen is None or len(rates_seen.readings) < 2:
        return False
    if rates_seen.first.value < WAS or late(rates_seen) > LOST * rates_seen.first.value:
        return False
    argument.says(flushed[-1].strip()[:160])
    argument.series(rates_seen)
    for signal in (Signal.BATCH_CACHED_TOKENS, Signal.BATCH_COMPUTED_TOKENS):
        argument.series(window.find(signal))
    for change in window.changes:
        argument.says(f"change: {change.what}")
    return True


def is_a_step(window: Window) -> bool:
    """All of the last third is below half of all of the first: no mix of callers falls like that
    and stays."""
    seen = hit_rates(window)
    if seen is None or len(seen.readings) < _FEWEST_READINGS:
        return False
    third = len(seen.values) // 3
    before = min(seen.values[:third])
    return before >= WAS and max(seen.values[-third:]) <= _HALF * before


_FEWEST_READINGS = 6
_HALF = 0.5


def fallen_to(argument: Argument, window: Window) -> float | None:
    """The hit rate of late over that before; None where it was never worth mentioning."""
    rates = hit_rates(window)
    if rates is not None and len(rates.readings) > 1:
        before = _before(rates)
        if before >= WAS:
            argument.series(rates)
            return late(rates) / before
    pattern = r"\bhit\b|cached (tokens )?(share|ratio)|prefix reuse|hits\b"
    for contrast in contrasts(window, pattern, is_share=True):
        if WAS <= contrast.base_value <= 1.0:
            argument.says(contrast.says)
            return contrast.factor
    kept = _kept_of_usual(argument, window)
    if kept is not None:
        return kept
    told_before = told_number(window, r"hit (rate|ratio|share).*(before|usual|baseline|yesterday)")
    was = share_of(told_before)
    if rates is not None and was is not None and told_before is not None and was >= WAS:
        argument.fact(told_before)
        argument.series(rates)
        return late(rates) / was
    for contrast in contrasts(window, r"cached tokens|reused tokens|prefix hits|cache n"):
        if contrast.base_value >= _FEWEST_TOKENS:
            argument.says(contrast.says)
            return contrast.factor
    return None


def _kept_of_usual(argument: Argument, window: Window) -> float | None:
    """What the log says was kept of the cached tokens, over what was usually reused."""
    cuts = [event for event in window.events_of(LogKind.CACHE_CUT) if "from" in event.fields]
    usual = told_number(window, r"(cached|reused|kept|common).*tokens.*(before|usual|earlier)")
    tokens = number_of(usual)
    if not cuts or not tokens:
        return None
    argument.fact(usual)
    argument.says(cuts[-1].line.strip())
    for fact in told_all(window, r"differ|lcp|common prefix"):
        argument.fact(fact)
    return cuts[-1].fields["from"] / tokens


def finds_as_much(window: Window) -> bool:
    """Each request finds as many tokens as before: prompts became longer, and nothing was lost."""
    hits = rates(window.find(Signal.PREFIX_HITS), window)
    hits = hits or rates(window.find(Signal.CACHED_PROMPT_TOKENS), window)
    ended = rates(window.find(Signal.FINISHED), window)
    ended = ended or rates(window.find(Signal.GATEWAY_ENDED), window)
    if hits is None or ended is None or hits.before <= 0 or ended.before <= 0 or ended.after <= 0:
        return False
    return hits.after / ended.after >= _AS_MUCH * hits.before / ended.before


def below_its_siblings(argument: Argument, window: Window) -> float | None:
    """One replica finds hardly anything of what the others find, for the same kind of requests."""
    shares: dict[str, float] = {}
    for asked in window.all_series(Signal.PREFIX_QUERIES):
        place = asked.labels.get("replica") or asked.labels.get("engine")
        found = [
            series
            for series in window.all_series(Signal.PREFIX_HITS)
            if series.labels == asked.labels
        ]
        if place is not None and found and asked.last.value >= _MANY_TOKENS:
            shares[place] = found[0].last.value / asked.last.value
    if len(shares) < 2:
        return None
    worst = min(shares, key=lambda place: shares[place])
    others = sorted(share for place, share in shares.items() if place != worst)
    usual = others[len(others) // 2]
    if usual < WAS or shares[worst] > GONE * usual:
        return None
    argument.says(
        f"{worst} finds {shares[worst] * 100:.3g} % of its tokens, the others {usual * 100:.3g} %"
    )
    for series in (
        *window.all_series(Signal.PREFIX_HITS),
        *window.all_series(Signal.PREFIX_QUERIES),
    ):
        argument.says(f"{series.origin.name} {', '.join(series.labels.values())} {series.last.raw}")
    return shares[worst] / usual


def _before(rates: Series) -> float:
    """The median of what came before the last quarter: one high interval is no state."""
    values = sorted(rates.values[: max(1, len(rates.values) * 3 // 4)])
    return max(rates.first.value, values[len(values) // 2])


def costs_though_there_is_room(window: Window) -> bool:
    """Somebody measured both: first tokens take far longer than when more was found, and the cache
    has room, so that nothing had to go."""
    kv, kept = window.find(Signal.KV_USAGE), window.find(Signal.KV_EVICTABLE)
    has_room = (kv is not None and kv.max < _ROOMY) or (kept is not None and kept.last.value > 0)
    slower = contrasts(window, rf"{FIRST_TOKEN}|prefill (s|ms|time)")
    told_twice = contrasts(window, r"\bhit\b|hits\b|cached", is_share=True)
    return has_room and bool(told_twice) and any(each.factor >= _SLOWER for each in slower)


_ROOMY = 0.7
_SLOWER = 1.5


def went_with_its_traffic(argument: Argument, window: Window) -> bool:
    """Far fewer run and are read than before: who still asks may share nothing."""
    now = activity_of(window)
    if now.running is None or now.prefill is None or len(now.running.readings) < 2:
        return False
    fewer = now.running.last.value <= _FEWER * now.running.first.value
    less = now.prefill.last.value <= _FEWER * now.prefill.first.value
    if fewer and less:
        argument.series(now.running, "the load went as well")
        argument.series(now.prefill)
        argument.need("arrivals and requests in flight at the gateway", "a one-token probe")
    return fewer and less


_FEWER = 0.4


def is_other_traffic(argument: Argument, window: Window) -> bool:
    """Somebody says that other callers came: their prompts find nothing, and nothing was lost."""
    told_so = [change.what for change in window.changes if re.search(_TRAFFIC, change.what.lower())]
    for what in told_so:
        argument.against(f"change: {what}: hits fall where others ask")
        argument.need("hits of the callers of before")
    return bool(told_so)


_TRAFFIC = (
    r"\b(new|second|another|other|unrelated|different|more)\b.*\b(tenants?|callers?|customers?|users?"
    r"|traffic|workloads?|prompts?|clients?|teams?|datasets?)\b"
    r"|\b(tenants?|callers?|customers?|teams?|clients?|traffic|workload)\b.*\b(joined|came|added"
    r"|moved|switched|onboarded|shifted|changed)\b"
)
