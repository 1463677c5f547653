"""How often requests are thrown out of the batch, and what that costs."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.told import number_of, plain, told_all, value_of
from dataplane.engine_metrics.signal import Signal, Unit

RECENT_SECONDS = 120.0
"""How far back a rate is taken from where a window is longer: mechanisms change within minutes."""
COSTLY_PER_FINISHED = 0.3
"""Each preemption computes a context once more. At three in ten answers, a sixth of all prefill and
more is done twice where outputs are as long as prompts; reports of thrash have 0.5 to 5, busy ones
without it under 0.1."""
COSTLY_PER_RUNNING_MINUTE = 0.5
"""Where nobody counts answers: every second request of the batch in a minute."""
COSTLY_SHARE = 0.15
"""Of all computed tokens, those that are computed again."""
_THROWN_OUT = r"preempt|retract(ion|ed)|recomput|\bpauses?\b"
_FEWEST = 3
"""One or two preemptions are how an engine corrects its guess; they are no state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempting:
    """Over the newest part of a window."""

    count: float
    seconds: float | None
    says: str
    series: Series | None = None
    per_finished: float | None = None
    per_running_minute: float | None = None
    again_share: float | None = None
    """Estimated: contexts of mean length that are computed again, of all tokens computed."""

    @property
    def per_second(self) -> float | None:
        """None where nobody knows over how long."""
        return None if not self.seconds else self.count / self.seconds

    @property
    def is_measured(self) -> bool:
        """Against what gets done, so that costly or not can be said."""
        return any(
            each is not None
            for each in (self.per_finished, self.per_running_minute, self.again_share)
        )

    @property
    def is_costly(self) -> bool:
        """It takes a good part of the work."""
        if self.count < _FEWEST:
            return False
        if self.per_finished is not None and self.per_finished >= COSTLY_PER_FINISHED:
            return True
        if self.again_share is not None:
            return self.again_share >= COSTLY_SHARE
        return (
            self.per_running_minute is not None
            and self.per_running_minute >= COSTLY_PER_RUNNING_MINUTE
        )

    @property
    def cost(self) -> str:
        """In words, as far as it is known."""
        parts = []
        if self.per_second:
            parts.append(f"{number(round(self.per_second, 2))} a second")
        if self.per_finished is not None:
            parts.append(f"{number(round(self.per_finished, 2))} for each answer")
        if self.per_running_minute is not None:
            parts.append(f"{number(round(self.per_running_minute, 2))} a minute for each running")
        if self.again_share is not None:
            parts.append(f"about {self.again_share * 100:.0f} % of tokens computed again")
        return ", ".join(parts)


def preempting(now: Activity) -> Preempting | None:
    """By a counter, else by lines of a log, else by what was told; None where nobody counts."""
    for find in (_counted, _logged, _told):
        found = find(now)
        if found is not None:
            return found
    return None


def _counted(now: Activity) -> Preempting | None:
    series = now.preemptions
    recent = None if series is None else _recent(series)
    if series is None or recent is None:
        return None
    count = recent.increase or 0.0
    return _measured(now, count, recent.span_seconds, _course(recent), recent)


def _recent(series: Series) -> Series | None:
    """The newest readings over `RECENT_SECONDS`, two at least."""
    if len(series.readings) < 2:
        return None
    start = min(series.last.at - RECENT_SECONDS, series.readings[-2].at)
    return series.between(start, series.last.at)


def _course(series: Series) -> str:
    return (
        f"{series.origin.name} {series.first.raw} -> {series.last.raw} in {series.span_seconds:g} s"
    )


def _logged(now: Activity) -> Preempting | None:
    events = now.window.events_of(LogKind.PREEMPTED, LogKind.RETRACTED)
    if not events:
        return None
    totals = [event.fields["cumulative"] for event in events if "cumulative" in event.fields]
    count = sum(event.fields.get("num", 1.0) for event in events)
    if len(totals) > 1:
        count = max(count, totals[-1] - totals[0])
    elif totals:
        count = max(count, totals[0])
    moments = [event.at for event in events if event.at is not None]
    seconds = moments[-1] - moments[0] if len(moments) > 1 else None
    in_all = f", {number(totals[0])} -> {number(totals[-1])} in all" if len(totals) > 1 else ""
    says = f"{len(events)} such lines, {number(count)} requests{in_all}: "
    says += events[-1].line.strip()[:160]
    return _measured(now, count, seconds, says, None)


def _told(now: Activity) -> Preempting | None:
    facts = [
        fact
        for fact in told_all(now.window, _THROWN_OUT, without=r"token|mode")
        if number_of(fact) is not None
    ]
    if not facts:
        return None
    fact, value = facts[-1], number_of(facts[-1]) or 0.0
    key, says = plain(fact.key), f"{fact.key} {fact.raw}"
    if fact.unit is Unit.PER_SECOND or re.search(r"per s(ec(ond)?)?\b", key):
        return _measured(now, value * 60.0, 60.0, says, None)
    if re.search(r"per min(ute)?\b", key):
        return _measured(now, value, 60.0, says, None)
    if re.search(r"per (request|answer|finished)", key):
        return Preempting(
            count=max(value * 100, value), seconds=None, says=says, per_finished=value
        )
    if last := re.search(r"last (\d+) ?(s|min|m)?\b", key):
        seconds = float(last[1]) * (60.0 if last[2] in ("m", "min") else 1.0)
        return _measured(now, value, seconds, says, None)
    same = [each for each in facts if each.key == fact.key]
    if len(same) > 1 and same[-1].at > same[0].at:
        before = number_of(same[0]) or 0.0
        says = f"{fact.key} {same[0].raw} -> {fact.raw}"
        return _measured(now, value - before, same[-1].at - same[0].at, says, None)
    return _measured(now, value, None, says, None)


def _measured(
    now: Activity, count: float, seconds: float | None, says: str, series: Series | None
) -> Preempting:
    finished = _finished(now, seconds)
    running = None if now.running is None else late(now.running)
    per_running_minute = None
    if running and seconds:
        per_running_minute = count / running / (seconds / 60.0)
    return Preempting(
        count=count,
        seconds=seconds,
        says=says,
        series=series,
        per_finished=count / finished if finished else None,
        per_running_minute=per_running_minute,
        again_share=_again_share(now, count, seconds, running),
    )


def _finished(now: Activity, seconds: float | None) -> float | None:
    if now.finished is not None and seconds is not None:
        start = now.finished.last.at - seconds
        part = now.finished.between(start, now.finished.last.at)
        return None if part is None else part.increase
    if seconds is None:
        return value_of(
            now.window, r"^(requests|finished|completed|answered)( requests)?( total)?$"
        )
    return None


def _again_share(
    now: Activity, count: float, seconds: float | None, running: float | None
) -> float | None:
    """Of a batch whose contexts have mean length; what is shared or still cached is not known, so
    it is an upper estimate."""
    held = _held(now)
    if not seconds or not running or held is None or now.decode is None:
        return None
    context = held / running
    again = count * context / seconds
    done = late(now.decode) + (late(now.prefill) if now.prefill is not None else again)
    return again / done if done > 0 else None


def _held(now: Activity) -> float | None:
    """Tokens in the contexts of the batch: counted, or by the share of the cache."""
    contexts = now.window.find(Signal.CONTEXT_TOKENS)
    if contexts is not None:
        return late(contexts)
    if now.capacity is None or now.kv is None:
        return None
    return now.capacity * late(now.kv)
