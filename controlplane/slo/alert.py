"""An alert that fires, or that ended: the same whoever evaluated it.

Alertmanager calls with those that Prometheus evaluates from our rules; the control plane evaluates
the same promises by itself. Both tell of one trouble, so an alert is known by what it is about and
never by who told it.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from controlplane.slo.alert_windows import HOUR, Severity

REPEATED_EVERY_SECONDS = 4 * HOUR
"""What fires on is told again so often, by Alertmanager as by notifiers."""


class AlertSource(StrEnum):
    """Who evaluated it."""

    CONTROL_PLANE = "control_plane"
    ALERTMANAGER = "alertmanager"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSubject:
    """What an alert is about; two that are equal are one alert."""

    name: str
    """The rule's: PilothouseBudgetBurn."""
    severity: Severity
    grade: str | None = None
    """page_quick, page_slow, ticket_quick or ticket_slow; None: an alert that has no grades."""
    deployment: str | None = None
    """None: of the installation itself."""
    request_class: str | None = None
    objective: str | None = None
    instance: str | None = None
    """The process it is about, where it is about one: `127.0.0.1:8701`."""

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits, the same on every machine and in every release."""
        parts = (
            self.name,
            self.severity.value,
            self.grade,
            self.deployment,
            self.request_class,
            self.objective,
            self.instance,
        )
        told = "\n".join("" if part is None else part for part in parts)
        return hashlib.sha256(told.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One telling of it."""

    subject: AlertSubject
    source: AlertSource
    summary: str
    """Short, without figures."""
    description: str
    """With the figures of this telling."""
    started_at_unix_ns: int
    ended_at_unix_ns: int | None = None
    """None: it fires."""
    contract_revision: str | None = None
    """As `chat@7`; None where no contract made it."""
    runbook_url: str | None = None
    dashboard_url: str | None = None
    team: str | None = None
    """Whose it is, by the contract; no part of what it is about. None where that does not say, or
    who told it did not pass it on."""

    @property
    def is_firing(self) -> bool:
        """Whether it has not ended."""
        return self.ended_at_unix_ns is None
