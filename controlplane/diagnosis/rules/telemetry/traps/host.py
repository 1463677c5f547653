"""The host's memory, of which most that is in use may be a cache of files."""

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.telemetry.readers import readers
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, share_of, told_all, told_number
from dataplane.engine_metrics.signal import Unit

_ALARMING = 0.85
_PLENTY = 0.3
"""Of all, that can still be had."""


def files_are_cached(argument: Argument, now: Activity) -> Confidence | None:
    """Somebody alerts on what is used, and most of it is given back when it is asked for."""
    asked = [fact for fact in readers(now.window) if "mem" in f"{fact.key} {fact.raw}".lower()]
    used = told_number(
        now.window, r"(host|node|system|ram|mem\w*).*(used|usage|util\w*).*", without=r"gpu|kv|vram"
    )
    cached = told_number(now.window, r"buff|page cache|file cache|\bcache(d)?\b", without=r"kv|hit")
    available = told_number(now.window, r"(mem|ram).*avail|avail.*(mem|ram)", without=r"gpu|kv")
    total = told_number(now.window, r"(mem|ram).*total|total.*(mem|ram)", without=r"gpu|kv")
    share, rest, whole = share_of(used), number_of(available), number_of(total)
    if not asked or used is None or available is None or share is None or not rest or not whole:
        return None
    is_alarming = used.unit is Unit.RATIO and share >= _ALARMING
    if not is_alarming or rest < _PLENTY * whole or total is None:
        return None
    if now.window.events_of(LogKind.HOST_OUT_OF_MEMORY):
        return None
    for fact in asked:
        argument.fact(fact)
    argument.fact(used)
    argument.says(f"{says(available)} of {says(total)}: given back when it is asked for")
    argument.fact(cached)
    for fact in told_all(now.window, r"oom|kill|swap"):
        argument.fact(fact)
    argument.against("oom.host_memory: there is plenty to be had")
    return Confidence.CERTAIN if cached is not None else Confidence.LIKELY
