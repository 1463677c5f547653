"""What was told or logged of each caller: tenants, keys, teams, addresses."""

import re
from collections import Counter

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.callers.parts_of_a_whole import splits
from controlplane.diagnosis.rules.callers.shares import SHARE_WORDS, Shares, shares_between
from controlplane.diagnosis.rules.callers.tables import tables, written_tables
from controlplane.diagnosis.views.told import number_of, plain, texts_of
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.callers import CALLER, LOAD, PAIN
from dataplane.engine_metrics.signal import Unit

_NO_CALLER = r"cache|hit|prefix|worker|replica|server|gpu|device|rank|node|pod|prompt of|model"
_ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}):\d+ - \"POST ")
_LEAST_LINES = 40
"""Access lines: fewer say nothing about who sends how much."""
_MANY_CALLERS = 3
"""With two, half and half is usual; more than three make the first one's share telling."""


def shares_of(window: Window) -> tuple[Shares, ...]:
    """For each thing that is told by caller, the greatest share first."""
    found = [
        *tables(window),
        *written_tables(window),
        *_told_shares(window),
        *_siblings(window),
        *_parts(window),
        *_classes(window),
        *_of_a_limit(window),
        *_of_the_whole(window),
        *_addresses(window),
    ]
    return tuple(sorted(found, key=lambda shares: -shares.share))


def pains_of(window: Window) -> tuple[Fact, ...]:
    """What callers pay: waits, first tokens, refusals, told by caller or of the others."""
    return tuple(
        fact
        for fact in window.facts
        if fact.part is None
        and re.search(PAIN, plain(fact.key))
        and re.search(CALLER + r"|others?|victim|rest|by key", plain(fact.key))
    )


def _told_shares(window: Window) -> list[Shares]:
    """`top_tenant_share: 0.86`."""
    found = []
    for fact in window.facts:
        key, value = plain(fact.key), number_of(fact)
        if value is None or fact.part is not None or not re.search(SHARE_WORDS, key):
            continue
        named = re.search(r"\b(top|largest|biggest|single|heaviest|noisiest|busiest)\b", key)
        if not (re.search(CALLER, key) or named) or re.search(f"{PAIN}|{_NO_CALLER}", key):
            continue
        share = value / 100 if value > 1 else value
        if 0 < share <= 1:
            found.append(
                Shares(
                    what=key,
                    says=f"{fact.key} {fact.raw}",
                    name=fact.key,
                    share=share,
                    num_callers=_MANY_CALLERS + 1,
                )
            )
    return found


def _siblings(window: Window) -> list[Shares]:
    """`tenant_a_rps: 40` beside `tenant_b_rps: 2`: keys that differ in one word."""
    groups: dict[tuple[str, Unit | None], list[tuple[str, float, str]]] = {}
    for fact in window.facts:
        key, value = plain(fact.key), number_of(fact)
        if value is None or fact.part is not None or fact.quantile is not None:
            continue
        who = _named(key)
        if who is None or re.search(PAIN, key) or not re.search(LOAD, key):
            continue
        shape = key.replace(who, "*", 1)
        groups.setdefault((shape, fact.unit), []).append((who, value, fact.raw))
    found = []
    for (shape, _), members in groups.items():
        shares = shares_between(shape, members)
        if shares is not None:
            found.append(shares)
    return found


def _named(key: str) -> str | None:
    """Who stands behind the word for a caller (`tenant a`), or before it (`batch team`)."""
    behind = re.search(CALLER + r" (\w+)", key)
    who = behind[0].split()[-1] if behind else None
    if who is not None and not re.search(LOAD, who):
        return who
    before = re.search(rf"(\w+) {CALLER}", key)
    is_name = before is not None and not re.search(rf"{LOAD}|{_NO_NAME}", before[1])
    return before[1] if before is not None and is_name else None


_NO_NAME = (
    r"^(per|by|of|the|each|other|others|top|all|num|active|max|from|for|single|busiest|median"
    r"|distinct|largest|api|source|virtual|concurrent|\d+)$"
)


def _parts(window: Window) -> list[Shares]:
    """`in_flight_summarizer: 58` and others like it, which are `in_flight: 62` together."""
    found = [
        shares_between(split.what, split.members)
        for split in splits(window, _COUNTED, f"{PAIN}|{_NO_CALLER}")
        if max(len(name) for name, _, _ in split.members) > _SHORT_NAME
    ]
    return [shares for shares in found if shares is not None]


