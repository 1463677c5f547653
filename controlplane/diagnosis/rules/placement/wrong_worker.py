"""Requests go to replicas that lack what they need: prefix, adapter, role or model."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.placement.not_ready import sent_before_ready
from controlplane.diagnosis.rules.placement.scattered import moved_away, moved_by_count, scattered
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.spread import spread_of
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    says_no,
    share_of,
    texts_of,
    told,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.adapters import ADAPTER
from controlplane.diagnosis.words.places import NUM_PLACES
from controlplane.diagnosis.words.shares import SHARE
from dataplane.engine_metrics.signal import Signal

_FELL_FROM = 0.1
"""Of prompt tokens that were found: from hardly any, nothing falls."""
_MISSED = 0.5
"""Of the hits that the router counted on."""
_WRONG = 0.15
"""Of requests; a router that learns from events is wrong now and then."""
_PREDICTED = (
    r"\b(epp|predicted|expected|router|routers?|index|indexed|believed|estimated|claimed|scored"
    r"|view)\b"
)
_ACTUAL = r"\b(actual|actually|engine|engines?|real|reported|measured|observed|worker|reality)\b"
_PREFIX = rf"hit|cached|overlap|prefix|match|reuse|blocks|{ADAPTER}"
_SHARED_SHARE = (
    r"(?=.*\b(shared|common|same|overlap\w*|repeat\w*|history|previous|identical)\b)"
    r"(?=.*\b(turns?|prompts?|history|prefix|previous|context|tokens|session)\b)"
)
_FAR_BELOW = 0.7
"""Of what could be reused: a cache that is large enough and asked at the right place finds most."""
_KNOWS_NOTHING = (
    r"(scor\w*|index\w*|match\w*|overlap|kv (cache )?events?|router|radix|trie"
    r"|block map)\b.*\b(nonzero|entries"
    r"|size"
    r"|above zero|tokens|received|hits?|blocks|count|total|last)|nonzero|kv index|indexed blocks"
)
_MATCHED_NOTHING = r"match\w*\W{1,3}\[0(, ?0)+\]|best (match|overlap)\W{1,3}0\b"
_MISROUTED = (
    r"(wrong|mis ?routed|misplaced|missed|foreign|stray)\b.*(worker|replica|engine|rank|request"
    r"|share"
    r"|rout|pod|node)|(requests?|share|sent|routed|landed).*\b(without|lacking|not holding"
    r"|elsewhere"
    r"|wrong|other than)\b"
)
_REFUSED = (
    r"model\W+\S{1,80}\W+(does not exist|not found|is not served)|no such model|unknown model"
    r"|(lora|adapter)\W.{0,60}(not (loaded|found|available|registered)|unknown|missing"
    r"|does not exist)"
    r"|(is|as) (a|the)? ?(prefill|decode)[- ](only )?(worker|server|instance"
    r"|engine).{0,40}(cannot|not)"
    r"|wrong (role|worker|phase)|no (prefill|bootstrap) (address|host|info)"
)
_ROUTING = (
    r"rout|balanc|affinit|sticky|consistent.?hash|round.?robin|ingress|least.?(conn|req)|session"
    r"|kv.?(events|index)|adapter|lora|service mesh"
)

_WHEN_READY = (
    "Let the router take in a replica when it is ready (its probe or /health), and not when it "
    "exists."
)


def judge(window: Window) -> Verdict | None:
    """LIKELY where what the router counted on is not where it sends, or sessions are scattered."""
    early = Argument(window)
    too_early = sent_before_ready(early, window)
    if too_early is not None:
        return early.verdict(too_early, detail="it does not serve yet", remedy=_WHEN_READY)
    argument = Argument(window)
    direct, is_scattered = _seen_directly(argument, window)
    for change in window.changes_with(_ROUTING):
        argument.says(f"change: {change.what}")
    spread = _fallen_to_chance(argument, window)
    if direct:
        _cite(argument, window)
    if not direct and not spread:
        return None
    argument.against("cache.prefix_loss: the prefix is still there, on another replica")
    argument.against("routing.skew: it is not how much goes where, but what")
    if direct and direct != _POSSIBLE:
        sure = spread or (direct == "prefix" and _is_felt(window))
        if not sure and (_finds_much(window) or (is_scattered and _is_alone(window))):
            argument.need("what it costs: TTFT, or cached tokens, against what they could be")
            return argument.verdict(Confidence.POSSIBLE, detail=direct)
        return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY, detail=direct)
    if spread:
        return argument.verdict(Confidence.LIKELY, detail="prefix")
    argument.need(
        "which replicas hold the prefix, adapter or model", "where the router sent the requests"
    )
    return argument.verdict(Confidence.POSSIBLE)


def _seen_directly(argument: Argument, window: Window) -> tuple[str, bool]:
    """What is sent to the wrong place ("": nothing was seen to be), and whether that is by sessions
    that are scattered."""
    missed = _predicted_and_missed(argument, window) or _misrouted(argument, window)
    if missed:
        return missed, False
    if moved_by_count(argument, window):
        _blind(argument, window)
        return "prefix", False
    apart = scattered(argument, window)
    if apart:
        return apart, True
    direct = (
        moved_away(argument, window)
        or _blind(argument, window)
        or _finds_less_than_is_shared(argument, window)
        or _refused(argument, window)
    )
    return direct, False


def _is_felt(window: Window) -> bool:
    """A prefix that is elsewhere shows in hits, or in first tokens; where prompts are salted or
    blocks are evicted, that explains it as well."""
    if told_all(window, r"\b(salts?|salted|evict\w*|isolation)\b"):
        return False
    hits = hit_rates(window)
    is_low = hits is not None and len(hits.readings) > 1 and late(hits) < _GOOD
    return (is_low and not told_all(window, _SHARED_SHARE)) or bool(told_all(window, _COST))


def _is_alone(window: Window) -> bool:
    """No second place is known to serve, and nobody speaks of what is found or how late it is."""
    return _places(window) < _FEWEST_PLACES and not told_all(window, _COST)


def _finds_much(window: Window) -> bool:
    hits = hit_rates(window)
    return hits is not None and late(hits) >= _GOOD and not told_all(window, r"\bttft|cached|hit")


_COST = r"\b(ttft|first token|cached|hits?|computed|recomputed)\b"
_FEWEST_PLACES = 2
_GOOD = 0.4
"""Of prompt tokens that are found: nobody is known to miss more."""
_POSSIBLE = "possible"
_BY_CHANCE = 0.3
"""Of what random routing leaves: where less is found than that, the prefix itself is gone."""


def _cite(argument: Argument, window: Window) -> None:
    """What it costs, and that load itself is even."""
    pattern = r"cached|hit|ttft|first token"
    for contrast in contrasts(window, pattern)[:3]:
        argument.says(contrast.says)
    load = spread_of(window, Signal.RUNNING)
    if load is not None:
        argument.across(load.series, f"{load.says}: the load itself is even")


def _predicted_and_missed(argument: Argument, window: Window) -> str:
    for contrast in contrasts(window, _PREFIX, base=_PREDICTED, other=_ACTUAL):
        keys = f"{plain(contrast.base.key)} {plain(contrast.other.key)}"
        if contrast.base.key == contrast.other.key or not re.search(_PREDICTED, keys):
            continue
        if contrast.base_value > 0 and contrast.factor <= _MISSED:
            argument.says(f"{contrast.says}: the router counts on more than is there")
            return "adapter" if re.search(ADAPTER, keys) else "prefix"
    return ""


def _misrouted(argument: Argument, window: Window) -> str:
    fact = told_number(window, _MISROUTED)
    value = number_of(fact)
    if fact is None or not value:
        return ""
    is_share = re.search(SHARE, f"{plain(fact.key)} {fact.raw}")
    if is_share and (share_of(fact) or 0.0) < _WRONG:
        return ""
    argument.fact(fact)
    return "what it needs is elsewhere"


def _blind(argument: Argument, window: Window) -> str:
    """The router's knowledge of who holds what is empty, though it is asked."""
    found = [
        fact
        for fact in told_all(window, _KNOWS_NOTHING, without=r"hit rate|queue|running|cache hit")
        if number_of(fact) == 0
    ]
    about = " ".join((*(plain(fact.key) for fact in window.facts), *window.lines[:200])).lower()
    rout = re.search(r"rout|scor|index|pick|balanc", about)
    nothing = window.lines_with(_MATCHED_NOTHING)
    for line in nothing[-2:]:
        argument.says(line.strip()[:200])
    for fact in found:
        argument.fact(fact, "the router knows of no prefix anywhere")
    for fact in told_all(window, r"decisions|shared with|turns"):
        argument.fact(fact)
    return "prefix" if (found and rout) or len(nothing) > 1 else ""


