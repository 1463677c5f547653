"""What is, as last seen: gateways and replicas, each with the time of the evidence.

Kept in memory: thousands of heartbeats are no commits. The operator and the gateway API
write it, console and API read it, from several threads.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.operator.page_look import PageLook
from controlplane.operator.restart import Restart
from controlplane.operator.stray import Stray
from controlplane.slo.silences import Silence
from controlplane.store.overrides import StoredOverride
from dataplane.clock import WallClock, wall_clock
from dataplane.report import GatewayReport

_REPLACED_NS = 3 * 10**9
"""A process that was silent for so long while another of its name reports was replaced by it."""
_REFUSED_NS = 5 * 10**9
"""Who was not refused for so long is accepted again. A gateway calls every second."""
_SHOWN_NS = 60 * 10**9
"""What was refused and does not call any more is only silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReplica:
    """One replica as the operator last saw it."""

    replica_id: str
    deployment: str
    engine: str
    model_revision: str
    state: str
    """starting, ready, unreachable, draining, stopped or failed."""
    reason: str
    """Why it is in that state."""
    stage: str | None
    """Of the start: acquire, load, compile, warm_up, serving."""
    pid: int | None
    address: str | None
    metrics_address: str | None
    start_stages: dict[str, float]
    """Seconds."""
    probed_at_unix_ns: int | None
    """When it last generated a token for a probe."""
    observed_at_unix_ns: int
    """When whoever shows it (its launcher; gateways, of an attached endpoint) last did so."""
    is_observed_only: bool = False
    """No request reaches it through Pilothouse, which reads its metrics."""
    look: PageLook | None = None
    """Of one that is only observed; None: it was not asked yet."""
    is_attached: bool = False
    """Somebody else's server: others may send it requests too."""
    rollout: int | None = None
    """Whose candidate it was started for."""
    unobservable_stages: tuple[str, ...] = ()
    """Stages of the start that the engine does not show: they are inside another one, if at all."""
    fencing_token: int = 0
    """Grows with every replica that is started; 0: it was started before there were tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A gateway whose calls are refused, though it is who it says it is or was known before."""

    why: str
    age_seconds: float
    """Since its last call."""


