"""How requests ended over the last minutes, as the request database counts them exactly."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.diagnosis.sources.records.ending_facts import (
    SENT,
    TURNED_AWAY,
    facts_of_endings,
    sends_more,
)
from controlplane.diagnosis.sources.records.ending_series import ended, refused
from controlplane.diagnosis.sources.records.request_facts import OWN_TENANTS
from controlplane.store.minute_endings import DISPOSITION_PREFIX, OFFERED, EndingKey

_PLACE = "request counts"
_MAX_UNIX = 2**62


class CountHistory:
    """Of all deployments."""

    def __init__(self) -> None:
        self._seen: Mapping[EndingKey, int] = {}
        self._totals: Counter[tuple[str, str]] = Counter()
        self._readings: dict[tuple[str, str], list[Reading]] = {}
        self._moments: list[float] = []
        self._before: dict[tuple[str, str, str], dict[int, int]] = {}
        """By deployment, measure of what is sent and tenant: how much, by minutes that are over."""

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
        self._remember(counted)
        self._seen = dict(counted)
        self._moments.append(at)

    def forget_before(self, moment: float) -> None:
        """What was counted earlier."""
        self._moments = [at for at in self._moments if at >= moment]
        for of, minutes in list(self._before.items()):
            self._before[of] = {at: n for at, n in minutes.items() if at >= moment}
            if not self._before[of]:
                del self._before[of]
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
        for of in [each for each in self._before if each[0] not in deployments]:
            del self._before[of]

    def tell(self, deployment: str, *, is_told_by_gateways: bool = False) -> Part:
        """Counters by disposition, unless gateways tell them sooner, and facts of the last minutes
        by tenant."""
        series = () if is_told_by_gateways else tuple(self._series(deployment))
        facts = self._facts(deployment) if self._moments else ()
        if not series and not facts:
            return Part()
        return Part(series=series, facts=facts, start=self._moments[0], end=self._moments[-1])

    def is_one_sending_more(self, deployment: str) -> bool:
        """Whether the tenant who sends most, in requests or in tokens, sends much more than
        before."""
        by_measure = self._by_measure(deployment)
        return any(self._has_grown(deployment, measure, by_measure[measure]) for measure in SENT)

    def _recent(self) -> set[tuple[str, str]]:
        return {
            (key.deployment, key.measure.removeprefix(DISPOSITION_PREFIX)) for key in self._seen
        }

    def _series(self, deployment: str) -> Iterator[Series]:
        for (of, word), readings in self._readings.items():
            if of != deployment or not readings:
                continue
            yield ended(word, readings, _PLACE)
            if word in TURNED_AWAY:
                yield refused(word, readings, _PLACE)

    def _by_measure(self, deployment: str) -> defaultdict[str, Counter[str]]:
        """How much of each measure each tenant has in the last minutes."""
        by_measure: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for key, value in self._seen.items():
            if key.deployment == deployment and not key.tenant.startswith(OWN_TENANTS):
                by_measure[key.measure][key.tenant] += value
        return by_measure

    def _facts(self, deployment: str) -> tuple[Fact, ...]:
        by_measure = self._by_measure(deployment)
        return facts_of_endings(
            by_measure,
            self._moments[-1],
            is_one_sending_more=self._has_grown(deployment, OFFERED, by_measure[OFFERED]),
        )

    def _remember(self, counted: Mapping[EndingKey, int]) -> None:
        """Of minutes that are not looked at any more, how much each tenant sent."""
        oldest = min((key.minute_unix for key in counted), default=_MAX_UNIX)
        for key, value in self._seen.items():
            if key.minute_unix < oldest and key.measure in SENT:
                of = (key.deployment, key.measure, key.tenant)
                minutes = self._before.setdefault(of, {})
                minutes[key.minute_unix] = value

    def _has_grown(self, deployment: str, measure: str, sent: Counter[str]) -> bool:
        """Beside what was remembered of minutes that are over, in whichever measure."""
        seen = {at for of, told in self._before.items() if of[0] == deployment for at in told}
        num_minutes = (max(seen) - min(seen)) / 60 + 1 if seen else 0
        before = {
            tenant: sum(self._before.get((deployment, measure, tenant), {}).values())
            for tenant in sent
        }
        return sends_more(sent, before, num_minutes * 60)
