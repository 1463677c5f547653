"""Which alerts fire, by what the control plane itself counted, and which ended. Pure.

An alert is the same as the one that Prometheus makes of the same promise, so that an incident has
it once. A deployment that nobody sees is an alert of its own: it is no burn of any budget.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import Severity, short
from controlplane.slo.alerting import Firing
from controlplane.slo.burn_rate import percent, shortest
from controlplane.slo.prometheus.burning import ALERT
from controlplane.slo.prometheus.links import Links
from controlplane.slo.standing import Standing

DEPLOYMENT_UNSEEN = "PilothouseDeploymentUnseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Of one evaluation."""

    firing: tuple[Alert, ...]
    ended: tuple[Alert, ...]
    """Those that fired at the evaluation before, or that ended earlier and nobody took."""


def burning_alerts(standing: Standing, links: Links, now_unix_ns: int) -> Iterator[Alert]:
    """One for each grade that fires."""
    promise = standing.promise
    what = f"{promise.deployment} {promise.name}"
    for firing in standing.firing:
        grade = firing.threshold.grade
        yield Alert(
            subject=AlertSubject(
                name=ALERT,
                severity=grade.severity,
                grade=grade.name,
                deployment=promise.deployment,
                request_class=promise.request_class,
                objective=promise.objective,
            ),
            source=AlertSource.CONTROL_PLANE,
            summary=f"The error budget of {what} is burning",
            description=_description(standing, firing),
            started_at_unix_ns=now_unix_ns,
            contract_revision=promise.contract_revision,
            runbook_url=links.runbook("budget-burn"),
            dashboard_url=links.budget(promise.deployment),
            team=promise.alerting.team,
        )


def _description(standing: Standing, firing: Firing) -> str:
    promise, grade = standing.promise, firing.threshold.grade
    long = standing.counts_by_window[grade.long_seconds]
    missed = 100 * (long.error_ratio or 0.0)
    return (
        f"{missed:.4g} % of the {long.total} requests of the last {short(grade.long_seconds)} "
        f"missed {promise.name}; {percent(promise.target)} are promised. The budget burns "
        f"{firing.long_burn:.3g} times as fast as it bears, and {firing.short_burn:.3g} times in "
        f"the last {short(grade.short_seconds)}; from {shortest(firing.threshold.factor)} times on "
        "this is told."
    )


def unseen_alert(deployment: str, team: str | None, links: Links, now_unix_ns: int) -> Alert:
    """Of one that has ready replicas, and that no gateway tells of."""
    return Alert(
        subject=AlertSubject(name=DEPLOYMENT_UNSEEN, severity=Severity.PAGE, deployment=deployment),
        source=AlertSource.CONTROL_PLANE,
        summary=f"Nobody sees what callers of {deployment} get",
        description=f"{deployment} has ready replicas, and no gateway has told of it for five "
        "minutes: whether its objectives are kept is not known, and no alert of its budgets can "
        "fire.",
        started_at_unix_ns=now_unix_ns,
        runbook_url=links.runbook("deployment-unseen"),
        dashboard_url=links.deployment(deployment),
        team=team,
    )


class AlertCourse:
    """Which alerts begin, go on and end, from one evaluation to the next. One thread uses it."""

    def __init__(self, fired_before: Iterable[Alert] = ()) -> None:
        """`fired_before`: as far as an earlier control plane told."""
        self._firing = {each.subject: each for each in fired_before}
        self._untaken: dict[AlertSubject, Alert] = {}

    def take(
        self,
        firing: Sequence[Alert],
        may_have_ended: Callable[[AlertSubject], bool],
        now_unix_ns: int,
    ) -> Evaluated:
        """What fires now. What fired and does not is over, unless `may_have_ended` denies it: then
        nobody could see that, and it goes on."""
        now = {each.subject: each for each in firing}
        for subject, before in self._firing.items():
            if subject in now:
                began = before.started_at_unix_ns
                now[subject] = replace(now[subject], started_at_unix_ns=began)
            elif not may_have_ended(subject):
                now[subject] = before
            else:
                # No earlier than it began, also by a clock that was set back.
                ended_at = max(now_unix_ns, before.started_at_unix_ns)
                self._untaken[subject] = replace(before, ended_at_unix_ns=ended_at)
        self._firing = now
        ended = tuple(each for subject, each in self._untaken.items() if subject not in now)
        return Evaluated(firing=tuple(now.values()), ended=ended)

    def note_taken(self, ended: Iterable[Alert]) -> None:
        """Whoever keeps alerts knows that they ended."""
        for each in ended:
            self._untaken.pop(each.subject, None)


def alerts_of(
    standings: Sequence[Standing], unseen: Iterable[str], links: Links, now_unix_ns: int
) -> list[Alert]:
    """All that fire by what requests met, or because nobody sees them."""
    teams = teams_of(standings)
    found = [
        alert for standing in standings for alert in burning_alerts(standing, links, now_unix_ns)
    ]
    return [*found, *(unseen_alert(name, teams.get(name), links, now_unix_ns) for name in unseen)]


def teams_of(standings: Iterable[Standing]) -> dict[str, str | None]:
    """Whose each deployment is, by its contract."""
    return {each.promise.deployment: each.promise.alerting.team for each in standings}


def by_deployment(alerts: Iterable[Alert]) -> Mapping[str | None, list[Alert]]:
    """In their order."""
    grouped: dict[str | None, list[Alert]] = {}
    for each in alerts:
        grouped.setdefault(each.subject.deployment, []).append(each)
    return grouped
