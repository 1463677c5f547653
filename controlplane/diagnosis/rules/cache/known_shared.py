"""What prompts are known to share, held against what of them was found in the cache."""

import re
from collections.abc import Iterator
from dataclasses import replace

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import FULL
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.prefix import hit_rates, tokens_asked
from controlplane.diagnosis.views.shared import Shared, shared_by_prompts
from controlplane.diagnosis.views.told import number_of, plain, says_no, told, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import FIRST_TOKEN, FIRST_TOKEN_OR_PREFILL
from controlplane.diagnosis.words.places import NUM_PLACES
from dataplane.engine_metrics.signal import Signal

_HARDLY = 0.25
"""Of what could have been found."""
_HALF = 0.5
_MOST = 0.8
_FEWEST_TOKENS = 256
"""A prefix of that many is several blocks of any usual size."""
_CACHED = r"\b(cached|reused|hit)\b( prompt)?( tokens)?$|^(cached|hit) tokens|\bcache n$"
_PLACES = rf"{NUM_PLACES}|^(num )?(dp( size)?|nodes)$"


def known_and_not_found(window: Window) -> Verdict | None:
    """CERTAIN where prompts share most of their tokens and next to nothing of it was found, though
    there is one cache that all of them ask."""
    shared = shared_by_prompts(window)
    if (
        shared is None
        or shared.is_below_a_block
        or _is_switched_off(window)
        or _are_several(window)
    ):
        return None
    argument = Argument(window)
    missed = _missed_by_turns(argument, window, shared)
    if missed is not None:
        return _of_turns(argument, window, missed)
    found = _found(argument, window, shared)
    if found is None or found > _HALF * shared.share:
        return None
    for sentence in shared.says:
        argument.says(sentence)
    _cite(argument, window)
    argument.against("cache.nothing_shared: it is known to be shared, and longer than a block")
    argument.against("routing.wrong_worker: there is one cache that all of them ask")
    if found <= _HARDLY * shared.share or shared.is_counted:
        return argument.verdict(Confidence.CERTAIN)
    argument.need("hits of the requests that share it, apart from all others")
    return argument.verdict(Confidence.POSSIBLE)


def _is_switched_off(window: Window) -> bool:
    return says_no(told(window, r"^(enable )?(automatic )?prefix cach\w*$|radix cache$"))


def _are_several(window: Window) -> bool:
    """Then the prefix may be there, at another place."""
    seen = {
        label
        for series in window.series
        if (label := series.labels.get("replica") or series.labels.get("engine")) is not None
    }
    told_places = [number_of(fact) or 0.0 for fact in told_all(window, _PLACES)]
    return len(seen) > 1 or max(told_places, default=0.0) > 1


def _missed_by_turns(argument: Argument, window: Window, shared: Shared) -> list[float] | None:
    """When turns found nothing of what they share with the one before, while others did."""
    common = {fact.at: fact for fact in shared.facts if (fact.value or 0.0) >= _FEWEST_TOKENS}
    pairs = [
        (common[fact.at], fact)
        for fact in told_all(window, _CACHED)
        if fact.at in common and fact.value is not None
    ]
    missed = [pair for pair in pairs if (pair[1].value or 0.0) <= _HARDLY * (pair[0].value or 1.0)]
    found = [pair for pair in pairs if (pair[1].value or 0.0) >= _MOST * (pair[0].value or 1.0)]
    if not missed or not found:
        return None
    for known, cached in (*missed, *found[-2:]):
        argument.says(f"{says(known)}, {says(cached)}")
    return [known.at for known, _ in missed]


def _of_turns(argument: Argument, window: Window, missed: list[float]) -> Verdict:
    """One turn that finds nothing may have met another worker, or room that others took."""
    kv = window.find(Signal.KV_USAGE)
    has_room = kv is not None and kv.max < FULL
    costs = _costs(argument, window, missed)
    _cite(argument, window)
    argument.against("cache.nothing_shared: other turns find what they share")
    if costs and has_room:
        return argument.verdict(Confidence.CERTAIN)
    if len(missed) > 1 or costs:
        return argument.verdict(Confidence.LIKELY)
    argument.need("which worker took that turn", "KV cache usage and evictions at that time")
    return argument.verdict(Confidence.POSSIBLE)


def _costs(argument: Argument, window: Window, missed: list[float]) -> bool:
    """First tokens of those turns took many times as long as the others'."""
    waits = [fact for fact in told_all(window, FIRST_TOKEN) if fact.value]
    slow = [fact for fact in waits if fact.at in missed]
    others = [fact.value or 0.0 for fact in waits if fact.at not in missed]
    if not slow or not others:
        return False
    if min(fact.value or 0.0 for fact in slow) < _TIMES * max(others):
        return False
    for fact in slow:
        argument.fact(fact, "against the others")
    return True


_TIMES = 4.0


def _found(argument: Argument, window: Window, shared: Shared) -> float | None:
    """The share of tokens found while it could be seen; None where nobody counts it."""
    for asked, hits in _counted(window):
        wanted, got = asked.increase, hits.increase
        if wanted is None or got is None or wanted < _FEWEST_TOKENS:
            continue
        argument.series(asked)
        argument.series(hits)
        argument.says(f"{number(got)} of {number(wanted)} tokens were found")
        return got / wanted
    rates = hit_rates(window)
    if rates is None:
        return _told_found(argument, window, shared)
    argument.series(rates)
    return rates.last.value


def _counted(window: Window) -> Iterator[tuple[Series, Series]]:
    for wanted, hits in (
        (Signal.PREFIX_QUERIES, Signal.PREFIX_HITS),
        (Signal.PROMPT_TOKENS, Signal.CACHED_PROMPT_TOKENS),
    ):
        asked, found = tokens_asked(window, wanted, hits), window.find(hits)
        if asked is not None and found is not None:
            yield asked, found
    computed, cached = (
        window.find(Signal.COMPUTED_PROMPT_TOKENS),
        window.find(Signal.CACHED_PROMPT_TOKENS),
    )
    if computed is not None and cached is not None:
        total = _sum(computed, cached)
        if total is not None:
            yield total, cached


def _sum(computed: Series, cached: Series) -> Series | None:
    """What was asked for is what was computed and what was found."""
    readings = tuple(
        replace(reading, value=reading.value + other.value, raw=number(reading.value + other.value))
        for reading in computed.readings
        if (other := cached.at(reading.at)) is not None
    )
    return replace(computed, readings=readings) if len(readings) > 1 else None


def _told_found(argument: Argument, window: Window, shared: Shared) -> float | None:
    cached: list[Fact] = [fact for fact in told_all(window, _CACHED) if fact.value is not None]
    whole = shared.prompt_tokens
    if not cached or not whole:
        return None
    argument.fact(cached[-1])
    return (cached[-1].value or 0.0) / whole


def _cite(argument: Argument, window: Window) -> None:
    argument.series(window.find(Signal.KV_USAGE))
    argument.series(window.find(Signal.KV_AVAILABLE))
    argument.series(window.find(Signal.PREEMPTIONS))
    for contrast in contrasts(window, FIRST_TOKEN_OR_PREFILL)[:2]:
        argument.says(contrast.says)
    for fact in window.facts:
        if re.search(r"evict|quota|write|policy|traffic|tier|retention", plain(fact.key)):
            argument.fact(fact)
