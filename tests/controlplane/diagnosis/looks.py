"""One look of the diagnosis after another at deployments, with findings that are made up."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.incidents import IncidentKeeper
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from controlplane.store.database import Database
from controlplane.store.incident import StoredIncident, WholeIncident
from controlplane.store.incident_lists import find_incident, list_incidents
from dataplane.engine_metrics.signal import Signal

_S = 10**9


class Looks:
    """One look after another at one deployment."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._keeper = IncidentKeeper(database)

    def look(
        self, at: int, *found: tuple[Mechanism, Confidence], deployment: str = "chat"
    ) -> list[StoredIncident]:
        """What the database holds after a look at second `at`."""
        rules = [_rule(mechanism, confidence) for mechanism, confidence in found]
        reading = Reading(float(at), 1.0, "1")
        origin = Origin(kind=SourceKind.METRICS, name="vllm:num_requests_running")
        series = Series(signal=Signal.RUNNING, origin=origin, readings=(reading,))
        window = Window(start=at - 60, end=at, series=(series,))
        self._keeper.take(deployment, diagnose(window, rules), at * _S)
        return self.incidents()

    def incidents(self) -> list[StoredIncident]:
        with self._database.reading() as session:
            return list_incidents(session)

    def whole(self, incident_id: str) -> WholeIncident:
        with self._database.reading() as session:
            found = find_incident(session, incident_id)
        assert found is not None
        return found


def _rule(mechanism: Mechanism, confidence: Confidence) -> Rule:
    verdict = Verdict(confidence=confidence, evidence=(f"saw {mechanism.value}",))
    return Rule(
        id=mechanism.value,
        mechanism=mechanism,
        judge=lambda window: verdict,
        needs=(),
        told_apart="by hand",
        remedy="wait",
        hides="nothing",
    )
