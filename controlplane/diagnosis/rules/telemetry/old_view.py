"""Whoever routes or alerts looks at values from long ago, or takes fresh ones for old."""

import re

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.standing import cite_beside, cite_counters
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.durations import durations_in
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import number_of, plain, told, told_all
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Signal, Unit

_OLD_SECONDS = 60.0
"""Four scrapes at the usual interval of 15 s were missed."""
_FRESH_SECONDS = 15.0
AGE = (
    r"(scrape|sample|metrics?|telemetry|exporter|snapshot|reading|signal|gauge|load report|stats"
    r"|push|(router|picker|balancer|epp|scaler|planner)s? (view|state|snapshot|cache|copy|index))"
    r".*\b(age|old|ago|since|stale|behind|lag)|\b(age|staleness)\b.*(metric|sample|scrape|signal)"
    r"|\b(last|newest|latest) (good |successful )?(sample|scrape|snapshot|reading|load report|push"
    r"|poll|refresh)\b"
)
_ACTED_UPON = (
    r"router|picker|balancer|epp\b|scal(er|ing)|hpa|keda|planner|scheduler|alert|dashboard|panel"
)
"""Whoever decides by what it read."""
_OF_AN_ENGINE = (
    r"metrics?\b|scrape|exporter|telemetry|load report|engine|endpoint|pod|worker|replica|rank|node"
)
LIMIT = r"limit|max|allowed|threshold|interval|policy|tolerat|ttl|expir"
STALE_AFTER = (
    r"stale\w*.*(threshold|limit|after|max|timeout|ttl)|(threshold|limit|max|ttl|expir\w*|timeout)"
    r".*(stale\w*|age|fresh\w*)|(metrics?|sample|freshness|cache) (max age|ttl|expir\w*|validity)"
    r"|max (metrics? |sample )?age|freshness"
)
NO_AGE = r"policy|interval"
_EVERY = (
    r"(refresh|scrape|poll\w*|probe|collect\w*|report\w*|update|publish\w*|fetch|sampl\w*|push)"
    r"( \w+)* (interval|period|every|cadence)|(interval|period) .*(refresh|scrape|poll|collect)"
    r"|(scrape|poll|refresh|update|report)s? every"
)
_SEEN = (
    r"\b(seen|sees|saw|view|viewed|believ\w+|router|picker|balancer|scheduler|cached|thinks|shown"
    r"|shows|dashboard|panel|epp|known|last)\b"
)
_STATES = (
    (Signal.RUNNING, r"\b(running|active|busy|in flight)\b", 4.0),
    (Signal.WAITING, r"\b(waiting|queue\w*|pending)\b", 4.0),
    (Signal.KV_USAGE, r"\b(kv|cache|usage|util\w*)\b", 0.3),
)
"""A signal, in whose words people tell it, and by how much two readings have to differ: beyond what
a batch changes within a second."""
_AROUND = r"\b(direct\w*|straight|bypass\w*|past|without|engine|itself)\b"
_THROUGH = r"\b(through|via|behind|with|over|router|picker|gateway|balancer|proxy)\b"
_CLEARLY = 3.0
_FULL = 0.95


