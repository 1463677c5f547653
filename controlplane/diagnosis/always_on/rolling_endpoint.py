"""One endpoint's pages over the last minutes: what is older is forgotten."""

import bisect
import math
from collections.abc import Collection, Sequence

from controlplane.diagnosis.reading import Reading
from controlplane.diagnosis.sources.endpoint import Endpoint
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.trust.presence import At
from controlplane.diagnosis.turnover import Counted
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.exposition import Sample
from dataplane.engine_metrics.gathering import SeriesKey
from dataplane.engine_metrics.signal import Signal, SignalKind

_HISTOGRAM_EVERY_SECONDS = 30.0
"""Between two kept states of a histogram, which are large; the newest is always there."""
_MAX_SERIES = 4000
"""Of one endpoint. The largest engines with a thousand adapters have less."""
_MAX_FACTS = 300
"""Of one endpoint: engines tell some dozens, and each rule searches all of them."""


class RollingEndpoint(Endpoint):
    """Takes pages without end, and can be asked to tell at any time."""

    _num_left_out: int = 0
    """Series that the newest page shows, and that are not followed."""

    @property
    def last_moment(self) -> float | None:
        """Of the newest page; None: there is none, and nothing to tell."""
        return self._moments[-1] if self._moments else None

    def take(self, samples: Sequence[Sample], names: frozenset[str], at: float) -> None:
        """The page of `at`. What is the same as on the page before costs no more than its time."""
        super().take(samples, names, at)
        self._bound()
        for told in self._told.values():
            if len(told) > 1 and told[-1].at == at:
                _make_room(told)

    def newest(self, signal: Signal) -> float | None:
        """Of the newest page, over its ranks; None: it does not say, or no number."""
        told = [
            each[-1].gathered
            for (known, _), each in self._told.items()
            if known is signal and each[-1].at == self.last_moment
        ]
        values = [
            each.value * each.known.alias.factor
            for each in told
            if each.value is not None and math.isfinite(each.value)
        ]
        return sum(values) if values else None

    def edges(self, signals: Collection[Signal]) -> dict[str, tuple[float, ...]]:
        """Of the histograms that tell `signals` on the newest page, by their exported name: the
        bounds that all of its series have, without infinity, in the unit of the export."""
        found: dict[str, set[float]] = {}
        for (signal, _), told in self._told.items():
            newest = told[-1]
            if signal not in signals or newest.at != self.last_moment:
                continue
            bounds = {bound for bound in newest.gathered.buckets if math.isfinite(bound)}
            name = newest.gathered.known.alias.exported
            found[name] = found[name] & bounds if name in found else bounds
        return {name: tuple(sorted(bounds)) for name, bounds in found.items()}

    def counted(self) -> Counted:
        """What counts on the newest page, and when its processes say that they started."""
        counters: dict[SeriesKey, float] = {}
        starts: dict[SeriesKey, float] = {}
        for key, told in self._told.items():
            value = told[-1].gathered.value
            if told[-1].at != self.last_moment or value is None or not math.isfinite(value):
                continue
            if key[0] is Signal.PROCESS_STARTED:
                starts[key] = value
            elif key[0].terms.kind is SignalKind.COUNTER:
                counters[key] = value
        return Counted(at=self._moments[-1], counters=counters, starts=starts)

    def _bound(self) -> None:
        """An engine has some hundred series; who shows others at each scrape is not followed. Those
        that were told longest are kept."""
        left_out = list(self._told)[_MAX_SERIES:]
        self._num_left_out = len(left_out)
        for key in left_out:
            del self._told[key]
        for key in list(self._settings)[_MAX_SERIES:]:
            del self._settings[key]
        self._settings_reader.forget_if_more(_MAX_SERIES)
        if len(self._facts) > _MAX_FACTS:
            self._facts = self._facts[-_MAX_FACTS:]

    def tell(self) -> Part:
        """All that is kept, doubted anew."""
        self._doubts = []
        if self._num_left_out:
            what = (
                f"{self.place} shows {self._num_left_out} series more than the {_MAX_SERIES} that "
                "are followed of one endpoint: what was told longest is kept, the rest is not read"
            )
            self._doubts.append(
                Doubt(kind=DoubtKind.UNREADABLE, name=self.place, what=what, at=self.last_moment)
            )
        return super().tell()

    def forget_before(self, moment: float) -> None:
        """What was told earlier. Settings stay: they are said once."""
        del self._moments[: bisect.bisect_left(self._moments, moment)]
        for key, told in list(self._told.items()):
            del told[: bisect.bisect_left(told, moment, key=_at)]
            if not told:
                del self._told[key]
        for setting, (_, readings) in list(self._settings.items()):
            del readings[: bisect.bisect_left(readings, moment, key=_at)]
            if not readings:
                del self._settings[setting]
        self._facts = list({fact.key: fact for fact in self._facts}.values())
        self._names = set(self._last_names)


def _at(each: At | Reading) -> float:
    return each.at


def _make_room(told: list[At]) -> None:
    """For the newest of one series, of which the one before it may be no longer wanted."""
    before, newest = told[-2], told[-1]
    if before.gathered == newest.gathered:
        told[-1] = At(newest.at, before.gathered)
    is_histogram = newest.gathered.value is None
    if is_histogram and len(told) > 2 and newest.at - told[-3].at < _HISTOGRAM_EVERY_SECONDS:
        del told[-2]
