"""Tables of who has how much: `requests_by_key: {nightly: 58, web: 3}`, or the same in one text."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.callers.shares import Shares, shares_between
from controlplane.diagnosis.views.told import number_of, plain
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.callers import CALLER, LOAD, PAIN

Member = tuple[str, float, str]
"""Name, value, and the value as written."""


def tables(window: Window) -> Iterator[Shares]:
    """Of what callers have, each table whose parts are callers."""
    waiting = _who_waits(window)
    for key, members in _all_tables(window):
        what = plain(key).replace("waiting", "in flight")
        if re.search(PAIN, what) or not re.search(LOAD, what):
            continue
        if not is_by_caller(key, [name for name, _, _ in members], waiting):
            continue
        shares = shares_between(key, members)
        if shares is not None:
            yield shares


def is_by_caller(key: str, names: list[str], waiting: frozenset[str]) -> bool:
    """The key says so, or says nothing of whose it is and those named have waits of their own:
    status codes, kinds of tokens and models are no callers."""
    if _NO_CALLERS.search(plain(key)):
        return False
    if re.search(CALLER, plain(key)):
        return True
    if all(name.isdigit() for name in names):
        return False  # places in a list
    return not _BY_WHAT.search(plain(key)) and len(waiting & set(names)) > 1


_NO_CALLERS = re.compile(
    r"worker|replica|rank|node|gpu|pod|server|shard|dp|bucket|stage|\b(status|codes?|types?|kinds?"
    r"|models?|layers?|reasons?|engines?|phases?|roles?|adapters?|methods?|endpoints?|paths?)\b"
)
_BY_WHAT = re.compile(r"\b(by|per|of each|for each) (?!(s|min|h|hour|second|minute)\b)\w+")


def _who_waits(window: Window) -> frozenset[str]:
    """Names that have a wait, a delay or refusals of their own."""
    return frozenset(
        fact.part
        for fact in window.facts
        if fact.part is not None
        and re.search(PAIN, plain(fact.key))
        and not _NO_CALLERS.search(plain(fact.key.removesuffix(f".{fact.part}")))
    )


def _all_tables(window: Window) -> Iterator[tuple[str, list[Member]]]:
    found: dict[str, list[Member]] = {}
    for fact in window.facts:
        value = number_of(fact)
        if fact.part is not None and value is not None:
            key = fact.key.removesuffix(f".{fact.part}")
            found.setdefault(key, []).append((fact.part, value, fact.raw))
    yield from found.items()


def written_tables(window: Window) -> Iterator[Shares]:
    """`waiting_by_key: k3 25, k1 1, k5 1` in one text."""
    for fact in window.facts:
        key = plain(fact.key).replace("waiting", "")
        members = written_members(fact)
        is_theirs = re.search(CALLER, key) and not _NO_CALLERS.search(key)
        if not is_theirs or len(members) < 2 or re.search(PAIN.replace("|queue", ""), key):
            continue
        shares = shares_between(fact.key, members)
        if shares is not None:
            yield shares


def written_members(fact: Fact) -> list[Member]:
    """What a text lists: names, each with a number behind it."""
    if fact.value is not None or fact.part is not None:
        return []
    pairs = re.findall(r"([\w.@/-]+)[ :=]+(\d[\d,.]*)(?=\s*(?:[,;]|$))", fact.raw)
    return [(name, float(num.replace(",", "")), num) for name, num in pairs]
