"""How requests ended over the last minutes, as the request database counts them exactly."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from controlplane.diagnosis.always_on.request_facts import OWN_TENANTS
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.store.minute_endings import (
    DISPOSITION_PREFIX,
    GOOD,
    INPUT_TOKENS,
    JUDGED,
    OFFERED,
    EndingKey,
)
from dataplane.engine_metrics.signal import Signal

SINCE_SECONDS = 180.0
"""How far back one look at the counts goes. Requests that take longer are not counted here."""
_TURNED_AWAY = frozenset({"rejected", "shed"})
_PLACE = "request counts"
_SENT = (OFFERED, INPUT_TOKENS)
_SHOWN = 8
_MAX_UNIX = 2**62
_USUAL_SECONDS = 120.0
"""How long it must have been seen what is usual of a tenant."""
_GROWN = 2.0
"""So many times what is usual is told of."""


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
        facts = tuple(self._facts(deployment)) if self._moments else ()
        if not series and not facts:
            return Part()
        return Part(series=series, facts=facts, start=self._moments[0], end=self._moments[-1])

    def is_one_sending_more(self, deployment: str) -> bool:
        """Whether the tenant who sends most, in requests or in tokens, sends much more than
        before."""
        by_measure = self._by_measure(deployment)
        return any(self._has_grown(deployment, measure, by_measure[measure]) for measure in _SENT)

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

    def _by_measure(self, deployment: str) -> defaultdict[str, Counter[str]]:
        """How much of each measure each tenant has in the last minutes."""
        by_measure: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for key, value in self._seen.items():
            if key.deployment == deployment and not key.tenant.startswith(OWN_TENANTS):
                by_measure[key.measure][key.tenant] += value
        return by_measure

    def _facts(self, deployment: str) -> Iterator[Fact]:
        by_measure = self._by_measure(deployment)
        seconds = f"{SINCE_SECONDS:g}"
        known: dict[str, object] = {}
        offered = by_measure[OFFERED]
        if self._has_grown(deployment, OFFERED, offered):
            known[f"calls_by_tenant_last_{seconds}_s"] = dict(offered.most_common(_SHOWN))
            turned_away: Counter[str] = sum(
                (by_measure[f"{DISPOSITION_PREFIX}{word}"] for word in sorted(_TURNED_AWAY)),
                Counter(),
            )
            if turned_away:
                name = f"rejected_by_tenant_last_{seconds}_s"
                known[name] = dict(turned_away.most_common(_SHOWN))
        judged = by_measure[JUDGED].total()
        if judged:
            missed = judged - by_measure[GOOD].total()
            known[f"contract_missed_last_{seconds}_s"] = f"{missed} of {judged} requests"
        yield from facts_of(known, self._moments[-1], is_observed=True)

    def _remember(self, counted: Mapping[EndingKey, int]) -> None:
        """Of minutes that are not looked at any more, how much each tenant sent."""
        oldest = min((key.minute_unix for key in counted), default=_MAX_UNIX)
        for key, value in self._seen.items():
            if key.minute_unix < oldest and key.measure in _SENT:
                of = (key.deployment, key.measure, key.tenant)
                minutes = self._before.setdefault(of, {})
                minutes[key.minute_unix] = value

    def _has_grown(self, deployment: str, measure: str, offered: Counter[str]) -> bool:
        """Whether the tenant who sends most sends much more than before. That one has most of the
        traffic is how most services are, and no finding; nor is anything known of a tenant when
        there was no time to learn what is usual."""
        if len(offered) < 2:
            return False
        (tenant, number), *_ = offered.most_common(1)
        minutes = {at for of, told in self._before.items() if of[0] == deployment for at in told}
        num_minutes = (max(minutes) - min(minutes)) / 60 + 1 if minutes else 0
        if num_minutes * 60 < _USUAL_SECONDS:
            return False
        before = sum(self._before.get((deployment, measure, tenant), {}).values()) / (
            num_minutes * 60
        )
        return number / SINCE_SECONDS >= _GROWN * before


def _origin(name: str) -> Origin:
    return Origin(kind=SourceKind.RECORDS, name=name, place=_PLACE)
