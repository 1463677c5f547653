"""The moments of one request, which stand in one order whatever the load."""

import itertools
import re
from dataclasses import dataclass
from datetime import datetime

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_ORDER = (
    (r"(sent|send|dispatch\w*|enqueued|forwarded)", r"(received|receive|arriv\w+|accepted)"),
    (
        r"(prefill|encode)( \w+)* (end|ended|done|finish\w*)",
        r"decode( \w+)* (start\w*|begin\w*|receiv\w*|arriv\w*|schedul\w*)",
    ),
    (
        r"(prefill|ctx|context)( \w+)* (first token|end|ended|done|finish\w*)( \w+)*",
        r"(transfer|decode|gen|generation)( \w+)* (start\w*|begin\w*)",
    ),
    (r"(start|started|begin|begun)", r"(end|ended|finish\w*|stop\w*|done)"),
    (r"parent( \w+)* (start\w*)", r"child( \w+)* (start\w*)"),
)
"""What has to come first, and what after it."""
_LIFE = (
    r"client( \w+)* (sent|send|submit\w*|issued)|^(sent|send|submitted|issued|created)\b",
    r"arriv\w*|(server|engine|gateway|router|worker)( \w+)* (received|accepted)"
    r"|^(received|accepted)",
    r"(first )?schedul\w*|picked up|dequeued|prefill (start\w*|begin\w*)",
    r"first (token|chunk|byte)",
    r"last (token|chunk|byte)",
    r"finish\w*|complet\w*|answered|responded",
    r"client( \w+)* (received|got|done)",
)
"""Of a request, in their order; whoever stands between two of them may be left out."""
_HOPS = (
    r"client|user|caller|browser",
    r"gateway|proxy|ingress|edge|front ?end",
    r"router|picker|balancer",
    r"engine|server|backend|api server",
    r"worker|scheduler|core|prefill|ctx",
)
"""A request's way in: the same moment, as each of them notes it."""
_WAY_BACK = r"finish\w*|complet\w*|end(ed)?|last|response|answer\w*|done|out|first token"
_MOMENT = r"\b(at|time|timestamp|ts|stamp|unix|epoch)\b"
_MOMENTS_FROM = 1000.0
"""Seconds since some start of a clock: less is a duration, whatever it is called."""
_NEAR = 0.02
"""Of themselves, so far two moments of one request may be apart; two durations are no moments."""
_SAME = 0.1
"""Of an offset that two requests show: clocks stay apart while queues come and go."""
_MOST_SAID = 4


@dataclass(frozen=True, slots=True)
class Order:
    """What the moments say."""

    is_reversed: bool = False
    is_same_each_time: bool = False
    """At least two requests are off by the same, and another is in order."""


def order_of(argument: Argument, window: Window) -> Order:
    """Whether what comes after stands before, each time that both were told."""
    pairs = _reversed_pairs(argument, window)
    offs, in_order = _life(window)
    offs += _hops(window)
    for early, late, off in offs[:_MOST_SAID]:
        argument.says(f"{says(early)} is {number(round(off, 3))} s after {says(late)}")
    for first, last, apart in in_order[:1] if offs else ():
        argument.says(f"{says(first)}, {says(last)}: in order, {number(round(apart, 3))} s apart")
    by = [off for _, _, off in offs]
    places = {early.at for early, _, _ in offs}
    is_same = len(places) > 1 and max(by) - min(by) <= _SAME * max(by)
    return Order(
        is_reversed=bool(pairs or offs),
        is_same_each_time=is_same and bool(in_order),
    )


def _reversed_pairs(argument: Argument, window: Window) -> int:
    found = 0
    for first, second in _ORDER:
        earlier = _moments(window, first, without=second)
        later = _moments(window, second, without=first)
        for fact, value in earlier:
            for other, after in later:
                if other.at == fact.at and after < value and _is_pair(fact, other):
                    argument.says(f"{says(other)} is before {says(fact)}")
                    found += 1
        if found:
            break
    return found


