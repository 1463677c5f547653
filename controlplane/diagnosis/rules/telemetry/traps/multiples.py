"""The engine counts something else than was sent or received, by a factor that is known."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.citing import moved, number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.readers import READER, readers
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all
from dataplane.engine_metrics.signal import Signal, Unit

_OF_REQUESTS = (
    r"(^|\b(param|request|sampling) )n$|\bbest of\b|\bbeams?\b|\bchoices\b|\bcopies\b|"
    r"\b(samples|sequences|answers|candidates) (per|of each)\b"
)
"""One request becomes several sequences of one kind."""
_OF_STEPS = r"\b(scheduler|multi|decode|inner) steps?\b|\bsteps per\b"
"""Of several steps at once, one is counted."""
_OF_RANKS = r"\b(tensor|pipeline) parallel|\b[tp]p( size)?$|\branks\b"
"""Ranks of one replica do the same, and each may count it."""
_LEAST = 2
_NEAR = 0.1
"""Two ends of one count are read at different moments."""
_SENT = (
    r"\b(requests?|answers?|completions?)\b.*\b(sent|200|ok|answered|ended|received|done)\b|"
    + (r"\b(sent|answered|completed)\b.*\b(requests?|answers?)\b|^answers? 200$")
)
_TOKENS = (
    r"\btokens?\b.*\b(received|seen|delivered|counted|got|by|at)\b.*|"
    r"\b(client|caller|gateway|user|received|measured|observed)\b.*\btokens?\b"
)
_NOT_OUTSIDE = r"\b(engine|server|limit|max|before|prompt|input|cached|retr\w+|reject\w*|rank)\b"


def counted_by_a_factor(argument: Argument, now: Activity) -> Confidence | None:
    """Twice as many ended as were sent, and each asks for two answers; a tenth of the tokens, and
    one of ten steps is counted."""
    for inside, what, outside, fact, kinds in _pairs(now):
        ratio = max(inside, outside) / min(inside, outside)
        for told in told_all(now.window, kinds):
            factor = number_of(told)
            if told is fact or not factor or factor < _LEAST or abs(ratio / factor - 1) > _NEAR:
                continue
            argument.says(what)
            argument.fact(fact, f"{number(round(ratio, 1))} times apart")
            argument.says(f"{says(told)}: that factor")
            argument.series(now.running)
            argument.series(now.in_flight)
            for retries in told_all(now.window, r"retr(y|ies)"):
                argument.fact(retries)
            argument.against("queue.retry_storm and engine.hung: what was sent is answered, once")
            is_rank = re.search(_OF_RANKS, plain(told.key))
            return Confidence.LIKELY if is_rank else Confidence.CERTAIN
    return None


def _pairs(now: Activity) -> Iterator[tuple[float, str, float, Fact, str]]:
    """The engine's count, how it stands there, what was counted of the same outside, and the
    factors that may lie between them."""
    finished = now.window.find(Signal.FINISHED)
    if finished is not None and finished.increase:
        for fact, value in _outside(now, _SENT):
            is_same_time = fact.over_seconds in (None, finished.span_seconds)
            if is_same_time and finished.increase > value:
                kinds = f"{_OF_REQUESTS}|{_OF_RANKS}"
                yield finished.increase, moved(finished), value, fact, kinds
    rate = now.decode
    if rate is not None and rate.last.value > 0:
        inside, what = rate.last.value, f"{rate.origin.name} {rate.last.raw}"
        is_alone = now.running is not None and now.running.max <= 1
        for fact, value in (*_outside(now, _TOKENS), *_shown(now)):
            is_rate = fact.unit is Unit.TOKENS_PER_SECOND
            if not is_rate and not fact.over_seconds:
                continue
            outside = value if is_rate else value / (fact.over_seconds or 1.0)
            if is_alone or outside > inside:  # one client of several has a part of the tokens
                yield inside, what, outside, fact, f"{_OF_STEPS}|{_OF_RANKS}"


def _shown(now: Activity) -> Iterator[tuple[Fact, float]]:
    """Tokens a second, as a panel has them."""
    for fact in readers(now.window):
        value = number_of(fact)
        if fact.unit is Unit.TOKENS_PER_SECOND and value:
            yield fact, value


def by_a_unit(argument: Argument, now: Activity) -> Confidence | None:
    """Read in seconds what is in milliseconds: exactly a thousand times what others measure."""
    shown = [fact for fact in readers(now.window) if fact.unit is Unit.SECONDS]
    for fact in shown:
        value, subject = number_of(fact), _subject(fact)
        for other in now.window.facts:
            own = number_of(other)
            if other is fact or other.unit is not Unit.SECONDS or not own or not value:
                continue
            if _subject(other) != subject or other.quantile != fact.quantile:
                continue
            ratio = max(value, own) / min(value, own)
            if abs(ratio - _THOUSAND) <= _ROUNDED * _THOUSAND:
                argument.says(f"{says(fact)}, {says(other)}: a thousand times apart, another unit")
                for each in readers(now.window):
                    argument.fact(each)
                for series in (now.waiting, now.running):
                    argument.series(series)
                argument.against("queue.overload: nobody waits so long")
                return Confidence.LIKELY
    return None


_THOUSAND = 1000.0
_ROUNDED = 0.05


def _subject(fact: Fact) -> str:
    """What is measured, whoever does."""
    words = re.sub(rf"\b({READER}|client|user|users|engine|s|ms|mean)\b", " ", plain(fact.key))
    return " ".join(sorted(words.split()))


def _outside(now: Activity, pattern: str) -> Iterator[tuple[Fact, float]]:
    for fact in told_all(now.window, pattern, without=_NOT_OUTSIDE):
        value = number_of(fact)
        is_count = fact.unit not in (Unit.SECONDS, Unit.BYTES, Unit.RATIO)
        if value is not None and value > 0 and is_count:
            yield fact, value