_SHORT_NAME = 2
"""Characters: `a` and `b` may be anything."""
_COUNTED = (
    r"\b(in ?flight|requests?|tokens|seats|slots|calls|arrivals?|streams|prompts|runs|queries)\b"
)


def _classes(window: Window) -> list[Shares]:
    """`batch_in_flight: 871` beside `interactive_in_flight: 104`, where texts speak of callers."""
    if not any(re.search(CALLER + r"|\bjobs?\b|\bclass\b", text) for text in texts_of(window)):
        return []
    groups: dict[str, dict[str, tuple[str, float, str]]] = {}
    for fact in window.facts:
        found = re.fullmatch(rf"(\w+) ({_HELD}.*)", plain(fact.key))
        value = number_of(fact)
        if found is None or value is None or fact.part is not None or found[1] in _NO_CLASS:
            continue
        groups.setdefault(found[2], {})[found[1]] = (found[1], value, fact.raw)
    shares = [shares_between(what, list(members.values())) for what, members in groups.items()]
    return [each for each in shares if each is not None]


_HELD = r"(in ?flight|requests? (in flight|per s|running)|running|seats|slots|tokens per s|share)"
_NO_CLASS = frozenset(
    (
        *("gateway", "engine", "total", "all", "client", "server", "router", "proxy", "requests"),
        *("max", "other", "num", "open", "peak", "mean", "target", "expected", "baseline"),
        *("prefill", "decode", "prompt", "output", "generated", "cached", "before", "after"),
    )
)


def _of_a_limit(window: Window) -> list[Shares]:
    """`runs_held_by_tenant_acme: 12` of `max_concurrent_runs: 12`."""
    limits = [
        (fact, value)
        for fact in window.facts
        if re.search(r"max|limit|slots|seats|pool|capacity", plain(fact.key))
        and not re.search(CALLER, plain(fact.key))
        and (value := number_of(fact)) is not None
        and value >= _LEAST_LIMIT
        and fact.unit in (None, Unit.REQUESTS, Unit.COUNT)
    ]
    found = []
    for fact in window.facts:
        key, value = plain(fact.key), number_of(fact)
        named = re.search(rf"{CALLER} \w+", key) and re.search(r"held|holds|has|in flight|run", key)
        if value is None or not named or fact.part is not None or re.search(PAIN, key):
            continue
        for limit, most in limits:
            if value <= most and value >= _MOST_OF_LIMIT * most:
                found.append(
                    Shares(
                        what=key,
                        says=f"{fact.key} {fact.raw} of {limit.key} {limit.raw}",
                        name=fact.key,
                        share=value / most,
                        num_callers=_MANY_CALLERS,
                    )
                )
    return found


def _of_the_whole(window: Window) -> list[Shares]:
    """`user_7_requests_per_min: 950` beside `all_requests_per_min: 1010`."""
    wholes = [
        (frozenset(plain(fact.key).split()) - _WHOLE_WORDS, fact, value)
        for fact in window.facts
        if _WHOLE_WORDS & set(plain(fact.key).split()) and (value := number_of(fact))
    ]
    found = []
    for fact in window.facts:
        key, value = plain(fact.key), number_of(fact)
        named = re.search(rf"{CALLER} \w+", key)
        if not value or not named or fact.part is not None or re.search(PAIN, key):
            continue
        rest = frozenset(key.replace(named[0], "").split())
        for words, whole, most in wholes:
            if rest and rest == words and 0 < value <= most and whole.unit is fact.unit:
                found.append(
                    Shares(
                        what=key,
                        says=f"{fact.key} {fact.raw} of {whole.key} {whole.raw}",
                        name=named[0],
                        share=value / most,
                        num_callers=_MANY_CALLERS,
                    )
                )
    return found


_WHOLE_WORDS = frozenset({"all", "total", "overall", "sum", "everybody", "together"})
_LEAST_LIMIT = 4
_MOST_OF_LIMIT = 0.6


def _addresses(window: Window) -> list[Shares]:
    """Whom the access lines name. One address may be a proxy, and is then all there is."""
    counts = Counter(
        found[1] for line in window.lines if (found := _ADDRESS.search(line)) is not None
    )
    if counts.total() < _LEAST_LINES or len(counts) < 2:
        return []
    name, most = counts.most_common(1)[0]
    return [
        Shares(
            what="requests",
            says=f"{most} of {counts.total()} requests in the access log are from {name}, "
            f"{len(counts)} addresses in all",
            name=name,
            share=most / counts.total(),
            num_callers=len(counts),
        )
    ]
