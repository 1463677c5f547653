"""Up to when an engine's own pages were read, and whether its port refuses since.

What a page said holds until the next one. Where the next ones did not come, it says nothing of the
time after it: no gauge stands still there, and no counter either.
"""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.stretch import stretch_of
from controlplane.diagnosis.views.told import told
from controlplane.diagnosis.window import Window

_LEAST_SECONDS = 5.0
"""Without a page. One scrape of many comes late."""
_REFUSED = re.compile(
    r"refused|connection attempts failed(?! \()|nothing listens|econnrefused", re.IGNORECASE
)
"""Nobody takes connections: a process that stands still takes them, and says nothing. Where
attempts fail for another reason, that stands behind them."""


def last_page_at(window: Window) -> float | None:
    """When the newest page of an engine was read; None where none was."""
    return max(
        (
            each.last.at
            for each in window.series
            if each.origin.kind is SourceKind.METRICS
            and not each.signal.value.startswith("gateway")
        ),
        default=None,
    )


def to_last_page(window: Window) -> Window:
    """`window`, without the time in which scrapes brought no page any more."""
    last = last_page_at(window)
    if last is None or window.end - last < _LEAST_SECONDS or not _has_failed(window):
        return window
    return window.once("to last page", lambda: stretch_of(window, window.start, last))


def refusal(window: Window) -> Fact | None:
    """Why no page comes any more, where every endpoint that showed pages refuses connections: its
    process ended. None where one answers, takes connections, or never showed a page."""
    last = last_page_at(window)
    if last is not None and window.end - last < _LEAST_SECONDS:
        return None
    silent = {fact.part for fact in window.facts_of("shows no page since") if fact.part}
    if last is None and not silent:
        return None
    showed = {
        each.labels["replica"]
        for each in window.series
        if each.origin.kind is SourceKind.METRICS and "replica" in each.labels
    }
    if not showed <= silent:
        return None
    whys = [
        fact
        for fact in window.facts_of("scrape failure")
        if fact.part is not None and (fact.part in silent or not silent)
    ]
    is_since = all(last is None or fact.at > last for fact in whys)
    if not whys or not is_since or not all(_REFUSED.search(fact.raw) for fact in whys):
        return None
    return whys[-1]


def _has_failed(window: Window) -> bool:
    return told(window, r"^scrape failure$", r"^shows no page since") is not None
