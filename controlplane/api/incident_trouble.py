"""Open incidents as troubles of the overview. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.api.incident_views import IncidentLine
from controlplane.api.trouble import ENOUGH_JUDGED, Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class LateContract:
    """How a deployment kept its contract in the last minutes."""

    num_good: int
    num_judged: int
    promised_share: float | None
    """The lowest share that the contract promises to any class; None: no contract."""

    @property
    def is_hurting(self) -> bool:
        """Whether callers get less than was promised to them, as far as can be told."""
        return (
            self.promised_share is not None
            and self.num_judged >= ENOUGH_JUDGED
            and self.num_good < self.promised_share * self.num_judged
        )


def trouble_of(incident: IncidentLine, late: LateContract | None) -> Trouble:
    """A page where callers are hurt now, or an alert says so; otherwise it can wait until somebody
    is there."""
    is_hurting = late is not None and late.is_hurting
    began = incident.spells[-1].began_at_unix_ns
    since = datetime.fromtimestamp(began // 10**9, UTC)
    whose = f"{incident.deployment}: " if incident.deployment else ""
    what = f"{whose}{incident.title} ({_sureness(incident)}) since "
    what += f"{since:%Y-%m-%d %H:%M:%S} UTC. {incident.meaning}".rstrip(" .")
    if late is not None and is_hurting:
        missed = late.num_judged - late.num_good
        what += f"; {missed} of {late.num_judged} requests missed the contract lately"
    if incident.mechanism is not None and incident.severity is not None:
        what += f"; {_alerts(incident)}"
    if incident.acknowledged_by is not None:
        what += f"; {incident.acknowledged_by} looks after it"
    return Trouble(
        severity="page" if is_hurting or incident.severity == "page" else "ticket",
        what=what,
        remedy=f"Run `pilothouse incidents {incident.incident_id}`{_runbook(incident)}.",
        deployment=incident.deployment,
        about="incidents",
    )


def _sureness(incident: IncidentLine) -> str:
    """Of a finding; where alerts alone tell of it, by how many."""
    return incident.confidence or _alerts(incident)


def _alerts(incident: IncidentLine) -> str:
    fires = "alert fires" if incident.num_firing == 1 else "alerts fire"
    worst = f", {incident.severity}" if incident.severity else ""
    return f"{incident.num_firing} {fires}{worst}"


def _runbook(incident: IncidentLine) -> str:
    if incident.runbook is None:
        return ""
    name = incident.runbook.rsplit("/", 1)[-1].removesuffix(".md")
    return f" and follow the runbook {name}"
