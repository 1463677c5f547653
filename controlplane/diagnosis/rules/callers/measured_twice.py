"""One server, measured by two: by itself and a client, or by two clients."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.callers.client_limits import GENERATOR
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.means import reckoned
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    says_no,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_FACTOR = 2.0
"""Between what two clients measure at one server, or between client and server: beyond what a
network adds."""
_LAG_SECONDS = 0.05
"""Of an event loop that is to read tokens every 20 ms or so."""


def disagree(argument: Argument, now: Activity) -> int:
    """The server's own time to a first token is far below what the client reports."""
    histogram = now.window.find_histogram(Signal.TTFT)
    mean = None if histogram is None else histogram.mean
    engine = told_number(now.window, r"(engine|server|vllm|sglang)\b.*ttft|ttft.*(engine|server)")
    if mean is None:
        mean = number_of(engine)
    reported = [
        (fact, value)
        for fact in told_all(
            now.window,
            rf"\b({GENERATOR}|reported|observed|seen|curl)\b.*ttft|ttft.*\b({GENERATOR})\b",
            without=r"server|engine|gateway",
        )
        if (value := number_of(fact)) is not None
    ]
    worst = max(reported, key=lambda pair: pair[1], default=None)
    if mean is None or worst is None or mean <= 0:
        return 0
    far = worst[1] - _on_the_way(now.window)
    if far < _FACTOR * mean or far - mean < _BEYOND_SECONDS:
        return 0
    for fact, _ in reported:
        argument.fact(fact)
    if histogram is not None and histogram.mean is not None:
        sentence = f"{histogram.origin.name}: mean {number(mean)} s, {reckoned(histogram)} requests"
        argument.histogram(histogram, mean, sentence)
    else:
        argument.fact(engine)
    argument.says(f"the client reports {number(worst[1] / mean)} times what the server measured")
    return 1


_BEYOND_SECONDS = 0.5
"""Connections, handshakes and a network take tenths of a second, also far away."""


def _on_the_way(window: Window) -> float:
    """A round trip between client and server, in seconds, as far as it was told; a new connection
    takes three of them."""
    trip = told_number(window, r"\b(rtt|round trip|ping|network (latency|delay))\b")
    seconds = number_of(trip)
    return 0.0 if trip is None or not seconds or trip.unit is not Unit.SECONDS else 3 * seconds


_OTHER_CLIENT = (
    r"same (test|load|server|run|prompts)|"
    r"(second|two|other|another) (client|generator|tool|process)(e?s)?|"
    r"(from|with|by|in|on) (\w+ )?(clients|generators|client (processes|machines|threads))"
)


def another_client(argument: Argument, window: Window) -> bool:
    """The same server gives much more to another client."""
    same = told_all(window, _OTHER_CLIENT)
    for fact in same:
        argument.fact(fact)
    pairs = _by_tool(window)
    for one, two in pairs:
        argument.says(f"{says(one)}, {says(two)}: at the same server")
    return bool(pairs) or any(_is_better(window, fact) for fact in same)


def is_same_run(argument: Argument, window: Window) -> bool:
    """Somebody says that both sent the same to the same server."""
    same = [
        fact
        for fact in told_all(
            window, r"\bsame( \w+)? (server|prompts|run|load|settings|config\w*|data\w*|endpoint)"
        )
        if not says_no(fact)
    ]
    for fact in same:
        argument.fact(fact)
    return bool(same)


def _by_tool(window: Window) -> list[tuple[Fact, Fact]]:
    """`bench_a_tokens_per_s` beside `bench_b_tokens_per_s`, far apart."""
    shapes: dict[str, list[Fact]] = {}
    for fact in told_all(window, rf"\b({GENERATOR})\b.*(tok|ttft|rps|throughput|per s|requests)"):
        value = number_of(fact)
        if value is not None and value > 0 and fact.unit in _MEASURES:
            shape = re.sub(rf"\b({GENERATOR}) (\w+) ", r"* ", plain(fact.key), count=1)
            shapes.setdefault(shape, []).append(fact)
    found = []
    for facts in shapes.values():
        values = sorted(facts, key=lambda fact: number_of(fact) or 0.0)
        least, most = values[0], values[-1]
        low, high = number_of(least) or 0.0, number_of(most) or 0.0
        if least.key != most.key and high >= _FACTOR * low:
            found.append((most, least))
    return found


_MEASURES = (Unit.PER_SECOND, Unit.TOKENS_PER_SECOND, Unit.SECONDS)
"""A count of requests is how much a client was to send."""


def _is_better(window: Window, fact: Fact) -> bool:
    """The other client gets far more than this one, or gets it far sooner."""
    other = number_of(fact)
    measured = set(re.sub(_OTHER_CLIENT, " ", plain(fact.key)).split()) - _FILLERS
    if other is None or not measured:
        return False
    for own in window.facts:
        value = number_of(own)
        is_alike = own.unit is fact.unit and measured <= set(plain(own.key).split())
        if own is fact or value is None or not is_alike or re.search(_OTHER_CLIENT, plain(own.key)):
            continue
        more, less = (value, other) if fact.unit is Unit.SECONDS else (other, value)
        if more >= _FACTOR * less > 0:
            return True
    return False


_FILLERS = frozenset({"with", "by", "on", "in", "of", "the", "for"})


def sides_with(argument: Argument, now: Activity) -> int:
    """Of two clients one measures what the server does, and the other far more: it adds that
    itself."""
    histogram = now.window.find_histogram(Signal.TTFT)
    mean = None if histogram is None else histogram.mean
    engine = told_number(
        now.window, r"(engine|server|gateway|prometheus)\b.*ttft|ttft.*(engine|server|gateway)"
    )
    truth = number_of(engine) if mean is None else mean
    if not truth:
        return 0
    near, far = _near_and_far(now.window, truth)
    if not near or not far:
        return 0
    if histogram is not None and mean is not None:
        sentence = f"{histogram.origin.name}: mean {number(mean)} s, {reckoned(histogram)}"
        argument.histogram(histogram, mean, sentence)
    else:
        argument.fact(engine)
    argument.fact(near[0], "as the server says")
    for fact, more in far:
        argument.fact(fact, f"{number(round(more, 3))} s more, of its own")
    return 1


def _near_and_far(window: Window, truth: float) -> tuple[list[Fact], list[tuple[Fact, float]]]:
    """Clients that agree with the server's TTFT in seconds, and generators that measure clearly
    more, with how much that is."""
    clients = [
        (fact, value)
        for fact in told_all(window, r"ttft", without=_NOT_A_CLIENT)
        if fact.unit is Unit.SECONDS and (value := number_of(fact)) and fact.quantile in (None, 0.5)
    ]
    near = [
        fact
        for fact, value in clients
        if abs(value - truth) <= _AGREES * truth
        and re.search(rf"\b({GENERATOR}|{_PLAIN})\b", plain(fact.key))
    ]
    far = [
        (fact, value - truth)
        for fact, value in clients
        if value >= _CLEARLY * truth
        and value - truth >= _ADDED_SECONDS
        and re.search(rf"\b({GENERATOR})\b", plain(fact.key))
    ]
    return near, far


_NOT_A_CLIENT = r"engine|server|gateway|prometheus|minus|diff|objective|limit|before|p9\d|max|slo"
_PLAIN = r"curl|plain|simple|raw|direct|manual|single|own|python|openai|sdk"
_AGREES = 0.15
_CLEARLY = 1.3
_ADDED_SECONDS = 0.05
"""Less is a network."""
