"""The same traffic before the control plane's arithmetic and before Prometheus with our rules."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from controlplane.slo.alert_windows import GradeName
from controlplane.slo.alerting import firing
from controlplane.slo.event_counts import EventCounts
from controlplane.slo.prometheus.burning import burning_groups
from controlplane.slo.prometheus.counting import counting_groups
from controlplane.slo.prometheus.rules import render
from controlplane.slo.promised import Promise
from dataplane import names
from ops.bench.slo.traffic import HOUR, MINUTE, SCRAPE_SECONDS, Counts, Scenario, Traffic
from ops.bench.slo.truth import Fired, Promised
from tests.controlplane.slo.prometheus.promtool import LINKS, Asked, answers

EVALUATION_SECONDS = 30
_DAY = 24 * HOUR
_PROCESS = 'job="pilothouse-gateway",instance="a:8701"'
Fires = Mapping[str, Fired]
"""By grade."""


def by_own_counts(traffic: Traffic, promised: Promised, since: int) -> Fires:
    """As the control plane evaluates its own counts twice a minute, from `since` on: windows of
    whole minutes up to six hours, longer ones of whole hours (controlplane.slo.tally)."""
    moments: dict[str, list[int]] = {}
    period = float(promised.days * _DAY)
    for now in range(since, traffic.seconds + 1, EVALUATION_SECONDS):

        def counts_over(seconds: int, now: int = now) -> EventCounts:
            return _counts(traffic, _start(now, seconds), now)

        for each in firing(counts_over, float(promised.target), period):
            moments.setdefault(each.threshold.grade.name, []).append(now)
    return {grade: _fired(found) for grade, found in moments.items()}


def _start(now: int, seconds: int) -> int:
    if seconds <= 6 * HOUR:
        return now - now % MINUTE + MINUTE - seconds
    return (now - seconds) // HOUR * HOUR


def _counts(traffic: Traffic, start: int, end: int) -> EventCounts:
    first = max(0, start)
    total = int(traffic.total[end] - traffic.total[first])
    return EventCounts(good=total - int(traffic.bad[end] - traffic.bad[first]), total=total)


def _fired(moments: Sequence[int]) -> Fired:
    first, last = moments[0], moments[-1]
    return Fired(
        first=first,
        last=last,
        is_one_stretch=(last - first) // EVALUATION_SECONDS + 1 == len(moments),
    )


def by_prometheus(
    scenario: Scenario, traffic: Traffic, promises: Sequence[Promised]
) -> Mapping[Promised, Fires]:
    """As promtool evaluates the rules that we render, on what a scraper saw of the counters."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "counting.yml").write_text(render(counting_groups(), []))
        burning = burning_groups([_promise(each) for each in promises], LINKS)
        (folder / "burning.yml").write_text(render(burning.groups, []))
        asked = [
            Asked(expr=expr, at=f"{traffic.seconds // MINUTE}m")
            for each in promises
            for grade in GradeName
            for expr in _questions(each, grade, traffic.seconds)
        ]
        told = answers(
            folder,
            ["counting.yml", "burning.yml"],
            _scraped(scenario, traffic, promises),
            asked,
        )
    return _by_promise(promises, iter([next(iter(each.values()), None) for each in told]))


def _promise(promised: Promised) -> Promise:
    return Promise(
        deployment="chat",
        request_class="interactive",
        objective=promised.name,
        at_most_seconds=None,
        target=float(promised.target),
        period_seconds=float(promised.days * _DAY),
        contract_revision="chat@1",
    )


def _questions(promised: Promised, grade: str, seconds: int) -> tuple[str, str, str]:
    """When it fired first and last, and at how many evaluations."""
    fires = f'ALERTS{{alertstate="firing",grade="{grade}",objective="{promised.name}"}}'
    each = f"timestamp({fires})[{seconds}s:{EVALUATION_SECONDS}s]"
    return f"min_over_time({each})", f"max_over_time({each})", f"count_over_time({each})"


def _by_promise(
    promises: Sequence[Promised], told: Iterator[float | None]
) -> Mapping[Promised, Fires]:
    found: dict[Promised, dict[str, Fired]] = {}
    for each in promises:
        found[each] = {}
        for grade in GradeName:
            first, last, number = next(told), next(told), next(told)
            if first is not None and last is not None and number is not None:
                found[each][grade] = Fired(
                    first=round(first),
                    last=round(last),
                    is_one_stretch=(last - first) / EVALUATION_SECONDS + 1 == number,
                )
    return found


def _scraped(scenario: Scenario, traffic: Traffic, promises: Sequence[Promised]) -> dict[str, str]:
    good = traffic.total - traffic.bad
    starts = [0, *(scenario.trouble_at + each for each in scenario.restarts)]
    series = {
        f"process_start_time_seconds{{{_PROCESS}}}": _values(
            scenario, traffic.seconds, lambda at: _started(starts, at)
        ),
        f"{names.GATEWAY_SNAPSHOT_VERSION}{{{_PROCESS}}}": _values(
            scenario, traffic.seconds, lambda at: 1
        ),
    }
    counted = (
        (names.GATEWAY_OBJECTIVE_JUDGED_TOTAL, traffic.total),
        (names.GATEWAY_OBJECTIVE_GOOD_TOTAL, good),
    )
    for counter, ended in counted:
        values = _values(scenario, traffic.seconds, _since_start(ended, starts))
        for each in promises:
            labels = f'deployment="chat",request_class="interactive",objective="{each.name}"'
            series[f"{counter}{{{_PROCESS},{labels}}}"] = values
    return series


def _since_start(ended: Counts, starts: Sequence[int]) -> Callable[[int], int]:
    """What the process that runs then has counted: it began at zero."""
    return lambda at: int(ended[at] - ended[_started(starts, at)])


def _started(starts: Sequence[int], at: int) -> int:
    return max(each for each in starts if each <= at)


def _values(scenario: Scenario, seconds: int, value: Callable[[int], int]) -> str:
    """In promtool's notation: a scrape that is missed ends the series, until the next one."""
    words = []
    was_scraped = True
    for at in range(0, seconds + 1, SCRAPE_SECONDS):
        is_scraped = not any(
            start <= at - scenario.trouble_at < end for start, end in scenario.unscraped
        )
        words.append(str(value(at)) if is_scraped else "stale" if was_scraped else "_")
        was_scraped = is_scraped
    return " ".join(words)