class ObservedState:
    """The last report of every gateway, the last observation of every replica, and what overrides
    and silences are in force."""

    def __init__(self, clock: WallClock = wall_clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._gateways: dict[str, tuple[GatewayReport, int]] = {}
        self._refusals: dict[str, tuple[str, int]] = {}
        self._replicas: dict[str, ObservedReplica] = {}
        self._deployments: dict[str, str] = {}
        self._overrides: list[StoredOverride] = []
        self._silences: list[Silence] = []
        self._looks: dict[str, PageLook] = {}
        self._restarts: dict[str, Restart] = {}
        self._strays: list[Stray] = []
        self._strays_unseen: dict[str, str] = {}
        self._failures: dict[str, int] = {}
        self._holds: dict[str, str] = {}

    def put_gateway(self, report: GatewayReport) -> None:
        """Keep the newest report of the process `report.gateway_id`, and forget those that had
        its name before and are silent."""
        with self._lock:
            now = self._clock()
            self._gateways[report.gateway_id] = (report, now)
            for gateway_id, (other, received_at) in list(self._gateways.items()):
                if other.name == report.name and now - received_at > _REPLACED_NS:
                    del self._gateways[gateway_id]

    def gateways(self) -> list[tuple[GatewayReport, float]]:
        """Every gateway's last report with its age in seconds, by name and start.

        Of one name there are two while a process hands over to the next: both report. Otherwise
        it is the one that reported last, however long ago.
        """
        with self._lock:
            now = self._clock()
            last: dict[str, int] = {}
            for report, received_at in self._gateways.values():
                last[report.name] = max(received_at, last.get(report.name, received_at))
            shown = [
                (report, (now - received_at) / 1e9)
                for report, received_at in self._gateways.values()
                if received_at == last[report.name] or now - received_at < _REPLACED_NS
            ]
        return sorted(shown, key=lambda each: (each[0].name, each[0].started_at_unix_ns))

    def knows_gateway(self, name: str) -> bool:
        """One of that name has reported."""
        with self._lock:
            return any(report.name == name for report, _ in self._gateways.values())

    def note_refused(self, name: str, why: str) -> bool:
        """A call of the gateway `name` was refused just now. True when that is news."""
        with self._lock:
            before = self._refusals.get(name)
            self._refusals[name] = (why, self._clock())
        return before is None or before[0] != why

    def note_accepted(self, name: str) -> bool:
        """A call of the gateway `name` was taken. True when that is news: of two processes that
        share a name one may still be refused, and then it is not."""
        with self._lock:
            refused = self._refusals.get(name)
            if refused is None or self._clock() - refused[1] < _REFUSED_NS:
                return False
            del self._refusals[name]
            return True

    def refusals(self) -> dict[str, Refusal]:
        """By gateway: those whose calls were refused lately."""
        with self._lock:
            now = self._clock()
            return {
                name: Refusal(why=why, age_seconds=(now - at) / 1e9)
                for name, (why, at) in sorted(self._refusals.items())
                if now - at < _SHOWN_NS
            }

    def set_overrides(self, overrides: list[StoredOverride]) -> None:
        """Replace what was known of break-glass overrides: those in force, newest first."""
        with self._lock:
            self._overrides = overrides

    def overrides(self) -> list[StoredOverride]:
        """Those in force now, newest first: one whose time is over is left out at once."""
        with self._lock:
            now = self._clock()
            return [each for each in self._overrides if each.is_in_force(now)]

    def set_silences(self, silences: list[Silence]) -> None:
        """Replace what was known of silences and maintenance: those that are not over, also the
        planned ones, newest first."""
        with self._lock:
            self._silences = silences

    def silences(self) -> list[Silence]:
        """Those in force now, newest first: they begin and are over at their times."""
        with self._lock:
            now = self._clock()
            return [each for each in self._silences if each.is_in_force(now)]

    def set_looks(self, looks: dict[str, PageLook]) -> None:
        """Replace what was seen of the pages of servers that are only observed, by replica."""
        with self._lock:
            self._looks = looks

    def find_look(self, replica_id: str) -> PageLook | None:
        """None: nobody asked it yet."""
        with self._lock:
            return self._looks.get(replica_id)

    def set_restarts(self, restarts: dict[str, Restart]) -> None:
        """Replace what pages told of processes that were started anew, by replica."""
        with self._lock:
            self._restarts = restarts

    def find_restart(self, replica_id: str) -> Restart | None:
        """The newest; None: none was seen."""
        with self._lock:
            return self._restarts.get(replica_id)

    def set_failures(self, failures: dict[str, int], holds: dict[str, str]) -> None:
        """Replace how many replicas of each deployment failed in a row, and what each waits for."""
        with self._lock:
            self._failures, self._holds = failures, holds

    def failures(self) -> tuple[dict[str, int], dict[str, str]]:
        """As they were set last."""
        with self._lock:
            return self._failures, self._holds

    def set_strays(self, strays: list[Stray], unseen: dict[str, str] | None = None) -> None:
        """Replace what was known of processes that should not be, newest first, and why a launcher
        could not look for them."""
        with self._lock:
            self._strays, self._strays_unseen = strays, dict(unseen or {})

    def strays_unseen(self) -> dict[str, str]:
        """By launcher: why nobody knows whether there are any."""
        with self._lock:
            return dict(self._strays_unseen)

    def strays(self) -> list[Stray]:
        """Those that are there, and those that went of late, newest first."""
        with self._lock:
            return list(self._strays)

    def set_replicas(self, replicas: list[ObservedReplica]) -> None:
        """Replace the observation of all replicas by a newer one."""
        with self._lock:
            self._replicas = {replica.replica_id: replica for replica in replicas}
            self._deployments = {each.replica_id: each.deployment for each in replicas}

    def deployments_by_replica(self) -> Mapping[str, str]:
        """Whose each replica is."""
        with self._lock:
            return self._deployments

    def replicas(self) -> list[ObservedReplica]:
        """Every replica, by deployment and id."""
        with self._lock:
            return sorted(self._replicas.values(), key=lambda r: (r.deployment, r.replica_id))
