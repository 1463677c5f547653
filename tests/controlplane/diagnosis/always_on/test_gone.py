"""An engine that is killed under load: what it suffered from before is not what it is now."""

from pathlib import Path

from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.store.incidents import IncidentState
from tests.controlplane.diagnosis.always_on.metrics_server import MetricsServer, serving, vllm_page
from tests.controlplane.diagnosis.always_on.watched_fleet import replica, watched_fleet


class _Thrashing:
    """Requests are thrown out for room, all the time."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._num = 0

    def go_on(self) -> None:
        """Five seconds."""
        self._num += 1
        self._server.page = vllm_page(
            running=20 + self._num % 3,
            waiting=9 + self._num % 4,
            kv=round(0.995 + 0.001 * (self._num % 4), 4),
            preemptions=20 * self._num,
            prompt=9000 * self._num,
            generated=1500 * self._num,
            finished=3 * self._num,
        )


def test_its_incident_stays_and_keeps_its_name_and_its_end_is_asked_for(tmp_path: Path) -> None:
    with watched_fleet(tmp_path, BUILT_IN_RULES) as fleet:
        with serving() as server:
            fleet.runs(replica("chat-1", server.address))
            fleet.pass_for(60, _Thrashing(server).go_on)
            (before,) = fleet.incidents()
        fleet.pass_for(100)
        (incident,) = fleet.incidents()
        last = fleet.diagnoses.find("chat")
    assert (incident.state, incident.mechanism) == (IncidentState.OPEN, before.mechanism)
    assert last is not None
    assert (last.mechanism, last.confidence) == ("cannot_tell", None)
    first = last.diagnosis["findings"][0]
    assert "connection attempts failed" in first["needs"][0]
