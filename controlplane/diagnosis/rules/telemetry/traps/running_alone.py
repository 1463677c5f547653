"""Usage of the KV cache is of requests that run, and somebody expects it of all that ever ran."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.readers import readers
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all, told_number
from dataplane.engine_metrics.signal import Signal

_LITTLE = 0.35
"""Of the cache: a fuller one is what whoever expects much would expect."""
_MUCH_MORE = 3.0
_WONDERS = (
    r"\b(expect\w*|should|supposed|believes?|thinks?|wonders?|claims?|says|ticket|complain\w*)\b"
)
_OF_CACHE = re.compile(r"\b(kv|cache|caching|usage|fill\w*|full\w*|used)\b", re.IGNORECASE)
_TOO_LITTLE = re.compile(
    r"\b(too low|low|wrong|broken|stays?|stuck|never|only|empty|not (used|working|fill\w*)"
    r"|nothing|unused|does nothing|drops?|falls?)\b",
    re.IGNORECASE,
)
_LIMITS = re.compile(r"\b(filters?|thresholds?|limits?|at most|below|under|max)\b", re.IGNORECASE)
"""Of what somebody does not want to see: nobody expects that much."""
_LENGTH = (
    r"\b(context|request|sequence|prompt)s?( \w+)* (tokens|length)( (each|mean|p50))?$"
    r"|^(\w+ )?tokens (per|in a|of a|of each|in each) \w+$"
)
_EXPLAINS = (0.4, 2.5)
"""What runs over what is shown: lengths are means, and a request grows while it runs."""


def only_what_runs(argument: Argument, now: Activity) -> Confidence | None:
    """The gauge shows what the requests that run hold, to the token or so; what is kept of those
    that ended is handed out again when room is needed, and is not used."""
    kv, running = now.kv, now.running
    if kv is None or running is None or late(running) <= 0 or kv.max >= _LITTLE:
        return None
    if (now.backlog is not None and now.backlog.last.value > 0) or not now.capacity:
        return None
    wonder = _who_wonders(now, kv.max)
    length = _length(now)
    if not wonder or length is None:
        return None
    held = late(running) * length[0]
    shown = late(kv) * now.capacity
    if not shown or not _EXPLAINS[0] <= held / shown <= _EXPLAINS[1]:
        return None
    for fact in wonder:
        argument.fact(fact)
    argument.series(kv)
    argument.series(running)
    argument.says(
        f"{number(round(shown))} of {number(now.capacity)} tokens are shown as used: "
        f"{running.last.raw} running, {length[1]}"
    )
    argument.against("telemetry.stale: it follows what runs")
    argument.against("cache.nothing_shared: what is kept of ended requests is not in this gauge")
    return Confidence.LIKELY


def _who_wonders(now: Activity, shown: float) -> list[Fact]:
    """Somebody wants to see far more, or says in words that it is too little."""
    told = {
        *readers(now.window),
        *told_all(now.window, _WONDERS),
        *(fact for fact in now.window.facts if re.search(_WONDERS, fact.raw.lower())),
    }
    found = []
    for fact in sorted(told, key=lambda each: (each.at, each.key)):
        text = f"{plain(fact.key)} {fact.raw}"
        if not _OF_CACHE.search(text):
            continue
        share = share_of(fact)
        is_limit = _LIMITS.search(text) is not None
        is_more = (
            not is_limit and share is not None and share <= 1.0 and share >= _MUCH_MORE * shown
        )
        if is_more or (fact.value is None and _TOO_LITTLE.search(fact.raw)):
            found.append(fact)
    return found


def _length(now: Activity) -> tuple[float, str] | None:
    """Of one request, in tokens: as counted over those that ended, or as it was told."""
    ended = None if now.finished is None else now.finished.increase
    counters = [now.window.find(each) for each in (Signal.PROMPT_TOKENS, Signal.GENERATION_TOKENS)]
    counted = [series.increase for series in counters if series is not None and series.increase]
    if ended and counted:
        length = sum(counted) / ended
        return length, f"{number(round(length))} tokens each ({number(ended)} ended meanwhile)"
    told = told_number(
        now.window, _LENGTH, without=r"limit|max|total|per (s|sec|second|step)\b|pool|cache"
    )
    value = number_of(told)
    return None if told is None or not value else (value, f"{told.key} {told.raw}")
