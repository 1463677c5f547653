"""The moments of one request, which stand in one order whatever the load."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.clocks.moment import (
    Moment,
    Scale,
    between,
    moment_of,
)
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import plain
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_ORDER = (
    (r"(sent|send|dispatch\w*|enqueued|forwarded)", r"(received|receive|arriv\w+|accepted)"),
    (r"(start|started|begin|begun)", r"(end|ended|finish\w*|stop\w*|done)"),
    (r"parent( \w+)* (start\w*)", r"child( \w+)* (start\w*)"),
)
"""What has to come first, and what after it."""
_PHASES = (
    (
        r"(prefill|encode)( \w+)* (end|ended|done|finish\w*)",
        r"decode( \w+)* (start\w*|begin\w*|receiv\w*|arriv\w*|schedul\w*)",
    ),
    (
        r"(prefill|ctx|context)( \w+)* (first token|last token|end|ended|done|finish\w*)( \w+)*",
        r"(transfer|decode|gen|generation)( \w+)* (start\w*|begin\w*|receiv\w*|arriv\w*)",
    ),
)
"""What follows as a rule: layers are handed over while others are still prefilled, so that one of
these pairs alone is no proof, and neither is a pair of durations."""
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
_NEAR = 0.02
"""Of themselves, so far two moments of one request may be apart; two durations are no moments."""
_SAME = 0.1
"""Of an offset that two requests show: clocks stay apart while queues come and go."""
_MOST_SAID = 4


@dataclass(frozen=True, slots=True)
class Order:
    """What the moments say."""

    reversed: tuple[str, ...] = ()
    """Keys of moments that cannot be in this order, in plain words."""
    is_odd: bool = False
    """Moments or durations that may overlap are in another order than usual."""
    is_same_each_time: bool = False
    """At least two requests are off by the same, and another is in order."""


def order_of(argument: Argument, window: Window) -> Order:
    """Whether what comes after stands before, each time that both were told."""
    pairs = _first_reversed(_ORDER, _moments(window))
    overlaps = _first_reversed(_PHASES, _seconds(window))
    pairs += overlaps if _is_as_much_each_time(overlaps) else []
    for early, late, _ in (*pairs, *overlaps):
        argument.says(f"{says(late)} is before {says(early)}")
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
        reversed=tuple(plain(each.key) for pair in (*pairs, *offs) for each in pair[:2]),
        is_odd=bool(overlaps),
        is_same_each_time=is_same and bool(in_order),
    )


_Pair = tuple[Fact, Fact, float]
"""What should be first, what should follow, and by how many seconds it comes before."""
_Told = Sequence[tuple[Fact, Moment]]


def _first_reversed(order: Sequence[tuple[str, str]], told: _Told) -> list[_Pair]:
    """Of the first two that stand the other way round, each time that both were told."""
    for first, second in order:
        earlier = [each for each in told if _is_of(each[0], first, second)]
        later = [each for each in told if _is_of(each[0], second, first)]
        found = [
            (fact, other, -apart)
            for fact, before in earlier
            for other, after in later
            if other.at == fact.at
            and (apart := between(before, after)) is not None
            and apart < 0
            and _is_pair(fact, other)
        ]
        if found:
            return found
    return []


def _is_of(fact: Fact, pattern: str, without: str) -> bool:
    key = plain(fact.key)
    return bool(re.search(rf"\b{pattern}\b", key) and not re.search(rf"\b{without}\b", key))


def _is_as_much_each_time(pairs: Sequence[_Pair]) -> bool:
    """Of several requests: what overlaps is as long as its work, clocks are apart by the same."""
    by = [off for _, _, off in pairs]
    return len({fact.at for fact, _, _ in pairs}) > 1 and max(by) - min(by) <= _SAME * max(by)


def _life(window: Window) -> tuple[list[_Pair], list[_Pair]]:
    """Of each request the widest pair that is out of order, else the widest that is in order."""
    by_time: dict[float, list[tuple[int, Fact, Moment]]] = {}
    for fact in window.facts:
        place, moment = _place_in_life(fact), moment_of(fact)
        if place is not None and moment is not None:
            by_time.setdefault(fact.at, []).append((place, fact, moment))
    offs, in_order = [], []
    for told in by_time.values():
        told.sort(key=lambda each: each[0])
        pairs = [
            (one, two, apart)
            for index, (first, one, before) in enumerate(told)
            for second, two, after in told[index + 1 :]
            if first < second and (apart := _near(before, after)) is not None
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
    by_stem: dict[tuple[float, str], list[tuple[int, Fact, Moment]]] = {}
    for fact in window.facts:
        key, moment = plain(fact.key), moment_of(fact)
        hop = next((i for i, who in enumerate(_HOPS) if re.search(rf"\b({who})\b", key)), None)
        if moment is None or hop is None or re.search(rf"\b({_WAY_BACK})\b", key):
            continue
        if re.search(_MOMENT, key):
            stem = re.sub(rf"\b({_HOPS[hop]})\b", "*", key)
            by_stem.setdefault((fact.at, stem), []).append((hop, fact, moment))
    return [
        (one, two, -apart)
        for told in by_stem.values()
        for (_, one, before), (_, two, after) in itertools.pairwise(
            sorted(told, key=lambda each: each[0])
        )
        if (apart := _near(before, after)) is not None and apart < 0
    ]


def _near(one: Moment, two: Moment) -> float | None:
    """Seconds from one to the other, where both may be of one request."""
    apart = between(one, two)
    far = _NEAR * max(one.seconds, two.seconds)
    return apart if apart is not None and abs(apart) <= far else None


def _place_in_life(fact: Fact) -> int | None:
    key = plain(fact.key)
    if not re.search(_MOMENT, key):
        return None
    found = [place for place, pattern in enumerate(_LIFE) if re.search(rf"\b({pattern})\b", key)]
    return found[-1] if found else None


def _moments(window: Window) -> _Told:
    return [(fact, each) for fact in window.facts if (each := moment_of(fact)) is not None]


def _seconds(window: Window) -> _Told:
    """Moments, and what may be a duration as well."""
    durations = [
        (fact, Moment(Scale.STEADY, fact.value))
        for fact in window.facts
        if fact.value is not None and fact.unit in (Unit.SECONDS, Unit.UNIX_SECONDS)
    ]
    plain_numbers = [
        each for each in _moments(window) if each[0].unit is None and _says_when(each[0])
    ]
    return [*durations, *plain_numbers]


def _says_when(fact: Fact) -> bool:
    """A date, or a number under a key that says that it is a moment."""
    return fact.value is None or re.search(_MOMENT, plain(fact.key)) is not None


def _is_pair(one: Fact, two: Fact) -> bool:
    """Both are moments, or both are distances from one: `..._end_ms` and `..._start_ms`."""
    moment = (
        r"\b(at|time|timestamp|ts|unix|start\w*|end\w*|sent|send|received|arriv\w*|begin\w*|done"
        r"|finish\w*)\b"
    )
    return bool(re.search(moment, plain(one.key)) and re.search(moment, plain(two.key)))
