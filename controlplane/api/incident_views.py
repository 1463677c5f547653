"""Incidents as API, console and terminal show them. Pure conversions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from controlplane.api.alert_views import AlertView, runbook_of, view_alert
from controlplane.api.spent_views import SpentView
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.store.incident_alert import severity_of
from controlplane.store.incident_spell import IncidentSpell
from dataplane.lifecycle import BROKEN, REFUSED

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.api.marks import Mark
    from controlplane.slo.silences import Silence
    from controlplane.store.incident import StoredFinding, StoredIncident, WholeIncident
    from controlplane.store.usage import UsageKey

_MAX_HURT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentLine:
    """One incident in a list."""

    incident_id: str
    deployment: str | None
    """None: it is one of the installation itself."""
    state: str
    """open or resolved."""
    title: str
    """Its mechanism; what the most urgent alert says, where none is known."""
    mechanism: str | None
    """Of the surest finding; None: nothing but alerts tells of it, since it was last opened."""
    meaning: str
    """What the mechanism means; without one, what the most urgent alert says in full."""
    confidence: str | None
    severity: str | None
    """page or ticket: of the most urgent alert that fires; None: none does."""
    num_firing: int
    """Alerts of it that fire."""
    opened_at_unix_ns: int
    since_unix_ns: int | None
    """When the signal that tells it changed its level; None where that could not be seen. Of the
    first time, as `opened_at_unix_ns`: `spells` has those since it was reopened."""
    last_seen_at_unix_ns: int
    resolved_at_unix_ns: int | None
    num_reopened: int
    spells: list[IncidentSpell]
    """The times in which it was open, oldest first; at least one. In lists the last 20; there are
    `num_reopened` + 1, and an incident asked for by its id has them all."""
    acknowledged_at_unix_ns: int | None
    acknowledged_by: str | None
    runbook: str | None

    def open_seconds(self, now_unix_ns: int) -> float:
        """For how long it was open, all of `spells` together."""
        spans = (
            spell.ended_at_unix_ns(now_unix_ns) - spell.began_at_unix_ns for spell in self.spells
        )
        return sum(spans) / 1e9

    @property
    def has_earlier_spells(self) -> bool:
        """It was open at times that are not among `spells`."""
        return self.num_reopened >= len(self.spells)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentList:
    """Incidents, the newest first."""

    as_of_unix_ns: int
    incidents: list[IncidentLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """What one rule said in the course of an incident; `finding` is its last word."""

    rule_id: str
    mechanism: str
    confidence: str
    first_seen_at_unix_ns: int
    last_seen_at_unix_ns: int
    num_seen: int
    finding: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentEventView:
    """One line of its timeline."""

    at_unix_ns: int
    kind: str
    actor: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentChange:
    """Something that was changed before it began or while it lasted. That makes it no cause."""

    at_unix_ns: int
    kind: str
    text: str
    lag_seconds: float
    """Until the incident began, or began again; negative for what came after the last time."""
    began_at_unix_ns: int
    """When it did: the next time that one of `spells` began, or the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurt:
    """How requests of one class and tenant fared while it was open."""

    request_class: str
    tenant: str
    num_offered: int
    num_judged: int
    num_missed: int
    """Out of contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentDetail:
    """One incident, whole."""

    as_of_unix_ns: int
    incident: IncidentLine
    findings: list[FindingView]
    """The last seen first."""
    alerts: list[AlertView]
    """Those that fire first, pages before tickets."""
    spent: list[SpentView]
    """Of each objective that an alert tells of, in their order."""
    events: list[IncidentEventView]
    """Oldest first."""
    changes: list[IncidentChange]
    """The last before it began again first, then those before it began the times before; what came
    since behind them."""
    hurt: list[Hurt]
    """Who missed most first; whoever missed nothing is left out."""
    num_judged: int
    """Requests held against a contract while it was open; 0: nobody can say who missed one."""
    num_offered: int
    num_refused: int
    """Of them, turned away before or while they waited."""
    num_failed: int
    """Of them, those that were taken and got no whole answer: too late, an error, or lost."""
    requests_query: str
    """For /requests: those that broke their contract since it was last opened."""


def view_line(stored: "StoredIncident") -> IncidentLine:
    """One incident in a list."""
    severity = severity_of(stored.alerts)
    return IncidentLine(
        incident_id=stored.incident_id,
        deployment=stored.deployment,
        state=stored.state.value,
        title=stored.title,
        mechanism=stored.mechanism,
        meaning=_meaning(stored),
        confidence=stored.confidence,
        severity=None if severity is None else severity.value,
        num_firing=sum(each.is_firing for each in stored.alerts),
        opened_at_unix_ns=stored.opened_at_unix_ns,
        since_unix_ns=stored.since_unix_ns,
        last_seen_at_unix_ns=stored.last_seen_at_unix_ns,
        resolved_at_unix_ns=stored.resolved_at_unix_ns,
        num_reopened=stored.num_reopened,
        spells=list(stored.spells),
        acknowledged_at_unix_ns=stored.acknowledged_at_unix_ns,
        acknowledged_by=stored.acknowledged_by,
        runbook=_runbook(stored),
    )


def view_detail(
    whole: "WholeIncident",
    marks: Sequence["Mark"],
    usage: Mapping["UsageKey", Mapping[str, int]],
    now_unix_ns: int,
    spent: Sequence[SpentView] = (),
    silences: Sequence["Silence"] = (),
) -> IncidentDetail:
    """All of one; `usage` is of its deployment and of the times alone in which it was open;
    `silences` are those in force."""
    incident = whole.incident
    return IncidentDetail(
        as_of_unix_ns=now_unix_ns,
        incident=view_line(incident),
        findings=[_view_finding(each) for each in whole.findings],
        alerts=[view_alert(each, silences, now_unix_ns) for each in incident.alerts],
        spent=list(spent),
        events=[
            IncidentEventView(
                at_unix_ns=each.at_unix_ns, kind=each.kind.value, actor=each.actor, what=each.what
            )
            for each in whole.events
        ],
        changes=_changes(marks, [each.began_at_unix_ns for each in incident.spells]),
        hurt=_hurt(usage),
        num_judged=_total(usage, "in_contract.total"),
        num_offered=_total(usage, "offered"),
        num_refused=sum(_total(usage, f"disposition.{each.value}") for each in REFUSED),
        num_failed=sum(_total(usage, f"disposition.{each.value}") for each in BROKEN),
        requests_query=_query_of_missed(incident, now_unix_ns),
    )


def _view_finding(stored: "StoredFinding") -> FindingView:
    return FindingView(
        rule_id=stored.rule_id,
        mechanism=stored.mechanism,
        confidence=stored.confidence,
        first_seen_at_unix_ns=stored.first_seen_at_unix_ns,
        last_seen_at_unix_ns=stored.last_seen_at_unix_ns,
        num_seen=stored.num_seen,
        finding=stored.finding,
    )


def _query_of_missed(incident: "StoredIncident", now_unix_ns: int) -> str:
    """For the requests that broke their contract since it was last opened."""
    spell = incident.spells[-1]
    whose = {} if incident.deployment is None else {"deployment": incident.deployment}
    return urlencode(
        {
            **whose,
            "in_contract": "false",
            "since": _iso(spell.began_at_unix_ns),
            "until": _iso(spell.ended_at_unix_ns(now_unix_ns)),
        }
    )


def _meaning(stored: "StoredIncident") -> str:
    mechanism = _find_mechanism(stored.mechanism)
    told = () if stored.mechanism else stored.alerts
    return mechanism.meaning if mechanism else next((each.last.description for each in told), "")


def _runbook(stored: "StoredIncident") -> str | None:
    """That of its mechanism, or that which the most urgent alert leads to."""
    mechanism = _find_mechanism(stored.mechanism)
    if mechanism is not None:
        return mechanism.runbook
    return runbook_of(next((each.last.runbook_url for each in stored.alerts), None))


def _find_mechanism(word: str | None) -> Mechanism | None:
    """None for one that a plugin of another version named."""
    return next((each for each in Mechanism if each.value == word), None)


def _changes(marks: Sequence["Mark"], began: Sequence[int]) -> list[IncidentChange]:
    """`began`: each time that it did, oldest first."""
    changes = [_view_change(mark, began) for mark in marks]
    before = [change for change in changes if change.lag_seconds >= 0]
    after = [change for change in changes if change.lag_seconds < 0]
    before.sort(key=lambda change: (-change.began_at_unix_ns, change.lag_seconds))
    return [*before, *sorted(after, key=lambda change: -change.lag_seconds)]


def _view_change(mark: "Mark", began: Sequence[int]) -> IncidentChange:
    next_began = next((each for each in began if each >= mark.at_unix_ns), began[-1])
    return IncidentChange(
        at_unix_ns=mark.at_unix_ns,
        kind=mark.kind,
        text=mark.text,
        lag_seconds=(next_began - mark.at_unix_ns) / 1e9,
        began_at_unix_ns=next_began,
    )


def _total(usage: Mapping["UsageKey", Mapping[str, int]], measure: str) -> int:
    return sum(counts.get(measure, 0) for counts in usage.values())


def _hurt(usage: Mapping["UsageKey", Mapping[str, int]]) -> list[Hurt]:
    found = [
        Hurt(
            request_class=key.request_class,
            tenant=key.tenant,
            num_offered=counts.get("offered", 0),
            num_judged=counts.get("in_contract.total", 0),
            num_missed=counts.get("in_contract.total", 0) - counts.get("in_contract.good", 0),
        )
        for key, counts in usage.items()
    ]
    missed = [each for each in found if each.num_missed > 0]
    return sorted(missed, key=lambda each: -each.num_missed)[:_MAX_HURT]


def _iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
