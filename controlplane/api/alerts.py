"""Alerts: what fires now, whether alerting itself is heard, and where Alertmanager delivers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import structlog
from fastapi import APIRouter, HTTPException, Query, Request
from starlette.datastructures import State

from controlplane.api.alert_counters import AlertCounters
from controlplane.api.alert_views import AlertList, HeardView, view_alert, view_heard
from controlplane.api.alertmanager_payload import (
    ReadPayload,
    Refusal,
    RefusedAlert,
    WebhookPayload,
    read_payload,
)
from controlplane.slo.alert import AlertSource
from controlplane.slo.alert_book import AlertBook
from controlplane.slo.alert_windows import Severity
from controlplane.store.alerting_heard import AlertingHeard, keep_heard, read_heard
from controlplane.store.incident import IncidentState, StoredIncident
from controlplane.store.incident_alert import StoredAlert
from controlplane.store.incident_lists import list_incidents
from controlplane.store.silences import list_in_force
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1/alerts", tags=["alerts"])

MAX_BODY_BYTES = 4 * 2**20
_MAX_REFUSED_TOLD = 100
_MAX_ADDRESS = 512
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsTaken:
    """What became of one delivery."""

    num_taken: int
    """Those that said nothing new among them."""
    is_watchdog_heard: bool
    num_refused: int
    refused: list[RefusedAlert]
    """The first of them, each with the remedy."""


@router.get("")
def get_alerts(
    request: Request, deployment: Annotated[str | None, Query(max_length=128)] = None
) -> AlertList:
    """What fires now, each with its incident, and when alerting itself was last heard. Only of
    `deployment` where it is given; empty: of the installation itself."""
    return read_alerts(request.app.state, wall_clock(), deployment)


@router.post("/alertmanager", max_body_size=MAX_BODY_BYTES)
def take_alerts(payload: WebhookPayload, request: Request) -> AlertsTaken:
    """Alertmanager's webhook, version 4. Alerts called Pilothouse... with the severity page or
    ticket open, join or end incidents; the watchdog is only remembered. Others are counted and
    named in the answer; a delivery of nothing else is answered 422, so that Alertmanager says so.
    """
    state, now = request.app.state, wall_clock()
    read = read_payload(payload)
    _keep(state, read, payload.externalURL[:_MAX_ADDRESS], now)
    _count(state, read)
    if not read.alerts and not read.has_watchdog and read.refused:
        raise HTTPException(422, f"none of the alerts was taken: {_words(read.refused)}")
    return AlertsTaken(
        num_taken=len(read.alerts),
        is_watchdog_heard=read.has_watchdog,
        num_refused=len(read.refused) + read.num_truncated,
        refused=read.refused[:_MAX_REFUSED_TOLD],
    )


def read_alerts(state: State, now_unix_ns: int, deployment: str | None = None) -> AlertList:
    """Pages first, then the newest."""
    with state.config_db.reading() as session:
        is_open = IncidentState.OPEN
        found = list_incidents(session, deployment=deployment, state=is_open, limit=None)
        silences = list_in_force(session, now_unix_ns)
    return AlertList(
        as_of_unix_ns=now_unix_ns,
        heard=read_heard_views(state, now_unix_ns),
        alerts=[view_alert(each, silences, now_unix_ns) for each in _firing(found)],
    )


def read_heard_views(state: State, now_unix_ns: int) -> list[HeardView]:
    """Of each source of alerts that was ever heard."""
    with state.config_db.reading() as session:
        return [view_heard(each, now_unix_ns) for each in read_heard(session)]


def _firing(incidents: Iterable[StoredIncident]) -> list[StoredAlert]:
    firing = [each for incident in incidents for each in incident.alerts if each.is_firing]
    return sorted(
        firing,
        key=lambda each: (each.subject.severity is not Severity.PAGE, -each.started_at_unix_ns),
    )


def _keep(state: State, read: ReadPayload, told_by: str, now_unix_ns: int) -> None:
    """What cannot be stored is answered by a 503, and Alertmanager tells it again."""
    book: AlertBook = state.alert_book
    book.take(read.alerts, now_unix_ns)
    if read.has_watchdog:
        heard = AlertingHeard(
            source=AlertSource.ALERTMANAGER,
            heard_at_unix_ns=now_unix_ns,
            ended_at_unix_ns=read.watchdog_ended_at_unix_ns,
            told_by=told_by or None,
        )
        with state.config_db.session() as session:
            keep_heard(session, heard)
        book.end_unrepeated(AlertSource.ALERTMANAGER, now_unix_ns)


def _count(state: State, read: ReadPayload) -> None:
    counters: AlertCounters = state.alert_counters
    refused = Counter(each.reason for each in read.refused)
    refused[Refusal.TRUNCATED] += read.num_truncated
    counters.add(len(read.alerts), refused)
    if read.refused or read.num_truncated:
        _log.warning(
            "alerts were not taken", why=_words(read.refused), truncated=read.num_truncated
        )


def _words(refused: list[RefusedAlert]) -> str:
    told = dict.fromkeys(f"{each.name or 'one without a name'}: {each.why}" for each in refused)
    return "; ".join(list(told)[:5])
