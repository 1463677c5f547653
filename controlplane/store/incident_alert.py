"""An alert as it belongs to an incident, put together from what each source told of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTelling:
    """What one source told last of one alert, in one incident."""

    incident_id: str
    subject: AlertSubject
    source: AlertSource
    summary: str
    description: str
    contract_revision: str | None
    runbook_url: str | None
    dashboard_url: str | None
    started_at_unix_ns: int
    told_at_unix_ns: int
    ended_at_unix_ns: int | None
    num_times: int

    def as_ended(self, ended_at_unix_ns: int) -> Alert:
        """The same alert, over."""
        return Alert(
            subject=self.subject,
            source=self.source,
            summary=self.summary,
            description=self.description,
            started_at_unix_ns=self.started_at_unix_ns,
            ended_at_unix_ns=ended_at_unix_ns,
            contract_revision=self.contract_revision,
            runbook_url=self.runbook_url,
            dashboard_url=self.dashboard_url,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlert:
    """One alert of one incident, whoever told it."""

    tellings: tuple[AlertTelling, ...]
    """One for each source, the last told first; at least one."""

    @property
    def subject(self) -> AlertSubject:
        """What it is about."""
        return self.last.subject

    @property
    def last(self) -> AlertTelling:
        """What was told last: its words are those of the alert."""
        return self.tellings[0]

    @property
    def is_firing(self) -> bool:
        """As far as any source told: two may see an end minutes apart."""
        return any(each.ended_at_unix_ns is None for each in self.tellings)

    @property
    def started_at_unix_ns(self) -> int:
        """When the first of those that say that it fires saw it begin; once it ended, of all."""
        firing = [each for each in self.tellings if each.ended_at_unix_ns is None]
        return min(each.started_at_unix_ns for each in firing or self.tellings)

    @property
    def ended_at_unix_ns(self) -> int | None:
        """When the last source saw it end; None: it fires."""
        if self.is_firing:
            return None
        return max(each.ended_at_unix_ns or 0 for each in self.tellings)

    @property
    def num_times(self) -> int:
        """That it began to fire in the course of the incident."""
        return max(each.num_times for each in self.tellings)


def put_together(tellings: Iterable[AlertTelling]) -> tuple[StoredAlert, ...]:
    """The alerts of one incident: those that fire first, pages before tickets, the first to begin
    before the others."""
    by_fingerprint: dict[str, list[AlertTelling]] = {}
    for each in tellings:
        by_fingerprint.setdefault(each.subject.fingerprint, []).append(each)
    alerts = [
        StoredAlert(tellings=tuple(sorted(told, key=lambda each: -each.told_at_unix_ns)))
        for told in by_fingerprint.values()
    ]
    return tuple(sorted(alerts, key=_urgency))


def severity_of(alerts: Iterable[StoredAlert]) -> Severity | None:
    """Of the worst that fires; None: none does."""
    found = {each.subject.severity for each in alerts if each.is_firing}
    return next((each for each in Severity if each in found), None)


def _urgency(alert: StoredAlert) -> tuple[bool, bool, int, str]:
    return (
        not alert.is_firing,
        alert.subject.severity is not Severity.PAGE,
        alert.started_at_unix_ns,
        alert.subject.fingerprint,
    )