def _finds_less_than_is_shared(argument: Argument, window: Window) -> str:
    """Most of a prompt was there a turn ago, several replicas serve, each finds far less, and none
    is short of room."""
    shared = told_number(window, _SHARED_SHARE, without=r"hit|tokens$|block")
    could, rates = share_of(shared), hit_rates(window)
    places = _places(window)
    if shared is None or could is None or rates is None or places < 2 or not 0 < could <= 1:
        return ""
    if late(rates) > _FAR_BELOW * could:
        return ""
    kv = window.find(Signal.KV_USAGE)
    if kv is not None and kv.max >= 0.9:
        return ""
    argument.fact(shared, "it could be found")
    argument.series(rates, f"at {places:.0f} places")
    is_kept = any(says_no(fact) for fact in told_all(window, r"\b(salts?|salted|evict\w*)\b"))
    if len(_seen_places(window)) > 1 or is_kept:
        return "prefix"
    argument.need("hits at the other replicas", "evictions", "whether prompts carry salts")
    return _POSSIBLE


def _places(window: Window) -> float:
    """Replicas or ranks that serve, as far as is known."""
    told_places = told_number(
        window,
        rf"{NUM_PLACES}|^(num )?(dp( size)?|ranks|data parallel.*)$",
    )
    return max(len(_seen_places(window)), number_of(told_places) or 0.0)


