"""Alerts as API, console and terminal show them. Pure conversions."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.api.quantities import age
from controlplane.api.silence_views import SilencedView, view_silenced
from controlplane.slo.silences import find_silence

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.slo.silences import Silence
    from controlplane.store.alerting_heard import AlertingHeard
    from controlplane.store.incident_alert import AlertTelling, StoredAlert

_RUNBOOK_URL = re.compile(r"/runbooks/([A-Za-z0-9-]{1,64})$")
SILENT_AFTER_SECONDS = 300.0
"""The watchdog comes every minute (`controlplane.slo.prometheus.alertmanager`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellingView:
    """What one source says of an alert."""

    source: str
    """control_plane: evaluated here; alertmanager: by Prometheus."""
    started_at_unix_ns: int
    told_at_unix_ns: int
    ended_at_unix_ns: int | None
    """None: it fires, as far as this source told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """One alert of one incident."""

    incident_id: str
    fingerprint: str
    name: str
    severity: str
    """page or ticket."""
    grade: str | None
    """page_quick, page_slow, ticket_quick or ticket_slow; None: it has no grades."""
    deployment: str | None
    """None: of the installation itself."""
    request_class: str | None
    objective: str | None
    instance: str | None
    summary: str
    description: str
    """With the figures of when it was told last."""
    contract_revision: str | None
    runbook_url: str | None
    runbook: str | None
    """Its page among those of this release, as `ops/runbooks/budget-burn.md`."""
    dashboard_url: str | None
    started_at_unix_ns: int
    told_at_unix_ns: int
    ended_at_unix_ns: int | None
    """None: it fires, as far as any source told."""
    num_times: int
    """That it began to fire in the course of the incident."""
    sources: list[TellingView]
    """The last told first."""
    silenced: SilencedView | None = None
    """Why nobody is notified of it now; None: people are, or it does not fire."""


def view_alert(alert: "StoredAlert", silences: Iterable["Silence"], now_unix_ns: int) -> AlertView:
    """One alert, in the words of who told it last. `silences`: those in force."""
    subject, last = alert.subject, alert.last
    silence = find_silence(silences, subject, now_unix_ns) if alert.is_firing else None
    return AlertView(
        incident_id=last.incident_id,
        fingerprint=subject.fingerprint,
        name=subject.name,
        severity=subject.severity.value,
        grade=subject.grade,
        deployment=subject.deployment,
        request_class=subject.request_class,
        objective=subject.objective,
        instance=subject.instance,
        summary=last.summary,
        description=last.description,
        contract_revision=last.contract_revision,
        runbook_url=last.runbook_url,
        runbook=runbook_of(last.runbook_url),
        dashboard_url=last.dashboard_url,
        started_at_unix_ns=alert.started_at_unix_ns,
        told_at_unix_ns=last.told_at_unix_ns,
        ended_at_unix_ns=alert.ended_at_unix_ns,
        num_times=alert.num_times,
        sources=[_view_telling(each) for each in alert.tellings],
        silenced=None if silence is None else view_silenced(silence),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardView:
    """When one source of alerts last said that it works."""

    source: str
    heard_at_unix_ns: int
    age_seconds: float
    state: str
    """well; silent: not heard for longer than it should be; ended: whoever evaluates for it fell
    silent, and it says so."""
    what: str
    """In one sentence."""
    told_by: str | None
    """The address that it calls its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertList:
    """What fires now, and whether alerting itself is heard."""

    as_of_unix_ns: int
    heard: list[HeardView]
    """Empty: no Prometheus ever told its watchdog to this control plane."""
    alerts: list[AlertView]
    """Of open incidents; pages first, then the newest."""


def _view_telling(telling: "AlertTelling") -> TellingView:
    return TellingView(
        source=telling.source.value,
        started_at_unix_ns=telling.started_at_unix_ns,
        told_at_unix_ns=telling.told_at_unix_ns,
        ended_at_unix_ns=telling.ended_at_unix_ns,
    )


def runbook_of(url: str | None) -> str | None:
    """The console that an alert leads to may be that of another release; the name is the same."""
    found = _RUNBOOK_URL.search(url or "")
    return f"ops/runbooks/{found[1]}.md" if found else None


def view_heard(heard: "AlertingHeard", now_unix_ns: int) -> HeardView:
    """Whether a source works."""
    silent_for = max(0.0, (now_unix_ns - heard.heard_at_unix_ns) / 1e9)
    state = "well"
    what = f"alerting was heard {age(silent_for)} ago"
    if heard.ended_at_unix_ns is not None:
        state = "ended"
        ended = (now_unix_ns - heard.ended_at_unix_ns) / 1e9
        what = f"Prometheus fell silent {age(ended)} ago, as {heard.source.value} says"
    elif silent_for > SILENT_AFTER_SECONDS:
        state = "silent"
        what = f"alerting was not heard for {age(silent_for)}"
    return HeardView(
        source=heard.source.value,
        heard_at_unix_ns=heard.heard_at_unix_ns,
        age_seconds=silent_for,
        state=state,
        what=what,
        told_by=heard.told_by,
    )
