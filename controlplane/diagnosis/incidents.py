"""Which findings belong to one incident, when one is opened, and when it is over.

A finding that stays for two looks, or is certain at the first, belongs to the open incident that
found its mechanism before; otherwise to one that was opened just now and is still to be seen,
because one trouble shows in several ways; otherwise it opens its own. What is wrong with figures is
no part of what is wrong with the service, and the other way round. An incident is over when nothing
of it was seen for a while although somebody looked; what comes back soon reopens it, so that a
trouble that flaps is one incident and not thirty.

An alert may have opened it (`controlplane.slo.alert_grouping`): what is found then is why, and
while an alert fires it is not over. One that alerts alone tell of is over when they say so.
"""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from controlplane.diagnosis.always_on.clipping import newest_part
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis, Finding
from controlplane.diagnosis.incident_settings import IncidentSettings
from controlplane.diagnosis.json_form import finding_as_json
from controlplane.diagnosis.mechanism import OF_FIGURES, Mechanism
from controlplane.diagnosis.onset import find_onset
from controlplane.diagnosis.sources.failed_scrapes import SILENT_KEY
from controlplane.diagnosis.sources.refusals import SHUT_KEY
from controlplane.diagnosis.views.ending import end_of
from controlplane.store.database import Database
from controlplane.store.incident import FoundFinding, IncidentState, StoredIncident
from controlplane.store.incident_lists import list_current
from controlplane.store.incidents import open_incident, resolve_incident, see_again

_NS = 10**9
NO_TROUBLE = frozenset({Mechanism.HEALTHY, Mechanism.QUEUE_BURST_DRAINING})
"""Nothing is to be done about them: a queue that gets shorter by itself wakes nobody."""
_NEVER_PART = frozenset({Mechanism.ENGINE_HUNG, Mechanism.ENGINE_GONE})
"""Who is called has to read of it first: it is no part of a trouble that was found before."""


class IncidentKeeper:
    """Keeps the incidents of all deployments. One thread uses it."""

    def __init__(self, database: Database, settings: IncidentSettings | None = None) -> None:
        self._database = database
        self._settings = settings or IncidentSettings()
        self._looks: dict[tuple[str, str], int] = {}

    def take(self, deployment: str, diagnosis: Diagnosis, now_unix_ns: int) -> bool:
        """What was found at one look. `diagnosis.window` has a Unix clock. Whether anything of it
        was to be written."""
        troubles = [each for each in diagnosis.findings if each.mechanism not in NO_TROUBLE]
        lasting = self._lasting(deployment, troubles)
        known = self._known(deployment, now_unix_ns)
        if not lasting and not self._over(known, diagnosis, troubles, now_unix_ns):
            return False
        parts = group(lasting, known, now_unix_ns, self._settings)
        since = {
            _key(part): _since(diagnosis, findings[0], part)
            for part, findings in parts
            if part is None or part.state is not IncidentState.OPEN
        }
        # Only now: whoever writes config waits for whoever holds a session open.
        with self._database.session() as session:
            # And once more: an operator, or a control plane that has just lost its place, may have
            # opened or resolved one meanwhile.
            known = self._current(session, deployment, now_unix_ns)
            for incident, findings in group(lasting, known, now_unix_ns, self._settings):
                found = [_found(finding) for finding in findings]
                began = since.get(_key(incident))
                if incident is None:
                    open_incident(session, deployment, found, began, now_unix_ns)
                else:
                    see_again(session, incident.incident_id, found, now_unix_ns, began)
            over = self._over(known, diagnosis, troubles, now_unix_ns)
            for incident, what in (*over, *_ended_with_process(known, diagnosis, lasting)):
                resolve_incident(session, incident.incident_id, what, now_unix_ns)
        return True

    def forget(self, deployment: str) -> None:
        """It is gone, or was not looked at for a while: what comes back begins anew."""
        self._looks = {key: n for key, n in self._looks.items() if key[0] != deployment}

    def _known(self, deployment: str, now_unix_ns: int) -> "list[Known]":
        with self._database.reading() as session:
            return self._current(session, deployment, now_unix_ns)

    def _current(self, session: Session, deployment: str, now_unix_ns: int) -> "list[Known]":
        since = now_unix_ns - round(self._settings.reopens_within_seconds * _NS)
        return list_current(session, deployment, since)

    def _over(
        self,
        known: "Sequence[Known]",
        diagnosis: Diagnosis,
        troubles: Sequence[Finding],
        now_unix_ns: int,
    ) -> list[tuple[StoredIncident, str]]:
        """Those of which nothing was seen for a while, with the words to resolve them."""
        if not _could_see(diagnosis):
            return []
        seen = {finding.mechanism.value for finding in troubles}
        return [
            (incident, _why_over(diagnosis, incident, now_unix_ns))
            for incident, mechanisms in known
            if self._is_over(incident, mechanisms & seen, now_unix_ns)
        ]

    def _lasting(self, deployment: str, troubles: Sequence[Finding]) -> list[Finding]:
        """Those that were there long enough to be told of."""
        looks = {
            (deployment, finding.rule.id): self._looks.get((deployment, finding.rule.id), 0) + 1
            for finding in troubles
        }
        others = {key: count for key, count in self._looks.items() if key[0] != deployment}
        self._looks = others | looks
        return [
            finding
            for finding in troubles
            if finding.confidence is Confidence.CERTAIN
            or looks[deployment, finding.rule.id] >= self._settings.min_looks
        ]

    def _is_over(
        self, incident: StoredIncident, still_seen: frozenset[str], now_unix_ns: int
    ) -> bool:
        if incident.state is not IncidentState.OPEN or still_seen:
            return False
        if incident.is_alerting or incident.mechanism is None:
            return False
        unseen_seconds = (now_unix_ns - incident.last_seen_at_unix_ns) / _NS
        return unseen_seconds >= self._settings.resolves_after_seconds


