"""Made-up incidents for the seeded console, found by the real rules in made-up signals."""

import math
from dataclasses import replace
from functools import lru_cache

from controlplane.diagnosis.always_on.diagnoses import LastDiagnosis
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.incidents import IncidentKeeper
from controlplane.diagnosis.json_form import diagnosis_as_json
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.window import EngineName, Window
from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_book import AlertBook
from controlplane.slo.alert_windows import Severity
from controlplane.store.alerting_heard import AlertingHeard, keep_heard
from controlplane.store.database import Database
from controlplane.store.incident_lists import list_incidents
from controlplane.store.incidents import acknowledge_incident
from dataplane.engine_metrics.signal import Signal

_NS = 10**9
_EVERY = 5
_WATCHED = 600
_LOOK_EVERY = 90
_DEPLOYMENT, _OTHER = "chat", "summarize"
_CALM_AGO, _OVER_AGO, _THRASH_AGO = 5400, 4800, 240
"""Seconds before now: an incident that is over lasted from the first to the second."""


def store_incidents(database: Database, now_unix_ns: int) -> None:
    """One of an hour ago that is over, and one that is open and looked after."""
    keeper = IncidentKeeper(database)
    now = now_unix_ns / _NS
    for begins, ends in ((_CALM_AGO, _OVER_AGO), (_THRASH_AGO, 0)):
        for ago in range(begins + 60, ends - 120, -_LOOK_EVERY):
            at = now - max(ago, 0)
            is_over = ends > 0 and ago <= ends
            keeper.take(_DEPLOYMENT, _diagnosis(at, now - begins, is_over), round(at * _NS))
            if ago <= 0:
                break
    with database.session() as session:
        newest = list_incidents(session, limit=1)[0]
        acknowledge_incident(
            session, newest.incident_id, "anna", "fewer seats: trying 96", now_unix_ns
        )


def store_alerts(database: Database, now_unix_ns: int) -> None:
    """A page about what diagnosis found, told by both sources, a ticket about another deployment of
    which nothing else is known, and one of the installation; and alerting was just heard."""
    book = AlertBook(database)
    page = _burn(_DEPLOYMENT, "interactive", "page_quick", now_unix_ns - 150 * _NS)
    told = replace(page, source=AlertSource.ALERTMANAGER)
    book.take([page], now_unix_ns - 150 * _NS)
    ticket = _burn(_OTHER, "batch", "ticket_slow", now_unix_ns - 5000 * _NS)
    book.take([told, ticket, _gateway_down(now_unix_ns)], now_unix_ns - 40 * _NS)
    heard = AlertingHeard(
        source=AlertSource.ALERTMANAGER,
        heard_at_unix_ns=now_unix_ns - 12 * _NS,
        told_by="http://alertmanager.example:9093",
    )
    with database.session() as session:
        keep_heard(session, heard)


def _burn(deployment: str, request_class: str, grade: str, started_at_unix_ns: int) -> Alert:
    is_page = grade.startswith("page")
    return Alert(
        subject=AlertSubject(
            name="PilothouseBudgetBurn",
            severity=Severity.PAGE if is_page else Severity.TICKET,
            grade=grade,
            deployment=deployment,
            request_class=request_class,
            objective="ttft",
        ),
        source=AlertSource.CONTROL_PLANE,
        summary=f"The error budget of {deployment} {request_class} ttft is burning",
        description=f"21.4 % of the requests of the last {'1h' if is_page else '3d'} missed "
        f"{request_class} ttft, and more than 14.4 % of the last {'5m' if is_page else '6h'}; "
        "99 % are promised. At 14.4 times the pace that the budget bears, a whole one lasts "
        "2 d 2 h.",
        started_at_unix_ns=started_at_unix_ns,
        contract_revision=f"{deployment}@2",
        runbook_url="http://console.example/runbooks/budget-burn",
    )


