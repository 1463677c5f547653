"""Whether the process behind a metrics page was started anew: its counters begin again.

A process that is killed and started within seconds misses no call, or one; its counters are all
that tells of it. Where several processes answer at one address by turns, figures fall too: so the
page after must not be back where the page before was, and nothing is told of who does that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.operator.restart import Restart
from dataplane.engine_metrics.gathering import SeriesKey

_NEWER_SECONDS = 1.0
"""A start that is told to differ by less is the same: hosts work it out anew for each page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What counts on one page."""

    at: float
    """Unix seconds."""
    counters: Mapping[SeriesKey, float]
    starts: Mapping[SeriesKey, float] = field(default_factory=dict)
    """Of processes, Unix seconds."""


class RestartWatch:
    """One endpoint's. `take` its pages in time order."""

    def __init__(self) -> None:
        self.last: Restart | None = None
        """The newest that was seen for sure."""
        self._newest: Counted | None = None
        self._fell: tuple[Counted, Counted] | None = None
        """The page before and the first on which all began again, until the next page."""
        self._is_by_turns = False

    def take(self, page: Counted) -> None:
        """One more."""
        before, self._newest = self._newest, page
        if before is None or self._is_by_turns:
            return
        if self._fell is not None:
            self._judge(*self._fell, page)
        elif _is_anew(page, before):
            self._fell = before, page
        else:
            self._is_by_turns = _is_older(page, before)

    def _judge(self, before: Counted, first: Counted, page: Counted) -> None:
        self._fell = None
        self._is_by_turns = not _is_anew(page, before)
        if not self._is_by_turns:
            self.last = Restart(
                after_unix_ns=round(before.at * 1e9), seen_at_unix_ns=round(first.at * 1e9)
            )


def _is_anew(page: Counted, before: Counted) -> bool:
    """By the start of its process where it tells that, otherwise by most of what it counts."""
    starts = page.starts.keys() & before.starts.keys()
    if starts:
        return any(page.starts[key] - before.starts[key] > _NEWER_SECONDS for key in starts)
    counted = [key for key in page.counters if before.counters.get(key, 0.0) > 0]
    fallen = [key for key in counted if page.counters[key] < before.counters[key]]
    return 2 * len(fallen) > len(counted)


def _is_older(page: Counted, before: Counted) -> bool:
    starts = page.starts.keys() & before.starts.keys()
    return any(before.starts[key] - page.starts[key] > _NEWER_SECONDS for key in starts)
