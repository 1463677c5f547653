"""Sessions whose turns go to several places, each of which has to compute their prefix again."""

import re

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.told import (
    number_of,
    numbers_in,
    plain,
    share_of,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window

_SCATTERED = 1.5
"""Replicas for one session, where one would hold its prefix."""
_SESSIONS = (
    r"(replicas|workers|engines|pods|ranks|instances|nodes|backends|servers)\b.*\b(per|for each"
    r"|by|of (one|a|each))"
    r"\b.*\b(session|conversation|user|prefix|chat|agent|rollout|dialog\w*|thread|key|tenant"
    r"|trajector\w*|document)\b"
)
_APART = (
    r"(sessions?|conversations?|turns?|users?|chats?|agents?|prefix(es)?)\b.*\b(more than one"
    r"|several"
    r"|multiple|different|other|another|changed|moved|scattered|split|hop\w*)"
)
_TOGETHER = (
    r"(sessions?|conversations?|turns?|users?|chats?|agents?|prefix(es)?)\b.*\b(sticky|stay\w*"
    r"|kept|affinity|(same|last|previous|own) (\w+ )?(replicas?|workers?|pods?|engines?|nodes?"
    r"|ranks?|instances?|backends?|servers?|gpus?|cards?|places?|hosts?))\b"
)
_KEPT = 0.6
"""Of turns on the replica of the turn before; affinity that works keeps nine in ten."""
_SPREAD = 0.3


def scattered(argument: Argument, window: Window) -> str:
    """`prefix` where shares or counts say so; empty elsewhere."""
    apart = told_number(window, _APART, without=r"\b(cached|hits?|tokens|rate)\b")
    together = told_number(window, _TOGETHER)
    share, kept = share_of(apart), share_of(together)
    if apart is not None and share is not None and _SPREAD <= share <= 1.0:
        argument.fact(apart, "each place has to compute the prefix again")
        argument.series(hit_rates(window))
        return "prefix"
    if together is not None and kept is not None and kept < _KEPT:
        argument.fact(together, "the rest meets a replica without its prefix")
        argument.series(hit_rates(window))
        return "prefix"
    fact = told_number(window, _SESSIONS)
    value = number_of(fact)
    if fact is None or value is None or value < _SCATTERED:
        return ""
    argument.fact(fact, "one would hold its prefix")
    rates = hit_rates(window)
    argument.series(rates)
    return "prefix"


def moved_by_count(argument: Argument, window: Window) -> bool:
    """So many of all later turns went to another place, and as much less is found than by those
    that stayed as these few explain: what they bring was computed elsewhere."""
    overall, stayed = _found_overall(window), told_number(window, _FOUND_BY_STAYED)
    kept = share_of(stayed)
    if overall is None or stayed is None or kept is None or not 0 < overall[0] < kept <= 1:
        return False
    for moved in told_all(window, _TURNS_MOVED, without=r"\b(rate|hits?|cached|tokens)\b"):
        count = number_of(moved)
        for whole in told_all(window, r"\b(turns?|follow ups?|rounds?|requests?|messages?)\b"):
            turns = number_of(whole)
            if not count or not turns or count >= turns or not _is_whole_of(whole, moved):
                continue
            share = count / turns
            explained = kept * (1 - share)
            if share < _NOTICED or abs(explained - overall[0]) > _EXPLAINS:
                continue
            argument.says(f"{says(moved)} of {whole.raw}: {share * 100:.2g} % meet a new place")
            argument.fact(stayed, f"of those that stayed; of all {overall[1]}")
            return True
    return False


def _found_overall(window: Window) -> tuple[float, str] | None:
    """What share of the prompts of all is found, by counters or as told."""
    rates = hit_rates(window)
    if rates is not None:
        return rates.last.value, f"{rates.last.value:.2g}"
    told = told_number(window, r"\bhit (rate|ratio|share)$")
    share = share_of(told)
    return None if told is None or share is None else (share, told.raw)


def _is_whole_of(whole: Fact, part: Fact) -> bool:
    """Its key says the same with fewer words."""
    words, of_part = set(plain(whole.key).split()), set(plain(part.key).split())
    return whole is not part and len(words & of_part) > 0 and not _PLACE & words


_PLACE = frozenset(
    {"another", "other", "different", "elsewhere", "moved", "changed", "switched", "same", "new"}
)
_FOUND_BY_STAYED = r"(?=.*\b(hits?|cached)\b)(?=.*\b(same|stay\w*|kept|sticky|own)\b)(?!.*\bload\b)"
_TURNS_MOVED = (
    r"(?=.*\b(turns?|follow ups?|rounds?|requests?|messages?)\b)"
    r"(?=.*\b(another|other|different|elsewhere|moved|changed|switched|hopped)\b)"
    r"(?=.*\b(servers?|workers?|replicas?|engines?|pods?|ranks?|places?|nodes?|elsewhere)\b)"
)
_NOTICED = 0.03
"""Of the turns."""
_EXPLAINS = 0.06
"""What is found of a turn that moved is not quite nothing: a system prompt is everywhere."""


def moved_away(argument: Argument, window: Window) -> str:
    """A session whose turns went to several replicas, and nothing was found where it was new."""
    return _moved_by_list(argument, window) or _moved_by_moments(argument, window)


def _moved_by_list(argument: Argument, window: Window) -> str:
    """The places of one session's turns in one line, with what was found at each of them."""
    for turns in told_all(window, _TURNS):
        places = [word[1] for part in turns.raw.split(",") if (word := _LAST_WORD.search(part))]
        for cached in told_all(window, rf"(?=.*{_FOUND})(?=.*{_OF_TURNS})"):
            found = _listed(window, cached)
            if len(found) != len(places) or not _is_new_without(places, found):
                continue
            argument.fact(turns, "one session")
            argument.fact(cached, "nothing is found where it is new, and what it left where not")
            for fact in told_all(window, rf"(?=.*\bprompt)(?=.*{_OF_TURNS})|hit rate"):
                if fact.part is None:
                    argument.fact(fact)
            return "prefix"
    return ""


def _listed(window: Window, whole: Fact) -> list[float]:
    """The numbers of a list, in its order."""
    parts = [fact for fact in window.facts if fact.part and fact.at == whole.at]
    values = [number_of(fact) for fact in parts if fact.key == f"{whole.key}.{fact.part}"]
    return [value for value in values if value is not None] or [*numbers_in(whole.raw)]


def _is_new_without(places: list[str], found: list[float]) -> bool:
    """Nothing was found at a place's first turn, and something at a later one."""
    firsts = [found[places.index(place)] for place in dict.fromkeys(places)]
    return len(firsts) > 1 and not any(firsts) and any(found)


_OF_TURNS = r"\b(turns?|rounds?|messages?)\b"
_FOUND = r"\b(cached|hits?|reused)\b"
_TURNS = (
    r"^(session |conversation |chat )?(turns?|rounds?|route|path|places?|workers?|replicas?|pods?)"
    r"( (of|by|per) .*)?$"
)
_LAST_WORD = re.compile(r"([\w-]+)\s*$")


def _moved_by_moments(argument: Argument, window: Window) -> str:
    """The same, told turn by turn."""
    places = told_all(
        window, r"^(replica|worker|pod|instance|node|backend|server|engine|rank)( id)?$"
    )
    found_at = {
        fact.at: fact for fact in told_all(window, r"cached( prompt)?( tokens)?$|hit (rate|tokens)")
    }
    seen: dict[str, list[Fact]] = {}
    for place in sorted(places, key=lambda fact: fact.at):
        fact = found_at.get(place.at)
        if fact is not None and number_of(fact) is not None:
            seen.setdefault(place.raw, []).append(fact)
    firsts = [found[0] for found in seen.values()]
    if len(seen) < 2 or not told_all(window, r"\b(session|conversation|chat|thread|turn)\b"):
        return ""
    order = [place.raw for place in sorted(places, key=lambda fact: fact.at)]
    new = [fact for fact in firsts[1:] if number_of(fact) == 0]
    if not new or not any((number_of(fact) or 0) > 0 for fact in firsts[:1]):
        return ""
    argument.says(f"{plain(places[0].key)} {' -> '.join(order)} for one session")
    for fact in found_at.values():
        argument.fact(fact)
    for fact in told_all(window, r"ttft|first token|affinity|sticky"):
        argument.fact(fact)
    return "prefix"