def too_old(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """The oldest of the values that somebody acts upon is from long ago."""
    ages = [
        (fact, age)
        for fact in told_all(now.window, AGE, without=LIMIT)
        if (age := age_of(fact)) is not None
    ]
    oldest = max(ages, key=lambda each: each[1], default=None)
    if oldest is not None and oldest[1] >= _OLD_SECONDS:
        fact, age = oldest
        argument.fact(fact)
        for other, fresh in ages:
            if fresh <= _FRESH_SECONDS:
                argument.fact(other, "fresh")
        source = told(now.window, r"scrape (error|status|result)|\bup\b|target (state|health)")
        argument.fact(source)
        is_wrong = _is_contradicted(argument, now, fact)
        cite_counters(argument, now)
        for sentence in truth.says:
            argument.says(sentence)
        if is_wrong:
            argument.against("queue.overload: where it is sent to is chosen by what was long ago")
            return Confidence.CERTAIN
        argument.need("a scrape of the engine itself, by hand")
        if re.search(f"{_ACTED_UPON}|{_OF_AN_ENGINE}", plain(fact.key)) or source is not None:
            return Confidence.LIKELY
        argument.need("who acts upon it")
        is_used = told(now.window, _ACTED_UPON) is not None
        return Confidence.LIKELY if is_used else Confidence.POSSIBLE
    return _is_unread(argument, now)


def _is_contradicted(argument: Argument, now: Activity, age: Fact) -> bool:
    """What was seen so long ago is not what the engine says now."""
    whose = plain(age.key).split()[0]
    found = False
    for signal, words, apart in _STATES:
        series = now.window.find(signal)
        if series is None:
            continue
        for fact in told_all(now.window, rf"(?=.*{words})(?=.*{_SEEN})"):
            value = number_of(fact)
            if value is None or plain(fact.key).split()[0] != whose:
                continue
            if abs(value - series.last.value) >= apart:
                argument.says(f"{says(fact)}, and {series.origin.name} {series.last.raw}")
                found = True
    return found


def _is_unread(argument: Argument, now: Activity) -> Confidence | None:
    failed = [fact for fact in told_all(now.window, _SCRAPE) if _is_down(fact)]
    newest = max((series.last.at for series in now.window.series), default=None)
    if failed and newest is not None and now.window.end - newest >= _OLD_SECONDS:
        argument.says(f"the newest value of the engine is {now.window.end - newest:g} s old")
        argument.fact(failed[-1])
        return Confidence.LIKELY
    return None


def never_fresh(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """What is read less often than it is taken for old is old most of the time."""
    every = _longest(told_all(now.window, _EVERY, without=r"log|check|timeout|step"))
    after = _longest(told_all(now.window, STALE_AFTER, without=NO_AGE))
    if every is None or after is None or every[1] <= after[1]:
        return None
    share = 100 * (1 - after[1] / every[1])
    argument.says(f"{says(every[0])}, {says(after[0])}: taken for old {share:.3g} % of the time")
    full = now.window.find(Signal.ROUTED_FULL)
    is_full = full is not None and full.last.value >= _FULL
    argument.series(full, "as its router takes it")
    idle = _cite_idle(argument, now)
    faster = _is_faster_around(argument, now)
    for sentence in truth.says:
        argument.says(sentence)
    cite_beside(argument, now.window)
    argument.against("queue.overload and queue.blocked: the engine itself has nothing to do")
    return Confidence.CERTAIN if idle and (is_full or faster) else Confidence.LIKELY


def full_by_hearsay(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A router holds requests back for a pool that is full, and its engines have nothing to do."""
    full = now.window.find(Signal.ROUTED_FULL)
    if full is None or full.last.value < _FULL or not _cite_idle(argument, now):
        return None
    argument.series(full, "as its router takes it")
    argument.series(now.backlog, "held back")
    faster = _is_faster_around(argument, now)
    is_long = full.is_constant and full.span_seconds >= _OLD_SECONDS
    argument.against("queue.overload: the engine itself has nothing to do")
    if is_long or faster:
        return Confidence.LIKELY
    argument.need("age of what the router knows of its endpoints")
    return Confidence.POSSIBLE


def _cite_idle(argument: Argument, now: Activity) -> bool:
    """Nothing runs at the engine, and nothing waits there."""
    running, waiting, kv = now.running, now.waiting, now.kv
    if running is None or running.last.value > 0:
        return False
    if waiting is not None and waiting.last.value > 0:
        return False
    for series in (running, waiting, kv):
        argument.series(series)
    return True


def _is_faster_around(argument: Argument, now: Activity) -> bool:
    for slow in slowdowns(now.window, base=_AROUND, other=_THROUGH):
        if slow.factor >= _CLEARLY and re.search(_AROUND, slow.contrast.keys):
            argument.says(slow.says)
            return True
    return False


def _longest(facts: tuple[Fact, ...]) -> tuple[Fact, float] | None:
    timed = [(fact, age) for fact in facts if (age := age_of(fact)) is not None and age > 0]
    return max(timed, key=lambda each: each[1], default=None)


def age_of(fact: Fact) -> float | None:
    """In seconds; `22 min ago` is one, too. A time of day is none."""
    if fact.unit not in (Unit.SECONDS, None):
        return None
    written = durations_in(fact.raw) if fact.value is None else ()
    return sum(seconds for _, seconds in written) if written else number_of(fact)


_SCRAPE = r"scrape|target (state|health|status|up)|^up\b|\b(replica|pod|job|instance|engine) up$"


def _is_down(fact: Fact) -> bool:
    """`up 0`, `scrape_errors 4`, `scrape_node_b: timed out`; no error at all is none."""
    if re.search(r"error|fail|timeout|lost|missed", plain(fact.key)):
        return (number_of(fact) or 0.0) > 0
    if fact.value is not None:
        return fact.value == 0 and re.search(r"\bup\b|ok|success", plain(fact.key)) is not None
    return bool(re.search(r"\b(down|fail\w*|error|timeout|timed out|refused)\b", fact.raw.lower()))