Known = tuple[StoredIncident, frozenset[str]]
"""An incident with the mechanisms found in it."""


def group(
    findings: Sequence[Finding],
    known: Sequence[Known],
    now_unix_ns: int,
    settings: IncidentSettings,
) -> list[tuple[StoredIncident | None, list[Finding]]]:
    """To which incident each finding belongs; None: to a new one, all such together."""
    parts: dict[str, tuple[StoredIncident | None, list[Finding]]] = {}
    for finding in findings:
        incident = _belongs_to(finding, known, now_unix_ns, settings)
        parts.setdefault(_key(incident), (incident, []))[1].append(finding)
    return list(parts.values())


def _belongs_to(
    finding: Finding, known: Sequence[Known], now_unix_ns: int, settings: IncidentSettings
) -> StoredIncident | None:
    is_open = [each for each in known if each[0].state is IncidentState.OPEN]
    is_resolved = [each for each in known if each[0].state is not IncidentState.OPEN]
    if (again := _find_with(finding, is_open)) is not None:
        return again
    untold = (each for each, _ in is_open if each.mechanism is None and each.is_alerting)
    if finding.mechanism not in OF_FIGURES and (alerted := next(untold, None)) is not None:
        return alerted  # alerts say that something is wrong, and this is the first to say what
    if (again := _find_with(finding, is_resolved)) is not None:
        return again
    if finding.mechanism in _NEVER_PART:
        return None
    return next(
        (each for each, _ in is_open if _may_show_as(each, finding, now_unix_ns, settings)), None
    )


def _find_with(finding: Finding, known: Sequence[Known]) -> StoredIncident | None:
    """The first in which its mechanism was found."""
    return next((each for each, found in known if finding.mechanism.value in found), None)


def _may_show_as(
    incident: StoredIncident, finding: Finding, now_unix_ns: int, settings: IncidentSettings
) -> bool:
    """Whether a mechanism that was not found in it may be the same trouble."""
    if (finding.mechanism in OF_FIGURES) != (incident.mechanism in OF_FIGURES):
        return False
    opened_seconds = (now_unix_ns - incident.opened_at_unix_ns) / _NS
    unseen_seconds = (now_unix_ns - incident.last_seen_at_unix_ns) / _NS
    return (
        opened_seconds <= settings.joins_within_seconds
        and unseen_seconds <= settings.seen_within_seconds
    )


def _key(incident: StoredIncident | None) -> str:
    """Of a part; empty: of what belongs to no incident yet."""
    return "" if incident is None else incident.incident_id


def _since(diagnosis: Diagnosis, finding: Finding, before: StoredIncident | None) -> int | None:
    """When what was found began; where it was found `before`, when it came back: nothing from
    before it was last seen says that."""
    window = diagnosis.window
    earliest = 0.0 if before is None else before.last_seen_at_unix_ns / _NS
    if before is not None:
        window = newest_part(window, window.end - earliest)
    onset = find_onset(window, finding)
    if onset is not None:
        return round(onset.at * _NS)
    silent = [
        cited.at - cited.value
        for cited in finding.verdict.cited
        if cited.name.partition(".")[0] in (SILENT_KEY, SHUT_KEY) and not cited.is_beside
    ]
    later = [at for at in silent if at > earliest]
    return round(min(later) * _NS) if later else None


def _ended_with_process(
    known: Sequence[Known], diagnosis: Diagnosis, lasting: Sequence[Finding]
) -> list[tuple[StoredIncident, str]]:
    """Of engines all of which are gone: none of them hangs any more. What else was found of them
    may be why they ended, and is over when they are back without it."""
    is_gone = any(finding.mechanism is Mechanism.ENGINE_GONE for finding in lasting)
    if not is_gone or end_of(diagnosis.window) is None:
        return []
    seen = {finding.mechanism.value for finding in diagnosis.findings}
    return [
        (incident, f"its process is gone; now: {diagnosis.mechanism.value}")
        for incident, mechanisms in known
        if incident.state is IncidentState.OPEN
        and Mechanism.ENGINE_HUNG.value in mechanisms
        and not mechanisms & seen
        and not incident.is_alerting
    ]


def _could_see(diagnosis: Diagnosis) -> bool:
    """A look that saw nothing of the engine says nothing about an end either, and one at an engine
    that is gone says of another end."""
    if end_of(diagnosis.window) is not None:
        return False
    return diagnosis.mechanism is not Mechanism.CANNOT_TELL or bool(diagnosis.window.series)


def _why_over(diagnosis: Diagnosis, incident: StoredIncident, now_unix_ns: int) -> str:
    seconds = (now_unix_ns - incident.last_seen_at_unix_ns) / _NS
    return f"not seen for {seconds:.0f} s; now: {diagnosis.mechanism.value}"


def _found(finding: Finding) -> FoundFinding:
    return FoundFinding(
        rule_id=finding.rule.id,
        mechanism=finding.mechanism.value,
        confidence=finding.confidence.word,
        finding=finding_as_json(finding),
    )
