"""How tokens leave the server, against how they were made: frames of a stream, their pace, what is
left over when the last one is made."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import Contrast, contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_FRAMES = r"\b(sse|frames?|chunks?|events?|deltas?|messages?|packets?|flush\w*|writes?)\b"
_SENT = rf"{_FRAMES}|\b(sent|streamed|flushed|written)\b"
_MADE = (
    r"\b(generat\w+|produced|made|engine|decode|model|backend)\b.*\b(tokens?|tok)\b"
    r"|\b(tokens?|tok)\b.*\b(generated|produced|made|engine|decode)\b"
)
_NOT_PACE = (
    r"prompt|prefill|limit|max|before|yesterday|expected|usual|read|client|received|requests"
)
_HALF = 0.5
_LEFT = (
    rf"(?=.*({_FRAMES}|\btokens?\b))(?=.*\b(burst|at once|at (the )?(very )?end|after (the )?"
    r"(generation|engine|last|end)|left over|still to send|leftover|trailing|final)\b)"
)
_GAPS = r"(frame|chunk|event|delta|sse|write|flush)s? (interval|gap|spacing|delay|time)"
_EVEN = 1.1
"""Between the tenth and the ninetieth percentile: a wait of a fixed length, and no work."""
_SLOWER = 2.0
_HEALTH = (
    r"\b(health|healthz|livez|readyz|ping|version|metrics|models)\b.*\b(s|ms|time|latency|took)\b"
)
_LATE_SECONDS = 1.0
"""For an answer that needs no engine."""


def sends_less(argument: Argument, window: Window) -> bool:
    """Fewer tokens leave than are made, as long as they are made."""
    made = _made(window)
    sent = [
        fact
        for fact in told_all(window, _SENT, without=_NOT_PACE + r"|\b(engine|generat\w+)\b")
        if fact.unit in (Unit.PER_SECOND, Unit.TOKENS_PER_SECOND) and (number_of(fact) or 0) > 0
    ]
    if made is None or not sent or not _is_one_token_each(window):
        return False
    pace, said = made
    slow = [fact for fact in sent if (number_of(fact) or 0.0) <= _HALF * pace]
    for fact in slow[:2]:
        argument.says(f"{said}, {says(fact)}: made faster than it gets out")
    return bool(slow)


def _made(window: Window) -> tuple[float, str] | None:
    """Tokens a second, and in words."""
    for fact in told_all(window, _MADE, without=_NOT_PACE + rf"|{_FRAMES}|\b(client|user)\b"):
        value = number_of(fact)
        if fact.unit is Unit.TOKENS_PER_SECOND and value:
            return value, says(fact)
    for event in window.events_of(LogKind.GENERATED)[-1:]:
        seconds, tokens = event.fields.get("seconds"), event.fields.get("tokens")
        if seconds and tokens:
            return tokens / seconds, event.line.strip()[:160]
    decode = activity_of(window).decode
    if decode is not None and late(decode) > 0:
        return late(decode), f"{decode.origin.name} {decode.last.raw}"
    return None


def _is_one_token_each(window: Window) -> bool:
    """Nobody says that a frame holds several."""
    several = told_all(window, rf"tokens? (per|in|an|each) .*{_FRAMES}|stream interval")
    return not any((number_of(fact) or 0.0) > 1 for fact in several)


def leaves_at_the_end(argument: Argument, window: Window) -> bool:
    """Most of a stream gets out in one go, when the engine has long finished."""
    left = [
        (fact, value)
        for fact in told_all(window, _LEFT, without=r"second|per|limit|max")
        if (value := number_of(fact)) and fact.unit in (None, Unit.TOKENS, Unit.COUNT, Unit.RATIO)
    ]
    rest = [
        value
        for fact in told_all(window, rf"{_FRAMES}.*\b(before|during|while|until)\b")
        if (value := number_of(fact)) is not None
    ]
    for fact, value in left:
        is_share = fact.unit is Unit.RATIO
        if value > (_HALF if is_share else max(rest, default=value - 1)):
            argument.fact(fact, "made, and sent when the engine is done")
            return True
    return False


def by_a_timer(argument: Argument, window: Window) -> bool:
    """As long between any two frames, however fast tokens come: something waits in between."""
    gaps = [
        (fact, value)
        for fact in told_all(window, _GAPS)
        if (value := number_of(fact)) and fact.unit is Unit.SECONDS and fact.quantile is not None
    ]
    made = _made(window)
    low, high = _ends(gaps)
    if low is None or high is None or made is None:
        return False
    if high[1] > _EVEN * low[1] or low[1] < _SLOWER / made[0]:
        return False
    argument.says(f"{says(low[0])}, {says(high[0])}: as long each time, whatever is sent")
    return True


_Gap = tuple[Fact, float]


def _ends(gaps: list[_Gap]) -> tuple[_Gap | None, _Gap | None]:
    """The least and the greatest of their percentiles, where a low and a high one were told."""
    if not gaps:
        return None, None
    low = min(gaps, key=lambda gap: gap[0].quantile or 0.0)
    high = max(gaps, key=lambda gap: gap[0].quantile or 0.0)
    return (low, high) if low[0] is not high[0] else (None, None)


def late_without_engine(argument: Argument, window: Window) -> bool:
    """Answers that ask no engine for anything come late as well: their common server is busy."""
    found = False
    for fact in told_all(window, _HEALTH, without=r"timeout|interval|period|limit|age|scrape|per"):
        value = number_of(fact)
        is_named = re.match(r"(get )?(health|healthz|livez|ping|version|models)\b", plain(fact.key))
        if is_named and fact.unit is Unit.SECONDS and value is not None and value >= _LATE_SECONDS:
            argument.fact(fact, "and it asks no engine")
            found = True
    return found


def all_at_once(argument: Argument, window: Window) -> bool:
    """The first piece reaches the client about when the whole answer does, and the engine had its
    first token long before: something gathers the stream."""
    made = _least(_seconds(window, _FIRST, who=_INNER))
    came = _least(_seconds(window, _FIRST, who=_OUTER))
    whole = _least(_seconds(window, _WHOLE, who=_OUTER))
    histogram = window.find_histogram(Signal.TTFT)
    mean = None if histogram is None else histogram.mean
    inner = mean if made is None else made[1]
    if came is None or whole is None or not inner:
        return False
    if came[1] < _NEARLY * whole[1] or came[1] < _MUCH_LATER * inner:
        return False
    at_engine = says(made[0]) if made is not None else f"{number(inner)} s at the engine"
    argument.says(f"{says(came[0])}, {says(whole[0])}: the first with the last; {at_engine}")
    return True


def comes_in_lumps(argument: Argument, window: Window) -> bool:
    """Behind what stands before the engine the first token is late and the others come faster than
    they are made, which none can: something holds tokens back and lets them go together."""
    inner, outer = rf"\b({_INNER})\b", rf"\b({_OUTER})\b"
    found = []
    for what, is_seen in ((_FIRST, _is_late), (_BETWEEN, _is_too_fast)):
        pairs = [
            each
            for each in contrasts(window, rf"\b({what})\b", base=inner, other=outer)
            if re.search(inner, plain(each.base.key))
            and re.search(outer, plain(each.other.key))
            and each.base.unit is Unit.SECONDS
            and is_seen(each)
        ]
        found += pairs[:1]
    if len(found) < _BOTH:
        return False
    argument.says(f"{found[0].says}: the first is held back")
    argument.says(f"{found[1].says}: faster than they are made, so they come in lumps")
    return True


def _is_late(first: Contrast) -> bool:
    return first.factor >= _SLOWER and first.value - first.base_value >= _HELD_SECONDS


def _is_too_fast(gap: Contrast) -> bool:
    return 0 < gap.factor <= _TOO_FAST


_BETWEEN = r"itl|tpot|inter token|per token|(token|chunk) gap"
_BOTH = 2
_HELD_SECONDS = 0.05
"""Longer than any hop takes."""
_TOO_FAST = 0.7
"""Of the time between tokens at the engine: two who count alike differ by less."""


def _seconds(window: Window, what: str, *, who: str) -> list[tuple[Fact, float]]:
    return [
        (fact, value)
        for fact in told_all(window, rf"(?=.*\b({what})\b)(?=.*\b({who})\b)")
        if fact.unit is Unit.SECONDS and (value := number_of(fact))
    ]


def _least(timed: list[tuple[Fact, float]]) -> tuple[Fact, float] | None:
    return min(timed, key=lambda each: each[1], default=None)


_FIRST = r"ttft|first (token|chunk|byte|frame|event|piece)"
_WHOLE = r"e2e|total|last (token|chunk|byte|frame|event)|whole|complete\w*|duration|end"
_INNER = (
    r"engine|server|backend|direct\w*|pod|localhost|loopback|upstream|vllm|sglang|inside|internal"
    r"|cluster"
)
_OUTER = (
    r"client|user|browser|edge|proxy|ingress|gateway|through|via|curl|outside|external|nginx|envoy"
    r"|traefik|haproxy|caddy|balancer|lb|cdn|public"
)
_NEARLY = 0.9
_MUCH_LATER = 3.0
