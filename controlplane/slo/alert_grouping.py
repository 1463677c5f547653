"""What a telling of an alert says that was not known, and to which incident it belongs. Pure.

Tellings come twice, late and in any order: each source tells of its alerts in its own time, two
Alertmanagers tell the same, and a delivery that timed out was taken all the same. One that says
nothing new is passed over; one that was overtaken by its own end as well, for a minute.

An alert belongs to the incident of its deployment in which it fires already, by another source;
otherwise to an open one that may be the same trouble: one of which other alerts fire, or that
diagnosis found no longer ago than the alert looks back; otherwise to one that ended lately in which
it fired before. What is wrong with the installation itself is told apart by the alert's name.
"""

from collections.abc import Sequence
from enum import Enum, auto

from controlplane.diagnosis.incident_settings import IncidentSettings
from controlplane.diagnosis.mechanism import OF_FIGURES
from controlplane.slo.alert import Alert, AlertSubject
from controlplane.slo.alert_windows import MONTH_GRADES
from controlplane.store.incident import IncidentState, StoredIncident
from controlplane.store.incident_alert import AlertTelling

_NS = 10**9
LATE_SECONDS = 60.0
"""That a telling can be overtaken by."""
TOLD_EVERY_SECONDS = 30.0
"""That an alert still fires is noted so often, where nothing of it changed."""


class News(Enum):
    """What is to be noted."""

    NOTHING = auto()
    BEGAN = auto()
    GOES_ON = auto()
    ENDED = auto()
    CAME_AND_WENT = auto()
    """It ended before anybody told that it had begun."""


def news_of(
    alert: Alert, known: AlertTelling | None, now_unix_ns: int, *, is_open: bool = True
) -> News:
    """`known`: what its source told of it last; None: nothing. `is_open`: so is the incident."""
    if known is None:
        return News.BEGAN if alert.is_firing else News.CAME_AND_WENT
    if alert.is_firing:
        return _news_of_firing(alert, known, now_unix_ns, is_open=is_open)
    return _news_of_end(alert, known)


def _news_of_firing(alert: Alert, known: AlertTelling, now_unix_ns: int, *, is_open: bool) -> News:
    # Clocks differ a little, and one may have been set back: then it says nothing of how long ago.
    told_ns = abs(now_unix_ns - known.told_at_unix_ns)
    if known.ended_at_unix_ns is not None:
        # An evaluator that was cut off tells of the same again, with its old beginning.
        is_old = alert.started_at_unix_ns <= known.started_at_unix_ns
        return News.NOTHING if is_old and told_ns < LATE_SECONDS * _NS else News.BEGAN
    if alert.started_at_unix_ns < known.started_at_unix_ns:
        return News.NOTHING
    if not is_open:  # somebody resolved it by hand, and it fires on
        return News.BEGAN
    is_due = told_ns >= TOLD_EVERY_SECONDS * _NS
    return News.GOES_ON if is_due or _words(alert) != _words(known) else News.NOTHING


def _news_of_end(alert: Alert, known: AlertTelling) -> News:
    ended_at = alert.ended_at_unix_ns or 0
    if known.ended_at_unix_ns is None:
        return News.ENDED if ended_at >= known.started_at_unix_ns else News.NOTHING
    is_known = (
        alert.started_at_unix_ns <= known.started_at_unix_ns or ended_at <= known.ended_at_unix_ns
    )
    return News.NOTHING if is_known else News.CAME_AND_WENT


def _words(told: Alert | AlertTelling) -> tuple[str | None, ...]:
    return (
        told.summary,
        told.description,
        told.contract_revision,
        told.runbook_url,
        told.dashboard_url,
    )


def find_incident_of(
    alert: Alert, known: Sequence[StoredIncident], now_unix_ns: int, settings: IncidentSettings
) -> StoredIncident | None:
    """Of `known`, which are those of its deployment, or of the installation, that are open or ended
    lately, the last seen first. None: it opens its own."""
    is_open = [each for each in known if each.state is IncidentState.OPEN]
    for incident in is_open:
        if any(each.subject == alert.subject for each in incident.alerts):
            return incident
    for incident in is_open:
        if _may_be_of(alert, incident, now_unix_ns, settings):
            return incident
    return next(
        (
            incident
            for incident in known
            if incident not in is_open
            and any(_is_kin(each.subject, alert.subject) for each in incident.alerts)
        ),
        None,
    )


def _may_be_of(
    alert: Alert, incident: StoredIncident, now_unix_ns: int, settings: IncidentSettings
) -> bool:
    firing = [each.subject for each in incident.alerts if each.is_firing]
    if alert.subject.deployment is None:
        return any(each.name == alert.subject.name for each in firing)
    if firing:
        return True
    if incident.mechanism is None or incident.mechanism in OF_FIGURES:
        return False
    opened_seconds = (now_unix_ns - incident.spells[-1].opened_at_unix_ns) / _NS
    unseen_seconds = (now_unix_ns - incident.last_seen_at_unix_ns) / _NS
    joins_within = max(settings.joins_within_seconds, looks_back(alert.subject))
    return opened_seconds <= joins_within and unseen_seconds <= settings.seen_within_seconds


def looks_back(subject: AlertSubject) -> float:
    """How far, in seconds; 0 of an alert that has no grades."""
    return next((each.long_seconds for each in MONTH_GRADES if each.name == subject.grade), 0)


def _is_kin(one: AlertSubject, other: AlertSubject) -> bool:
    """The same, whatever its grade: a slow burn that comes after a quick one."""
    return (one.name, one.request_class, one.objective, one.instance) == (
        other.name,
        other.request_class,
        other.objective,
        other.instance,
    )