_Pair = tuple[Fact, Fact, float]


def _life(window: Window) -> tuple[list[_Pair], list[_Pair]]:
    """Of each request the widest pair that is out of order, else the widest that is in order."""
    by_time: dict[float, list[tuple[int, Fact, float]]] = {}
    for fact in window.facts:
        place, moment = _place_in_life(fact), _moment(fact)
        if place is not None and moment is not None:
            by_time.setdefault(fact.at, []).append((place, fact, moment))
    offs, in_order = [], []
    for told in by_time.values():
        told.sort(key=lambda each: each[0])
        pairs = [
            (one, two, after - before)
            for index, (first, one, before) in enumerate(told)
            for second, two, after in told[index + 1 :]
            if first < second and _are_near(before, after)
        ]
        if not pairs:
            continue
        worst = min(pairs, key=lambda pair: pair[2])
        if worst[2] < 0:
            offs.append((worst[0], worst[1], -worst[2]))
        else:
            in_order.append(max(pairs, key=lambda pair: pair[2]))
    return offs, in_order


def _hops(window: Window) -> list[_Pair]:
    """Who noted a request after somebody whom it reaches later."""
    by_stem: dict[tuple[float, str], list[tuple[int, Fact, float]]] = {}
    for fact in window.facts:
        key, moment = plain(fact.key), _moment(fact)
        hop = next((i for i, who in enumerate(_HOPS) if re.search(rf"\b({who})\b", key)), None)
        if moment is None or hop is None or re.search(rf"\b({_WAY_BACK})\b", key):
            continue
        if re.search(_MOMENT, key):
            stem = re.sub(rf"\b({_HOPS[hop]})\b", "*", key)
            by_stem.setdefault((fact.at, stem), []).append((hop, fact, moment))
    return [
        (one, two, before - after)
        for told in by_stem.values()
        for (_, one, before), (_, two, after) in itertools.pairwise(
            sorted(told, key=lambda each: each[0])
        )
        if before > after and _are_near(before, after)
    ]


def _are_near(one: float, two: float) -> bool:
    return abs(one - two) <= _NEAR * max(one, two)


def _place_in_life(fact: Fact) -> int | None:
    key = plain(fact.key)
    if not re.search(_MOMENT, key):
        return None
    found = [place for place, pattern in enumerate(_LIFE) if re.search(rf"\b({pattern})\b", key)]
    return found[-1] if found else None


def _moment(fact: Fact) -> float | None:
    """Of a date, a time of day, or seconds since a clock's start."""
    if fact.value is None:
        return _clock(fact.raw)
    value = number_of(fact)
    is_time = fact.unit in (Unit.SECONDS, Unit.UNIX_SECONDS, None)
    return value if is_time and value is not None and value >= _MOMENTS_FROM else None


def _moments(window: Window, pattern: str, *, without: str) -> list[tuple[Fact, float]]:
    moments = []
    for fact in window.facts:
        key = plain(fact.key)
        if not re.search(rf"\b{pattern}\b", key) or re.search(rf"\b{without}\b", key):
            continue
        value = fact.value if fact.unit in (Unit.SECONDS, Unit.UNIX_SECONDS) else _clock(fact.raw)
        if value is not None:
            moments.append((fact, value))
    return moments


def _clock(raw: str) -> float | None:
    """Seconds of a date or a time of day; None for anything else."""
    text = raw.strip().replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    found = re.fullmatch(r"(\d{1,2}):(\d{2}):(\d{2}(?:[.,]\d+)?)", text)
    if found is None:
        return None
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3].replace(",", "."))


def _is_pair(one: Fact, two: Fact) -> bool:
    """Both are moments, or both are distances from one: `..._end_ms` and `..._start_ms`."""
    moment = (
        r"\b(at|time|timestamp|ts|unix|start\w*|end\w*|sent|send|received|arriv\w*|begin\w*|done"
        r"|finish\w*)\b"
    )
    return bool(re.search(moment, plain(one.key)) and re.search(moment, plain(two.key)))