def _gateway_down(now_unix_ns: int) -> Alert:
    return Alert(
        subject=AlertSubject(
            name="PilothouseGatewayDown", severity=Severity.PAGE, instance="127.0.0.1:8711"
        ),
        source=AlertSource.ALERTMANAGER,
        summary="A gateway does not answer",
        description="127.0.0.1:8711 was not scraped for two minutes: callers may get no answer, "
        "and objectives are judged without it.",
        started_at_unix_ns=now_unix_ns - 60 * _NS,
        runbook_url="http://console.example/runbooks/gateway-restart",
    )


def last_diagnoses(now_unix_ns: int, *, has_trouble: bool) -> list[LastDiagnosis]:
    """What the rules said of both deployments a few seconds ago."""
    at_unix_ns = now_unix_ns - 8 * _NS
    at = at_unix_ns / _NS
    made = []
    for name, is_bad in ((_DEPLOYMENT, has_trouble), (_OTHER, False)):
        diagnosis = _diagnosis(at, at - _THRASH_AGO, is_over=not is_bad)
        made.append(
            LastDiagnosis(
                deployment=name,
                at_unix_ns=at_unix_ns,
                mechanism=diagnosis.mechanism.value,
                confidence=diagnosis.confidence.word if diagnosis.confidence else None,
                diagnosis=diagnosis_as_json(diagnosis),
                num_replicas=2,
                num_telling=1 if is_bad else 2,
                silent={f"{name}-2": "no answer within 2 s"} if is_bad else {},
                failed_rules=(),
            )
        )
    return made


@lru_cache(maxsize=64)
def _diagnosis(end: float, thrashes_from: float, is_over: bool) -> Diagnosis:
    """Kept for whoever seeds again at the same time, as tests do: most of a seed is spent here."""
    return diagnose(_window(end, thrashes_from, is_over=is_over), BUILT_IN_RULES)


def _window(end: float, thrashes_from: float, *, is_over: bool) -> Window:
    """Ten minutes up to `end`: a cache that is half full until preemptions begin."""
    times = [end - _WATCHED + _EVERY * step for step in range(_WATCHED // _EVERY + 1)]
    bad = [not is_over and at >= thrashes_from for at in times]
    wave = [math.sin(at / 17) for at in times]
    preemptions = 0.0
    counted, tokens, finished = [], [], []
    for step, is_bad in enumerate(bad):
        preemptions += round(19 + 4 * wave[step]) if is_bad else 0
        counted.append(371 + preemptions)
        tokens.append(1_000_000 + 40_000.0 * step)
        finished.append(800 + 12.0 * step)
    return Window(
        start=times[0],
        end=end,
        engine=EngineName(name="vllm", version="0.22.0"),
        series=(
            _series(Signal.RUNNING, "vllm:num_requests_running", times,
                    [round((118 if b else 40) + 3 * w) for b, w in zip(bad, wave, strict=True)]),
            _series(Signal.WAITING, "vllm:num_requests_waiting", times,
                    [round(12 + 4 * w) if b else 0.0 for b, w in zip(bad, wave, strict=True)]),
            _series(Signal.KV_USAGE, "vllm:kv_cache_usage_perc", times,
                    [round(0.993 + 0.004 * w if b else 0.45 + 0.02 * w, 3)
                     for b, w in zip(bad, wave, strict=True)]),
            _series(Signal.PREEMPTIONS, "vllm:num_preemptions_total", times, counted),
            _series(Signal.GENERATION_TOKENS, "vllm:generation_tokens_total", times, tokens),
            _series(Signal.FINISHED, "vllm:request_success_total", times, finished),
        ),
    )  # fmt: skip


def _series(signal: Signal, name: str, times: list[float], values: list[float]) -> Series:
    return Series(
        signal=signal,
        origin=Origin(kind=SourceKind.METRICS, name=name),
        readings=tuple(
            Reading(at, value, f"{value:g}") for at, value in zip(times, values, strict=True)
        ),
    )
