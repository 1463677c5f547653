"""Figures that add up: `in_flight_summarizer: 58`, `in_flight_coder: 4`, and `in_flight: 62`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.diagnosis.views.told import number_of, plain
from controlplane.diagnosis.window import Window

_NEAR = 0.03
"""Of the whole: parts and whole are read at different moments."""
_REST = ("all others", "others", "other", "rest", "everybody else", "everyone else", "all other")
_NO_NAME = re.compile(
    r"(?:\d+|p\d+|(?:prefill|decode|gateway|engine|server|router|proxy|client|front\w*|worker|replica"
    r"|pod|node|rank|gpu|device|dp|tp|pp|stage|shard|instance|zone|region|model|host|card)\d*"
    r"|running|waiting|queued?|pending|done|failed|finished|completed|ok|rejected|error\w*|aborted"
    r"|success\w*|cached|computed|new|prompt|output|input|generat\w+|total|all|max|min|mean|median"
    r"|now|before|after|yesterday|today|then|last|first|peak|usual|limit|expected|start|end|idle"
    r"|busy|hit\w*|miss\w*|short|long|small|large|big)(?: .*)?"
)
"""Whatever else figures are told apart by."""


@dataclass(frozen=True, slots=True)
class Split:
    """One thing, by who has how much of it."""

    what: str
    members: tuple[tuple[str, float, str], ...]
    """Name, value, and the value as written; the rest of all as one, where it is told so."""


def splits(window: Window, what: str, not_what: str) -> Iterator[Split]:
    """Of things whose words match `what` and not `not_what`: parts that are the whole together, or
    of which one is all the others."""
    numbers = [
        (fact, plain(fact.key), value)
        for fact in window.facts
        if fact.part is None
        and fact.quantile is None
        and (value := number_of(fact)) is not None
        and value >= 0
        and re.search(what, plain(fact.key))
        and not re.search(not_what, plain(fact.key))
    ]
    by_stem: dict[tuple[str, object, float], dict[str, tuple[float, str]]] = {}
    for fact, key, value in numbers:
        for stem, cut in _cuts(_ADDRESS.sub(_dotted, key)):
            name = re.sub(r"^(from|by|of|for) ", "", cut)
            is_name = name in _REST or not _NO_NAME.fullmatch(name)
            if re.search(what, stem) and is_name:
                group = by_stem.setdefault((stem, fact.unit, fact.at), {})
                group[name] = (value, fact.raw)
    for (stem, unit, at), found in by_stem.items():
        if len(found) < 2:
            continue
        whole = [
            value
            for fact, key, value in numbers
            if key == stem and fact.unit is unit and fact.at == at
        ]
        total = sum(value for value, _ in found.values())
        is_whole = any(abs(value - total) <= _NEAR * value for value in whole)
        if is_whole or any(name in _REST for name in found):
            yield Split(stem, tuple((name, *each) for name, each in found.items()))


_ADDRESS = re.compile(r"\b\d{1,3}(?: \d{1,3}){3}\b")


def _dotted(found: re.Match[str]) -> str:
    """An address is one word."""
    return found[0].replace(" ", ".")


def _cuts(key: str) -> Iterator[tuple[str, str]]:
    """A key as what is counted and who has it, who being one to three words before or behind."""
    words = key.split()
    for length in range(1, min(4, len(words))):
        yield " ".join(words[:-length]), " ".join(words[-length:])
        yield " ".join(words[length:]), " ".join(words[:length])
