"""Usage of the KV cache counts what active requests hold: it falls with them, and nothing is lost;
and what is merely cached is free."""

import itertools
import re
from collections.abc import Sequence

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rules.telemetry.readers import readers
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.phases import role_of
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    share_of,
    texts_of,
    told_all,
    told_number,
)
from dataplane.engine_metrics.signal import Signal

_NOTICED = 0.1
"""Of the cache: a fall from less is noticed by nobody."""
_LOST = re.compile(
    r"\b(evict\w*|lost|loses|gone|dropp?(ed|s)?|fell|falls?|emptied|empty|clear(ed)?|flush\w*)\b",
    re.IGNORECASE,
)
_ACCOUNTS_FOR = 0.9
"""Of the blocks that seem to be lost, what is cached and free to go."""


def fell_with_its_requests(argument: Argument, now: Activity) -> Confidence | None:
    """It fell to nothing when nothing ran any more, and what was cached was found again after.

    Every quiet service writes that. Somebody has to wonder: who says so, or who chose these lines
    from a log that has a hit rate beside each usage.
    """
    kv, running, hits = now.kv, now.running, now.window.find(Signal.HIT_RATE)
    if kv is None or running is None or hits is None or kv.origin.kind is not SourceKind.LOG:
        return None
    falls = _falls(kv, running)
    if len(falls) != 1:
        return None
    before, after = falls[0]
    old, new = hits.at(before), _next(hits, after)
    if old is None or new is None or new <= 0 or new < old.value:
        return None
    noticed = [fact for fact in readers(now.window) if _LOST.search(f"{fact.key} {fact.raw}")]
    if not noticed and len(hits.readings) >= len(kv.readings):
        return None
    for fact in noticed:
        argument.fact(fact)
    argument.series(kv, "falls to nothing exactly as nothing runs any more")
    argument.series(running)
    argument.series(hits, "afterwards not less: nothing was lost")
    argument.against("cache.prefix_loss: what was cached is found again")
    argument.against("cache.thrash: nothing is preempted, and nothing waits")
    argument.against("release.leak: everything was given back")
    return Confidence.CERTAIN


def _falls(kv: Series, running: Series) -> list[tuple[float, float]]:
    """From when to when it fell from what is noticed to nothing with the last request; more than
    one are the pauses of a quiet service."""
    falls = []
    high: float | None = None
    for before, after in itertools.pairwise(kv.readings):
        if before.value >= _NOTICED:
            high = before.at
        idle = running.at(after.at)
        if high is not None and after.value == 0 and idle is not None and idle.value == 0:
            falls.append((high, after.at))
            high = None
    return falls


def _next(series: Series, moment: float) -> float | None:
    return next((each.value for each in series.readings if each.at > moment), None)


def cached_is_not_held(argument: Argument, now: Activity) -> Confidence | None:
    """Blocks are in use while nothing runs, and just as many are cached and free to go."""
    idle = now.running is not None and now.running.last.value == 0
    asked = [fact for fact in readers(now.window) if _CACHE.search(f"{fact.key} {fact.raw}")]
    nobody_waits = now.waiting is not None and now.waiting.last.value == 0
    if not idle and not (asked and nobody_waits):
        return None
    used = told_number(now.window, r"(blocks?|pages?|kv|cache)( \w+)* (used|in use|occupied)")
    cached = told_number(now.window, r"(blocks?|pages?|kv|cache)?.*(evictable|reclaimable|cached)")
    held, free = number_of(used), number_of(cached)
    if used is None or cached is None or not held or free is None or used.unit is not cached.unit:
        return None
    if free < _ACCOUNTS_FOR * held:
        return None
    argument.says(f"{says(used)}, and {says(cached)}: all of it is free to go")
    for fact in asked:
        argument.fact(fact)
    argument.series(now.running, "nothing runs" if idle else "and nobody waits")
    argument.series(now.waiting)
    for fact in told_all(now.window, r"leak|hits?$|live|active"):
        argument.fact(fact)
    argument.against("release.leak: what is cached is handed out when room is needed")
    return Confidence.LIKELY


def prefills_and_decodes_nothing(argument: Argument, now: Activity) -> Confidence | None:
    """The speed of decoding, read of a server whose role is prefill."""
    decode = now.window.find(Signal.GENERATION_RATE)
    computed = now.window.find(Signal.COMPUTED_PROMPT_TOKENS) or now.window.find(
        Signal.PROMPT_TOKENS
    )
    if decode is None or decode.max > 0 or computed is None or not computed.per_second:
        return None
    tokens = now.window.find(Signal.GENERATION_TOKENS)
    if tokens is not None and tokens.increase:
        return None
    is_prefill = role_of(decode.labels) == "prefill" or any(
        role_of(series.labels) == "prefill" for series in now.window.series
    )
    asked = [fact for fact in readers(now.window) if _OF_DECODING.search(fact.raw)]
    if not asked or not (is_prefill or _is_told_to_prefill(now, asked)):
        return None
    argument.series(decode, "a server of the role prefill decodes nothing")
    argument.series(computed, "and this is what it does")
    for fact in told_all(now.window, r"prefill|panel|dashboard|ttft|busy"):
        argument.fact(fact)
    argument.against("engine.hung and queue.blocked: prompt tokens are computed")
    argument.against("telemetry.stale: its counters move")
    return Confidence.CERTAIN


