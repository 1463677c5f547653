"""How requests ended over the last minutes, as the request database counts them exactly."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.store.minute_endings import DISPOSITION_PREFIX, GOOD, JUDGED, OFFERED, EndingKey

SINCE_SECONDS = 180.0
"""How far back one look at the counts goes. Requests that take longer are not counted here."""
_TURNED_AWAY = frozenset({"rejected", "shed"})
_PLACE = "request counts"


class CountHistory:
    """Of all deployments."""

    def __init__(self) -> None:
        self._seen: Mapping[EndingKey, int] = {}
        self._totals: Counter[tuple[str, str]] = Counter()
        self._readings: dict[tuple[str, str], list[Reading]] = {}
        self._moments: list[float] = []

    def take(self, counted: Mapping[EndingKey, int], at: float) -> None:
        """What `count_endings` says at `at`. Counts only grow, also of minutes that are over."""
        for key, value in counted.items():
            if not key.measure.startswith(DISPOSITION_PREFIX):
                continue
            word = key.measure.removeprefix(DISPOSITION_PREFIX)
            self._totals[key.deployment, word] += max(0, value - self._seen.get(key, 0))
        for what, total in self._totals.items():
            readings = self._readings.setdefault(what, [])
            if not readings and self._moments:
                readings.append(Reading(self._moments[-1], 0.0, "0"))
            readings.append(Reading(at, float(total), plain_number(total)))
        self._seen = dict(counted)
        self._moments.append(at)

    def forget_before(self, moment: float) -> None:
        """What was counted earlier."""
        self._moments = [at for at in self._moments if at >= moment]
        for what, readings in list(self._readings.items()):
            kept = [each for each in readings if each.at >= moment]
            if len(kept) > 1 and kept[0].value == kept[-1].value and what not in self._recent():
                del self._readings[what], self._totals[what]
            else:
                self._readings[what] = kept

    def forget_others(self, deployments: frozenset[str]) -> None:
        """Of deployments that are no more nothing is kept."""
        for what in [each for each in self._totals if each[0] not in deployments]:
            del self._totals[what]
            self._readings.pop(what, None)

    def tell(self, deployment: str) -> Part:
        """Counters by disposition, and facts of the last minutes by tenant."""
        series = tuple(self._series(deployment))
        facts = tuple(self._facts(deployment)) if self._moments else ()
        if not series and not facts:
            return Part()
        return Part(series=series, facts=facts, start=self._moments[0], end=self._moments[-1])

    def _recent(self) -> set[tuple[str, str]]:
        return {
            (key.deployment, key.measure.removeprefix(DISPOSITION_PREFIX)) for key in self._seen
        }

    def _series(self, deployment: str) -> Iterator[Series]:
        for (of, word), readings in self._readings.items():
            if of != deployment or not readings:
                continue
            yield Series(
                signal=Signal.GATEWAY_ENDED,
                origin=_origin(f"requests ended {word}"),
                readings=tuple(readings),
                labels={"disposition": word},
            )
            if word in _TURNED_AWAY:
                yield Series(
                    signal=Signal.GATEWAY_REJECTED,
                    origin=_origin(f"requests {word}"),
                    readings=tuple(readings),
                    labels={"reason": word},
                )

    def _facts(self, deployment: str) -> Iterator[Fact]:
        by_measure: dict[str, Counter[str]] = defaultdict(Counter)
        for key, value in self._seen.items():
            if key.deployment == deployment:
                by_measure[key.measure][key.tenant or "nobody in particular"] += value
        seconds = f"{SINCE_SECONDS:g}"
        offered = by_measure.get(OFFERED)
        if not offered:
            return
        known: dict[str, object] = {}
        if len(offered) > 1:
            known[f"requests_by_tenant_last_{seconds}_s"] = dict(offered.most_common(8))
            turned_away = sum(
                (by_measure[f"{DISPOSITION_PREFIX}{word}"] for word in sorted(_TURNED_AWAY)),
                Counter(),
            )
            if turned_away:
                known[f"rejected_by_tenant_last_{seconds}_s"] = dict(turned_away.most_common(8))
        judged = by_measure[JUDGED].total()
        if judged:
            missed = judged - by_measure[GOOD].total()
            known[f"out_of_contract_share_last_{seconds}_s"] = round(missed / judged, 4)
        yield from facts_of(known, self._moments[-1])


def _origin(name: str) -> Origin:
    return Origin(kind=SourceKind.RECORDS, name=name, place=_PLACE)
