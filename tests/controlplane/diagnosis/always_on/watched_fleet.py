"""A watcher over real databases and real metrics pages, whose time is moved by hand."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.diagnosis.always_on.diagnoses import Diagnoses
from controlplane.diagnosis.always_on.rule_guard import RuleGuard
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.sight import Sight
from controlplane.diagnosis.always_on.watcher import Watcher
from controlplane.diagnosis.rule import Rule
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.process_history import ProcessHistory
from controlplane.store.connection import DatabaseKind
from controlplane.store.incident import StoredIncident
from controlplane.store.incident_lists import list_incidents
from tests.databases import open_sqlite

START_NS = 1_790_000_000 * 10**9


class WatchedFleet:
    """What a control plane has open, without the operator and the API."""

    def __init__(
        self,
        folder: Path,
        rules: Iterable[Rule],
        settings: AlwaysOnSettings,
        diagnoses: Diagnoses | None = None,
    ) -> None:
        self.now_ns = START_NS
        self.stopping = threading.Event()
        self.config_db, self.request_db = (
            open_sqlite(folder / f"{kind}.db", kind)
            for kind in (DatabaseKind.CONFIG, DatabaseKind.REQUESTS)
        )
        self.observed = ObservedState(self.clock)
        self.guard = RuleGuard(rules)
        self.diagnoses = diagnoses or Diagnoses()
        self.sight = Sight(
            self.observed,
            self.config_db,
            self.request_db,
            ProcessHistory(folder),
            folder,
            settings.keep_seconds,
        )
        self.watcher = Watcher(
            self.config_db,
            self.observed,
            self.sight,
            self.guard,
            self.diagnoses,
            settings,
            self.clock,
            stopping=self.stopping,
        )
        self.settings = settings

    def clock(self) -> int:
        """Its time."""
        return self.now_ns

    def runs(self, *replicas: ObservedReplica) -> None:
        """These and no others."""
        self.observed.set_replicas(list(replicas))

    def pass_for(self, seconds: float, before_each: Callable[[], None] = lambda: None) -> None:
        """As many passes as fit into that time."""
        for _ in range(round(seconds / self.settings.pass_seconds)):
            before_each()
            self.watcher.do_pass()
            self.now_ns += round(self.settings.pass_seconds * 10**9)

    def incidents(self) -> list[StoredIncident]:
        """All, the newest first."""
        with self.config_db.reading() as session:
            return list_incidents(session)


@contextmanager
def watched_fleet(
    folder: Path,
    rules: Iterable[Rule],
    settings: AlwaysOnSettings | None = None,
    diagnoses: Diagnoses | None = None,
) -> Iterator[WatchedFleet]:
    """Until the block ends."""
    fleet = WatchedFleet(folder, rules, settings or AlwaysOnSettings(), diagnoses)
    try:
        yield fleet
    finally:
        fleet.watcher.close()
        fleet.config_db.close()
        fleet.request_db.close()


def replica(replica_id: str, address: str, deployment: str = "chat") -> ObservedReplica:
    """One that is ready and shows its metrics at `address`."""
    return ObservedReplica(
        replica_id=replica_id,
        deployment=deployment,
        engine="paged",
        model_revision="m@1",
        state="ready",
        reason="a probe generated a token",
        stage="serving",
        pid=1,
        address=f"{address}",
        metrics_address=address,
        start_stages={},
        probed_at_unix_ns=None,
        observed_at_unix_ns=START_NS,
    )
