"""What an incident is: findings and alerts about one trouble, with a state and a timeline."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from controlplane.store.incident_alert import StoredAlert
from controlplane.store.incident_spell import IncidentSpell

BY_ITSELF = "pilothouse"
"""The actor of what nobody asked for."""
MAX_LISTED_SPELLS = 20
"""Of one incident: what flaps for days has thousands, and whoever wants them asks for it alone."""


class IncidentState(StrEnum):
    """Whether the trouble is there."""

    OPEN = "open"
    RESOLVED = "resolved"


class IncidentEventKind(StrEnum):
    """What can happen to an incident."""

    OPENED = "opened"
    FOUND = "found"
    """A rule that had not said anything in it before."""
    CHANGED = "changed"
    """Another finding is the surest now."""
    ALERTED = "alerted"
    """An alert began to fire."""
    ENDED = "ended"
    """An alert fires no more, by anybody who told of it."""
    ACKNOWLEDGED = "acknowledged"
    NOTE = "note"
    RESOLVED = "resolved"
    REOPENED = "reopened"


class IncidentError(ValueError):
    """What cannot be done to an incident; the message says why."""


class UnknownIncidentError(IncidentError):
    """No incident has that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFinding:
    """What a rule found, at one look."""

    rule_id: str
    mechanism: str
    confidence: str
    finding: dict[str, Any]
    """In the form of `controlplane.diagnosis.json_form`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFinding:
    """What a rule said in the course of an incident."""

    rule_id: str
    mechanism: str
    confidence: str
    first_seen_at_unix_ns: int
    last_seen_at_unix_ns: int
    num_seen: int
    finding: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentEvent:
    """One line of an incident's timeline."""

    at_unix_ns: int
    kind: IncidentEventKind
    actor: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIncident:
    """One incident without its findings and its timeline."""

    incident_id: str
    deployment: str | None
    """None: it is one of the installation itself."""
    state: IncidentState
    mechanism: str | None
    """Of the surest finding; None: nothing but alerts tells of it, since it was last opened."""
    confidence: str | None
    """None where there is no mechanism."""
    opened_at_unix_ns: int
    since_unix_ns: int | None
    """Of the first time, as `opened_at_unix_ns`."""
    last_seen_at_unix_ns: int
    resolved_at_unix_ns: int | None
    num_reopened: int
    acknowledged_at_unix_ns: int | None
    acknowledged_by: str | None
    spells: tuple[IncidentSpell, ...]
    """The times in which it was open, oldest first; at least one. In lists, and as changed, the
    last of them; there are `num_reopened` + 1."""
    alerts: tuple[StoredAlert, ...] = ()
    """Those that fire first, pages before tickets."""

    @property
    def title(self) -> str:
        """Its mechanism; what the most urgent alert says, where none is known."""
        return self.mechanism or next((each.last.summary for each in self.alerts), "")

    @property
    def is_alerting(self) -> bool:
        """One of its alerts fires: it is not over, whatever else is seen."""
        return any(each.is_firing for each in self.alerts)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeIncident:
    """One incident with all that is kept of it."""

    incident: StoredIncident
    findings: tuple[StoredFinding, ...]
    """The last seen first."""
    events: tuple[IncidentEvent, ...]
    """In the order in which they were told."""
