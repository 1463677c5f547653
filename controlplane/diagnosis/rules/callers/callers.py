"""What was told or logged of each caller: tenants, keys, teams, addresses."""

import re
from collections import Counter
from collections.abc import Sequence

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.callers.parts_of_a_whole import splits
from controlplane.diagnosis.rules.callers.shares import Shares
from controlplane.diagnosis.views.told import number_of, plain, texts_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_CALLER = (
    r"\b(tenants?|teams?|customers?|users?|callers?|api keys?|keys?|projects?|accounts?|orgs?"
    r"|organi[sz]ations?|departments?|consumers?|apps?|namespaces?|source ips?|ips?|addresses"
    r"|workflows?|agents?|jobs?|bots?|tiers?|workspaces?|integrations?|scripts?)\b"
)
_LOAD = (
    r"in ?flight|requests?|tokens?|share|seats?|slots?|running|rps|qps|calls|usage|held|holds|kv"
    r"|load|concurren|arrivals?|prompts?|streams|per s"
)
_PAIN = (
    r"ttft|wait|latency|delay|queue|slow|p50|p9\d|timeout|error|rejected|429|503|itl|tpot|e2e|limit"
    r"|quota|max|allowed|budget"
)
_NO_CALLER = r"cache|hit|prefix|worker|replica|server|gpu|device|rank|node|pod|prompt of|model"
_SHARE = r"share|percent|pct|fraction|of all|ratio"
_ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}):\d+ - \"POST ")
_LEAST_LINES = 40
"""Access lines: fewer say nothing about who sends how much."""
_MANY_CALLERS = 3
"""With two, half and half is usual; more than three make the first one's share telling."""


def shares_of(window: Window) -> tuple[Shares, ...]:
    """For each thing that is told by caller, the greatest share first."""
    found = [
        *_tables(window),
        *_written_tables(window),
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
        and re.search(_PAIN, plain(fact.key))
        and re.search(_CALLER + r"|others?|victim|rest|by key", plain(fact.key))
    )


def _tables(window: Window) -> list[Shares]:
    """`requests_by_key: {nightly: 58, web: 3}`."""
    tables: dict[str, list[Fact]] = {}
    for fact in window.facts:
        if fact.part is not None and number_of(fact) is not None:
            tables.setdefault(fact.key.removesuffix(f".{fact.part}"), []).append(fact)
    found = []
    for key, facts in tables.items():
        what = plain(key).replace("waiting", "in flight")
        if re.search(_PAIN, what) or not re.search(_LOAD, what):
            continue
        if re.search(r"worker|replica|rank|node|gpu|pod|server|shard|dp|bucket|stage", plain(key)):
            continue
        members = [(fact.part or "", number_of(fact) or 0.0, fact.raw) for fact in facts]
        shares = _shares(key, members)
        if shares is not None:
            found.append(shares)
    return found


def _written_tables(window: Window) -> list[Shares]:
    """`waiting_by_key: k3 25, k1 1, k5 1` in one text."""
    found = []
    for fact in window.facts:
        key = plain(fact.key)
        if fact.value is not None or fact.part is not None or not re.search(_CALLER, key):
            continue
        pairs = re.findall(r"([\w.@/-]+)[ :=]+(\d[\d,.]*)(?=\s*(?:[,;]|$))", fact.raw)
        if len(pairs) < 2 or re.search(_PAIN.replace("|queue", ""), key.replace("waiting", "")):
            continue
        members = [(name, float(num.replace(",", "")), num) for name, num in pairs]
        shares = _shares(fact.key, members)
        if shares is not None:
            found.append(shares)
    return found


