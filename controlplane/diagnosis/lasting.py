"""From when to when a finding was to be seen, and how it stands since.

A log of a day may hold a failure of its first hour and ten hours of an engine that serves: both are
to be told. Asked is the rule itself: the earliest end, and the latest beginning, of a stretch in
which it still sees its mechanism. Each is searched by halves among the moments at which something
was read or written.
"""

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import replace

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis, Finding, Lasted
from controlplane.diagnosis.failed_replica import fails_within, of_failed
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.recovery import serving_since
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.stretch import stretch_of
from controlplane.diagnosis.window import Window

_LONG_SECONDS = 900.0
"""Last minutes of shorter windows are not looked at alone: rules are made for some minutes."""
_CALM_SECONDS = 300.0
"""It must not be seen for so long, to the end, to be called over."""
_LATELY_SECONDS = 180.0
_MIN_READINGS_LATELY = 6
_MIN_READINGS = 60
"""In a course of so many the last minutes hide."""
_NO_TROUBLE = (Mechanism.HEALTHY, Mechanism.QUEUE_BURST_DRAINING, Mechanism.CANNOT_TELL)


def diagnose_course(window: Window, rules: Sequence[Rule]) -> Diagnosis:
    """As `diagnose`, of a window of any length: a day that was well does not outweigh what is wrong
    in its last minutes, and of what is found it is told from when to when."""
    found = diagnose(window, rules)
    if found.mechanism in _NO_TROUBLE and _is_long_course(window):
        found = _of_last_minutes(window, rules) or found
    if not found.findings or found.mechanism is Mechanism.HEALTHY:
        return found
    return _without_past_wave(
        replace(found, lasted=_lasted(window, found.findings[0], rules)), rules
    )


def _without_past_wave(found: Diagnosis, rules: Sequence[Rule]) -> Diagnosis:
    """Of a queue that drained long before the end nothing is to be done: the answer is what came
    after it, and the wave is told beside."""
    lasted = found.lasted
    if found.mechanism is not Mechanism.QUEUE_BURST_DRAINING or lasted is None:
        return found
    after = _after(found.window, lasted.seen_until)
    if after is None:
        return found
    since = diagnose(after, rules)
    wave = found.findings[0]
    others = [each for each in since.possible if each.mechanism is not wave.mechanism]
    return replace(since, window=found.window, possible=(*others, wave))


def _is_long(window: Window) -> bool:
    return window.end - window.start >= _LONG_SECONDS


def _is_long_course(window: Window) -> bool:
    return _is_long(window) and any(
        len(series.readings) >= _MIN_READINGS for series in window.series
    )


def _of_last_minutes(window: Window, rules: Sequence[Rule]) -> Diagnosis | None:
    """None where nothing speaks for a trouble in them. What is only possible now takes back that
    all is well, too. Since when is looked up in all of `window`."""
    last = stretch_of(window, window.end - _LATELY_SECONDS, window.end)
    if not any(len(series.readings) >= _MIN_READINGS_LATELY for series in last.series):
        return None
    found = diagnose(last, rules)
    is_well = found.mechanism in _NO_TROUBLE and not (
        found.mechanism is Mechanism.CANNOT_TELL and found.possible
    )
    return None if is_well else replace(found, window=window)


def _lasted(window: Window, finding: Finding, rules: Sequence[Rule]) -> Lasted | None:
    """None where the moments of what it saw are not known."""
    moments = _moments(window)
    first, last = _first_seen(window, finding, moments), _last_seen(window, finding, moments)
    if first is None or last is None:
        return None
    until = _completed(window, finding, moments, last)
    is_moment = first == until and fails_within(window, first, first)
    own = of_failed(window, last, until)
    lasted = Lasted(
        seen_from=first if is_moment else min(first, last),
        seen_until=None,
        is_moment=is_moment,
        sure_from=_first_seen(window, finding, moments, finding.confidence),
        serving_since=None if own is None else serving_since(own, until),
    )
    is_failure = fails_within(window, last, until)
    return _with_end(lasted, own if is_failure else window, until, rules)


def _with_end(lasted: Lasted, window: Window | None, until: float, rules: Sequence[Rule]) -> Lasted:
    """With how it stands since, where it was calm for long. Of a failure `window` is of the replica
    that failed: how others stand does not end it."""
    if window is None or window.end - until < _CALM_SECONDS:
        return lasted
    after = _after(window, until)
    since = None if after is None else diagnose(after, rules)
    return replace(
        lasted,
        seen_until=until,
        now=None if since is None else since.mechanism,
        now_confidence=None if since is None else since.confidence,
    )


def _after(window: Window, last: float | None) -> Window | None:
    """What was seen after `last`; None where nothing was, or that is not known."""
    if last is None:
        return None
    moments = _moments(window)
    after = moments[bisect.bisect_right(moments, last) :]
    return stretch_of(window, after[0], window.end) if after else None


def _moments(window: Window) -> list[float]:
    read = (reading.at for series in window.series for reading in series.readings)
    counted = (reading.at for each in window.histograms for reading in each.readings)
    written = (event.at for event in window.events if event.at is not None)
    told = (fact.at for fact in window.facts)
    return sorted(set(itertools.chain(read, counted, written, told)))


def _first_seen(
    window: Window,
    finding: Finding,
    moments: Sequence[float],
    least: Confidence = Confidence.POSSIBLE,
) -> float | None:
    """The earliest end of a stretch from the beginning on in which it is seen, `least` so sure."""
    place = bisect.bisect_left(
        moments,
        True,
        key=lambda at: _is_seen(stretch_of(window, window.start, at), finding, least),
    )
    return moments[place] if place < len(moments) else None


def _last_seen(window: Window, finding: Finding, moments: Sequence[float]) -> float | None:
    """The latest beginning of a stretch to the end in which it is seen."""
    place = bisect.bisect_left(
        moments,
        True,
        key=lambda at: not _is_seen(stretch_of(window, at, window.end), finding),
    )
    return moments[place - 1] if place else None


def _completed(window: Window, finding: Finding, moments: Sequence[float], start: float) -> float:
    """The earliest end of a stretch from `start`, the latest beginning, in which it is seen: what
    it was when it was seen last may take its time, and a failure what stood just before it."""
    rest = moments[bisect.bisect_left(moments, start) :]
    place = bisect.bisect_left(
        rest, True, key=lambda at: _is_seen(stretch_of(window, start, at), finding)
    )
    return rest[place] if place < len(rest) else window.end


def _is_seen(part: Window, finding: Finding, least: Confidence = Confidence.POSSIBLE) -> bool:
    verdict = finding.rule.judge(part)
    return verdict is not None and verdict.confidence >= least
