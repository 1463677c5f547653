"""One state directory with a real database, a real launcher and real processes."""

import time
from collections.abc import Callable
from pathlib import Path

from controlplane.hooks import Launcher
from controlplane.operator.calls import Calls
from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.probes import Probes
from controlplane.operator.reconcile import Reconciler
from controlplane.operator.replica import Replica
from controlplane.operator.settings import OperatorSettings
from controlplane.store.database import Database
from controlplane.store.deployments import list_deployments
from controlplane.store.replicas import list_transitions
from controlplane.store.revisions import apply_documents
from dataplane.clock import monotonic_clock
from dataplane.engine import EngineProcess
from dataplane.policy import Snapshot, decode_snapshot
from dataplane.processes import ProcessDirectory, is_alive
from pilothouse_local.launcher import LocalLauncher
from tests.controlplane.config_documents import (
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    config_database,
    documents,
)
from tests.plugins.pilothouse_local.fake_engine import FakeEngine

DEPLOYMENT = """\
kind: Deployment
metadata: {{name: chat}}
spec:
  model: m
  engine: e
  policy: chat
  contract: chat
  replicas: {replicas}
  observe_only: {observe_only}
  replacement: {{max_surge: {surge}, max_unavailable: {unavailable}}}
"""


ENGINE = """\
kind: EngineConfig
metadata: {{name: e}}
spec: {{engine: {engine}, settings: {settings}}}
"""


class Room(InstalledPlugins):
    """One state directory, in which control planes come and go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "state")
        self.folder = folder
        self.engine = FakeEngine(folder)
        self.database: Database = config_database(folder)
        self.weights = folder / "weights"
        self.weights.touch()
        self.begin_control_plane()

    def begin_control_plane(
        self, settings: OperatorSettings | None = None, feed: SnapshotFeed | None = None
    ) -> None:
        """Forget all that is in memory, as a restart does. Unless `settings` say so, it waits for
        the report of no gateway: there is none."""
        settings = settings or OperatorSettings(return_seconds=0)
        self.launcher = LocalLauncher(self.folder / "state")
        self.observed = ObservedState()
        self.feed = feed or SnapshotFeed()
        self.probes = Probes(on_done=lambda: None)
        self.calls = Calls(monotonic_clock)
        self.reconciler = Reconciler(
            self.database, self, self.observed, self.feed, self.probes, self.calls, settings
        )

    def end_control_plane(self) -> None:
        self.calls.close()
        self.probes.close()

    def find_engine_process(self, engine: str) -> EngineProcess | None:
        return self.engine if engine == "fake" else super().find_engine_process(engine)

    def get_launcher(self, name: str) -> Launcher:
        return self.launcher if name == "local" else super().get_launcher(name)

    def apply(
        self,
        replicas: int = 1,
        settings: str = "{}",
        engine: str = "fake",
        model: str = "",
        observe_only: bool = False,
        surge: int = 0,
    ) -> None:
        artifact = model or f"path: {self.weights}"
        texts = [
            f"kind: Model\nmetadata: {{name: m}}\nspec: {{artifact: {{{artifact}}}}}\n",
            ENGINE.format(settings=settings, engine=engine),
            DESIGN_CONTRACT,
            DESIGN_POLICY,
            DEPLOYMENT.format(
                replicas=replicas,
                observe_only=str(observe_only).lower(),
                surge=surge,
                unavailable=0 if surge else 1,
            ),
        ]
        with self.database.session() as session:
            apply_documents(session, documents(*texts), author="test", reason="test")

    def reconcile_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 15
        while True:
            self.reconciler.reconcile()
            if condition():
                return
            assert time.monotonic() < deadline, self.reconciler.replicas
            time.sleep(0.02)

    def is_settled(self) -> bool:
        with self.database.reading() as session:
            return all(d.observed_generation == d.generation for d in list_deployments(session))

    def bring_up(self) -> Replica:
        self.reconcile_until(self.is_settled)
        (replica,) = self.reconciler.replicas
        return replica

    def snapshot(self) -> Snapshot:
        assert self.feed.current is not None
        return decode_snapshot(self.feed.current.data)

    def endpoints(self) -> list[str]:
        return [replica.replica_id for replica in self.snapshot().deployments[0].replicas]

    def history(self, replica_id: str) -> list[tuple[str, str]]:
        with self.database.reading() as session:
            lines = list_transitions(session)
        return [
            (line.state.value, line.reason)
            for line in reversed(lines)
            if line.replica_id == replica_id
        ]

    def num_alive(self) -> int:
        return sum(is_alive(r) for r in ProcessDirectory(self.folder / "state").records())
