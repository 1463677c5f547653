"""Series that somebody reads and that the page no longer has, though it goes on."""

import difflib
import itertools
from collections.abc import Iterable, Mapping

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_RELIED_ON = (
    Signal.RUNNING,
    Signal.WAITING,
    Signal.KV_USAGE,
    Signal.PREEMPTIONS,
    Signal.GENERATION_TOKENS,
    Signal.PROMPT_TOKENS,
)
"""What routers, autoscalers and dashboards are made of."""
_LEAST_SECONDS = 10.0
_LEAST_PAGES = 3
"""Later ones without the series: one scrape may be cut off."""
_SCRAPED = (SourceKind.METRICS, SourceKind.PROMETHEUS)


def judge(window: Window) -> Verdict | None:
    """LIKELY where a series ends and others of the same page go on without a restart."""
    argument = Argument(window)
    names: list[str] = []
    for page in _pages(window).values():
        if any(_falls(each) for each in page):
            continue
        end = max(each.last.at for each in page)
        for series in page:
            if series.signal in _RELIED_ON and _ended(series, end, page):
                names.append(series.origin.name)
                _cite(argument, window, series, end)
    if not names:
        return None
    argument.against("healthy: what is missing is not zero")
    argument.need("who reads it: routers, autoscalers, alerts, dashboards")
    return argument.verdict(Confidence.LIKELY, detail=", ".join(dict.fromkeys(names)))


def _pages(window: Window) -> Mapping[tuple[str, str], list[Series]]:
    """Series of one endpoint, by place and replica."""
    pages: dict[tuple[str, str], list[Series]] = {}
    for each in window.series:
        if each.origin.kind in _SCRAPED:
            key = (each.origin.place, each.labels.get("replica", ""))
            pages.setdefault(key, []).append(each)
    return pages


def _falls(series: Series) -> bool:
    """A counter that began anew: its process did, and series come with the first request."""
    values = series.values
    is_counter = series.signal.terms.kind.value == "counter"
    return is_counter and any(b < a for a, b in itertools.pairwise(values))


def _ended(series: Series, end: float, page: Iterable[Series]) -> bool:
    if end - series.last.at < _LEAST_SECONDS or len(series.readings) < 2:
        return False
    same = [each for each in page if each.signal is series.signal and each is not series]
    if any(each.last.at > series.last.at for each in same):
        return False
    later = {
        reading.at for each in page for reading in each.readings if reading.at > series.last.at
    }
    return len(later) >= _LEAST_PAGES


def _cite(argument: Argument, window: Window, series: Series, end: float) -> None:
    where = series.labels.get("replica")
    argument.says(
        f"{series.origin.name} {series.last.raw} at the last, and not on the page for "
        f"{end - series.last.at:g} s while the page goes on{f' ({where})' if where else ''}"
    )
    known = {each.origin.name for each in window.series}
    near = difflib.get_close_matches(
        series.origin.name, sorted(window.exported_names - known), n=1, cutoff=_NEAR
    )
    if near:
        argument.says(f"{near[0]} is there instead")


_NEAR = 0.8


VANISHED = Rule(
    id="telemetry-vanished",
    mechanism=Mechanism.TELEMETRY_MISSING,
    judge=judge,
    needs=("metrics pages over time",),
    told_apart="From an engine that stopped by the rest of its page, which goes on; from a restart "
    "by counters that do not begin anew.",
    remedy="Read a name that is exported (both names across a rename), and alert on the absence of "
    "a series: missing is not zero.",
    hides="A default of zero for what is missing makes the panel full again and the alert dead.",
)