_OF_DECODING = re.compile(r"gen\w*[_ ]?throughput|tok\w*|decod|speed|idle|nothing", re.IGNORECASE)
_ROLE = re.compile(r"\b(role|mode|disaggregation|worker type|engine type|phase)\b")
_PREFILL_SERVER = re.compile(
    r"\bprefill[ -](only )?(servers?|workers?|nodes?|replicas?|pods?|instances?|engines?|side)\b",
    re.IGNORECASE,
)


def _is_told_to_prefill(now: Activity, asked: Sequence[Fact]) -> bool:
    """By its role, or by whoever reads the speed; a setting of prefill is no role."""
    return any(
        _ROLE.search(plain(fact.key)) and fact.raw.strip().lower() == "prefill"
        for fact in now.window.facts
    ) or any(_PREFILL_SERVER.search(fact.raw) for fact in asked)


def hits_of_the_preempted(argument: Argument, now: Activity) -> Confidence | None:
    """Nothing is shared, and what was preempted finds its own blocks: no hit of a prefix."""
    preempted, hits = now.window.find(Signal.PREEMPTIONS), hit_rates(now.window)
    if preempted is None or not preempted.last.value or hits is None:
        return None
    if hits.last.value < _HITS_OF_NOTHING:
        return None
    unlike = [text for text in texts_of(now.window) if _UNLIKE.search(text)]
    unlike += [says(fact) for fact in told_all(now.window, _SHARED) if number_of(fact) == 0]
    unlike += [
        says(fact) for fact in told_all(now.window, _DISTINCT) if (share_of(fact) or 0.0) >= _ALL
    ]
    first = told_number(now.window, r"(?=.*\b(cached|hits?)\b)(?=.*\bfirst\b)")
    if not unlike and number_of(first) != 0:
        return None
    if _are_more_than_came_back(argument, now):
        return None
    for text in unlike[:2]:
        argument.says(text)
    argument.fact(first)
    argument.series(hits)
    argument.says(f"{preempted.origin.name} {preempted.last.raw}: they find their own blocks again")
    for fact in told_all(now.window, r"hit rate"):
        argument.fact(fact)
    argument.against("cache.nothing_shared and cache.prefix_loss: no prefix was shared or lost")
    return Confidence.CERTAIN if unlike and number_of(first) == 0 else Confidence.LIKELY


def _are_more_than_came_back(argument: Argument, now: Activity) -> bool:
    """More tokens were found than those that were preempted can have held: others were found, too.
    False where lengths are not known."""
    found, preempted = now.window.find(Signal.PREFIX_HITS), now.window.find(Signal.PREEMPTIONS)
    if found is None or preempted is None or preempted.last.value <= 0:
        return False
    each = found.last.value / preempted.last.value
    lengths = [
        number_of(
            told_number(now.window, rf"\b{what}s?\b.*\b(tokens|len|length)\b", without=_OF_ALL)
        )
        for what in ("(prompt|input)", "(output|answer)")
    ]
    whole = sum(length or 0.0 for length in lengths)
    if lengths[0] is None or lengths[1] is None:
        return False
    if each > _OWN * whole:
        return True
    argument.says(
        f"{found.origin.name} {found.last.raw} / {preempted.last.raw} preempted: "
        f"{number(round(each))} tokens each, of {number(whole)} that one has at most"
    )
    return False


_UNLIKE = re.compile(
    r"\bprompts?\b.*\b(unique|random|no two|distinct|nothing shared|all different)\b"
    r"|^[\w ]*\b(data ?set|workload|traffic|corpus|benchmark)\b[\w ]*: .*\brandom\b",
    re.IGNORECASE,
)
_SHARED = (
    r"\b(shared|common|same|random) prefix\b(?!.*\b(hit|cached|rate)\b)"
    r"|\bprefix( tokens| length| len)* (shared|common|in common)\b"
)
_DISTINCT = r"\b(distinct|unique|different)\b.*\bprompts?\b.*\b(share|ratio|fraction|percent|pct)\b"
_ALL = 0.99
_OF_ALL = r"\b(max|limit|total|sum|per s|rate|shared|prefix|cached|first|throughput)\b"
_OWN = 1.1
_HITS_OF_NOTHING = 0.05


def greatest_of_pools(argument: Argument, now: Activity) -> Confidence | None:
    """One gauge for several pools is that of the fullest: seats for states, and not the cache."""
    pools = now.window.all_series(Signal.POOL_USAGE)
    cache = [series for series in pools if series.labels.get("pool") == "full"]
    others = [
        series
        for series in pools
        if series not in cache and now.kv is not None and series.last.value >= now.kv.last.value
    ]
    asked = [fact for fact in readers(now.window) if re.search(_CACHE, f"{fact.key} {fact.raw}")]
    if now.kv is None or not cache or not others or not asked:
        return None
    full, other = cache[0], others[0]
    if now.kv.last.value - full.last.value < _NOT_THE_CACHE:
        return None
    for fact in asked:
        argument.fact(fact)
    argument.says(
        f"{now.kv.origin.name} {now.kv.last.raw} is the greatest of its pools, "
        f"{other.origin.name} {other.last.raw}"
    )
    argument.series(full, "and this is the cache")
    for series in (now.running, now.waiting, now.preemptions):
        argument.series(series)
    for fact in told_all(now.window, r"slots|states?|ttft|itl|slo"):
        argument.fact(fact)
    argument.against("cache.thrash and cache.grown_contexts: most of the cache is free")
    return Confidence.CERTAIN


_CACHE = re.compile(r"token_usage|\bkv\b|cache|\bfull\b|memory", re.IGNORECASE)
_NOT_THE_CACHE = 0.3
"""Of the cache, between what is shown and what is held."""
