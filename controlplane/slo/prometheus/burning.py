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
                name=f"pilothouse-slo-{deployment}",
                interval_seconds=SLOT_SECONDS,
                rules=(*burns, *alerts),
            ),
            RuleGroup(
                name=f"pilothouse-slo-{deployment}-budget",
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


def _selector(promise: Promise) -> str:
    pairs = (
        (names.LABEL_DEPLOYMENT, promise.deployment),
        (names.LABEL_REQUEST_CLASS, promise.request_class),
        (names.LABEL_OBJECTIVE, promise.objective),
    )
    return "{" + ",".join(f'{label}="{value}"' for label, value in pairs) + "}"


def _labels(promise: Promise) -> dict[str, str]:
    """All that the expression has as well: promtool calls rules of one name the same that have the
    same labels. The revision is none of them, or each new one would end every series and alert and
    begin it anew."""
    return {
        names.LABEL_DEPLOYMENT: promise.deployment,
        names.LABEL_REQUEST_CLASS: promise.request_class,
        names.LABEL_OBJECTIVE: promise.objective,
    }


def _bad_ratio(promise: Promise, seconds: int) -> str:
    selector = _selector(promise)
    good, judged = (f"{sum_name(counted, seconds)}{selector}" for counted in ("good", "judged"))
    return f"1 - {good} / ({judged} > 0)"


def _burns(promise: Promise) -> Iterator[RecordingRule]:
    budget = shortest(budget_of(promise.target))
    for seconds in BURN_WINDOWS:
        yield RecordingRule(
            record=names.SLO_BURN_RATE.format(short(seconds)),
            expr=f"({_bad_ratio(promise, seconds)}) / {budget}",
            labels=_labels(promise),
        )


def _budget(promise: Promise) -> Iterator[RecordingRule]:
    selector, period = _selector(promise), round(promise.period_seconds)
    good, judged = (sum_of_fives(counted, period, selector) for counted in ("good", "judged"))
    budget = shortest(budget_of(promise.target))
    if period <= RETENTION_SECONDS:
        yield RecordingRule(
            record=names.SLO_BUDGET_REMAINING,
            expr=f"1 - (1 - {good} / ({judged} > 0)) / {budget}",
            labels=_labels(promise),
        )
    for record, value in (
        (names.SLO_TARGET, shortest(promise.target)),
        (names.SLO_PERIOD_SECONDS, shortest(promise.period_seconds)),
    ):
        labels = {**_labels(promise), names.LABEL_CONTRACT_REVISION: promise.contract_revision}
        yield RecordingRule(record=record, expr=f"vector({value})", labels=labels)


def _alerts(promise: Promise, links: Links) -> Iterator[AlertRule]:
    for threshold in thresholds(promise.target, promise.period_seconds, promise.alerting):
        if threshold.why_left_out is None:
            yield _alert(promise, threshold, links)


def _alert(promise: Promise, threshold: Threshold, links: Links) -> AlertRule:
    grade, selector = threshold.grade, _selector(promise)
    long, brief = short(grade.long_seconds), short(grade.short_seconds)
    bound = shortest(threshold.error_ratio)
    enough = f"{sum_name('judged', grade.long_seconds)}{selector} >= {promise.alerting.min_events}"
    expr = (
        f"({_bad_ratio(promise, grade.long_seconds)}) > {bound}\n"
        f"and ({_bad_ratio(promise, grade.short_seconds)}) > {bound}\n"
        f"and {enough}"
    )
    what = f"{promise.deployment} {promise.name}"
    promised = percent(promise.target)
    lasts = promise.period_seconds / float(threshold.factor)
    return AlertRule(
        alert=ALERT,
        expr=expr,
        labels={
            names.LABEL_SEVERITY: grade.severity.value,
            names.LABEL_GRADE: grade.name.value,
            **_labels(promise),
            **({} if promise.alerting.team is None else {names.LABEL_TEAM: promise.alerting.team}),
        },
        annotations={
            "summary": f"The error budget of {what} is burning",
            "description": (
                f"{{{{ $value | humanizePercentage }}}} of the requests of the last {long} missed "
                f"{promise.name}, and more than {shortest(threshold.error_ratio * 100)} % of the "
                f"last {brief}; {promised} are promised. At {float(threshold.factor):g} times the "
                f"pace that the budget bears, a whole one lasts {_duration(lasts)}."
            ),
            "runbook_url": links.runbook("budget-burn"),
            "dashboard_url": links.deployment(promise.deployment),
            names.LABEL_CONTRACT_REVISION: promise.contract_revision,
        },
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
