"""How a client takes what was made for it: in one go with pauses, or when all is long made."""

import re

from controlplane.diagnosis.citing import says, seconds
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, numbers_in, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_READER = r"\b(clients?|consumers?|readers?|subscribers?|peers?|receivers?|browsers?|callers?)\b"
_RESTS = rf"{_READER}.*\b(sleep\w*|paus\w*)\b|\b(sleep\w*|paus\w*)\b.*{_READER}"
_NOT_ITS = r"limit|max allowed|timeout|heartbeat|retry|backoff|between requests|before"
_WINDOW = r"\b(receive|recv|rcv|advertised|peer) (buffer )?window\b|\brwnd\b"
_GAPS = (
    r"(?=.*\b(gaps?|pauses?|silences?|stalls?)\b)"
    r"(?=.*\b(by|per|each|of) (each )?(stream|client|reader|connection|user)s?\b)"
)
_LEAST_GAP = 1.0
"""Seconds: shorter ones are of networks."""
_APART = 5.0
"""Times the middle one."""
_FEWEST = 3
_LAST = r"\b(last|final|end of)( \w+)? ?(token|byte|chunk|frame|event|answer|stream)\b"
_INSIDE = r"\b(engine|server|backend|upstream|worker|core|model|made|generated|produced)\b"
_OUTSIDE = r"\b(client|user|browser|reader|consumer|caller|received|read|delivered|edge|outside)\b"
_LATER = 1.5


def rests_between_reads(argument: Argument, window: Window) -> bool:
    """It is known to pause, or the window that it gives its server is closed."""
    found = False
    for fact in told_all(window, _RESTS, without=_NOT_ITS):
        if (number_of(fact) or 0.0) > 0:
            argument.fact(fact, "the client rests")
            found = True
    for fact in told_all(window, _WINDOW):
        if number_of(fact) == 0:
            argument.fact(fact, "the client takes nothing")
            found = True
    return found


def gap_of_one(argument: Argument, window: Window) -> bool:
    """One stream of several has gaps that the engine never made: all its gaps are counted, and none
    is as long."""
    longest = _longest_made(window)
    if longest is None:
        return False
    for fact in told_all(window, _GAPS):
        values = numbers_in(fact.raw) if fact.value is None else ()
        if len(values) < _FEWEST or re.search(r"\bms\b", plain(fact.key)):
            continue
        most, middle = max(values), sorted(values)[len(values) // 2]
        if most >= max(_LEAST_GAP, _APART * middle) and longest < most / 2:
            argument.fact(fact, f"one stands apart, and the engine makes none over {longest:g} s")
            return True
    return False


def _longest_made(window: Window) -> float | None:
    """Seconds: no gap between tokens was longer at the engine."""
    histogram = window.find_histogram(Signal.ITL)
    if histogram is None or not histogram.observed.count:
        return None
    observed = histogram.observed
    within = zip(observed.bounds, observed.counts, strict=True)
    longest = next(bound for bound, count in within if count >= observed.count)
    return longest if longest != float("inf") else None


def ends_later(argument: Argument, window: Window) -> bool:
    """The last token was made long before the client had its last byte."""
    told = [fact for fact in told_all(window, _LAST) if fact.unit is Unit.SECONDS and fact.value]
    made = _latest([fact for fact in told if re.search(_INSIDE, plain(fact.key))])
    read = _latest([fact for fact in told if re.search(_OUTSIDE, plain(fact.key))])
    if made is None or read is None or made is read or not made.value or not read.value:
        return False
    if read.value < max(_LATER * made.value, made.value + _LEAST_GAP):
        return False
    argument.says(f"{says(made)}, {says(read)}: {seconds(read.value - made.value)} s later")
    return True


def shown_later(argument: Argument, window: Window) -> bool:
    """The last byte had left long before the user saw it: what shows the answer is behind."""
    told = [fact for fact in window.facts if fact.unit is Unit.SECONDS and fact.value]
    seen = _latest([fact for fact in told if _is_shown(plain(fact.key))])
    left = _latest(
        [
            fact
            for fact in told
            if re.search(_LEFT, plain(fact.key)) and not re.search(_NO_END, plain(fact.key))
        ]
    )
    if seen is None or left is None or not seen.value or not left.value:
        return False
    if seen.value < max(_LATER * left.value, left.value + _LEAST_GAP):
        return False
    later = seconds(seen.value - left.value)
    argument.says(f"{says(left)}, {says(seen)}: shown {later} s after it was there")
    return True


def _is_shown(key: str) -> bool:
    """Of the end of it: of a first token, of a part or of a timeout nothing follows."""
    return re.search(_SHOWN, key) is not None and re.search(_NOT_THE_END, key) is None


_SHOWN = (
    r"\b(saw|shown|shows?|visible|render\w*|draw\w*|drawn|paint\w*|display\w*|on screen)\b"
    r"|\b(user|reader|screen|page|tab|browser|ui)\b.*\b(seen|sees|see)\b"
)
_NO_END = (
    r"\b(first|gap|interval|per|timeout|limit|idle|every|each|saw|shown|visible)\b"
    r"|\b(render|draw|paint|display)"
)
_NOT_THE_END = (
    r"\b(first|ttft|gap|interval|per|timeout|limit|frame|budget|every|each|before|idle)\b"
    r"|\b(templates?|prompts?|images?|media|video|preprocess\w*|server|engine|front\w*)\b"
)
"""Of a part of it, or of a prompt that is rendered before anything is computed."""
_LEFT = (
    rf"{_LAST}|(?=.*\b(response|answer|streams?|sse|body|transfer|download|bytes|data|connection"
    r"|completion|http|network)\b)(?=.*\b(complete\w*|end|ends|ended|done|finish\w*|received"
    r"|closed|arrived|delivered)\b)"
)


def _latest(facts: list[Fact]) -> Fact | None:
    return max(facts, key=lambda fact: fact.value or 0.0, default=None)