def _told_shares(window: Window) -> list[Shares]:
    """`top_tenant_share: 0.86`."""
    found = []
    for fact in window.facts:
        key, value = plain(fact.key), number_of(fact)
        if value is None or fact.part is not None or not re.search(_SHARE, key):
            continue
        named = re.search(r"\b(top|largest|biggest|single|heaviest|noisiest|busiest)\b", key)
        if not (re.search(_CALLER, key) or named) or re.search(f"{_PAIN}|{_NO_CALLER}", key):
            continue
        share = value / 100 if value > 1 else value
        if 0 < share <= 1:
            found.append(
                Shares(
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
        if who is None or re.search(_PAIN, key) or not re.search(_LOAD, key):
            continue
        shape = key.replace(who, "*", 1)
        groups.setdefault((shape, fact.unit), []).append((who, value, fact.raw))
    found = []
    for (shape, _), members in groups.items():
        shares = _shares(shape, members)
        if shares is not None:
            found.append(shares)
    return found


def _named(key: str) -> str | None:
    """Who stands behind the word for a caller (`tenant a`), or before it (`batch team`)."""
    behind = re.search(_CALLER + r" (\w+)", key)
    who = behind[0].split()[-1] if behind else None
    if who is not None and not re.search(_LOAD, who):
        return who
    before = re.search(rf"(\w+) {_CALLER}", key)
    is_name = before is not None and not re.search(rf"{_LOAD}|{_NO_NAME}", before[1])
    return before[1] if before is not None and is_name else None


_NO_NAME = (
    r"^(per|by|of|the|each|other|others|top|all|num|active|max|from|for|single|busiest|median"
    r"|distinct|largest|api|source|virtual|concurrent|\d+)$"
)


def _parts(window: Window) -> list[Shares]:
    """`in_flight_summarizer: 58` and others like it, which are `in_flight: 62` together."""
    found = [
        _shares(split.what, split.members)
        for split in splits(window, _COUNTED, f"{_PAIN}|{_NO_CALLER}")
        if max(len(name) for name, _, _ in split.members) > _SHORT_NAME
    ]
    return [shares for shares in found if shares is not None]


_SHORT_NAME = 2
"""Characters: `a` and `b` may be anything."""
_COUNTED = (
    r"\b(in ?flight|requests?|tokens|seats|slots|calls|arrivals?|streams|prompts|runs|queries)\b"
)


def _shares(key: str, members: Sequence[tuple[str, float, str]]) -> Shares | None:
    whole = sum(value for _, value, _ in members)
    if len(members) < 2 or whole <= 0:
        return None
    name, most, _ = max(members, key=lambda member: member[1])
    is_share = 0 < whole <= 1.001 and re.search(_SHARE, plain(key))
    share = most if is_share else most / whole
    told = ", ".join(f"{who} {raw}" for who, _, raw in members)
    return Shares(
        says=f"{key}: {told}; {name} has {number(most)} of {number(whole)} ({share * 100:.0f} %)",
        name=name,
        share=share,
        num_callers=len(members),
    )


def _classes(window: Window) -> list[Shares]:
    """`batch_in_flight: 871` beside `interactive_in_flight: 104`, where texts speak of callers."""
    if not any(re.search(_CALLER + r"|\bjobs?\b|\bclass\b", text) for text in texts_of(window)):
        return []
    groups: dict[str, dict[str, tuple[str, float, str]]] = {}
    for fact in window.facts:
        found = re.fullmatch(rf"(\w+) ({_HELD}.*)", plain(fact.key))
        value = number_of(fact)
        if found is None or value is None or fact.part is not None or found[1] in _NO_CLASS:
            continue
        groups.setdefault(found[2], {})[found[1]] = (found[1], value, fact.raw)
    shares = [_shares(what, list(members.values())) for what, members in groups.items()]
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
        and not re.search(_CALLER, plain(fact.key))
        and (value := number_of(fact)) is not None
        and value >= _LEAST_LIMIT
        and fact.unit in (None, Unit.REQUESTS, Unit.COUNT)
    ]
    found = []
    for fact in window.facts:
        key, value = plain(fact.key), number_of(fact)
        named = re.search(rf"{_CALLER} \w+", key) and re.search(
            r"held|holds|has|in flight|run", key
        )
        if value is None or not named or fact.part is not None or re.search(_PAIN, key):
            continue
        for limit, most in limits:
            if value <= most and value >= _MOST_OF_LIMIT * most:
                found.append(
                    Shares(
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
        named = re.search(rf"{_CALLER} \w+", key)
        if not value or not named or fact.part is not None or re.search(_PAIN, key):
            continue
        rest = frozenset(key.replace(named[0], "").split())
        for words, whole, most in wholes:
            if rest and rest == words and 0 < value <= most and whole.unit is fact.unit:
                found.append(
                    Shares(
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
            says=f"{most} of {counts.total()} requests in the access log are from {name}, "
            f"{len(counts)} addresses in all",
            name=name,
            share=most / counts.total(),
            num_callers=len(counts),
        )
    ]
