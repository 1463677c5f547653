"""Deployments with incidents that are open: what is found of them is kept, until it is over.

One thread uses it. What wants the config database while it is away is left for a later pass.
"""

from functools import partial

from controlplane.diagnosis.always_on.outages import Outages
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.incident_settings import IncidentSettings
from controlplane.diagnosis.incidents import NO_TROUBLE, IncidentKeeper
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.store.database import Database
from controlplane.store.incident import IncidentState, StoredIncident
from controlplane.store.incident_lists import count_open, list_incidents
from controlplane.store.incidents import resolve_incident
from dataplane.clock import WallClock


class Troubled:
    """Of all deployments of one control plane."""

    def __init__(
        self, config_db: Database, outages: Outages, calm_seconds: float, clock: WallClock
    ) -> None:
        """An incident is over, and a deployment gone, after `calm_seconds` without it."""
        self._config_db = config_db
        self._outages = outages
        self._calm_seconds = calm_seconds
        self._clock = clock
        self._keeper = IncidentKeeper(
            config_db, IncidentSettings(resolves_after_seconds=calm_seconds)
        )
        self._names: set[str] | None = None
        """None: not read yet."""
        self._there_at: dict[str, float] = {}
        """When something of a deployment last ran, or failed."""

    @property
    def names(self) -> frozenset[str]:
        """As far as they could be read."""
        return frozenset(self._names or ())

    def read(self, now: float) -> None:
        """Those of an earlier control plane, once."""
        self._outages.ask(self._config_db, lambda: self._read(now))

    def take(self, name: str, diagnosis: Diagnosis, now_unix_ns: int, *, is_telling: bool) -> None:
        """What was found at one look. `is_telling`: any of its replicas tells something."""
        self._outages.ask(
            self._config_db,
            lambda: self._keep(name, diagnosis, now_unix_ns, is_telling=is_telling),
            is_writing=True,
        )

    def resolve_gone(self, names: frozenset[str], now: float) -> list[str]:
        """End the incidents of deployments of which nothing runs any more, `names` being those of
        which something does. Returns those that are forgotten."""
        self._there_at |= dict.fromkeys(names, now)
        gone = []
        for name, at in list(self._there_at.items()):
            if now - at < self._calm_seconds:
                continue
            if not self._outages.ask(
                self._config_db, partial(self._resolve_all, name, now), is_writing=True
            ):
                break  # in a later pass
            if name in self.names:
                continue  # an alert of it fires still
            self._there_at.pop(name, None)
            self._keeper.forget(name)
            gone.append(name)
        return gone

    def _read(self, now: float) -> set[str]:
        """Incidents of an earlier control plane go on: they end as those that it opens itself."""
        if self._names is None:
            with self._config_db.reading() as session:
                opened = count_open(session)
            # Those that alerts alone tell of are over when alerts say so.
            self._names = {deployment for deployment, mechanism in opened if mechanism}
            self._there_at = dict.fromkeys(self._names, now)
        return self._names

    def _keep(self, name: str, diagnosis: Diagnosis, now_unix_ns: int, *, is_telling: bool) -> bool:
        """Where nothing is wrong and nothing was, the database is left in peace. Where no replica
        tells anything and the rules cannot say, nothing is known of an end either. Whether anything
        was written."""
        if not is_telling and diagnosis.mechanism is Mechanism.CANNOT_TELL:
            self._keeper.forget(name)
            return False
        is_well = all(each.mechanism in NO_TROUBLE for each in diagnosis.findings)
        troubled = self._read(now_unix_ns / 1e9)
        if is_well and name not in troubled:
            self._keeper.forget(name)
            return False
        was_written = self._keeper.take(name, diagnosis, now_unix_ns)
        if is_well and not self._open(name):
            troubled.discard(name)
        else:
            troubled.add(name)
        return was_written

    def _resolve_all(self, name: str, now: float) -> None:
        """But for those of which an alert fires: they are over when it ends."""
        if any(not each.is_alerting for each in self._open(name)):
            now_unix_ns = self._clock()
            with self._config_db.session() as session:
                for incident in list_incidents(
                    session, deployment=name, state=IncidentState.OPEN, limit=None
                ):
                    what = "nothing of the deployment runs any more"
                    if not incident.is_alerting:
                        resolve_incident(session, incident.incident_id, what, now_unix_ns)
        if all(each.mechanism is None for each in self._open(name)):
            self._read(now).discard(name)

    def _open(self, name: str) -> list[StoredIncident]:
        with self._config_db.reading() as session:
            return list_incidents(session, deployment=name, state=IncidentState.OPEN, limit=None)
