"""A metrics page that tells of its process, and of no engine; or that nobody scrapes."""

import re

from controlplane.diagnosis.citing import moved, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_OF_ANY_PROCESS = re.compile(
    r"(python|process|go|promhttp|http|jvm|nodejs|scrape|uvicorn|fastapi|starlette|grpc|node|otel"
    r"|target|up)(_|$)"
)
_WORK = (
    r"\b(requests?|answers?|completions?|http 200|tokens|streams|in ?flight|ok|200)\b"
    r"|^200\b|\bqps\b|\brps\b"
)
_NO_WORK = (
    r"error|failed|limit|max|timeout|scrape|metrics|each|prompt|status|retries|expected|alert"
)
_TARGETS = (
    r"\b(scrape |active |prometheus |up )?(targets?|scrape pools?)"
    r"( (up|active|found|matched|healthy|discovered))?$"
    r"|(service ?monitor|pod ?monitor|scrape job)( \w+)* (targets|matches|endpoints)"
)
_NOT_TARGETS = r"ttft|itl|replica|value|per s|latency|utili|config|limit"


def tells_of_no_engine(argument: Argument, window: Window, now: Activity) -> Confidence | None:
    """Series of a process alone, while requests are answered."""
    names = window.exported_names
    if not names or not all(_OF_ANY_PROCESS.match(name) for name in names):
        return None
    kinds = sorted({f"{name.split('_')[0]}_" for name in names})
    argument.says(f"the page has {', '.join(kinds[:4])} series only, {len(names)} in all")
    works = _work(argument, window, now)
    if works:
        argument.against("engine.hung and healthy-and-idle: work goes on beside an empty page")
        return Confidence.CERTAIN
    argument.need("whether requests are answered meanwhile", "the arguments that it started with")
    return Confidence.POSSIBLE


def is_scraped_by_nobody(argument: Argument, window: Window, now: Activity) -> Confidence | None:
    """No target is found where the engine is, and it has work."""
    none = [
        fact
        for fact in told_all(window, _TARGETS, without=_NOT_TARGETS)
        if fact.value == 0
        or re.fullmatch(r"0 ?(/ ?\d+)?( up| active)?|none|\[\]", fact.raw.lower())
    ]
    if not none:
        return None
    for fact in none:
        argument.fact(fact, "nobody reads what it exports")
    return Confidence.LIKELY if _work(argument, window, now) else Confidence.POSSIBLE


def _work(argument: Argument, window: Window, now: Activity) -> bool:
    """That it has some."""
    found = False
    for series in (now.running, now.decode):
        if series is not None and series.last.value > 0:
            argument.series(series)
            found = True
    answered = window.find(Signal.HTTP_ANSWERED)
    if answered is not None and (answered.increase or 0) > 0:
        argument.says(moved(answered))
        found = True
    if now.in_flight is not None and now.in_flight.last.value > 0:
        argument.series(now.in_flight)
        found = True
    for fact in told_all(window, _WORK, without=_NO_WORK):
        if (number_of(fact) or 0.0) > 0:
            argument.says(f"{says(fact)}: it works")
            found = True
    return found