def _seen_places(window: Window) -> set[str]:
    return {
        label
        for series in window.series
        for label in (series.labels.get("replica") or series.labels.get("engine"),)
        if label is not None
    }


def _refused(argument: Argument, window: Window) -> str:
    """Some replicas refuse what others serve."""
    lines = window.lines_with(_REFUSED)
    told_texts = [text for text in texts_of(window) if re.search(_REFUSED, text, re.IGNORECASE)]
    if not lines and not told_texts:
        return ""
    for text in (*lines[-2:], *told_texts[-2:]):
        argument.says(text.strip()[:200])
    have = told(
        window,
        r"(replicas|workers|pods|engines).*(with|having|serving|loaded)|(loaded|served"
        r"|available) on"
        r"|(adapter|lora|model)s?.*(replica|worker|pod|engine)",
    )
    argument.fact(have)
    places = told_number(window, NUM_PLACES)
    argument.fact(places)
    refused = told_number(window, r"\b(share|percent|pct|rate)\b.*\b40[04]s?\b|\b40[04]s?\b.*share")
    share = share_of(refused)
    if have is not None or (share is not None and _WRONG <= share <= 1 - _WRONG):
        argument.fact(refused)
        return "adapter or model"
    return _POSSIBLE


def _fallen_to_chance(argument: Argument, window: Window) -> bool:
    """Hits fell to about what random routing over so many replicas leaves."""
    places = told_number(window, NUM_PLACES)
    count = number_of(places)
    if places is None or count is None or count < 2:
        return False
    before, after = _hits(window)
    if before is None or after is None or after > before * max(_MISSED, 1.3 / count):
        return False
    if before < _FELL_FROM:
        return False
    if after < _BY_CHANCE * before / count:
        return False
    argument.fact(places)
    for fact in told_all(window, r"hit (rate|ratio|share)")[:4]:
        argument.fact(fact)
    argument.series(hit_rates(window), f"about one in {count:.0f} finds its prefix by chance")
    return True


def _hits(window: Window) -> tuple[float | None, float | None]:
    rates = hit_rates(window)
    if rates is not None and len(rates.readings) > 1:
        return rates.max, late(rates)
    for contrast in contrasts(window, r"hit (rate|ratio|share)", is_share=True):
        return contrast.base_value, contrast.value
    return None, None


WRONG_WORKER = Rule(
    id="routing-wrong-worker",
    mechanism=Mechanism.ROUTING_WRONG_WORKER,
    judge=judge,
    needs=(
        "what the router counts on against what the engine found",
        "replicas for each session, adapter or model",
    ),
    told_apart="From a lost prefix by a prefix that is there on another replica, from skew by even "
    "load, from a limit that refuses by replicas that serve the same request.",
    remedy="Route by what replicas hold (their events or answers), keep sessions where their "
    "prefix "
    "is, and take replicas out that lack a model or adapter.",
    hides="Loading everything everywhere hides wrong routing and takes the cache's memory.",
    explains=frozenset({Mechanism.CACHE_PREFIX_LOSS, Mechanism.CACHE_NOTHING_SHARED}),
)
