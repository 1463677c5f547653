"""What one deployment's contract makes of the counts: burn rates, what is left, and alerts.

Numbers are written out in the rules, so that an alert cannot be silent because labels of two
series do not match. Every rule carries the contract revision that it was made of.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controlplane.slo.alert_windows import BURN_WINDOWS, DAY, MINUTE, short
from controlplane.slo.alerting import Threshold, left_out, thresholds
from controlplane.slo.burn_rate import budget_of, percent, shortest
from controlplane.slo.prometheus.counting import SLOT_SECONDS, sum_name, sum_of_fives
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.of_promise import (
    group_name,
    promise_labels,
    promise_selector,
    team_labels,
)
from controlplane.slo.prometheus.rules import AlertRule, RecordingRule, RuleGroup
from controlplane.slo.promised import Promise
from dataplane import names

ALERT = "PilothouseBudgetBurn"
BUDGET_SECONDS = 2 * MINUTE
RETENTION_SECONDS = 35 * DAY
"""What Prometheus keeps as it is shipped (ops/deploy): a longer budget is that of the control
plane alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burning:
    """The rules of one deployment, and what could not be made."""

    groups: tuple[RuleGroup, ...]
    left_out: tuple[str, ...]
    """One sentence for each alert or record that would mean nothing."""


def burning_groups(promises: Sequence[Promise], links: Links) -> Burning:
    """Of the promises of one deployment; none for none."""
    if not promises:
        return Burning(groups=(), left_out=())
    deployment = promises[0].deployment
    burns = [rule for promise in promises for rule in _burns(promise)]
    alerts = [rule for promise in promises for rule in _alerts(promise, links)]
    budgets = [rule for promise in promises for rule in _budget(promise)]
    return Burning(
        groups=(
            RuleGroup(
                name=group_name(deployment),
                interval_seconds=SLOT_SECONDS,
                rules=(*burns, *alerts),
            ),
            RuleGroup(
                name=group_name(deployment, "budget"),
                interval_seconds=BUDGET_SECONDS,
                rules=budgets,
            ),
        ),
        left_out=tuple(
            f"{promise.deployment} {promise.name}: {sentence}"
            for promise in promises
            for sentence in _left_out(promise)
        ),
    )


def _bad_ratio(promise: Promise, seconds: int) -> str:
    selector = promise_selector(promise)
    good, judged = (f"{sum_name(counted, seconds)}{selector}" for counted in ("good", "judged"))
    return f"1 - {good} / ({judged} > 0)"


def _burns(promise: Promise) -> Iterator[RecordingRule]:
    budget = shortest(budget_of(promise.target))
    for seconds in BURN_WINDOWS:
        yield RecordingRule(
            record=names.SLO_BURN_RATE.format(short(seconds)),
            expr=f"({_bad_ratio(promise, seconds)}) / {budget}",
            labels=promise_labels(promise),
        )


def _budget(promise: Promise) -> Iterator[RecordingRule]:
    selector, period = promise_selector(promise), round(promise.period_seconds)
    good, judged = (sum_of_fives(counted, period, selector) for counted in ("good", "judged"))
    budget = shortest(budget_of(promise.target))
    if period <= RETENTION_SECONDS:
        yield RecordingRule(
            record=names.SLO_BUDGET_REMAINING,
            expr=f"1 - (1 - {good} / ({judged} > 0)) / {budget}",
            labels=promise_labels(promise),
        )
    for record, value in (
        (names.SLO_TARGET, shortest(promise.target)),
        (names.SLO_PERIOD_SECONDS, shortest(promise.period_seconds)),
    ):
        labels = {
            **promise_labels(promise),
            names.LABEL_CONTRACT_REVISION: promise.contract_revision,
        }
        yield RecordingRule(record=record, expr=f"vector({value})", labels=labels)


def _alerts(promise: Promise, links: Links) -> Iterator[AlertRule]:
    for threshold in thresholds(promise.target, promise.period_seconds, promise.alerting):
        if threshold.why_left_out is None:
            yield _alert(promise, threshold, links)


def _alert(promise: Promise, threshold: Threshold, links: Links) -> AlertRule:
    return AlertRule(
        alert=ALERT,
        expr=_burns_at(promise, threshold),
        labels={
            names.LABEL_SEVERITY: threshold.grade.severity.value,
            names.LABEL_GRADE: threshold.grade.name.value,
            **promise_labels(promise),
            **team_labels(promise),
        },
        annotations={
            "summary": f"The error budget of {promise.deployment} {promise.name} is burning",
            "description": _description(promise, threshold),
            "runbook_url": links.runbook("budget-burn"),
            "dashboard_url": links.budget(promise.deployment),
            names.LABEL_CONTRACT_REVISION: promise.contract_revision,
        },
    )


def _burns_at(promise: Promise, threshold: Threshold) -> str:
    grade, bound = threshold.grade, shortest(threshold.error_ratio)
    judged = f"{sum_name('judged', grade.long_seconds)}{promise_selector(promise)}"
    return (
        f"({_bad_ratio(promise, grade.long_seconds)}) > {bound}\n"
        f"and ({_bad_ratio(promise, grade.short_seconds)}) > {bound}\n"
        f"and {judged} >= {promise.alerting.min_events}"
    )


def _description(promise: Promise, threshold: Threshold) -> str:
    long, brief = short(threshold.grade.long_seconds), short(threshold.grade.short_seconds)
    lasts = promise.period_seconds / float(threshold.factor)
    return (
        f"{{{{ $value | humanizePercentage }}}} of the requests of the last {long} missed "
        f"{promise.name}, and more than {shortest(threshold.error_ratio * 100)} % of the "
        f"last {brief}; {percent(promise.target)} are promised. At {float(threshold.factor):g} "
        f"times the pace that the budget bears, a whole one lasts {_duration(lasts)}."
    )


def _left_out(promise: Promise) -> Iterator[str]:
    yield from left_out(promise.target, promise.period_seconds, promise.alerting)
    if promise.period_seconds > RETENTION_SECONDS:
        yield (
            f"no record of what is left of the budget: its window is longer than the "
            f"{short(RETENTION_SECONDS)} that Prometheus keeps; `pilothouse slo status` tells it"
        )


def _duration(seconds: float) -> str:
    """Rounded, for people: 2 d 2 h."""
    minutes = round(seconds / MINUTE)
    days, rest = divmod(minutes, 24 * 60)
    hours, left = divmod(rest, 60)
    parts = [f"{days} d" if days else "", f"{hours} h" if hours else ""]
    if not days and left:
        parts.append(f"{left} min")
    return " ".join(part for part in parts if part) or "under a minute"
